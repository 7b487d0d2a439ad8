/* SPDX-License-Identifier: BSD-3-Clause */
/* A kernel that fails keeps its stream: what is behind it there does not run before the host releases it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulation_test.h"
#include "plan/codelet/row.h"
#include "script.h"
#include "test/helpers/row_find.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

enum { GOOD_CALLS = 2, OUT = 64, UNTOUCHED = 0x77, ABORT_AFTER = 5000 /* turns */, LONG_ENOUGH = 20000 };
enum trouble { MISMATCH, ABSENT, ABORT };

struct scene {
	enum trouble trouble;
	struct world_params params;
	struct world world;
	struct test_call call;
	_Atomic int
	    ready; /* ranks that have ended the good calls: copies of one that fails go to the others all the same */
	int faults[GPU_MAX_HOSTS];
};

/* What one rank has on a stream. */
struct held {
	struct test_call call;
	struct started started;
	unsigned char data[2][OUT]; /* of a message */
	unsigned char out[OUT]; /* the program's next work copies the result there */
	cudaStream_t stream;
};

static int make_messages(struct scene *s, struct held *h, int rank, int strays)
{
	const int ranks = s->params.ranks;
	memset(h->data, 1, sizeof h->data);
	const corale_type type = strays ? CORALE_FLOAT32 : CORALE_INT32;
	const struct call m[2] = { world_send((rank + 1) % ranks, h->data[0], 40, type),
				   world_receive((rank + ranks - 1) % ranks, h->data[1], 40, type) };
	return engine_run_messages(&s->world.engines[rank], m, 2, h->stream);
}

static void make_call(struct scene *s, struct held *h, int rank, int number, int strays)
{
	const uint64_t signature = call_signature(&s->call) + 2 * (uint64_t)number;
	int ret = 0;
	h->call = s->call;
	if (h->call.place)
		h->call.place += (size_t)number * call_room(&s->call, s->params.ranks);
	if (s->call.coll == CORALE_SEND)
		ret = make_messages(s, h, rank, strays);
	else
		ret = call_start_on(&h->started, &s->world, rank, &h->call,
				    signature ^ (strays ? 1ull << 33 : 0), h->stream);
	memset(h->out, UNTOUCHED, OUT);
	/* After the release copies into registered memory run, on all ranks: what it holds is undefined. */
	const void *result = s->call.coll == CORALE_SEND ? h->data[1]
			     : s->call.place             ? h->data[0]
							 : h->started.recv;
	cudaMemcpyAsync(h->out, result, 16, cudaMemcpyDefault, h->stream);
	s->faults[rank] += ret != 0;
}

static int has_run(const struct held *h)
{
	return h->out[0] != UNTOUCHED || h->out[15] != UNTOUCHED;
}

/* The last launch that has begun to hold its stream. */
static uint32_t holder_of(const struct scene *s, int rank)
{
	return __atomic_load_n(&s->world.engines[rank].state->holder, __ATOMIC_RELAXED);
}

static void await_holder(const struct scene *s, int rank)
{
	while (!holder_of(s, rank))
		gpu_pause(100);
	gpu_pause(LONG_ENOUGH);
}

static void expect_held(struct scene *s, const struct held *h, int rank, const char *what)
{
	if (!has_run(h))
		return;
	printf("# %s, %s, trouble %d, rank %d: what is behind %s has run\n",
	       codelet_kind_name(s->call.codelet), corale_coll_name(s->call.coll), (int)s->trouble, rank,
	       what);
	s->faults[rank]++;
}

/* As a graph that is replayed on another stream: the host refuses nothing. */
static void replay(struct scene *s, struct held *h, int rank)
{
	struct engine *e = &s->world.engines[rank];
	const int code = e->failure->code;
	e->failure->code = 0;
	h->stream = (cudaStream_t)GPU_STREAM(1);
	make_call(s, h, rank, GOOD_CALLS, 0);
	gpu_pause(10 * LONG_ENOUGH); /* where a GPU has one channel it does not even begin */
	expect_held(s, h, rank, "a kernel after a failure");
	e->failure->code = code;
}

static void drop(const struct scene *s, struct held *h)
{
	if (s->call.coll != CORALE_SEND)
		call_drop(&h->started);
}

static void act(int rank, void *arg)
{
	struct scene *s = arg;
	struct held *held = calloc(GOOD_CALLS + 2, sizeof(*held));
	const int last = rank == s->params.ranks - 1, stays = !(last && s->trouble != MISMATCH);
	const int replays = stays && s->call.codelet != &copies_codelet; /* whose other streams are in use */
	if (!held)
		abort();
	for (int i = 0; i < GOOD_CALLS; i++)
		make_call(s, &held[i], rank, i, 0);
	script_synchronize();
	for (s->ready++; s->ready < s->params.ranks;)
		gpu_pause(10);
	if (stays)
		make_call(s, &held[GOOD_CALLS], rank, GOOD_CALLS, last);
	if (s->trouble == ABORT && rank == 0) {
		gpu_pause(ABORT_AFTER);
		world_abort(&s->world, 0, CORALE_EABORTED);
	}
	if (stays) {
		await_holder(s, rank);
		expect_held(s, &held[GOOD_CALLS], rank, "a kernel that failed");
	}
	if (replays)
		replay(s, &held[GOOD_CALLS + 1], rank);
	world_release(&s->world, rank);
	struct gpu_event other;
	gpu_mark(&other, GPU_STREAM(1));
	gpu_await(GPU_STREAM(0), &other);
	gpu_synchronize();
	for (int i = 0; i < GOOD_CALLS + stays + replays; i++) {
		if (!has_run(&held[i])) {
			printf("# rank %d: what is behind call %d has not run after the release\n", rank, i);
			s->faults[rank]++;
		}
		drop(s, &held[i]);
	}
	free(held);
}

static int run_scene(enum trouble trouble, int ranks, struct test_call call)
{
	struct scene s = { .trouble = trouble, .call = call };
	const int copies = call.codelet == &copies_codelet;
	s.params = (struct world_params){
		.ranks = ranks,
		.max_blocks = test_thin ? 1 : 2,
		.window_bytes = 224 << 10,
		.holds = 1,
		.scratch_chunk = copies ? 4096 : 0,
		.registered_bytes = call.place ? call.place + (GOOD_CALLS + 1) * call_room(&call, ranks) : 0,
		.timeout_ns = trouble == ABSENT ? 1000000 : 0
	};
	int faults = 0;
	if (world_open(&s.world, &s.params))
		return 1;
	if (gpu_run(ranks, act, &s, test_seed))
		return -1;
	for (int r = 0; r < ranks; r++) {
		const int failed = s.world.engines[r].failure->code != 0;
		faults += s.faults[r] + (failed != !(r == ranks - 1 && trouble != MISMATCH));
	}
	world_close(&s.world);
	return faults;
}

static int run_scenes(enum trouble trouble)
{
	const struct test_call calls[] = {
		call_by(&one_shot_codelet, CORALE_ALL_REDUCE, CORALE_FLOAT32, 20),
		call_by(&one_shot_codelet, CORALE_ALL_GATHER, CORALE_INT8, 21),
		call_by(&two_shot_codelet, CORALE_ALL_REDUCE, CORALE_FLOAT32, 100),
		call_by(&fifo_codelet, CORALE_ALL_GATHER, CORALE_INT32, 2000),
		call_by(&bulk_codelet, CORALE_ALL_REDUCE, CORALE_INT32, 2000),
		call_by(&fifo_codelet, CORALE_ALL_TO_ALL_V, CORALE_INT32, 1000),
		call_by(&copies_codelet, CORALE_ALL_GATHER, CORALE_INT32, 300),
		call_by(&copies_codelet, CORALE_ALL_REDUCE, CORALE_INT32, 600),
		{ .codelet = &copies_codelet,
		  .coll = CORALE_ALL_GATHER,
		  .type = CORALE_INT32,
		  .count = 300,
		  .place = 128 },
		call_lowered(CORALE_ALL_REDUCE, "ring", CORALE_INT32, 50),
		{ .coll = CORALE_ALL_GATHER,
		  .row = row_find(CORALE_ALL_GATHER, "ring"),
		  .type = CORALE_INT32,
		  .count = 50,
		  .in_lines = 1 },
		{ .coll = CORALE_SEND }, /* to the next rank, and a receive */
	};
	int faults = 0;
	for (size_t i = 0; faults >= 0 && i < COUNT(calls); i++) {
		if (trouble == ABSENT && (i + test_seed) % (test_thin ? 6 : 3)) /* long waits */
			continue;
		if (world_in_host && !call_runs_in_host(&calls[i]))
			continue;
		const int three = world_in_host ? calls[i].coll != CORALE_SEND
						: !i && !test_thin; /* a send's trouble is that of two */
		const int more = run_scene(trouble, three ? 3 : 2, calls[i]);
		faults = more < 0 ? -1 : faults + more;
	}
	return faults;
}

/* ---- A rank that gives up alone ------------------------------------------------------------------------------ */

static uint64_t told(const struct scene *s, int rank)
{
	const struct engine *e = &s->world.engines[rank];
	const struct codelet_control *c =
	    (const struct codelet_control *)(s->world.windows + (size_t)rank * e->stride);
	return __atomic_load_n(&c->abort, __ATOMIC_RELAXED);
}

/* Rank 0 gives up a call that the others have not made; these go on with each other, and then wait for it in vain. */
static void give_up(int rank, void *arg)
{
	struct scene *s = arg;
	struct held held = { .stream = NULL };
	if (rank == 0) {
		make_call(s, &held, rank, 0, 0);
		gpu_pause(ABORT_AFTER);
		world_quit(&s->world, rank, CORALE_EABORTED);
		await_holder(s, rank);
		s->faults[0] += !told(s, 0) || told(s, 1) || told(s, 2);
		world_release(&s->world, rank);
		gpu_synchronize();
		call_drop(&held.started);
		return;
	}
	while (!told(s, 0))
		gpu_pause(100);
	memset(held.data, rank, sizeof held.data);
	const struct call m = rank == 1 ? world_send(2, held.data[0], 40, CORALE_INT32)
					: world_receive(3 - rank, held.data[0], 40, CORALE_INT32);
	s->faults[rank] += engine_run_messages(&s->world.engines[rank], &m, 1, NULL) != 0;
	gpu_synchronize();
	s->faults[rank] += held.data[0][39] != 1 || s->world.engines[rank].failure->code;
}

int test_quit(void)
{
	struct scene s = { .call = call_by(world_in_host ? &bulk_codelet : &one_shot_codelet,
					   CORALE_ALL_REDUCE, CORALE_INT32, 20),
			   .params = { .ranks = 3, .max_blocks = 1, .window_bytes = 224 << 10, .holds = 1 } };
	if (world_open(&s.world, &s.params))
		return 1;
	if (gpu_run(3, give_up, &s, test_seed))
		return -1;
	const struct codelet_failure *f = s.world.engines[0].failure;
	int faults = s.faults[0] + s.faults[1] + s.faults[2] + (f->code != CORALE_EABORTED);
	if (faults)
		printf("# a rank that gives up has '%d'; ranks found %d, %d, %d faults\n", f->code,
		       s.faults[0], s.faults[1], s.faults[2]);
	world_close(&s.world);
	return faults;
}

/* ---- The cases ------------------------------------------------------------------------------------------------- */

int test_hold_mismatch(void)
{
	return run_scenes(MISMATCH);
}

int test_hold_absent(void)
{
	return run_scenes(ABSENT);
}

int test_hold_abort(void)
{
	return run_scenes(ABORT);
}

/* ---- A failure before the call on another stream ---------------------------------------------------------------- */

/* Rank 0 fails on its first stream while it has a call on another one: that one is held too. */
static void fail_before(int rank, void *arg)
{
	struct scene *s = arg;
	struct held held[2] = { { .stream = NULL }, { .stream = (cudaStream_t)GPU_STREAM(1) } };
	if (rank)
		return;
	make_call(s, &held[0], rank, 0, 0);
	make_call(s, &held[1], rank, 1, 0);
	gpu_pause(ABORT_AFTER);
	world_abort(&s->world, rank, CORALE_EABORTED);
	await_holder(s, rank);
	gpu_pause(10 * LONG_ENOUGH);
	expect_held(s, &held[0], rank, "a kernel that failed");
	expect_held(s, &held[1], rank, "a call behind it");
	world_release(&s->world, rank);
	script_synchronize();
	s->faults[rank] += !has_run(&held[0]) || !has_run(&held[1]);
	drop(s, &held[0]);
	drop(s, &held[1]);
}

int test_hold_followed(void)
{
	struct scene s = { .call = call_by(&one_shot_codelet, CORALE_ALL_REDUCE, CORALE_INT32, 20),
			   .params = { .ranks = 2, .max_blocks = 1, .window_bytes = 224 << 10, .holds = 1 } };
	if (world_open(&s.world, &s.params))
		return 1;
	if (gpu_run(2, fail_before, &s, test_seed))
		return -1;
	const int faults = s.faults[0];
	world_close(&s.world);
	return faults;
}
