/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank that always comes last sends no headers: what it said long ago, or never said, is nothing of the call that waits for it. */
#include <stdio.h>
#include <string.h>

#include "emulation_test.h"
#include "script.h"

/* The first call stores headers of all ranks in one half only; the others have epochs of the same low 32 bits as memory held at first, and as
 * that first call. */
enum { FIRST, UNSTORED, STALE, CALLS, LONG_PAUSE = 20000 /* turns */ };
static const uint64_t before[CALLS] = { 0, UINT32_MAX, (uint64_t)UINT32_MAX + 1 };

struct late {
	struct world world;
	struct test_call calls[CALLS];
	int faults[GPU_MAX_HOSTS];
};

static void set_epochs(struct engine *e, uint64_t epoch)
{
	for (int b = 0; b < CODELET_MAX_BLOCKS; b++)
		e->state->epochs[b] = epoch;
}

/* The last rank waits for rank 0 in the first call, and the others for the last rank from then on. */
static void come_late(int rank, void *arg)
{
	struct late *l = arg;
	struct engine *e = &l->world.engines[rank];
	struct started started;
	for (int i = 0; i < CALLS && !e->failure->code; i++) {
		const struct test_call *c = &l->calls[i];
		set_epochs(e, before[i]);
		if (rank == (i == FIRST ? 0 : l->world.ranks - 1))
			gpu_pause(LONG_PAUSE);
		l->faults[rank] += call_start(&started, &l->world, rank, c, call_signature(c)) != 0;
		gpu_synchronize();
		l->faults[rank] += script_print_failure(e);
		if (e->failure->code)
			call_drop(&started);
		else
			l->faults[rank] += call_finish(&started);
	}
}

static int run_late(int ranks, corale_type type)
{
	struct late l = { .faults = { 0 } };
	struct world_params p = { .ranks = ranks, .max_blocks = 1, .window_bytes = 224 << 10 };
	int faults = 0;
	for (int i = 0; i < CALLS; i++)
		l.calls[i] = (struct test_call){ .codelet = &one_shot_codelet,
						 .coll = CORALE_ALL_GATHER,
						 .type = type,
						 .count = 20,
						 .seed = test_seed + (uint64_t)i };
	if (world_open(&l.world, &p))
		return 1;
	if (gpu_run(ranks, come_late, &l, test_seed))
		return -1;
	for (int r = 0; r < ranks; r++)
		faults += l.faults[r];
	world_close(&l.world);
	return faults;
}

/* With kernels for few ranks, and for any number and odd sizes. */
int test_old_headers(void)
{
	int faults = run_late(2, CORALE_FLOAT32);
	return faults ? faults : run_late(3, CORALE_INT8);
}
