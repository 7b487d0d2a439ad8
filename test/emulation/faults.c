/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls that can't end well: all ranks must end, with the right reason. */
#include <stdio.h>

#include "emulation_test.h"
#include "script.h"
#include "test/helpers/row_find.h"

enum { GOOD_CALLS = 2, ABORT_AFTER = 5000 /* turns */, IN_PIECES = 5000 };
enum trouble { MISMATCH, ABSENT, ABORT, REPLAY };

struct scene {
	enum trouble trouble;
	struct world_params params;
	struct world world;
	struct test_call call;
};

/* The first byte of a receive buffer that came from other ranks, or -1; a call that has failed leaves it as it was. */
static int first_stored(const struct scene *s, const struct started *st, int rank)
{
	const struct test_call *c = &s->call;
	const size_t block = c->count * corale_type_bytes(c->type);
	const size_t blocks = c->coll == CORALE_ALL_GATHER ? (size_t)s->params.ranks : 1;
	if (c->coll == CORALE_BROADCAST && rank == c->root) /* its own data */
		return -1;
	if (c->coll == CORALE_REDUCE && rank != c->root) /* it receives nothing */
		return -1;
	for (size_t i = 0; i < block * blocks; i++)
		if (st->recv[i] != st->recv[-1] && (blocks == 1 || i / block != (size_t)rank))
			return (int)i;
	return -1;
}

static void expect_untouched(struct scene *s, const struct started *st, int rank, const char *what)
{
	int first = first_stored(s, st, rank);
	if (first < 0)
		return;
	printf("# %s by %s, rank %d: %s has stored byte %d\n", corale_coll_name(s->call.coll),
	       codelet_kind_name(s->call.codelet), rank, what, first);
	s->world.engines[rank].failure->code = CORALE_EINTERNAL;
}

/* As a graph that is replayed: the host refuses nothing. */
static void replay(struct scene *s, int rank)
{
	struct started again;
	int code = s->world.engines[rank].failure->code;
	s->world.engines[rank].failure->code = 0;
	if (call_start(&again, &s->world, rank, &s->call, call_signature(&s->call) + 2 * GOOD_CALLS))
		printf("# rank %d: a call after a failure could not be started\n", rank);
	gpu_synchronize();
	s->world.engines[rank].failure->code = code;
	expect_untouched(s, &again, rank, "a kernel after a failure");
	call_drop(&again);
}

/* Good calls first, so that there are old headers, flags and packets. */
static void act(int rank, void *arg)
{
	struct scene *s = arg;
	struct started started[GOOD_CALLS + 1];
	int differ = s->trouble == MISMATCH || s->trouble == REPLAY;
	int last = rank == s->params.ranks - 1, n = GOOD_CALLS + !(!differ && last);
	for (int i = 0; i < n; i++) {
		uint64_t signature = call_signature(&s->call) + 2 * (uint64_t)i;
		int other = i == GOOD_CALLS && differ && last;
		if (call_start(&started[i], &s->world, rank, &s->call, signature ^ (other ? 1ull << 33 : 0)))
			printf("# rank %d: call %d could not be started\n", rank, i);
	}
	if (s->trouble == ABORT && rank == 0) {
		gpu_pause(ABORT_AFTER);
		world_abort(&s->world, 0, CORALE_EABORTED);
	}
	gpu_synchronize();
	if (differ)
		expect_untouched(s, &started[GOOD_CALLS], rank, "a call that differs");
	for (int i = 0; i < n; i++)
		call_drop(&started[i]);
	if (s->trouble == REPLAY)
		replay(s, rank);
}

static int expect_code(const struct scene *s, int code)
{
	int last = s->params.ranks - 1, faults = 0, named = 0;
	for (int r = 0; r <= last; r++) {
		const struct codelet_failure *f = s->world.engines[r].failure;
		int acts = s->trouble == MISMATCH || s->trouble == REPLAY || r != last;
		named |= r != last && f->peer == last;
		if (f->code == (acts ? code : 0))
			continue;
		printf("# %s by %s, %d ranks: rank %d has '%s', peer %d, expected '%s'\n",
		       corale_coll_name(s->call.coll), codelet_kind_name(s->call.codelet), last + 1, r,
		       corale_strerror(f->code), f->peer, corale_strerror(code));
		faults++;
	}
	int told = s->trouble == MISMATCH || s->trouble == REPLAY || s->call.codelet == &one_shot_codelet ||
		   s->call.codelet == &two_shot_codelet; /* the others wait for headers of all */
	if (s->trouble != ABORT && told && !named) {
		printf("# %s by %s, %d ranks: nobody names rank %d\n", corale_coll_name(s->call.coll),
		       codelet_kind_name(s->call.codelet), last + 1, last);
		faults++;
	}
	return faults;
}

static int run_scene(enum trouble trouble, int code, int ranks, struct test_call call)
{
	const int words = !call.codelet;
	struct scene s = { .trouble = trouble, .call = call };
	const int kib = words && world_in_host ? 1024 : call.count == IN_PIECES ? 160 : 224;
	s.call.row = words ? row_find(call.coll, "oneshot") : 0;
	s.params = (struct world_params){ .ranks = ranks,
					  .words_only = words,
					  .torn_lines = words,
					  .max_blocks = 1,
					  .window_bytes = (size_t)kib << 10,
					  .timeout_ns = trouble == ABSENT ? 1000000 : 0,
					  .exports = call.zero_copy ? EXPORTS_OPEN : EXPORTS_NONE,
					  .exports_apart = (int)(test_seed % 2) };
	if (world_open(&s.world, &s.params))
		return 1;
	if (gpu_run(ranks, act, &s, test_seed))
		return -1;
	int faults = expect_code(&s, code);
	world_close(&s.world);
	return faults;
}

static int run_scenes(enum trouble trouble, int code)
{
	const struct test_call calls[] = {
		call_by(&one_shot_codelet, CORALE_ALL_REDUCE, CORALE_FLOAT32, 20),
		call_by(&one_shot_codelet, CORALE_BROADCAST, CORALE_INT8, 20),
		call_by(&two_shot_codelet, CORALE_ALL_REDUCE, CORALE_FLOAT32, 100),
		call_by(&two_shot_codelet, CORALE_ALL_REDUCE, CORALE_INT32, 100),
		/* in pieces: words, lines, dealt */
		call_by(&two_shot_codelet, CORALE_ALL_REDUCE, CORALE_FLOAT32, IN_PIECES),
		call_by(&two_shot_codelet, CORALE_ALL_REDUCE, CORALE_INT32, IN_PIECES),
		call_by(&two_shot_codelet, CORALE_BROADCAST, CORALE_INT32, IN_PIECES),
		{ .coll = CORALE_ALL_REDUCE,
		  .type = CORALE_FLOAT32,
		  .count = 20,
		  .in_lines = 1 }, /* by words */
		{ .coll = CORALE_ALL_REDUCE,
		  .type = CORALE_FLOAT32,
		  .count = 2000,
		  .in_lines = 1 }, /* in host memory: plain data behind a flag */
		call_by(&fifo_codelet, CORALE_ALL_GATHER, CORALE_INT32, 2000),
		call_by(&bulk_codelet, CORALE_ALL_GATHER, CORALE_INT32, 2000),
		call_by(&bulk_codelet, CORALE_ALL_REDUCE, CORALE_INT32, 2000),
		call_by(&bulk_codelet, CORALE_REDUCE, CORALE_INT32, 2000),
		call_by(&bulk_codelet, CORALE_SCATTER, CORALE_INT32, 2000),
		call_by(&chain_codelet, CORALE_BROADCAST, CORALE_INT32, 2000),
		{ .codelet = &bulk_codelet,
		  .coll = CORALE_ALL_REDUCE,
		  .type = CORALE_FLOAT32,
		  .count = 2000,
		  .zero_copy = 1 },
		{ .codelet = &bulk_codelet,
		  .coll = CORALE_BROADCAST,
		  .type = CORALE_INT8,
		  .count = 9000,
		  .zero_copy = 1 },
	};
	int faults = 0;
	for (size_t i = test_thin ? test_seed % 2 : 0; faults >= 0 && i < sizeof(calls) / sizeof(*calls);
	     i += test_thin ? 2 : 1) {
		const int most = world_in_host ? 4 : !calls[i].zero_copy && (test_thin || i) ? 2 : 3;
		if (world_in_host && !call_runs_in_host(&calls[i]))
			continue;
		for (int ranks = world_in_host ? 3 : 2; faults >= 0 && ranks <= most; ranks++) {
			if (test_thin && trouble != MISMATCH && trouble != REPLAY &&
			    calls[i].count == IN_PIECES)
				continue; /* long waits of many threads */
			int more = run_scene(trouble, code, ranks, calls[i]);
			faults = more < 0 ? -1 : faults + more;
		}
	}
	return faults;
}

/* ---- A message that is received with another size or type ------------------------------------------------------ */

/* What travels in lines has left its sender before anybody misses it: the sender hears of it later, from its peer's host. */
struct sizes {
	struct scene scene;
	int sent, awaited;
	corale_type type[2]; /* by rank */
};

enum { MOST_AWAITED = 40000 };

static void send_or_receive(int rank, void *arg)
{
	struct sizes *s = arg;
	static unsigned char data[2][MOST_AWAITED];
	const struct call m = rank ? world_receive(0, data[1], (uint64_t)s->awaited, s->type[1])
				   : world_send(1, data[0], (uint64_t)s->sent, s->type[0]);
	if (engine_run_messages(&s->scene.world.engines[rank], &m, 1, NULL))
		printf("# rank %d: a message could not be started\n", rank);
	gpu_synchronize();
}

static uint64_t typed_bytes_of(corale_type type, int bytes)
{
	return (uint64_t)codelet_typed_bytes_high((int)type, 0) << 32 | (uint64_t)bytes;
}

static int other_message(int sent, corale_type type, int awaited, corale_type awaited_type,
			 int sender_must_know)
{
	struct sizes s = { .scene.params = { .ranks = 2, .max_blocks = 1, .window_bytes = 224 << 10 },
			   .sent = sent,
			   .awaited = awaited,
			   .type = { type, awaited_type } };
	if (world_open(&s.scene.world, &s.scene.params))
		return 1;
	if (gpu_run(2, send_or_receive, &s, test_seed))
		return -1;
	const struct codelet_failure *sender = s.scene.world.engines[0].failure,
				     *receiver = s.scene.world.engines[1].failure;
	int good = (sender->code == CORALE_EMISMATCH || (!sender->code && !sender_must_know)) &&
		   receiver->code == CORALE_EMISMATCH && receiver->peer == 0 &&
		   receiver->expected == typed_bytes_of(awaited_type, awaited) &&
		   receiver->got == typed_bytes_of(type, sent);
	if (!good)
		printf("# %d bytes of type %d sent, %d of type %d awaited: the sender has '%s'; the receiver "
		       "'%s', peer %d, expected %llx, got %llx\n",
		       sent, (int)type, awaited, (int)awaited_type, corale_strerror(sender->code),
		       corale_strerror(receiver->code), receiver->peer,
		       (unsigned long long)receiver->expected, (unsigned long long)receiver->got);
	world_close(&s.scene.world);
	return !good;
}

int test_other_message(void)
{
	static const int sizes[][3] = { /* sent, awaited, whether the sender must know */
					{ 100, 200, 0 },     { 100, 40000, 0 }, { 30000, 200, 1 },
					{ 30000, 40000, 1 }, { 100, 100, 0 },   { 30000, 30000, 1 }
	};
	int faults = 0;
	for (int i = 0; i < (int)(sizeof(sizes) / sizeof(*sizes)); i++) {
		const int *s = sizes[i];
		if (s[0] != s[1])
			faults += other_message(s[0], CORALE_INT32, s[1], CORALE_INT32, s[2]);
		faults += other_message(s[0], CORALE_FLOAT32, s[1], CORALE_INT32, s[2]);
	}
	return faults;
}

/* ---- The cases ---------------------------------------------------------------------------------------------------- */

int test_mismatch(void)
{
	return run_scenes(MISMATCH, CORALE_EMISMATCH);
}

int test_replay(void)
{
	return run_scenes(REPLAY, CORALE_EMISMATCH);
}

int test_absent(void)
{
	return run_scenes(ABSENT, CORALE_ETIMEDOUT);
}

int test_abort(void)
{
	return run_scenes(ABORT, CORALE_EABORTED);
}
