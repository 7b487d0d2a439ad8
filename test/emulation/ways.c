/* SPDX-License-Identifier: BSD-3-Clause */
/* Every way in which a call may go: broadcasts from each root by each codelet, slots through scratch, premultiplied sums. */
#include "emulation_test.h"

#include <stdio.h>

#include "test/helpers/op_sets.h"
#include "script.h"
#include "base/collectives.h"
#include "base/status.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

enum { KIB = 1024, CHUNK = 8 * KIB /* of scratch: messages take turns in its slots */ };

static int run_named(struct script *s, const char *what)
{
	int faults = script_run(s);
	if (faults)
		printf("# %s\n", what);
	return faults;
}

/* ---- Broadcasts -------------------------------------------------------------------------------------------- */

/* Of bytes, at addresses of all kinds; every other one in place. */
static void add_broadcasts(struct script *s, struct test_call c, const size_t *bytes, size_t n)
{
	static const unsigned shifts[] = { 0, 1, 4, 8, 13, 16, 30, 64 };
	c.coll = CORALE_BROADCAST;
	c.type = CORALE_UINT8;
	for (size_t i = 0; i < n; i++)
		for (c.root = 0; c.root < s->params.ranks; c.root++) {
			size_t turn = i + (size_t)c.root + test_seed;
			c.count = bytes[i];
			c.send_shift = shifts[turn % COUNT(shifts)];
			c.recv_shift = i % 2 ? c.send_shift : shifts[turn / 2 % COUNT(shifts)];
			c.in_place = i % 2 && c.root % 2;
			script_add(s, c);
		}
}

static int broadcasts(struct world_params p, struct test_call c, int most_ranks, const size_t *bytes,
		      size_t n)
{
	int faults = 0;
	most_ranks = test_thin && most_ranks > 3 ? 3 : most_ranks;
	for (p.ranks = test_thin ? 3 : 2; !faults && p.ranks <= most_ranks; p.ranks++) {
		struct script *s = script_new(p, test_seed);
		s->most_pause = 300;
		add_broadcasts(s, c, bytes, n);
		faults = run_named(s, codelet_kind_name(c.codelet));
	}
	return faults;
}

/* The sizes around vectors, lines, parts of all ranks, and those beyond the packets' room. */
int test_broadcasts(void)
{
	static const size_t tiny[] = { 1, 121, 0, 2, 3, 15, 16, 17, 119, 120, 959, 960, 961, 4000 };
	static const size_t large[] = { 50001, 511, 1, 512, 513, 1999, 2048, 23039, 23040, 23041, 90001 };
	struct world_params p = { .max_blocks = 2, .window_bytes = 512 * KIB };
	size_t n = test_thin ? 2 : COUNT(tiny);
	int faults = broadcasts(p, (struct test_call){ .codelet = &one_shot_codelet }, 5, tiny, n);
	if (!faults) /* as far as there are kernels for it */
		faults = broadcasts(p, (struct test_call){ .codelet = &two_shot_codelet }, CODELET_FEW_RANKS,
				    tiny, n);
	n = test_thin ? 2 : COUNT(large);
	return faults ? faults
		      : broadcasts(p, (struct test_call){ .codelet = &two_shot_codelet }, CODELET_FEW_RANKS,
				   large, n);
}

/* From one message to so many of every warp group that their slots come round, or straight into registered memory. */
static int by_slots(int blocks)
{
	static const size_t bytes[] = { 30001, 1, 127, 129, 4095, 6145, 70001 };
	static const size_t direct[] = { 30001, 1, 129, 8192, 150000 };
	struct world_params p = { .max_blocks = blocks, .window_bytes = 160 * KIB };
	struct test_call c = { .codelet = &fifo_codelet };
	int faults = broadcasts(p, c, 5, bytes, test_thin ? 2 : COUNT(bytes));
	c.place = 1;
	return faults ? faults : broadcasts(p, c, 5, direct, test_thin ? 2 : COUNT(direct));
}

int test_broadcasts_in_slots(void)
{
	int faults = 0;
	for (int blocks = 1; !faults && blocks <= (test_thin ? 1 : 3); blocks += 2)
		faults = by_slots(blocks);
	return faults;
}

/* ---- Through scratch ---------------------------------------------------------------------------------------- */

/* In turn with calls through the window, whose flags are the same; broadcasts in turn with calls that cut the same slots in another way and
 * do not wait for anybody before they fill them. */
static int through_scratch(struct world_params p, corale_coll coll, int place)
{
	static const size_t counts[] = { 1, 9000, 31, 2500 };
	int sums = coll_folds(coll);
	struct script *s = script_new(p, test_seed);
	struct test_call c = { .coll = coll, .codelet = test_slots_codelet(coll) };
	s->most_pause = 300;
	for (int i = 0; i < (test_thin ? 4 : 12); i++) {
		if (coll == CORALE_BROADCAST)
			c.coll = i % 2 ? CORALE_ALL_GATHER : coll;
		c.root = i % p.ranks;
		c.type = sums ? type_of_codelets((size_t)i * 5 + 8) : CORALE_INT32;
		c.op = sums ? op_of_codelets(c.type, (size_t)i) : 0;
		c.count = counts[i % 4];
		c.scratch = i % 3 != 2;
		c.place = (size_t)place;
		c.send_shift = i % 4 == 3 ? 3 : 0;
		c.in_place = coll == CORALE_ALL_REDUCE && i % 5 == 4;
		script_add(s, c);
	}
	return run_named(s, corale_coll_name(coll));
}

/* In turn with calls by copies, whose last pieces are still taken out of scratch, or folded, when another rank's next call begins. */
static int after_copies(struct world_params p, corale_coll coll, int place)
{
	static const size_t counts[] = { 9000, 2500 };
	struct script *s = script_new(p, test_seed);
	struct test_call c = { .coll = coll, .type = CORALE_INT32, .scratch = 1 };
	s->most_pause = 3000;
	for (int i = 0; i < (test_thin ? 4 : 12); i++) {
		c.codelet = i % 2 ? test_slots_codelet(coll) : &copies_codelet;
		c.count = counts[i / 2 % 2];
		c.place = (size_t)(place && i % 2);
		script_add(s, c);
	}
	return run_named(s, corale_coll_name(coll));
}

/* An all_reduce also with results that go straight into registered memory. */
static int each_collective(int (*run)(struct world_params p, corale_coll coll, int place), int most_ranks)
{
	static const corale_coll colls[] = { CORALE_ALL_REDUCE, CORALE_REDUCE_SCATTER, CORALE_ALL_GATHER,
					     CORALE_ALL_TO_ALL, CORALE_BROADCAST };
	int faults = 0;
	for (size_t i = 0; !faults && i < COUNT(colls); i++)
		for (int ranks = 2; !faults && ranks <= (test_thin ? 2 : most_ranks); ranks++) {
			struct world_params p = { .ranks = ranks,
						  .max_blocks = 1 + ranks % 2,
						  .window_bytes = 160 * KIB,
						  .scratch_chunk = CHUNK };
			faults = run(p, colls[i], 0);
			if (!faults && colls[i] == CORALE_ALL_REDUCE)
				faults = run(p, colls[i], 1);
		}
	return faults;
}

int test_scratch(void)
{
	return each_collective(through_scratch, 4);
}

int test_after_copies(void)
{
	return each_collective(after_copies, 3);
}

/* ---- Premultiplied sums ------------------------------------------------------------------------------------- */

static const struct way {
	const struct codelet *codelet;
	corale_coll coll;
	size_t count; /* elements at most */
	int most_ranks, scratch;
} sums[] = {
	{ &one_shot_codelet, CORALE_ALL_REDUCE, 130, 5, 0 },
	{ &one_shot_codelet, CORALE_REDUCE_SCATTER, 130, 5, 0 },
	{ &two_shot_codelet, CORALE_ALL_REDUCE, 700, 5, 0 },
	{ &bulk_codelet, CORALE_REDUCE_SCATTER, 3000, 3, 0 },
	{ &bulk_codelet, CORALE_REDUCE_SCATTER, 3000, 3, 1 },
	{ &bulk_codelet, CORALE_ALL_REDUCE, 5000, 3, 0 },
	{ &bulk_codelet, CORALE_ALL_REDUCE, 5000, 3, 1 },
	{ &bulk_codelet, CORALE_REDUCE, 5000, 3, 0 },
};

/* Each way, by two ranks and by more. */
static int run_ways(const struct way *ways, size_t n, int (*run)(const struct way *way, int ranks))
{
	int faults = 0;
	for (size_t i = 0; !faults && i < n; i++)
		for (int ranks = 2; !faults && ranks <= ways[i].most_ranks; ranks += test_thin ? 4 : 1)
			faults = run(&ways[i], ranks);
	return faults;
}

/* Each type, so that each has its own multiplication; small counts in each way. */
static int premultiplied(const struct way *way, int ranks)
{
	struct world_params p = {
		.ranks = ranks, .max_blocks = 1, .window_bytes = 512 * KIB, .scratch_chunk = CHUNK
	};
	struct script *s = script_new(p, test_seed);
	for (int i = 0; i < 2 * CORALE_NUM_TYPES; i += test_thin ? 11 : 1) {
		if (!(type_codelet_ops(i % CORALE_NUM_TYPES) >> CORALE_NUM_OPS & 1))
			continue;
		struct test_call c = { .codelet = way->codelet,
				       .coll = way->coll,
				       .type = (corale_type)(i % CORALE_NUM_TYPES),
				       .op = CORALE_NUM_OPS,
				       .scalar_changes = (i / CORALE_NUM_TYPES + i) % 2,
				       .count = i < CORALE_NUM_TYPES ? way->count : 5,
				       .scratch = way->scratch,
				       .send_shift = i % 3 == 2 ? 1 : 0 };
		script_add(s, c);
	}
	return run_named(s, codelet_kind_name(way->codelet));
}

int test_premultiplied(void)
{
	return run_ways(sums, COUNT(sums), premultiplied);
}

/* ---- Uneven sums ----------------------------------------------------------------------------------------------- */

/* Blocks of none to one and a half times the count, whose places are odd; by each codelet of a reduce_scatter, and lowered. */
static const struct way uneven[] = { { &one_shot_codelet, CORALE_REDUCE_SCATTER_V, 90, 5, 0 },
				     { &bulk_codelet, CORALE_REDUCE_SCATTER_V, 1500, 3, 0 },
				     { &bulk_codelet, CORALE_REDUCE_SCATTER_V, 3000, 3, 1 },
				     { &copies_codelet, CORALE_REDUCE_SCATTER_V, 5000, 4, 1 } };

/* In place everywhere, at the front and elsewhere. */
static int uneven_sums(const struct way *way, int ranks)
{
	struct world_params p = {
		.ranks = ranks, .max_blocks = 1, .window_bytes = 512 * KIB, .scratch_chunk = CHUNK
	};
	struct script *s = script_new(p, test_seed);
	s->most_pause = 300;
	for (size_t i = 0; i < (test_thin ? 3 : 12); i++) {
		struct test_call c = { .codelet = way->codelet,
				       .coll = way->coll,
				       .type = type_of_codelets(i * 5 + 8),
				       .count = i % 4 == 3 ? 2 : way->count - i,
				       .scratch = way->scratch,
				       .in_place = (int)i % 3,
				       .rounds = way->codelet == &copies_codelet ? 1 : 1 + i % 4 / 2,
				       .send_shift = i % 5 == 4 ? 3 : 0 };
		c.op = op_of_codelets(c.type, i);
		if (way->codelet == &copies_codelet && c.op == CORALE_NUM_OPS) /* which copies do not run */
			c.op = CORALE_SUM;
		script_add(s, c);
	}
	return run_named(s, codelet_kind_name(way->codelet));
}

int test_uneven_sums(void)
{
	return run_ways(uneven, COUNT(uneven), uneven_sums);
}
