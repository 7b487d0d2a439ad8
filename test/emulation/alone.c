/* SPDX-License-Identifier: BSD-3-Clause */
/* A communicator of one rank: what its calls launch. In place nothing, else one copy; premultiplied sums a kernel. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/collectives.h"
#include "calls.h"
#include "emulation_test.h"
#include "script.h"

enum { COUNT = 1000, MESSAGES = 5, BYTES = 300, CHAINS = 10 };

static const struct world_params alone = { .ranks = 1, .max_blocks = 2, .window_bytes = 224 << 10 };

/* Too much for the stack of a host. */
struct run {
	struct world world;
	struct started started;
	unsigned char from[MESSAGES][BYTES], to[MESSAGES][BYTES];
	int faults;
};

/* Launches since the first `from`, and how many of them are copies. */
static size_t launches_since(size_t from, size_t *copies)
{
	struct world_copy copy;
	size_t n;
	const struct gpu_launched *l = gpu_launches(&n);
	*copies = 0;
	for (size_t i = from; i < n; i++)
		*copies += (size_t)world_copied(&l[i], &copy);
	return n - from;
}

static int expect(const char *name, int in_place, size_t from, size_t kernels, size_t copies)
{
	size_t copied, all = launches_since(from, &copied);
	if (all == kernels + copies && copied == copies)
		return 0;
	printf("# %s%s: %zu launches, %zu of them copies; expected %zu kernels and %zu copies\n", name,
	       in_place ? " in place" : "", all, copied, kernels, copies);
	return 1;
}

static int run_one(struct run *r, const struct test_call *c)
{
	size_t before, moves = coll_has_data(c->coll) && c->count && !c->in_place,
		       kernels = c->op == CORALE_NUM_OPS;
	gpu_launches(&before);
	int ret = call_start(&r->started, &r->world, 0, c, call_signature(c));
	int faults =
	    ret ? 1 : expect(corale_coll_name(c->coll), c->in_place, before, kernels, kernels ? 0 : moves);
	gpu_synchronize();
	return faults + call_finish(&r->started);
}

/* Of each collective, whatever codelet was chosen for it. */
static void run_all(int rank, void *arg)
{
	struct run *r = arg;
	for (int i = 0; i < 2 * 3 * CORALE_NUM_COLLS; i++) {
		const corale_coll coll = (corale_coll)(i / 6);
		const int premultiplied = i % 3 == 2, in_place = i / 3 % 2;
		if (coll_is_pair(coll) ||
		    (premultiplied && coll != CORALE_ALL_REDUCE && coll != CORALE_REDUCE_SCATTER) ||
		    (coll_is_uneven(coll) &&
		     (in_place || coll != CORALE_ALL_TO_ALL_V))) /* others become one */
			continue;
		const struct test_call c = { .codelet = coll == CORALE_ALL_REDUCE ? &two_shot_codelet
										  : &one_shot_codelet,
					     .coll = coll,
					     .type = CORALE_FLOAT32,
					     .op = premultiplied      ? CORALE_NUM_OPS
						   : coll_folds(coll) ? CORALE_AVG
								      : 0,
					     .count = i % 3 && coll_has_data(coll) ? COUNT : 0,
					     .in_place = in_place,
					     .seed = 1 };
		r->faults += run_one(r, &c);
	}
}

static int run(void (*host)(int rank, void *arg))
{
	static struct run r;
	memset(&r, 0, sizeof r);
	if (world_open(&r.world, &alone))
		abort();
	gpu_record(r.world.windows, 1);
	if (world_run(&r.world, host, &r, test_seed))
		r.faults = -1;
	gpu_record_end();
	world_close(&r.world);
	return r.faults;
}

int test_alone(void)
{
	return run(run_all);
}

/* Every other one in place. */
static void run_messages(int rank, void *arg)
{
	struct run *r = arg;
	struct call m[MESSAGES];
	size_t before;
	memset(r->from, 7, sizeof r->from);
	for (int i = 0; i < MESSAGES; i++) {
		m[i] = world_send(0, r->from[i], BYTES, CORALE_UINT8);
		m[i].recv = i % 2 ? r->from[i] : r->to[i];
	}
	gpu_launches(&before);
	r->faults += engine_run_messages(&r->world.engines[0], m, MESSAGES, NULL) != 0;
	r->faults += expect("messages", 0, before, 0, (MESSAGES + 1) / 2);
	gpu_synchronize();
	for (int i = 0; i < MESSAGES; i += 2)
		r->faults += memcmp(r->to[i], r->from[i], BYTES) != 0;
}

int test_messages_alone(void)
{
	return run(run_messages);
}

/* Each call sends on, on another stream, what the one before has received. */
static void chain(struct run *r)
{
	memset(r->to, 0, sizeof r->to);
	memset(r->from[0], 7, sizeof r->from[0]);
	for (int i = 0; i < MESSAGES; i++) {
		struct call m = world_send(0, i ? r->to[i - 1] : r->from[0], BYTES, CORALE_UINT8), c = m;
		m.recv = c.recv = r->to[i];
		c.record.coll = CORALE_ALL_GATHER;
		struct engine *e = &r->world.engines[0];
		r->faults += (i % 2 ? engine_run(e, &c, NULL, GPU_STREAM(i % 3))
				    : engine_run_messages(e, &m, 1, GPU_STREAM(i % 3))) != 0;
	}
	script_synchronize();
	for (int i = 0; i < MESSAGES; i++)
		r->faults += memcmp(r->to[i], r->from[0], BYTES) != 0;
}

static void run_chains(int rank, void *arg)
{
	for (int i = 0; i < CHAINS; i++)
		chain(arg);
}

int test_streams_alone(void)
{
	return run(run_chains);
}
