/* SPDX-License-Identifier: BSD-3-Clause */
/* What a call must leave in the receive buffer. */
#include <stdlib.h>

#include "check_internal.h"
#include "base/collectives.h"

/* Where in rank b's send buffer the block for me begins: behind one gap before each block up to mine, if it has a block for each rank. */
static size_t sent_at(const struct world *world, int coll, int b, int me)
{
	size_t at = (size_t)me + 1;
	if (coll_table[coll].send != COLL_UNEVEN)
		return 0;
	for (int d = 0; d < me; d++)
		at += world_block(world, coll, b, d);
	return at;
}

/* The same of a v-form. */
static size_t wanted_uneven(const struct world *world, const struct rank *rank, int me, size_t i, int *from)
{
	const size_t *counts = rank->arrays[2], *displs = rank->arrays[3];
	const int coll = rank->plan->key.coll;
	if (!counts) { /* one block */
		*from = coll_folds(coll) ? -1 : world->options->root;
		return sent_at(world, coll, *from < 0 ? me : *from, me) + i;
	}
	for (int b = 0; b < world->map->ranks; b++) {
		if (i - displs[b] >= counts[b])
			continue;
		*from = b;
		return sent_at(world, coll, b, me) + i - displs[b];
	}
	*from = PLAN_NONE - 1; /* a gap: nothing */
	return 0;
}

/* Index of the contributors' element that belongs into recv[i]; *from: its one contributor, or -1: all of them. */
static size_t wanted(const struct world *world, const struct rank *rank, int me, size_t i, int *from)
{
	const struct check_options *o = world->options;
	size_t count = o->count;
	int coll = rank->plan->key.coll;
	if (coll_is_uneven(coll))
		return wanted_uneven(world, rank, me, i, from);
	*from = coll_receives_each(coll) ? (int)(i / count)
		: coll_is_pair(coll)     ? world->from
		: coll_folds(coll)       ? -1
					 : o->root;
	return (coll_sends_each(coll) ? (size_t)me * count : 0) + i % count;
}

static int verify_fold(struct world *world, const struct rank *rank, int me, size_t i)
{
	const struct context *c = &rank->contexts[0];
	const struct cell *cell = &rank->cells[rank->recv_at + i];
	int node = value_node(cell->value), call = rank->call;
	int from;
	const size_t at = wanted(world, rank, me, i, &from);
	if (!fold_is_complete(&world->folds, node))
		return world_fail(world, c, "at the end recv[%zu] holds %d of %d contributions%s", i,
				  world->folds.nodes[node].contributors, world->map->ranks,
				  world->folds.nodes[node].final ? "" : ", unfinished");
	world->in_rank_order &= fold_in_rank_order(&world->folds, node);
	if (!world->expected[call][at])
		world->expected[call][at] = cell->value;
	if (world->expected[call][at] != cell->value)
		return world_fail(world, c,
				  "at the end recv[%zu] was folded in another order than on another rank", i);
	return 0;
}

static int verify_element(struct world *world, const struct rank *rank, int me, size_t i)
{
	const struct context *c = &rank->contexts[0];
	const struct cell *cell = &rank->cells[rank->recv_at + i];
	int from;
	size_t element = wanted(world, rank, me, i, &from);
	if (from < PLAN_NONE)
		return cell->written
			   ? world_fail(world, c, "recv[%zu] lies between blocks but was written", i)
			   : 0;
	if (!cell->written)
		return world_fail(world, c, "at the end recv[%zu] was never written", i);
	if (value_element(cell->value) != element)
		return world_fail(world, c, "at the end recv[%zu] holds element %zu, not %zu", i,
				  value_element(cell->value), element);
	if (from < 0)
		return verify_fold(world, rank, me, i);
	if (value_node(cell->value) != from)
		return world_fail(world, c, "at the end recv[%zu] holds an element of another rank than %d",
				  i, from);
	return 0;
}

int world_verify(struct world *world, const struct rank *rank)
{
	int me = (int)(rank - world->ranks), ret = 0;
	const size_t n = (size_t)world->map->ranks;
	if (!rank->plan || !coll_has_data(rank->plan->key.coll))
		return 0;
	if (!world->expected[rank->call]) {
		world->expected[rank->call] = calloc(n * (world->options->count + 1) + 1, sizeof(uint64_t));
		if (!world->expected[rank->call])
			return world_fail(world, NULL, "out of memory");
	}
	for (size_t i = 0; i < rank->recv_count && !ret; i++)
		ret = verify_element(world, rank, me, i);
	return ret;
}
