/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of graphs and others, between which exports open, die, and leave their indexes to others: which way each call goes, and its results. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulation_test.h"
#include "calls.h"
#include "script.h"

enum { RANKS = 2, BYTES = 300000, OTHER_BYTE = 0xc3 };

/* A call of both ranks, or a message of each to the other one. */
struct replays {
	struct world world;
	struct test_call call; /* count 0: messages */
	struct started started[RANKS];
	int step, faults[RANKS];
};

static unsigned char content(const struct replays *p, int from, size_t i)
{
	return (unsigned char)(i * 7 + i / 251 + (size_t)(from * 31 + p->step * 5) + test_seed);
}

static int check_received(const struct replays *p, int rank, const unsigned char *got)
{
	for (size_t i = 0; i < BYTES; i++)
		if (got[i] != content(p, !rank, i)) {
			printf("# rank %d: byte %zu of its message is 0x%02x, expected 0x%02x\n", rank, i,
			       got[i], content(p, !rank, i));
			return 1;
		}
	return 0;
}

static int exchange(struct replays *p, int rank)
{
	unsigned char *sent = exports_take(rank, BYTES), *received = exports_take(rank, BYTES);
	const struct call messages[] = { world_send(!rank, sent, BYTES, CORALE_UINT8),
					 world_receive(!rank, received, BYTES, CORALE_UINT8) };
	for (size_t i = 0; i < BYTES; i++)
		sent[i] = content(p, rank, i);
	memset(received, OTHER_BYTE, BYTES);
	int faults = engine_run_messages(&p->world.engines[rank], messages, 2, NULL) != 0;
	gpu_synchronize();
	faults += check_received(p, rank, received);
	exports_give(sent);
	exports_give(received);
	return faults;
}

static void act(int rank, void *arg)
{
	struct replays *p = arg;
	struct started *s = &p->started[rank];
	if (!p->call.count) {
		p->faults[rank] += exchange(p, rank);
	} else {
		p->faults[rank] += call_start(s, &p->world, rank, &p->call, call_signature(&p->call)) != 0;
		gpu_synchronize();
		p->faults[rank] += call_finish(s);
	}
	p->faults[rank] += script_print_failure(&p->world.engines[rank]);
}

/* Whether a rank's slots hold anything; from now on they don't. */
static int take_slots(struct replays *p, int rank)
{
	const struct codelet_layout *l = &p->world.layout;
	unsigned char *window = p->world.windows + (size_t)rank * p->world.engines[rank].stride;
	int used = 0;
	for (uint64_t at = l->slots; at < l->bytes; at++)
		used |= window[at];
	memset(window + l->slots, 0, l->bytes - l->slots);
	return used != 0;
}

static void capture(void)
{
	exports_capture(1);
}

static void call_anew(void)
{
	exports_capture(0);
}

static const struct step {
	const char *is;
	void (*before)(void);
	int by_slots;
} steps[] = {
	{ "as it is captured, before an export is open", capture, 1 },
	{ "replayed when the exports are open", exports_open_all, 0 },
	{ "replayed when others have the exports' indexes", exports_replace, 1 },
	{ "made anew, with these", call_anew, 0 },
	{ "made again, when others have their indexes", exports_replace, 0 },
	{ "made once more, when others have theirs", exports_replace, 0 },
};

enum { STEPS = sizeof steps / sizeof *steps };

static int run_step(struct replays *p, unsigned lists_ranks)
{
	const struct step *step = &steps[p->step];
	int faults = 0;
	step->before();
	if (gpu_run(RANKS, act, p, test_seed + (uint64_t)p->step))
		return -1;
	for (int r = 0; r < RANKS; r++) {
		const int by_slots = take_slots(p, r), expected = step->by_slots || lists_ranks >> r & 1;
		if (by_slots != expected)
			printf("# rank %d: it went %s\n", r, by_slots ? "by slots" : "in place");
		faults += p->faults[r] + (by_slots != expected);
	}
	if (faults)
		printf("# that was %s, %s\n", p->call.count ? corale_coll_name(p->call.coll) : "a message",
		       step->is);
	return faults;
}

/* lists_ranks: whose messages the kernel p2p runs, which reads none. */
static int run_steps(const struct test_call *call, unsigned lists_ranks)
{
	struct replays p = { .call = *call };
	const struct world_params params = { .ranks = RANKS,
					     .max_blocks = 1 + (int)(test_seed % 2),
					     .window_bytes = RANKS << 17,
					     .exports = EXPORTS_BY_HAND,
					     .exports_apart = 1,
					     .lists_ranks = lists_ranks };
	int faults = 0;
	if (world_open(&p.world, &params))
		return 1;
	for (; !faults && p.step < STEPS; p.step++)
		faults = run_step(&p, lists_ranks);
	if (faults >= 0)
		world_close(&p.world);
	return faults;
}

int test_zero_copy_replays(void)
{
	const struct test_call calls[] = {
		call_by(&bulk_codelet, CORALE_ALL_REDUCE, CORALE_FLOAT32, 3000),
		call_by(&bulk_codelet, CORALE_ALL_GATHER, CORALE_INT32, 3000),
		call_by(&bulk_codelet, CORALE_REDUCE_SCATTER, CORALE_INT32, 3000),
		call_by(&bulk_codelet, CORALE_ALL_TO_ALL, CORALE_INT8, 9000),
	};
	int faults = 0;
	for (size_t i = 0; !faults && i < sizeof calls / sizeof *calls; i++) {
		struct test_call c = calls[i];
		c.zero_copy = 1;
		c.seed = test_seed;
		faults = run_steps(&c, 0);
	}
	return faults;
}

/* Both edges of the all_to_all_v are long. */
int test_read_replays(void)
{
	const struct test_call messages = { .count = 0 }, edges = { .codelet = &fifo_codelet,
								    .coll = CORALE_ALL_TO_ALL_V,
								    .type = CORALE_INT32,
								    .count = 50000,
								    .zero_copy = 1,
								    .seed = 20 };
	int faults = 0;
	for (unsigned lists_ranks = 0; !faults && lists_ranks < 2; lists_ranks++) {
		faults = run_steps(&messages, lists_ranks);
		faults = faults ? faults : run_steps(&edges, lists_ranks);
	}
	return faults;
}
