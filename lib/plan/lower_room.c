/* SPDX-License-Identifier: BSD-3-Clause */
#include "lower.h"

#include "corale.h"

/* A window may be the whole chunk; the first piece is the longest one. */
static size_t cut_inner(const struct plan *plan, const struct lowered_call *call, uint8_t inner,
			size_t length)
{
	size_t begin;
	if (!inner || plan_bases[plan->exprs[inner].base].is_window)
		return length;
	return plan_cut(length, call->unit, (size_t)call->inner, 0, &begin);
}

/* Elements of the longest message of a step. Of several blocks none has more than half of all: rows whose plans have such steps apply by half_fits
 * (algo/row_table.c). */
static size_t message_of(const struct plan *plan, const struct lowered_call *call,
			 const struct plan_step *step)
{
	const struct plan_span *span = step->src.space ? &step->src : &step->dst;
	size_t length = call->count, begin;
	if (step->blocks)
		return length * (size_t)(call->ranks / 2);
	if (span->part)
		length = plan_cut(length, call->unit, (size_t)call->parts, 0, &begin);
	if (span->chunk)
		length = plan_cut(length, call->unit, (size_t)call->channels, 0, &begin);
	if (span->chunk && length > call->chunk)
		length = call->chunk;
	return cut_inner(plan, call, span->inner, length);
}

/* Counts of all_to_all_v differ from edge to edge: then a message is a chunk. */
static uint64_t largest_message(const struct plan *plan, const struct lowered_call *call)
{
	size_t most = 0;
	if (call->send_counts)
		return plan->chunk_bytes;
	for (int i = 0; i < plan->nsteps; i++) {
		const size_t length =
		    plan->steps[i].op == PLAN_MOVE ? message_of(plan, call, &plan->steps[i]) : 0;
		most = length > most ? length : most;
	}
	return most * corale_type_bytes((corale_type)plan->key.type);
}

/* Where steps take several blocks a cell is one. */
static uint64_t cell_bytes(const struct plan *plan, const struct lowered_call *call)
{
	return plan->spans ? call->count * corale_type_bytes((corale_type)plan->key.type) : plan->chunk_bytes;
}

void lowered_room_init(struct lowered_room *room, const struct plan *plan, const struct lowered_call *call)
{
	*room = (struct lowered_room){ .message = largest_message(plan, call),
				       .scratch = plan_round(plan->scratch_cells * cell_bytes(plan, call),
							     LOWERED_LINE) };
	room->slot = (uint32_t)plan_round(room->message ? room->message : 1, LOWERED_LINE);
	for (int i = 0; i < plan->nqueues; i++)
		room->slots += (uint32_t)plan->queues[i].depth * plan->channels;
	room->bytes = (uint64_t)room->slots * room->slot + plan->channels * room->scratch;
}
