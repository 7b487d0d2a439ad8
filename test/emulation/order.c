/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of a communicator follow each other, whatever their streams, by what their kernels count. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulation_test.h"
#include "plan/codelet/row.h"
#include "script.h"
#include "test/helpers/row_find.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

enum { STEPS = 40, THIN_STEPS = 12, MOST_MESSAGE = 30000 };

/* Sends and receives, plans and copies in turn. The ranks make them alike, each on any of its streams. */
struct steps {
	struct world world;
	uint64_t seed;
	int n;
	int faults[GPU_MAX_HOSTS];
};

struct step {
	int bytes; /* of a message to the next rank and one from the rank before; 0: a call */
	struct test_call call;
	struct started started;
	unsigned char *data[2];
};

static unsigned drawn(const struct steps *s, int step, unsigned below)
{
	return (unsigned)(((s->seed + (uint64_t)step) * 0x9e3779b97f4a7c15u >> 33) % below);
}

static void make_step(struct steps *s, struct step *x, int rank, int number)
{
	const int ranks = s->world.ranks;
	const struct test_call calls[] = {
		{ .coll = CORALE_ALL_REDUCE, .row = row_find(CORALE_ALL_REDUCE, "ring"), .count = 500 },
		{ .coll = CORALE_ALL_GATHER,
		  .row = row_find(CORALE_ALL_GATHER, "ring"),
		  .count = 50,
		  .in_lines = 1 },
		{ .codelet = &copies_codelet, .coll = CORALE_ALL_GATHER, .count = 300 },
		{ .codelet = &one_shot_codelet, .coll = CORALE_ALL_REDUCE, .count = 40 },
		{ .codelet = &fifo_codelet, .coll = CORALE_ALL_TO_ALL_V, .count = 700 },
	};
	const unsigned kind = drawn(s, number, 2 * COUNT(calls));
	void *stream = GPU_STREAM(gpu_random(test_thin ? 2 : GPU_STREAMS));
	if (kind < COUNT(calls)) {
		x->call = calls[kind];
		x->call.type = CORALE_INT32;
		x->call.seed = s->seed + (uint64_t)number;
		if (x->call.codelet == &copies_codelet) /* the other streams are for what runs beside it */
			stream = GPU_STREAM(0);
		s->faults[rank] += call_start_on(&x->started, &s->world, rank, &x->call,
						 call_signature(&x->call), stream) != 0;
		return;
	}
	x->bytes = 4 * (int)(1 + drawn(s, number + 7919, kind % 2 ? 100 : MOST_MESSAGE / 4));
	x->data[0] = malloc(MOST_MESSAGE);
	x->data[1] = malloc(MOST_MESSAGE);
	if (!x->data[0] || !x->data[1])
		abort();
	memset(x->data[0], number + rank, MOST_MESSAGE);
	const uint64_t bytes = (uint64_t)x->bytes;
	const struct call m[2] = { world_send((rank + 1) % ranks, x->data[0], bytes, CORALE_INT32),
				   world_receive((rank + ranks - 1) % ranks, x->data[1], bytes,
						 CORALE_INT32) };
	s->faults[rank] += engine_run_messages(&s->world.engines[rank], m, 2, stream) != 0;
}

static int check_step(const struct steps *s, struct step *x, int rank, int number)
{
	if (!x->bytes)
		return call_finish(&x->started);
	const unsigned char expected = (unsigned char)(number + (rank + s->world.ranks - 1) % s->world.ranks);
	int faults = 0;
	for (int i = 0; i < x->bytes; i++)
		faults |= x->data[1][i] != expected;
	if (faults)
		printf("# rank %d, step %d: %d bytes are wrong\n", rank, number, x->bytes);
	free(x->data[0]);
	free(x->data[1]);
	return faults;
}

static void run_steps(int rank, void *arg)
{
	struct steps *s = arg;
	struct step *x = calloc((size_t)s->n, sizeof *x);
	if (!x)
		abort();
	for (int i = 0; i < s->n; i++) {
		make_step(s, &x[i], rank, i);
		if (!gpu_random(4))
			script_synchronize();
	}
	script_synchronize();
	s->faults[rank] += script_print_failure(&s->world.engines[rank]);
	for (int i = 0; i < s->n; i++)
		s->faults[rank] += check_step(s, &x[i], rank, i);
	free(x);
}

int test_any_stream(void)
{
	int faults = 0;
	for (int ranks = 2; !faults && ranks <= (test_thin ? 2 : 3); ranks++) {
		struct steps s = { .seed = test_seed * 31, .n = test_thin ? THIN_STEPS : STEPS };
		struct world_params p = { .ranks = ranks,
					  .max_blocks = test_thin ? 1 : 2,
					  .window_bytes = 320 << 10,
					  .scratch_chunk = 4096 };
		if (world_open(&s.world, &p))
			return 1;
		if (gpu_run(ranks, run_steps, &s, test_seed))
			return -1;
		for (int r = 0; r < ranks; r++)
			faults += s.faults[r];
		world_close(&s.world);
	}
	return faults;
}

/* ---- When a kernel comes before a call ---------------------------------------------------------------------------- */

enum { OTHER_STREAM = 1, NEW_STREAM = 2, CALLS = 6 };
static const struct {
	int stream, is_new;
} places[CALLS] = { { 0, 0 }, { 0, 0 }, { 1, 0 }, { 1, 0 }, { 1, 1 }, { 0, 0 } };
enum { FOLLOWERS = 3 };

static void run_places(int rank, void *arg)
{
	struct steps *s = arg;
	struct test_call c = { .codelet = &one_shot_codelet,
			       .coll = CORALE_ALL_REDUCE,
			       .type = CORALE_INT32,
			       .op = CORALE_NUM_OPS, /* other calls of one rank need no kernel */
			       .count = 20 };
	for (int i = 0; i < CALLS; i++) {
		struct started started;
		if (places[i].is_new)
			world_new_stream(GPU_STREAM(places[i].stream));
		c.seed = s->seed + (uint64_t)i;
		s->faults[rank] += call_start_on(&started, &s->world, rank, &c, call_signature(&c),
						 GPU_STREAM(places[i].stream)) != 0;
		script_synchronize();
		s->faults[rank] += call_finish(&started);
	}
}

/* One rank: the handles' numbers are all ranks'. */
int test_new_streams(void)
{
	struct steps s = { .seed = test_seed };
	struct world_params p = { .ranks = 1, .max_blocks = 1, .window_bytes = 320 << 10 };
	size_t n;
	if (world_open(&s.world, &p))
		return 1;
	gpu_record(s.world.windows, 1);
	if (gpu_run(1, run_places, &s, test_seed))
		return -1;
	gpu_launches(&n);
	gpu_record_end();
	int faults = s.faults[0] + (n != CALLS + FOLLOWERS);
	if (faults)
		printf("# %zu kernels for %d calls, of which %d are on another stream than the one before\n",
		       n, (int)CALLS, (int)FOLLOWERS);
	world_close(&s.world);
	return faults;
}
