/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bases of expressions (plan.h): how each prints, whether it depends on a loop, what the cost model makes of it. Distances of rounds are digit x radix^round. A
 * position is how far a member is behind the root's index in its group: a binomial tree over positions has parent and child of a level as bases, so one loop serves every
 * member, and a child that there is not is none. Windows are numbered 1 (the whole chunk), 2 w and 2 w + 1 (the halves of w): recursive halving names by two bases the
 * half that a member keeps and the one that it gives away.
 */
#include "plan.h"

const struct plan_base_info plan_bases[PLAN_BASES] = {
	[PLAN_CONST] = { "", .symmetry = PLAN_EQUAL },
	[PLAN_ME] = { "%m", .symmetry = PLAN_ROTATED },
	[PLAN_AHEAD] = { "-%m", .symmetry = PLAN_ROTATED },
	[PLAN_ROOT] = { "%r" },
	[PLAN_OTHERS] = { "others(%m)" },
	[PLAN_SIZE] = { "%s", .symmetry = PLAN_EQUAL },
	[PLAN_OWNED] = { "owned", .symmetry = PLAN_EQUAL },
	[PLAN_CHUNKS] = { "chunks", .symmetry = PLAN_EQUAL, .counts_chunks = 1 },
	[PLAN_DOUBLING_STEPS] = { "log2(%s)", .symmetry = PLAN_EQUAL },
	[PLAN_DOUBLING_GIVE] = { "give(%s)", PLAN_ALONE },
	[PLAN_DOUBLING_TAKE] = { "take(%s)", PLAN_ALONE, .wait = PLAN_WAIT_EACH },
	[PLAN_DOUBLING] = { "partner(%s, %v)", PLAN_AT_STEP, .wait = PLAN_WAIT_EACH },
	[PLAN_HALVING_KEPT] = { "kept(%s, %v)", PLAN_AT_STEP, .is_window = 1 },
	[PLAN_HALVING_GIVEN] = { "given(%s, %v)", PLAN_AT_STEP, .is_window = 1 },
	[PLAN_POSITION] = { "%(%m-%r mod %s%)", PLAN_BESIDE },
	[PLAN_TREE_PARENT] = { "parent(%s)", PLAN_ALONE },
	[PLAN_TREE_CHILD] = { "child(%s, %v)", PLAN_AT_STEP, .wait = PLAN_WAIT_EACH },
	[PLAN_TREE_BLOCKS] = { "subtree(%s, %v)", PLAN_AT_STEP },
	[PLAN_TREE_OWN] = { "subtree(%s)", PLAN_BESIDE },
	[PLAN_ROUNDS] = { "levels(%s%x)", .symmetry = PLAN_EQUAL },
	[PLAN_BRUCK_PEER] = { "%m%+%d", PLAN_BY_DISTANCE, .wait = PLAN_WAIT_EACH, .symmetry = PLAN_ROTATED },
	[PLAN_BRUCK_BLOCKS] = { "min(%p, %s-%d)", PLAN_BY_DISTANCE, .symmetry = PLAN_EQUAL },
	[PLAN_BRUCK_DISTANCE] = { "%d", PLAN_BY_DISTANCE, .symmetry = PLAN_EQUAL },
	[PLAN_BRUCK_SET] = { "numbers below %s with %d", PLAN_BY_DISTANCE, .symmetry = PLAN_EQUAL },
	[PLAN_RAIL_OF] = { "owned(%a, %i)", PLAN_OF_VARIABLE, .operands = 1, .symmetry = PLAN_EQUAL },
	[PLAN_SEND_CHUNKS] = { "chunks to %a", PLAN_OF_OPERANDS, .operands = 1, .counts_chunks = 1 },
	[PLAN_RECV_CHUNKS] = { "chunks from %a", PLAN_OF_OPERANDS, .operands = 1, .counts_chunks = 1 },
	[PLAN_RANK_AT] = { "rank(%a, %b)", PLAN_OF_OPERANDS, .operands = 2, .wait = PLAN_WAIT_FIRST,
			   .symmetry = PLAN_EQUAL },
};
