/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks on several nodes: calls of all kinds in turn, by the kernels and the proxies of lib/net/proxy.c. */
#include "emulation_test.h"

#include "plan/codelet/row.h"
#include "script.h"
#include "test/helpers/thin.h"
#include "test/helpers/row_find.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

enum { MOST_NODES = 5, SLOT = 2 << 10 };

static const int nodes[][MOST_NODES + 1] = { { 2, 1 },    { 1, 1 },       { 2, 2 },
					     { 3, 1, 2 }, { 2, 2, 2, 2 }, { 1, 1, 1, 1, 1 } };

enum { BOTH_RAILS = 3, WAYS = REMOTE_WAYS };

/* The last world has both: first nodes, one rail each. Where tests are few and small it is the only one. */
int remote_nodes(int i, struct world_params *p)
{
	const int worlds = test_thin ? 0 : WAYS * (int)COUNT(nodes), mixed = i == worlds;
	if (i > worlds)
		return 0;
	p->nodes = nodes[mixed ? 0 : i / WAYS];
	p->slab_rails = mixed ? 1 + (unsigned)test_seed % 2 : i % WAYS ? BOTH_RAILS : 0;
	p->ranks = 0;
	for (int node = 0; p->nodes[node]; node++)
		p->ranks += p->nodes[node];
	return 1;
}

int remote_is_drawn(int i)
{
	return i < WAYS || i / WAYS == 1 + (int)(test_seed % (COUNT(nodes) - 1));
}

/* One connection's slots after the other, of all sizes, by lowered plans and by edges. */
static void add_calls(struct script *s)
{
	static const struct {
		corale_coll coll;
		const char *algo; /* NULL: edges */
	} kinds[] = { { CORALE_ALL_REDUCE, "ring" },     { CORALE_ALL_TO_ALL_V, NULL },
		      { CORALE_BROADCAST, "binomial" },  { CORALE_ALL_REDUCE, "oneshot" },
		      { CORALE_ALL_TO_ALL, "pairwise" }, { CORALE_ALL_TO_ALL, NULL },
		      { CORALE_ALL_TO_ALL_V, NULL },     { CORALE_ALL_GATHER, "ring" } };
	static const size_t counts[] = { 1, 4000, 100, 700, 9000 };
	for (int i = 0; i < (test_thin ? 14 : 70); i++) {
		struct test_call c = { .coll = kinds[(size_t)i % COUNT(kinds)].coll, .type = CORALE_INT32 };
		const char *algo = kinds[(size_t)i % COUNT(kinds)].algo;
		c.codelet = algo ? NULL : &p2p_codelet;
		c.row = algo ? row_find(c.coll, algo) : 0;
		c.count = counts[((size_t)i + test_seed) % COUNT(counts)];
		c.single_channel = !c.codelet && i % 3 == 2;
		c.root = c.coll == CORALE_BROADCAST ? i % s->params.ranks : 0;
		script_add(s, c);
	}
}

/* Edges of a call are in several launches, as those of very many ranks. Of the worlds behind the first group's TEST_DRAW takes one in five. */
int test_remote_in_turn(void)
{
	struct world_params p = {
		.max_blocks = 4, .window_bytes = 512 << 10, .remote_slot = SLOT, .edges_at_once = 1
	};
	int faults = 0;
	for (int i = 0; !faults && remote_nodes(i, &p); i++) {
		if ((i >= WAYS || world_in_host) && !thin_takes((uint64_t)i, 5))
			continue;
		struct script *s = script_new(p, test_seed);
		s->most_pause = 500;
		add_calls(s);
		faults = script_run(s);
	}
	return faults;
}

/* A fold of more messages of few bytes than its block has room for beside their slots. */
static int run_many(unsigned slab_rails)
{
	enum { NODES = 10, FEW = REMOTE_FEW_BYTES / 4 };
	static const int one_each[NODES + 1] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };
	static const size_t counts[] = { 1, FEW, FEW + 1, 3, 200, 0, 17 };
	const struct world_params p = { .ranks = NODES,
					.max_blocks = 1,
					.window_bytes = 512 << 10,
					.nodes = one_each,
					.remote_slot = SLOT,
					.slab_rails = slab_rails };
	struct script *s = script_new(p, test_seed);
	s->most_pause = 500;
	for (size_t i = 0; i < COUNT(counts); i += test_thin ? 3 : 1)
		script_add(s, call_lowered(CORALE_ALL_REDUCE, "oneshot", CORALE_INT32,
					   counts[(i + test_seed) % COUNT(counts)]));
	return script_run(s);
}

int test_remote_many(void)
{
	if (test_thin)
		return run_many(test_seed % 2 ? BOTH_RAILS : 0);
	const int faults = run_many(0);
	return faults ? faults : run_many(BOTH_RAILS);
}
