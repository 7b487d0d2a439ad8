/* SPDX-License-Identifier: BSD-3-Clause */
/* What every transport must do: messages of all sizes and orders, links, cancellation, errors. */
#include "transport_cases.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/wait.h"

static const struct wait_policy patience = { .spin_ns = 20000, .timeout_ns = 20000000000 };

/* Ranks that are not cmocka's own thread cannot use its assertions. */
#define CHECK(condition)                                                                                     \
	do {                                                                                                 \
		if (!(condition)) {                                                                          \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                      \
			abort();                                                                             \
		}                                                                                            \
	} while (0)

void cases_on_control(void *ctx, int peer, const void *message, size_t bytes)
{
	struct cases_rank *me = ctx;
	CHECK(bytes == 4 + (size_t)peer);
	CHECK(*(const unsigned char *)message == peer);
	me->control_sum += peer + 1;
	me->controls++;
}

void cases_on_failure(void *ctx, int peer, int code, const char *reason)
{
	struct cases_rank *me = ctx;
	CHECK((code == CORALE_EPEER || code == CORALE_ETRANSPORT) && reason && *reason);
	me->failed_peer = peer;
	me->failures++;
}

static _Thread_local struct cases_rank *self;

static unsigned char byte_of(int from, int index, int round, size_t i)
{
	return (unsigned char)(i * 31 + (size_t)(from * 101 + index * 17 + round * 7));
}

static void fill(unsigned char *buf, size_t bytes, int from, int index, int round)
{
	for (size_t i = 0; i < bytes; i++)
		buf[i] = byte_of(from, index, round, i);
}

static void check_filled(const unsigned char *buf, size_t bytes, int from, int index, int round)
{
	for (size_t i = 0; i < bytes; i++)
		CHECK(buf[i] == byte_of(from, index, round, i));
}

static void make_header(unsigned char *header, int from, int to, int index, int round)
{
	memset(header, 0, TRANSPORT_HEADER_BYTES);
	int words[4] = { from, to, index, round };
	memcpy(header, words, sizeof(words));
}

static int has_controls(void *arg)
{
	CHECK(self->ops->progress(self->t) >= 0);
	return self->controls == *(int *)arg;
}

static void controls(void)
{
	int rank = self->rank, size = self->size;
	unsigned char message[TRANSPORT_CONTROL_BYTES + 1] = { (unsigned char)rank };
	int expected = 5 * size;
	for (int k = 0; k < 5; k++)
		for (int r = 0; r < size; r++)
			CHECK(transport_control(self->t, r, message, 4 + (size_t)rank) == 0);
	CHECK(wait_until(&patience, has_controls, &expected) == 1);
	CHECK(self->control_sum == 5 * size * (size + 1) / 2);
	CHECK(transport_control(self->t, 0, message, sizeof(message)) == CORALE_EINVAL);
	self->barrier(self);
}

static int has_failed(void *arg)
{
	CHECK(self->ops->progress(self->t) >= 0);
	return self->failures > 0;
}

static void misuse(void)
{
	int size = self->size;
	unsigned char buf[8] = { 0 };
	char why[LINK_WHY_BYTES] = "";
	struct link_slab *slab = NULL;

	CHECK(link_map(self->t, buf, sizeof(buf), 0, &slab, why, sizeof(why)) == CORALE_ENOTSUP && !slab &&
	      why[0]);
	CHECK(transport_control(self->t, -1, buf, 8) == CORALE_EINVAL);
	CHECK(transport_control(self->t, size, buf, 8) == CORALE_EINVAL);
}

enum { SLOT_BYTES = 160 << 10, DEPTH = 4, LINKS = 2, LINK_MESSAGES = 37 };

struct transport_slots cases_slots(struct cases_rank *me)
{
	me->slots = (struct transport_slots){
		.links = LINKS, .depth = DEPTH, .bytes = SLOT_BYTES, .cap = 1 << 30, .used = &me->used
	};
	return me->slots;
}

static size_t link_size(int from, int to, int index, int round)
{
	static const size_t sizes[] = { 0, 1, 4097, SLOT_BYTES, 65536, 65537, 8, 100001 };
	return sizes[(from * 3 + to * 5 + index + round) % 8];
}

static void post_one(struct link *l, int round)
{
	unsigned char header[TRANSPORT_HEADER_BYTES];
	const size_t bytes = link_size(self->rank, l->peer, l->index, round);
	fill(link_slot(l), bytes, self->rank, l->index, round);
	make_header(header, self->rank, l->peer, l->index, round);
	CHECK(link_post(l, header, NULL, bytes) == 0);
}

static void take_one(struct link *l, int round)
{
	unsigned char header[TRANSPORT_HEADER_BYTES];
	const struct link_message *m = link_next(l);
	make_header(header, l->peer, self->rank, l->index, round);
	CHECK(memcmp(header, m->header, sizeof(header)) == 0);
	CHECK(m->bytes == link_size(l->peer, self->rank, l->index, round));
	check_filled(m->data, m->bytes, l->peer, l->index, round);
	CHECK(link_release(l) == 0);
}

/* Moves one link by one message each way, if it can; 1 when all of its messages have been posted and taken. */
static int move_link(struct link *l)
{
	int ret = l->posted < LINK_MESSAGES ? link_room(l) : 0;
	CHECK(ret >= 0);
	if (ret)
		post_one(l, (int)l->posted);
	ret = link_taken(l) < LINK_MESSAGES ? link_ready(l) : 0;
	CHECK(ret >= 0);
	if (ret)
		take_one(l, (int)link_taken(l));
	return l->posted == LINK_MESSAGES && link_taken(l) == LINK_MESSAGES;
}

static int poll_links(void *arg)
{
	int all = 1;
	CHECK(self->ops->progress(self->t) >= 0);
	for (int i = 0; i < self->size * LINKS; i++)
		if (i / LINKS != self->rank)
			all &= move_link(link_table_get(arg, i / LINKS, i % LINKS));
	return all && link_table_unsent(arg, 0, LINKS) < 0;
}

static void open_links(struct link_table *table)
{
	CHECK(link_table_open(table, self->t, &self->slots, self->rank, self->size) == 0);
}

static void close_links(struct link_table *table)
{
	transport_close(self->t);
	self->t = NULL;
	link_table_close(table);
}

/* All pairs at once, both ways, more messages than slots. */
static void exchange(void)
{
	struct link_table table;
	open_links(&table);
	CHECK(wait_until(&patience, poll_links, &table) == 1);
	CHECK(self->used <= (size_t)(self->size - 1) * LINKS * 2 * DEPTH * SLOT_BYTES);
	CHECK(self->failures == 0);
	self->barrier(self);
	close_links(&table);
}

static int poll_room(void *link)
{
	CHECK(self->ops->progress(self->t) >= 0);
	return link_room(link);
}

static int poll_ready(void *link)
{
	CHECK(self->ops->progress(self->t) >= 0);
	return link_ready(link);
}

static int poll_sent(void *link)
{
	const struct link *l = link;
	CHECK(self->ops->progress(self->t) >= 0);
	return !l->ops->sent || l->ops->sent(link);
}

/* Messages of the user's memory, which is written again as soon as they are sent; where it can be, they land in the user's, too. */
static void borrow(void)
{
	enum { BYTES = 150000, MESSAGES = 9 };
	unsigned char header[TRANSPORT_HEADER_BYTES] = { 0 };
	unsigned char *out = malloc(BYTES), *in = malloc(BYTES);
	struct link_table table;
	open_links(&table);
	struct link *l = link_table_get(&table, !self->rank, 0);
	CHECK(out && in);
	for (int i = 0; i < MESSAGES; i++) {
		CHECK(wait_until(&patience, poll_room, l) == 1);
		fill(l->direct ? out : link_slot(l), BYTES, self->rank, 0, i);
		CHECK(link_post(l, header, l->direct ? out : NULL, BYTES) == 0);
		CHECK(link_table_unsent(&table, 0, 1) == (!l->ops->sent || l->ops->sent(l) ? -1 : l->peer));
		CHECK(link_table_unsent(&table, 1, LINKS) == -1);
		l->landing = i % 3 ? in : NULL;
		l->landing_bytes = BYTES;
		CHECK(wait_until(&patience, poll_ready, l) == 1);
		check_filled(link_next(l)->data, BYTES, !self->rank, 0, i);
		CHECK(link_release(l) == 0);
		CHECK(wait_until(&patience, poll_sent, l) == 1);
		memset(out, 0xee, BYTES);
	}
	self->barrier(self);
	close_links(&table);
	free(out);
	free(in);
}

/* Slots fill before the receiver has come; there are no more of them than were agreed, and each is used again. */
static void fill_slots(void)
{
	struct link_table table;
	open_links(&table);
	struct link *l = link_table_get(&table, !self->rank, 0);
	for (int i = 0; self->rank == 0 && i < DEPTH; i++) {
		CHECK(wait_until(&patience, poll_room, l) == 1);
		post_one(l, i);
	}
	for (int i = 0; self->rank == 0 && i < 1000; i++)
		CHECK(poll_room(l) == 0);
	self->barrier(self);
	for (int i = 0; i < 2 * DEPTH; i++) {
		if (self->rank == 0 && i < DEPTH) {
			CHECK(wait_until(&patience, poll_room, l) == 1);
			post_one(l, DEPTH + i);
		} else if (self->rank == 1) {
			CHECK(wait_until(&patience, poll_ready, l) == 1);
			take_one(l, i);
		}
	}
	self->barrier(self);
	close_links(&table);
}

/* Who leaves has sent what it posted; who waits for more, or for room, is told. */
static void depart(void)
{
	struct link_table table;
	open_links(&table);
	struct link *l = link_table_get(&table, !self->rank, 0);
	for (int i = 0; self->rank == 1 && i < 3; i++) {
		CHECK(wait_until(&patience, poll_room, l) == 1);
		post_one(l, i);
	}
	if (self->rank == 1) {
		close_links(&table);
		self->barrier(self);
		return;
	}
	self->barrier(self);
	CHECK(self->failures == 0);
	for (int i = 0; i < 3; i++) {
		CHECK(wait_until(&patience, poll_ready, l) == 1);
		take_one(l, i);
	}
	CHECK(wait_until(&patience, poll_ready, l) == CORALE_EPEER);
	CHECK(wait_until(&patience, has_failed, NULL) == 1);
	int ret = wait_until(&patience, poll_room, l);
	for (int i = 0; ret == 1 && i <= DEPTH;
	     i++) { /* slots that were granted before may be filled, not posted */
		unsigned char header[TRANSPORT_HEADER_BYTES] = { 0 };
		ret = link_post(l, header, NULL, 0);
		ret = ret ? ret : wait_until(&patience, poll_room, l);
	}
	CHECK(ret == CORALE_EPEER);
	CHECK(self->failures == 1 && self->failed_peer == 1);
	close_links(&table);
}

static void fail_links(void)
{
	struct link_table table;
	open_links(&table);
	struct link *l = link_table_get(&table, !self->rank, 1);
	CHECK(wait_until(&patience, poll_room, l) == 1);
	CHECK(link_ready(l) == 0);
	self->barrier(self);
	if (self->rank == 0) {
		unsigned char header[TRANSPORT_HEADER_BYTES] = { 0 };
		self->ops->fail(self->t, CORALE_ETIMEDOUT);
		CHECK(link_ready(l) == CORALE_ETIMEDOUT);
		CHECK(link_post(l, header, NULL, 8) == CORALE_ETIMEDOUT);
		struct link *later = link_table_get(&table, 1, 0);
		int ret = later ? link_ready(later) : CORALE_ETIMEDOUT;
		CHECK((ret ? ret : link_ready(later)) == CORALE_ETIMEDOUT);
	}
	self->barrier(self);
	CHECK(self->failures == 0);
	close_links(&table);
}

static void count_release(void *ctx)
{
	atomic_fetch_add((_Atomic int *)ctx, 1);
}

static int is_released(void *ctx)
{
	return atomic_load((_Atomic int *)ctx) == 2; /* directions */
}

/* Slots in memory of both users, on a link that is theirs alone. */
static void bring_memory(void)
{
	enum { BRING_BYTES = 70000, MESSAGES = 11 };
	static _Atomic int released[2];
	unsigned char *memory = calloc(2 * DEPTH, BRING_BYTES), header[TRANSPORT_HEADER_BYTES] = { 0 };
	const struct link_memory mine = { .depth = DEPTH,
					  .bytes = BRING_BYTES,
					  .in = memory,
					  .out = memory + DEPTH * BRING_BYTES,
					  .release = count_release,
					  .ctx = &released[self->rank] };
	const struct link_params params = {
		.rank = self->rank, .peer = !self->rank, .index = 60, .slots = &self->slots, .memory = &mine
	};
	struct link *l;
	released[self->rank] = 0;
	CHECK(memory && link_open(self->t, &params, &l) == 0);
	CHECK(link_ready(l) >= 0); /* opens it: 1 where the peer's first message is there already */
	for (int i = 0; i < MESSAGES; i++) {
		CHECK(wait_until(&patience, poll_room, l) == 1);
		CHECK(link_slot(l) == mine.out + i % DEPTH * BRING_BYTES);
		fill(link_slot(l), BRING_BYTES, self->rank, 60, i);
		CHECK(link_post(l, header, NULL, BRING_BYTES) == 0);
		CHECK(wait_until(&patience, poll_ready, l) == 1);
		CHECK(link_next(l)->data == mine.in + i % DEPTH * BRING_BYTES);
		check_filled(link_next(l)->data, BRING_BYTES, !self->rank, 60, i);
		CHECK(link_release(l) == 0);
	}
	self->barrier(self);
	CHECK(self->used == 0 && released[self->rank] == 0);
	const struct link_ops *ops = l->ops;
	transport_close(self->t);
	self->t = NULL;
	if (ops->free)
		ops->free(l);
	CHECK(wait_until(&patience, is_released, &released[self->rank]) == 1);
	free(memory);
}

/* One side's slots are longer than the other's: what does not fit is not written there, and who waits for it is told or waits. */
static void too_long(void)
{
	enum { LONG = 9000, SHORT = 5000 };
	static const struct wait_policy briefly = { .spin_ns = 20000, .timeout_ns = 200 * 1000 * 1000 };
	const size_t bytes = self->rank ? SHORT : LONG;
	unsigned char *memory = calloc(2 * DEPTH, LONG), header[TRANSPORT_HEADER_BYTES] = { 0 };
	const struct link_memory mine = {
		.depth = DEPTH, .bytes = bytes, .in = memory, .out = memory + DEPTH * LONG
	};
	const struct link_params params = {
		.rank = self->rank, .peer = !self->rank, .index = 61, .slots = &self->slots, .memory = &mine
	};
	struct link *l = NULL;
	const struct link_ops *ops = self->ops->links;
	int ret = link_open(self->t, &params, &l);
	CHECK(memory);
	if (self->rank == 1)
		ret = ret ? ret : link_ready(l);
	self->barrier(self);
	if (self->rank == 0) {
		ret = ret ? ret : wait_until(&briefly, poll_room, l);
		if (ret == 1) {
			memset(link_slot(l), 0xee, LONG);
			link_post(l, header, NULL, LONG);
		}
	}
	self->barrier(self);
	if (self->rank == 1) {
		CHECK((ret ? ret : wait_until(&briefly, poll_ready, l)) < 0);
		for (size_t i = 0; i < DEPTH * LONG; i++)
			CHECK(memory[i] == 0);
	}
	self->barrier(self);
	transport_close(self->t);
	self->t = NULL;
	self->barrier(self);
	if (l && ops->free)
		ops->free(l);
	free(memory);
}

static const struct {
	const char *name;
	void (*body)(void);
	int ranks;
} cases[] = {
	{ "control messages", controls, 0 },
	{ "misuse", misuse, 0 },
	{ "all pairs and sizes", exchange, 0 },
	{ "the user's memory", borrow, 2 },
	{ "slots fill", fill_slots, 2 },
	{ "departure", depart, 2 },
	{ "fail", fail_links, 2 },
	{ "memory of one's own", bring_memory, 2 },
	{ "longer than a slot", too_long, 2 },
};

int cases_count(void)
{
	return sizeof(cases) / sizeof(cases[0]);
}

const char *cases_name(int i)
{
	return cases[i].name;
}

int cases_ranks(int i)
{
	return cases[i].ranks;
}

void cases_run(int i, struct cases_rank *me)
{
	self = me;
	cases[i].body();
}
