/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls over several nodes that can't end well: all kernels must end, with the right reason, and keep what they should not have. */
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "emulation_test.h"
#include "plan/codelet/row.h"
#include "script.h"
#include "test/helpers/row_find.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

enum { GOOD_CALLS = 2, DEADLINE_NS = 100000000, SLOT = 1 << 10, MOST_BYTES = 100000, UNTOUCHED = 0x5a };
enum trouble { OTHER_CALL, OTHER_COUNT, ABSENT, REPLAY };

/* The last rank is the one that strays. */
struct scene {
	enum trouble trouble;
	struct world_params params;
	struct world world;
	struct test_call call, other; /* other: as the last rank makes the last one */
};

static int strays(const struct scene *s, int rank)
{
	return rank == s->params.ranks - 1;
}

/* What lib/health/diagnose.c does where a rank's kernel has failed. */
static void spread(struct world *w, int rank)
{
	const int code = w->engines[rank].failure->code;
	for (int r = 0; code && r < w->ranks; r++)
		world_abort(w, r, code);
}

/* Between ranks of which one strays nothing is stored. */
static void expect_untouched(struct scene *s, const struct started *st, int rank, const char *what)
{
	const size_t block = st->call->count * corale_type_bytes(st->call->type);
	for (int from = 0; s->call.coll == CORALE_ALL_TO_ALL && from < s->params.ranks; from++) {
		if (from == rank || (!strays(s, rank) && !strays(s, from)))
			continue;
		for (size_t i = 0; i < block; i++) {
			if (st->recv[(size_t)from * block + i] == UNTOUCHED)
				continue;
			printf("# %s: rank %d has stored what rank %d sent, byte %zu\n", what, rank, from, i);
			s->world.engines[rank].failure->code = CORALE_EINTERNAL;
			return;
		}
	}
}

/* As a graph that is replayed: the host refuses nothing. */
static void replay(struct scene *s, int rank)
{
	struct started again;
	const int code = s->world.engines[rank].failure->code;
	s->world.engines[rank].failure->code = 0;
	if (call_start(&again, &s->world, rank, &s->call, call_signature(&s->call) + 2 * GOOD_CALLS))
		printf("# rank %d: a call after a failure could not be started\n", rank);
	gpu_synchronize();
	s->world.engines[rank].failure->code = code;
	expect_untouched(s, &again, rank, "a kernel after a failure");
	call_drop(&again);
}

static void act(int rank, void *arg)
{
	struct scene *s = arg;
	struct started started[GOOD_CALLS + 1];
	const int n = GOOD_CALLS + !(s->trouble == ABSENT && strays(s, rank));
	for (int i = 0; i < n; i++) {
		const struct test_call *c = i == GOOD_CALLS && strays(s, rank) ? &s->other : &s->call;
		if (call_start(&started[i], &s->world, rank, c, call_signature(c) + 2 * (uint64_t)i))
			printf("# rank %d: call %d could not be started\n", rank, i);
	}
	gpu_synchronize();
	spread(&s->world, rank);
	if (n > GOOD_CALLS)
		expect_untouched(s, &started[GOOD_CALLS], rank, "a call that differs");
	for (int i = 0; i < n; i++)
		call_drop(&started[i]);
	if (s->trouble == REPLAY)
		replay(s, rank);
}

static int expect_code(const struct scene *s, int code)
{
	const int last = s->params.ranks - 1;
	int faults = 0, named = s->trouble == ABSENT;
	for (int r = 0; r <= last; r++) {
		const struct codelet_failure *f = s->world.engines[r].failure;
		const int expected = s->trouble == ABSENT && r == last ? 0 : code;
		named |= r == last ? f->peer != world_place(&s->world, r, r)
				   : f->peer == world_place(&s->world, r, last);
		if (f->code == expected)
			continue;
		printf("# %s, trouble %d: rank %d has '%s', peer %d, expected '%s'\n",
		       corale_coll_name(s->call.coll), (int)s->trouble, r, corale_strerror(f->code), f->peer,
		       corale_strerror(expected));
		faults++;
	}
	if (!named)
		printf("# %s, trouble %d: nobody names rank %d, nor does it name one\n",
		       corale_coll_name(s->call.coll), (int)s->trouble, last);
	return faults + !named;
}

static int run_scene(const struct world_params *params, enum trouble trouble, int code, struct test_call call)
{
	struct scene s = { .trouble = trouble, .params = *params, .call = call, .other = call };
	s.other.count += trouble == OTHER_COUNT ? 300 : 0;
	s.other.seed += trouble == OTHER_COUNT ? 0 : 1;
	if (world_open(&s.world, &s.params))
		return 1;
	if (world_run(&s.world, act, &s, test_seed))
		return -1;
	int faults = expect_code(&s, code);
	world_close(&s.world);
	return faults;
}

static int run_scenes(enum trouble trouble, int code)
{
	struct world_params p = { .max_blocks = 1, .window_bytes = 512 << 10, .remote_slot = SLOT };
	const struct test_call calls[] = { call_lowered(CORALE_ALL_TO_ALL, "pairwise", CORALE_INT32, 2000),
					   call_lowered(CORALE_ALL_REDUCE, "ring", CORALE_INT32, 50),
					   call_by(&fifo_codelet, CORALE_ALL_TO_ALL_V, CORALE_INT32, 1000) };
	int faults = 0;
	p.timeout_ns = trouble == ABSENT ? DEADLINE_NS : 0;
	for (int i = 0; !faults && remote_nodes(i, &p); i++) {
		/* a wait that ends by its deadline is long */
		const size_t most = !remote_is_drawn(i) ? 0 : test_thin && p.timeout_ns ? 1 : COUNT(calls);
		for (size_t k = 0; !faults && k < most; k++)
			faults = run_scene(&p, trouble, code, calls[k]);
	}
	return faults;
}

int test_remote_mismatch(void)
{
	const int faults = run_scenes(OTHER_CALL, CORALE_EMISMATCH);
	return faults ? faults : run_scenes(OTHER_COUNT, CORALE_EMISMATCH);
}

int test_remote_absent(void)
{
	return run_scenes(ABSENT, CORALE_ETIMEDOUT);
}

int test_remote_replay(void)
{
	return run_scenes(REPLAY, CORALE_EMISMATCH);
}

/* ---- One message ------------------------------------------------------------------------------------------------- */

/* From the last rank to the first one, which is on another node; 0 bytes: that end is never made. */
struct ends {
	struct world world;
	int nodes; /* as remote_nodes numbers them */
	struct message {
		uint64_t bytes;
		corale_type type;
	} sent, awaited;
	int touched;
};

static void run_end(int rank, void *arg)
{
	struct ends *x = arg;
	const int last = x->world.ranks - 1;
	static unsigned char data[2][MOST_BYTES];
	const struct message m = rank ? x->sent : x->awaited;
	if ((rank && rank != last) || !m.bytes)
		return;
	memset(data[!rank], UNTOUCHED + rank, MOST_BYTES);
	const struct call call =
	    rank ? world_send(0, data[0], m.bytes, m.type) : world_receive(last, data[1], m.bytes, m.type);
	if (engine_run_messages(&x->world.engines[rank], &call, 1, NULL))
		printf("# rank %d: a message could not be started\n", rank);
	gpu_synchronize();
	for (size_t i = 0; !rank && i < MOST_BYTES; i++)
		x->touched |= data[1][i] != UNTOUCHED;
}

static int run_ends(struct ends *x, uint64_t timeout_ns)
{
	struct world_params p = {
		.max_blocks = 4, .window_bytes = 512 << 10, .remote_slot = SLOT, .timeout_ns = timeout_ns
	};
	remote_nodes(x->nodes, &p);
	if (world_open(&x->world, &p))
		return 1;
	return world_run(&x->world, run_end, x, test_seed) ? -1 : 0;
}

static uint64_t typed_bytes_of(const struct message *m)
{
	return (uint64_t)codelet_typed_bytes_high((int)m->type, 0) << 32 | m->bytes;
}

/* Its sender may have ended before anybody misses it. */
static int other_message(int nodes, struct message sent, struct message awaited)
{
	struct ends x = { .nodes = nodes, .sent = sent, .awaited = awaited };
	int ret = run_ends(&x, DEADLINE_NS);
	if (ret)
		return ret;
	const struct codelet_failure *f = x.world.engines[0].failure;
	const int good = f->code == CORALE_EMISMATCH && f->of_message && !x.touched &&
			 f->expected == typed_bytes_of(&awaited) && f->got == typed_bytes_of(&sent) &&
			 f->peer == world_place(&x.world, 0, x.world.ranks - 1);
	if (!good)
		printf("# %llu bytes of type %d sent, %llu of type %d awaited: the receiver has '%s', peer "
		       "%d, expected %llx, got %llx%s\n",
		       (unsigned long long)sent.bytes, (int)sent.type, (unsigned long long)awaited.bytes,
		       (int)awaited.type, corale_strerror(f->code), f->peer, (unsigned long long)f->expected,
		       (unsigned long long)f->got, x.touched ? ", and has stored it" : "");
	world_close(&x.world);
	return !good;
}

int test_remote_other_message(void)
{
	const struct message small = { 100, CORALE_INT32 }, large = { 90000, CORALE_INT32 },
			     floats = { 100, CORALE_FLOAT32 };
	int faults = 0;
	for (int nodes = 0; !faults && nodes < (test_thin ? 1 : 2); nodes++) {
		faults = other_message(nodes, small, large);
		faults = faults ? faults : other_message(nodes, large, small);
		faults = faults ? faults : other_message(nodes, floats, small);
	}
	return faults;
}

/* Of a send what there is room for leaves without a receive. */
int test_remote_one_end(void)
{
	static const struct {
		uint64_t sent, awaited;
		int code; /* of the one that is there */
	} ends[] = { { 0, 100, CORALE_ETIMEDOUT }, { 90000, 0, CORALE_ETIMEDOUT }, { SLOT, 0, 0 } };
	int faults = 0;
	for (size_t i = 0; !faults && i < COUNT(ends); i++) {
		struct ends x = { .sent.bytes = ends[i].sent, .awaited.bytes = ends[i].awaited };
		faults = run_ends(&x, DEADLINE_NS);
		if (faults)
			return faults;
		const int at = ends[i].sent ? x.world.ranks - 1 : 0,
			  peer = world_place(&x.world, at, ends[i].sent ? 0 : x.world.ranks - 1);
		const struct codelet_failure *f = x.world.engines[at].failure;
		faults = f->code != ends[i].code || (f->code && f->peer != peer);
		if (faults)
			printf("# one end of a message: rank %d has '%s', peer %d\n", at,
			       corale_strerror(f->code), f->peer);
		world_close(&x.world);
	}
	return faults;
}
