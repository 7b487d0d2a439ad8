/* SPDX-License-Identifier: BSD-3-Clause */
#include "choices.h"

#include <string.h>

#include "base/collectives.h"
#include "base/hash.h"

static uint64_t add_number(uint64_t hash, uint64_t number)
{
	return hash_bytes(hash, &number, sizeof number);
}

/* ---- What is looked at ------------------------------------------------------------------------------------ */

static uint64_t add_link(uint64_t hash, const struct topo_link *link)
{
	const double numbers[] = { link->latency_ns, link->bytes_per_ns, link->send_ns, link->recv_ns,
				   link->gap_ns };
	return hash_bytes(hash, numbers, sizeof numbers);
}

static uint64_t add_topo(uint64_t hash, const struct topo *topo)
{
	const double numbers[] = { topo->reduce_bytes_per_ns, topo->step_ns,
				   topo->fused_step_ns,       topo->turn_ns,
				   topo->reference_bytes,     topo->net_bytes_per_ns };
	hash = add_number(hash, (uint64_t)topo->map.ranks);
	hash = hash_bytes(hash, topo->map.node_of, (size_t)topo->map.ranks * sizeof *topo->map.node_of);
	hash = add_link(add_link(hash, &topo->node), &topo->rail);
	hash = hash_bytes(hash, numbers, sizeof numbers);
	hash = add_number(hash, (uint64_t)topo->proxied << 1 | (uint64_t)topo->shared_memory);
	return add_number(hash, (uint64_t)topo->cores_per_rank_x16);
}

static uint64_t add_rates(uint64_t hash, const struct rates *rates)
{
	const double numbers[] = { rates->link_gbs,   rates->faster,    rates->later_us,
				   rates->memory_gbs, rates->step_us,   rates->hop_us,
				   rates->chunk_us,   rates->pieces_us, rates->last_bytes };
	hash = add_number(hash, rates->generation);
	hash = hash_bytes(hash, rates->block_gbs, sizeof rates->block_gbs);
	hash = hash_bytes(hash, numbers, sizeof numbers);
	return add_number(add_number(hash, rates->scratch_bytes), (uint64_t)rates->measured_ranks);
}

/* Nodes may have several sizes: ranks of the same node count in one node alone. */
static uint64_t add_machine(uint64_t hash, const struct gpu_machine *machine)
{
	const uint64_t numbers[] = { machine->over_nodes ? 0 : (uint64_t)machine->ranks,
				     (uint64_t)machine->max_blocks,
				     (uint64_t)machine->zero_ctas,
				     (uint64_t)machine->forced,
				     (uint64_t)machine->words_only | (uint64_t)machine->host_window << 1,
				     machine->words_bytes,
				     machine->lines_bytes,
				     machine->slots_bytes,
				     machine->over_nodes ? 0 : machine->scratch_bytes,
				     (uint64_t)machine->resident,
				     (uint64_t)machine->over_nodes << 1 | (uint64_t)machine->many_far };
	hash = add_rates(hash, machine->rates);
	hash = hash_bytes(hash, machine->refused, sizeof machine->refused);
	return hash_bytes(hash, numbers, sizeof numbers);
}

static uint64_t add_planner(uint64_t hash, const struct planner *p)
{
	const uint64_t numbers[] = { p->slot_bytes,
				     p->chunk_bytes,
				     (uint64_t)p->slots,
				     (uint64_t)p->max_channels,
				     (uint64_t)p->reproducible,
				     (uint64_t)p->most_channels,
				     (uint64_t)p->by_nodes << 1 | (uint64_t)p->gpus,
				     (uint64_t)p->single_class,
				     p->connection_ends };
	hash = hash_bytes(hash, numbers, sizeof numbers);
	return hash_bytes(hash, p->algo, strlen(p->algo));
}

uint64_t choices_hash_inputs(const struct planner *p)
{
	uint64_t hash = add_planner(add_topo(hash_start, p->topo), p);
	hash = p->single ? add_planner(hash, p->single) : hash;
	return p->machine ? add_machine(hash, p->machine) : hash;
}

/* ---- What is chosen --------------------------------------------------------------------------------------- */

/* A walk of all plans takes ms on large machines, so these are asked for one size alone. */
static const uint64_t sizes[] = { 8, (uint64_t)64 << 10, (uint64_t)16 << 20 };
enum { SIZES = sizeof sizes / sizeof *sizes, WALKED = 1 };

static uint64_t add_row(uint64_t hash, const struct row *row)
{
	hash = hash_bytes(hash, row->name, strlen(row->name));
	return add_number(hash,
			  (uint64_t)(row->codelet ? row->codelet->index : 0) << 8 | (uint64_t)row->protocol);
}

/* Of rows with a codelet: in all classes of memory. */
static uint64_t add_codelets(uint64_t hash, const struct gpu_machine *machine, corale_coll coll,
			     uint64_t bytes)
{
	for (int i = 0; i < 2 * PLAN_MEMORY_CLASSES; i++) {
		const struct plan_call call = { coll, bytes, i % 2, i / 2, PLAN_ALIGNED_16 };
		const struct row *row = planner_codelet(machine, &call);
		hash = row ? add_row(hash, row) : add_number(hash, 0);
	}
	return hash;
}

/* What the model likes best: whether its lists fit takes longer than creation may. */
static uint64_t add_plan(uint64_t hash, const struct planner *planner, corale_coll coll, uint64_t bytes)
{
	char error[256];
	struct planner_fits fits = { .assumed = 1 };
	struct plan plan;
	const struct plan_key key = planner_key(coll, bytes / sizeof(float), CORALE_FLOAT32, CORALE_SUM);
	if (planner_plan_plain(planner, &key, &fits, &plan, error, sizeof error))
		return add_number(hash, 0);
	hash = add_row(hash, row_table(&(int){ 0 }) + plan.algo);
	return add_number(add_number(hash, plan.chunk_bytes), plan.channels);
}

/* What GPUs run by codelets needs no plan. */
static int runs_by_codelet(const struct planner *planner, corale_coll coll)
{
	const struct plan_call call = { .coll = coll, .bytes = sizes[WALKED] };
	return planner->machine && planner_codelet(planner->machine, &call);
}

uint64_t choices_hash_sample(const struct planner *planner)
{
	uint64_t hash = hash_start;
	for (int i = 0; i < CORALE_NUM_COLLS; i++) {
		const corale_coll coll = (corale_coll)i;
		if (coll_is_pair(coll) || coll_is_uneven(coll))
			continue;
		for (int k = 0; planner->machine && k < SIZES; k++)
			hash = add_codelets(hash, planner->machine, coll, sizes[k]);
		if (!runs_by_codelet(planner, coll))
			hash = add_plan(hash, planner, coll, coll_has_count(coll) ? sizes[WALKED] : 0);
	}
	return hash;
}
