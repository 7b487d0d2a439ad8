/* Ranks on several nodes: calls of all kinds in turn, by the kernels and the proxies of lib/net/proxy.c. */
#include "emulation_test.h"

#include "plan/row.h"
#include "script.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

enum { MOST_NODES = 5, SLOT = 2 << 10 };

static const int nodes[][MOST_NODES + 1] = { { 2, 1 },    { 1, 1 },       { 2, 2 },
					     { 3, 1, 2 }, { 2, 2, 2, 2 }, { 1, 1, 1, 1, 1 } };

const int *remote_nodes(int i, int *ranks)
{
	*ranks = 0;
	if (i >= (test_thin ? 1 : (int)COUNT(nodes)))
		return NULL;
	for (int node = 0; nodes[i][node]; node++)
		*ranks += nodes[i][node];
	return nodes[i];
}

int remote_drawn(void)
{
	return 1 + (int)(test_seed % (COUNT(nodes) - 1));
}

/* One lane's slots after the other, of all sizes, by lowered plans and by edges. */
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
		c.codelet = algo ? CODELET_NONE : CODELET_SLOTS;
		c.row = algo ? row_find(c.coll, algo) : 0;
		c.count = counts[((size_t)i + test_seed) % COUNT(counts)];
		c.narrow = !c.codelet && i % 3 == 2;
		c.root = c.coll == CORALE_BROADCAST ? i % s->params.ranks : 0;
		script_add(s, c);
	}
}

/* Edges of a call are in several launches, as those of very many ranks. */
int test_remote_in_turn(void)
{
	struct world_params p = {
		.max_blocks = 4, .window_bytes = 512 << 10, .remote_slot = SLOT, .edges_at_once = 1
	};
	int faults = 0;
	for (int i = 0; !faults && (p.nodes = remote_nodes(i, &p.ranks)); i++) {
		struct script *s = script_new(p, test_seed);
		s->most_pause = 500;
		add_calls(s);
		faults = script_run(s);
	}
	return faults;
}
