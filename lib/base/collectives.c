/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives.h"

const struct collective coll_table[CORALE_NUM_COLLS] = {
	[CORALE_ALL_REDUCE] = { "all_reduce", COLL_ONE, COLL_ONE, .folds = 1 },
	[CORALE_ALL_GATHER] = { "all_gather", COLL_ONE, COLL_EACH },
	[CORALE_REDUCE_SCATTER] = { "reduce_scatter", COLL_EACH, COLL_ONE, .folds = 1 },
	[CORALE_BROADCAST] = { "broadcast", COLL_ONE, COLL_ONE, .rooted = 1, .root_sends = 1 },
	[CORALE_ALL_TO_ALL] = { "all_to_all", COLL_EACH, COLL_EACH },
	[CORALE_ALL_TO_ALL_V] = { "all_to_all_v", COLL_UNEVEN, COLL_UNEVEN },
	[CORALE_SEND] = { "send", COLL_ONE, COLL_NONE, .pair = 1 },
	[CORALE_RECV] = { "recv", COLL_NONE, COLL_ONE, .pair = 1 },
	[CORALE_BARRIER] = { "barrier", COLL_NONE, COLL_NONE },
	[CORALE_REDUCE] = { "reduce", COLL_ONE, COLL_ONE, .folds = 1, .rooted = 1, .root_receives = 1 },
	[CORALE_GATHER] = { "gather", COLL_ONE, COLL_EACH, .rooted = 1, .root_receives = 1 },
	[CORALE_SCATTER] = { "scatter", COLL_EACH, COLL_ONE, .rooted = 1, .root_sends = 1 },
	[CORALE_ALL_GATHER_V] = { "all_gather_v", COLL_ONE, COLL_UNEVEN, .counts_agree = 1 },
	[CORALE_REDUCE_SCATTER_V] = { "reduce_scatter_v", COLL_UNEVEN, COLL_ONE, .folds = 1,
				      .counts_agree = 1 },
	[CORALE_GATHER_V] = { "gather_v", COLL_ONE, COLL_UNEVEN, .rooted = 1, .root_receives = 1 },
	[CORALE_SCATTER_V] = { "scatter_v", COLL_UNEVEN, COLL_ONE, .rooted = 1, .root_sends = 1 },
};
