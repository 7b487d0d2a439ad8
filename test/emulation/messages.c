/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups of sends and receives: several messages a pair, of other sizes, to oneself too, and collectives between groups. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulation_test.h"
#include "test/helpers/reference.h"
#include "script.h"

enum {
	MOST_MESSAGES = 400,
	MOST_GROUPS = 20,
	MOST_OWN = 120,
	GUARD = 64,
	GUARD_BYTE = 0x5a,
	SPOILT_BYTE = 0xc3
};

struct message {
	int from, to, group;
	size_t bytes;
	unsigned shift;
	size_t place; /* of its receive buffer with its guards, in registered memory; 0: it is not there */
};

/* What all ranks do: group 0, the call of group 0 if there are calls, group 1, ... */
struct exchange {
	struct world_params params;
	struct world world;
	struct message messages[MOST_MESSAGES];
	int n, groups, calls; /* calls: whether there are any */
	size_t most_bytes; /* of a message */
	int large; /* every other message is, about */
	size_t longs; /* nearly all messages of most pairs have more bytes than that; 0: it does not matter */
	int registered; /* so many of three receive buffers are in registered memory */
	int quiet; /* faults are expected */
	struct test_call call[MOST_GROUPS];
	int faults[GPU_MAX_HOSTS];
};

/* A message of mine. */
struct own {
	const struct message *message;
	int number;
	unsigned char *memory, *data, *copy; /* copy: of one to oneself, where it goes */
	uint64_t target;
};

static size_t room_of(const struct message *m)
{
	return plan_round(m->bytes + m->shift + 2 * GUARD, GUARD);
}

static struct reference content(int number)
{
	return (struct reference){ .type = CORALE_UINT8,
				   .op = (corale_op)REFERENCE_COPY,
				   .ranks = 1,
				   .data = REFERENCE_RANDOM,
				   .seed = test_seed * 4096 + (uint64_t)number };
}

static void make_own(struct own *o, const struct exchange *x, int number, int rank)
{
	const struct message *m = &x->messages[number];
	struct reference ref = content(number);
	size_t room = room_of(m);
	*o = (struct own){ .message = m, .number = number };
	if (gpu_random(8)) /* else in no export */
		o->memory = exports_take(rank, 2 * room);
	if (!o->memory)
		o->memory = aligned_alloc(GUARD, 2 * room);
	if (!o->memory)
		abort();
	memset(o->memory, GUARD_BYTE, 2 * room);
	o->data = o->memory + GUARD + m->shift;
	o->copy = m->from == m->to ? o->data + room : NULL;
	if (m->place && m->to == rank && m->from != rank) {
		unsigned char *registered = x->world.registered[rank];
		o->data = registered + m->place + GUARD + m->shift;
		memset(registered + m->place, GUARD_BYTE, room);
		o->target = (uint64_t)1 << ENGINE_TARGET_SHIFT | (uint64_t)(o->data - registered);
	}
	if (m->from == rank)
		reference_fill(&ref, 0, 0, m->bytes, o->data);
}

/* What has been sent is the program's again. */
static void spoil(const struct own *o, int rank)
{
	if (o->message->from == rank && o->message->to != rank)
		memset(o->data, SPOILT_BYTE, o->message->bytes);
}

static int check_own(const struct own *o, int rank, int quiet)
{
	const struct message *m = o->message;
	struct reference ref = content(o->number);
	const unsigned char *got = o->copy ? o->copy : o->data;
	struct reference_fault fault;
	size_t wrong = m->to == rank ? reference_check_copy(&ref, 0, 0, m->bytes, got, &fault) : 0;
	if (wrong && !quiet)
		printf("# message %d of %zu bytes from %d to %d: byte %zu is %s, expected %s\n", o->number,
		       m->bytes, m->from, m->to, fault.index, fault.got, fault.expected);
	for (size_t i = 0; m->to == rank && i < GUARD / 2; i++)
		if (got[-1 - (ptrdiff_t)i] != GUARD_BYTE || got[m->bytes + i] != GUARD_BYTE) {
			printf("# message %d: a byte off its buffer was written\n", o->number);
			return 1;
		}
	return wrong != 0;
}

/* One rank's part of a group. */
static int send_group(struct exchange *x, int rank, int group, struct own *own, int *used)
{
	struct call list[MOST_OWN];
	int n = 0;
	for (int i = 0; i < x->n; i++) {
		const struct message *m = &x->messages[i];
		if (m->group != group || (m->from != rank && m->to != rank))
			continue;
		struct own *o = &own[(*used)++];
		make_own(o, x, i, rank);
		const corale_type any = (corale_type)(i % CORALE_NUM_TYPES),
				  type = m->bytes % corale_type_bytes(any) ? CORALE_UINT8 : any;
		list[n] = m->from == rank ? world_send(m->to, o->data, m->bytes, type)
					  : world_receive(m->from, o->data, m->bytes, type);
		list[n].record.target = o->target;
		if (o->copy)
			list[n].recv = o->copy;
		n++;
	}
	return n ? engine_run_messages(&x->world.engines[rank], list, n, NULL) : 0;
}

static void exchange(int rank, void *arg)
{
	struct exchange *x = arg;
	struct own *own = calloc((size_t)x->n, sizeof(*own));
	struct started *calls = calloc(MOST_GROUPS, sizeof(*calls));
	int used = 0, ended = 0, faults = 0;
	if (!own || !calls)
		abort();
	for (int g = 0; g < x->groups; g++) {
		gpu_pause(gpu_random(2000));
		faults += send_group(x, rank, g, own, &used) != 0;
		if (x->calls)
			faults += call_start(&calls[g], &x->world, rank, &x->call[g],
					     call_signature(&x->call[g])) != 0;
		if (gpu_random(3))
			continue;
		gpu_synchronize();
		exports_ended(rank);
		for (; ended < used && !x->world.engines[rank].failure->code; ended++)
			spoil(&own[ended], rank);
	}
	gpu_synchronize();
	exports_ended(rank);
	faults += script_print_failure(&x->world.engines[rank]);
	for (int i = 0; i < used; i++) {
		faults += faults ? 1 : check_own(&own[i], rank, x->quiet);
		if (!exports_give(own[i].memory))
			free(own[i].memory);
	}
	for (int g = 0; x->calls && g < x->groups; g++)
		faults += faults ? 1 : call_finish(&calls[g]);
	x->faults[rank] = faults;
	free(own);
	free(calls);
}

static size_t mix(size_t i)
{
	uint64_t h = (i + 1 + test_seed * 1000003) * 0x9e3779b97f4a7c15u;
	return (size_t)(h >> 40);
}

/* A message of the exchange; its numbers are drawn from i. */
static void add_message(struct exchange *x, int group, int from, int to, size_t i)
{
	const size_t most[] = { 1, 20, 400, 3000, x->most_bytes };
	struct message *m = &x->messages[x->n++];
	size_t h = mix(i), kind = x->large ? 3 + h % 2 : h % (test_thin || x->longs ? 4 : 5);
	const int is_long = x->longs && (from + 2 * to + group) % 4 && h % 32;
	*m = (struct message){ .from = from,
			       .to = to,
			       .group = group,
			       .bytes = is_long ? x->longs + h / 32 % (24 * x->longs) : h / 8 % most[kind],
			       .shift = h / 5 % 3 ? 0 : (unsigned)(h / 16 % 32) };
	if ((int)(h / 7 % 3) < x->registered) {
		m->place = x->params.registered_bytes;
		x->params.registered_bytes += room_of(m);
	}
}

static void fill_group(struct exchange *x, int group, int most_a_pair)
{
	for (int pair = 0; pair < x->params.ranks * x->params.ranks; pair++) {
		int n = (int)(mix((size_t)(group * 100 + pair)) % (size_t)(most_a_pair + 1));
		for (int k = 0; k < n && x->n < MOST_MESSAGES; k++)
			add_message(x, group, pair / x->params.ranks, pair % x->params.ranks,
				    (size_t)((group * 100 + pair) * 10 + k));
	}
}

static struct exchange *new_exchange(int ranks, int groups, size_t window_bytes)
{
	struct exchange *x = calloc(1, sizeof(*x));
	if (!x)
		abort();
	x->params = (struct world_params){ .ranks = ranks, .max_blocks = 3, .window_bytes = window_bytes };
	x->groups = groups;
	x->most_bytes = 70000;
	return x;
}

/* Frees it. */
static int run_exchange(struct exchange *x, int most_a_pair)
{
	static const struct codelet *const codelets[] = { &one_shot_codelet, &two_shot_codelet,
							  &fifo_codelet };
	int faults = 0;
	x->params.registered_bytes = x->registered ? GUARD : 0; /* no place is 0 */

	for (int g = 0; g < x->groups; g++) {
		fill_group(x, g, most_a_pair);
		x->call[g] = (struct test_call){ .codelet = codelets[g % 3],
						 .coll = g % 3 == 2 ? CORALE_ALL_GATHER : CORALE_ALL_REDUCE,
						 .type = CORALE_FLOAT32,
						 .count = mix((size_t)g) % 700,
						 .seed = (uint64_t)g };
		if (world_in_host) { /* what is stored once, by its owner, before the slots are granted */
			x->call[g].codelet = &bulk_codelet;
			x->call[g].coll = g % 2 ? CORALE_ALL_GATHER : CORALE_BROADCAST;
		}
	}
	if (world_open(&x->world, &x->params))
		abort();
	if (world_run(&x->world, exchange, x, test_seed))
		return -1;
	for (int r = 0; r < x->params.ranks; r++)
		faults += x->faults[r];
	faults += world_faults(&x->world);
	world_close(&x->world);
	free(x);
	return faults;
}

static int messages_of(int ranks, int registered)
{
	struct exchange *x = new_exchange(ranks, test_thin ? 3 : 8, 192 << 10);
	x->registered = registered;
	return run_exchange(x, ranks > 3 ? 2 : 4);
}

int test_messages(void)
{
	int faults = 0;
	for (int ranks = 2; !faults && ranks <= (test_thin ? 2 : 4); ranks++)
		faults = messages_of(ranks, 0);
	return faults;
}

/* Between nodes, and within them in the same group. */
int test_remote_messages(void)
{
	int faults = 0;
	struct world_params p;
	for (int i = 0; !faults && remote_nodes(i, &p); i++) {
		struct exchange *x = new_exchange(p.ranks, test_thin ? 3 : 6, 192 << 10);
		x->params.nodes = p.nodes;
		x->params.slab_rails = p.slab_rails;
		x->params.remote_slot = 4 << 10;
		x->most_bytes = 300000;
		faults = run_exchange(x, p.ranks > 3 ? 2 : 4);
	}
	return faults;
}

int test_messages_registered(void)
{
	int faults = 0;
	for (int ranks = 2; !faults && ranks <= (test_thin ? 2 : 4); ranks++)
		faults = messages_of(ranks, 2);
	return faults;
}

/* Over a link that tears lines, which engines know. */
static int torn_messages_of(int ranks)
{
	struct exchange *x = new_exchange(ranks, test_thin ? 3 : 8, ranks > 4 ? 640 << 10 : 192 << 10);
	x->registered = 1;
	x->params.torn_lines = x->params.words_only = 1;
	return run_exchange(x, ranks > 3 ? 2 : 4);
}

int test_messages_torn(void)
{
	int faults = 0;
	for (int ranks = 2; !faults && ranks <= (test_thin ? 2 : 4); ranks++)
		faults = torn_messages_of(ranks);
	return faults;
}

int test_host_groups(void)
{
	static const int ranks[] = { 3, 4, 8 };
	int faults = 0;
	for (size_t i = 0; !faults && i < 3; i++)
		if (!test_thin || i == test_seed % 3)
			faults = torn_messages_of(ranks[i]);
	return faults;
}

/* Over one that they don't know: what the case before this one would look like. */
int test_lines_torn(void)
{
	struct exchange *x = new_exchange(2, 8, 192 << 10);
	x->params.torn_lines = x->large = x->quiet = 1;
	const int faults = run_exchange(x, 4);
	if (!faults)
		printf("# all messages in lines are right over a link that tears lines\n");
	return faults < 0 ? faults : !faults;
}

/* With windows in which messages have several channels: more than a list has blocks, or a block each. */
int test_messages_in_channels(void)
{
	struct exchange *x = new_exchange(test_thin ? 2 : 3, test_thin ? 2 : 4, 4 << 20);
	x->registered = 1;
	x->params.max_blocks = test_seed % 2 && !test_thin ? 12 : 3;
	x->most_bytes = 300000;
	x->large = 1;
	return run_exchange(x, 4);
}

/* More bytes than the rings hold at a time. */
static size_t rings_room(int ranks, size_t window_bytes)
{
	struct codelet_layout l;
	codelet_layout_init(&l, ranks, window_bytes);
	return codelet_rings_room(l.pair_rings, l.ring_depth);
}

/* Some ranks' groups have a short message, too, so that the two ends of a message are of different kernels where teams run long ones. */
int test_long_messages(void)
{
	int faults = 0;
	for (int ranks = 2; !faults && ranks <= (test_thin ? 2 : 4); ranks++) {
		const size_t window_bytes = (size_t)ranks << 17;
		struct exchange *x = new_exchange(ranks, test_thin ? 4 : 12, window_bytes);
		x->params.max_blocks = ranks > 3 ? 1 : ranks;
		x->registered = (int)(test_seed % 2);
		x->longs = rings_room(ranks, window_bytes);
		faults = run_exchange(x, 2);
	}
	return faults;
}

/* Long ones are read where they lie, as far as they are mapped. */
static int read_messages_of(int ranks, enum exports_kind kind)
{
	const size_t window_bytes = (size_t)ranks << 17;
	struct exchange *x = new_exchange(ranks, test_thin ? 5 : 16, window_bytes);
	x->params.max_blocks = 1 + (int)((test_seed + (uint64_t)ranks) % 3);
	x->params.exports = kind;
	x->params.exports_apart = (int)((test_seed + (uint64_t)ranks / 2) % 2);
	x->params.lists_ranks = test_seed % 3 ? 0 : 1u << test_seed / 3 % (unsigned)ranks;
	x->registered = test_seed % 4 == 3;
	x->longs = rings_room(ranks, window_bytes);
	return run_exchange(x, 2);
}

static int read_messages(enum exports_kind kind, int most)
{
	int faults = 0;
	for (int ranks = 2; !faults && ranks <= (test_thin ? 2 + (int)(test_seed % 2) : most); ranks++)
		faults = read_messages_of(ranks, kind);
	return faults;
}

int test_read_messages(void)
{
	return read_messages(EXPORTS_OPEN, 5);
}

int test_read_messages_late(void)
{
	return read_messages(EXPORTS_LATE, 4);
}

int test_read_messages_refused(void)
{
	return read_messages(EXPORTS_REFUSED, 3);
}

/* The low 32 bits of the pairs' counts, which lines and grants carry, begin again. */
int test_late_messages(void)
{
	struct exchange *x = new_exchange(test_thin ? 2 : 3, test_thin ? 3 : 8, 192 << 10);
	x->params.first_message = ((uint64_t)1 << 32) - 3;
	x->registered = 1;
	return run_exchange(x, 3);
}

int test_pairs_in_turn(void)
{
	struct exchange *x = new_exchange(test_thin ? 2 : 3, test_thin ? 6 : MOST_GROUPS, 192 << 10);
	x->calls = 1;
	x->registered = (int)(test_seed % 3);
	return run_exchange(x, 1);
}
