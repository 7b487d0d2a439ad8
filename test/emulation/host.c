/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows in host memory: calls of all kinds that run there, in turn, by as many ranks as hosts without peer access have. */
#include "emulation_test.h"

#include "base/collectives.h"
#include "script.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

/* One call after the other cuts the same slots in another way; that of a rank which only sends is followed by any. */
static void add_calls(struct script *s, int calls)
{
	static const struct {
		const struct codelet *codelet;
		corale_coll coll;
		const char *algo; /* lowered */
	} kinds[] = {
		{ &bulk_codelet, CORALE_ALL_REDUCE, "" },     { NULL, CORALE_ALL_REDUCE, "oneshot" },
		{ &bulk_codelet, CORALE_ALL_GATHER, "" },     { NULL, CORALE_ALL_TO_ALL, "pairwise" },
		{ &bulk_codelet, CORALE_REDUCE_SCATTER, "" }, { &fifo_codelet, CORALE_ALL_TO_ALL_V, "" },
		{ &bulk_codelet, CORALE_BROADCAST, "" },      { NULL, CORALE_ALL_GATHER, "ring" },
		{ &bulk_codelet, CORALE_SCATTER, "" },        { &chain_codelet, CORALE_BROADCAST, "" },
		{ NULL, CORALE_ALL_TO_ALL_V, "pairwise" },    { &bulk_codelet, CORALE_REDUCE, "" },
		{ NULL, CORALE_BROADCAST, "scatter" },        { &bulk_codelet, CORALE_ALL_TO_ALL, "" },
		{ NULL, CORALE_ALL_REDUCE, "twoshot" },       { &bulk_codelet, CORALE_GATHER, "" },
	};
	static const size_t counts[] = { 1, 3000, 16, 9000, 33 };
	for (int i = 0; i < calls; i++) {
		const size_t turn = (size_t)i * 5 + test_seed, k = turn % COUNT(kinds);
		struct test_call c = call_by(kinds[k].codelet, kinds[k].coll, CORALE_INT32,
					     counts[(turn + (size_t)i) % COUNT(counts)]);
		c.row = c.codelet ? 0 : row_find(c.coll, kinds[k].algo);
		c.in_lines = i % 2;
		c.root = coll_is_rooted(c.coll) ? (int)(turn % (size_t)s->params.ranks) : 0;
		script_add(s, c);
	}
}

int test_host_turns(void)
{
	const int ranks[] = { 3, 4, test_thin ? 5 : 8 }; /* the thread sanitizer has room for few lanes */
	int faults = 0;
	for (size_t i = 0; !faults && i < COUNT(ranks); i++) {
		const struct world_params p = { .ranks = ranks[i],
						.max_blocks = test_thin ? 1 : 2,
						.window_bytes = (size_t)ranks[i] << 16,
						.words_only = 1,
						.torn_lines = 1 };
		if (test_thin && i != test_seed % COUNT(ranks))
			continue;
		struct script *s = script_new(p, test_seed);
		s->most_pause = 2000;
		add_calls(s, test_thin ? 8 : 48);
		faults = script_run(s);
	}
	return faults;
}
