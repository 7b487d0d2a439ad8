#include "transport_cases.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/wait.h"

enum { LANES = 3, ROUNDS = 12, MOST = 3 << 20 };

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
	CHECK(code == CORALE_EPEER && reason && *reason);
	me->failed_peer = peer;
	me->failures++;
}

static _Thread_local struct cases_rank *self;

static int poll_done(void *arg)
{
	struct transport_request *request = arg;
	CHECK(self->ops->progress(self->t) >= 0);
	return atomic_load_explicit(&request->done, memory_order_acquire);
}

static int finish(struct transport_request *request)
{
	CHECK(wait_until(&patience, poll_done, request) == 1);
	return request->status;
}

static size_t size_of(int from, int to, int lane, int round)
{
	static const size_t sizes[] = { 0, 1, 31, 4097, 8192, 70001, 1 << 20, 5, MOST, 65536 };
	return sizes[(from * 7 + to * 3 + lane * 5 + round) % 10];
}

static unsigned char byte_of(int from, int lane, int round, size_t i)
{
	return (unsigned char)(i * 31 + (size_t)(from * 101 + lane * 17 + round * 7));
}

static void fill(unsigned char *buf, size_t bytes, int from, int lane, int round)
{
	for (size_t i = 0; i < bytes; i++)
		buf[i] = byte_of(from, lane, round, i);
}

static void check_filled(const unsigned char *buf, size_t bytes, int from, int lane, int round)
{
	for (size_t i = 0; i < bytes; i++)
		CHECK(buf[i] == byte_of(from, lane, round, i));
}

static void make_header(unsigned char *header, int from, int to, int lane, int round)
{
	memset(header, 0, TRANSPORT_HEADER_BYTES);
	int words[4] = { from, to, lane, round };
	memcpy(header, words, sizeof(words));
}

struct edge {
	struct transport_request send[ROUNDS], recv[ROUNDS];
	unsigned char *out[ROUNDS], *in[ROUNDS];
};

static void send_all(struct edge *e, int rank, int peer, int lane)
{
	unsigned char header[TRANSPORT_HEADER_BYTES];
	for (int k = 0; k < ROUNDS; k++) {
		size_t bytes = size_of(rank, peer, lane, k);
		e->out[k] = malloc(bytes + 1);
		fill(e->out[k], bytes, rank, lane, k);
		make_header(header, rank, peer, lane, k);
		CHECK(self->ops->send(self->t, peer, lane, header, bytes ? e->out[k] : NULL, bytes,
				      &e->send[k]) == 0);
	}
}

static void recv_all(struct edge *e, int rank, int peer, int lane)
{
	for (int k = 0; k < ROUNDS; k++) {
		size_t bytes = size_of(peer, rank, lane, k);
		e->in[k] = malloc(bytes + 1);
		CHECK(self->ops->recv(self->t, peer, lane, e->in[k], bytes, &e->recv[k]) == 0);
	}
}

static void finish_edge(struct edge *e, int rank, int peer, int lane)
{
	unsigned char header[TRANSPORT_HEADER_BYTES];
	for (int k = 0; k < ROUNDS; k++) {
		size_t bytes = size_of(peer, rank, lane, k);
		CHECK(finish(&e->recv[k]) == 0);
		CHECK(e->recv[k].bytes == bytes);
		make_header(header, peer, rank, lane, k);
		CHECK(memcmp(header, e->recv[k].header, sizeof(header)) == 0);
		check_filled(e->in[k], bytes, peer, lane, k);
		CHECK(finish(&e->send[k]) == 0);
		free(e->in[k]);
		free(e->out[k]);
	}
}

/* All pairs and lanes at once; half of the ranks post their recvs after their sends. */
static void exchange(void)
{
	int rank = self->rank, size = self->size;
	struct edge *edges = calloc((size_t)size * LANES, sizeof(*edges));

	for (int late = 0; late < 2; late++) {
		for (int i = 0; i < size * LANES; i++) {
			if ((rank % 2) != late)
				send_all(&edges[i], rank, i / LANES, i % LANES);
			else
				recv_all(&edges[i], rank, i / LANES, i % LANES);
		}
	}
	for (int i = 0; i < size * LANES; i++)
		finish_edge(&edges[i], rank, i / LANES, i % LANES);
	free(edges);
}

static void one_way(int rank, size_t bytes, size_t capacity, int first)
{
	unsigned char header[TRANSPORT_HEADER_BYTES] = "told in any case";
	unsigned char *buf = calloc(1, (bytes > capacity ? bytes : capacity) + 1);
	struct transport_request request;

	if (rank == !first)
		self->barrier(self);
	if (rank == 0) {
		CHECK(self->ops->send(self->t, 1, 0, header, buf, bytes, &request) == 0);
		if (first == 0)
			self->barrier(self);
		CHECK(finish(&request) == 0);
	} else {
		CHECK(self->ops->recv(self->t, 0, 0, buf, capacity, &request) == 0);
		if (first == 1)
			self->barrier(self);
		CHECK(finish(&request) == (bytes > capacity ? CORALE_EMISMATCH : 0));
		CHECK(request.bytes == bytes);
		CHECK(memcmp(request.header, header, sizeof(header)) == 0);
	}
	free(buf);
}

/* Sizes that disagree: the header comes, the error is named, the lane goes on. */
static void disagree(void)
{
	static const size_t sizes[] = { 0, 1, 4000, 100000, 2 << 20 };
	for (int first = 0; first < 2; first++)
		for (int i = 0; i < 5; i++)
			for (int k = 0; k < 5; k++)
				one_way(self->rank, sizes[i], sizes[k], first);
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
			CHECK(self->ops->control(self->t, r, message, 4 + (size_t)rank) == 0);
	CHECK(wait_until(&patience, has_controls, &expected) == 1);
	CHECK(self->control_sum == 5 * size * (size + 1) / 2);
	CHECK(self->ops->control(self->t, 0, message, sizeof(message)) == CORALE_EINVAL);
	self->barrier(self);
}

/* What waits is done with the code given, what comes later too, and peers are none the wiser. */
static void fail_pending(void)
{
	unsigned char header[TRANSPORT_HEADER_BYTES] = { 0 };
	static unsigned char big[2][MOST];
	struct transport_request recv, send, later;

	if (self->rank == 0) {
		CHECK(self->ops->recv(self->t, 1, 1, big[0], MOST, &recv) == 0);
		CHECK(self->ops->send(self->t, 1, 2, header, big[1], MOST, &send) == 0);
		self->ops->fail(self->t, CORALE_EABORTED);
		CHECK(finish(&recv) == CORALE_EABORTED);
		CHECK(finish(&send) == CORALE_EABORTED);
		CHECK(self->ops->recv(self->t, 1, 1, big[0], MOST, &later) == CORALE_EABORTED);
		CHECK(finish(&later) == CORALE_EABORTED);
		CHECK(self->ops->send(self->t, 1, 1, header, big[0], 4, &later) == CORALE_EABORTED);
		CHECK(finish(&later) == CORALE_EABORTED);
	}
	self->barrier(self);
	CHECK(self->failures == 0);
}

static int has_failed(void *arg)
{
	CHECK(self->ops->progress(self->t) >= 0);
	return self->failures > 0;
}

/* A rank that leaves too early is named to the one that still waits for it. */
static void depart(void)
{
	unsigned char header[TRANSPORT_HEADER_BYTES] = { 0 }, buf[64] = { 0 };
	struct transport_request recv, later;

	if (self->rank == 1) {
		self->barrier(self);
		transport_close(self->t);
		self->t = NULL;
		self->barrier(self);
		return;
	}
	CHECK(self->ops->recv(self->t, 1, 0, buf, sizeof(buf), &recv) == 0);
	self->barrier(self);
	CHECK(finish(&recv) == CORALE_EPEER);
	CHECK(wait_until(&patience, has_failed, NULL) == 1);
	CHECK(self->failures == 1 && self->failed_peer == 1);
	self->barrier(self);
	CHECK(self->ops->send(self->t, 1, 0, header, buf, 8, &later) == CORALE_EPEER);
	CHECK(finish(&later) == CORALE_EPEER);
	self->ops->progress(self->t);
	CHECK(self->failures == 1);
}

static void misuse(void)
{
	int size = self->size;
	unsigned char header[TRANSPORT_HEADER_BYTES] = { 0 }, buf[8] = { 0 };
	struct transport_request request;
	char text[200] = "";

	CHECK(self->ops->send(self->t, size, 0, header, buf, 8, &request) == CORALE_EINVAL && request.done);
	CHECK(self->ops->send(self->t, -1, 0, header, buf, 8, &request) == CORALE_EINVAL && request.done);
	CHECK(self->ops->recv(self->t, 0, TRANSPORT_MAX_LANES, buf, 8, &request) == CORALE_EINVAL &&
	      request.done);
	CHECK(self->ops->recv(self->t, 0, -1, buf, 8, &request) == CORALE_EINVAL && request.done);
	CHECK(self->ops->control(self->t, size, buf, 8) == CORALE_EINVAL);
	self->ops->describe(self->t, 0, text, sizeof(text));
	CHECK(text[0]);
}

/* ---- Links ---- */

enum { SLOT_BYTES = 160 << 10, DEPTH = 4, LINK_LANES = 2, LINK_MESSAGES = 37 };

struct transport_slots cases_slots(struct cases_rank *me)
{
	me->slots = (struct transport_slots){
		.lanes = LINK_LANES, .depth = DEPTH, .bytes = SLOT_BYTES, .cap = 1 << 30, .used = &me->used
	};
	return me->slots;
}

static size_t link_size(int from, int to, int lane, int round)
{
	static const size_t sizes[] = { 0, 1, 4097, SLOT_BYTES, 65536, 65537, 8, 100001 };
	return sizes[(from * 3 + to * 5 + lane + round) % 8];
}

static void post_one(struct link *l, int round)
{
	unsigned char header[TRANSPORT_HEADER_BYTES];
	const size_t bytes = link_size(self->rank, l->peer, l->lane, round);
	fill(link_slot(l), bytes, self->rank, l->lane, round);
	make_header(header, self->rank, l->peer, l->lane, round);
	CHECK(link_post(l, header, NULL, bytes) == 0);
}

static void take_one(struct link *l, int round)
{
	unsigned char header[TRANSPORT_HEADER_BYTES];
	const struct link_message *m = link_next(l);
	make_header(header, l->peer, self->rank, l->lane, round);
	CHECK(memcmp(header, m->header, sizeof(header)) == 0);
	CHECK(m->bytes == link_size(l->peer, self->rank, l->lane, round));
	check_filled(m->data, m->bytes, l->peer, l->lane, round);
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
	for (int i = 0; i < self->size * LINK_LANES; i++)
		if (i / LINK_LANES != self->rank)
			all &= move_link(link_table_get(arg, i / LINK_LANES, i % LINK_LANES));
	return all && link_table_sent(arg, 0, LINK_LANES);
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
static void exchange_over_links(void)
{
	struct link_table table;
	open_links(&table);
	CHECK(wait_until(&patience, poll_links, &table) == 1);
	CHECK(self->used <= (size_t)(self->size - 1) * LINK_LANES * 2 * DEPTH * SLOT_BYTES);
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
	if (!self->ops->links)
		return;
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
static void depart_over_links(void)
{
	struct link_table table;
	if (!self->ops->links)
		return;
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

/* Slots in memory of both users, on a lane that is theirs alone. */
static void bring_memory(void)
{
	enum { BRING_BYTES = 70000, MESSAGES = 11 };
	static _Atomic int released[2];
	unsigned char *memory = calloc(2 * DEPTH, BRING_BYTES), header[TRANSPORT_HEADER_BYTES] = { 0 };
	const struct link_memory mine = { DEPTH,         BRING_BYTES,
					  memory,        memory + DEPTH * BRING_BYTES,
					  count_release, &released[self->rank] };
	const struct link_params params = {
		.rank = self->rank, .peer = !self->rank, .lane = 60, .slots = &self->slots, .memory = &mine
	};
	struct link *l;
	if (!self->ops->links)
		return;
	released[self->rank] = 0;
	CHECK(memory && self->ops->links->open(self->t, &params, &l) == 0);
	CHECK(link_ready(l) == 0);
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

static const struct {
	const char *name;
	void (*body)(void);
	int ranks;
} cases[] = {
	{ "all pairs, lanes and sizes", exchange, 0 },
	{ "sizes that disagree", disagree, 2 },
	{ "control messages", controls, 0 },
	{ "fail", fail_pending, 2 },
	{ "departure", depart, 2 },
	{ "misuse", misuse, 0 },
	{ "links: all pairs and sizes", exchange_over_links, 0 },
	{ "links: the user's memory", borrow, 2 },
	{ "links: slots fill", fill_slots, 2 },
	{ "links: departure", depart_over_links, 2 },
	{ "links: fail", fail_links, 2 },
	{ "links: memory of one's own", bring_memory, 2 },
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
