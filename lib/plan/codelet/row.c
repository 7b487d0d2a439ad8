/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows with a codelet: whether they run a call, in which memory, and its time. The table is in algo/row_table.c. */
#include "row.h"

#include "base/collectives.h"

/*
 * Bytes that a rank sends by a codelet, times the other ranks: about what lines of a window of 8 MB have room for. 2 H200, all_reduce of 512 KB lowered 34 us, by BULK 40; of 1 MB
 * 64 and 54.
 */
enum { LEAST_IN_HOST = 768 << 10 };

struct codelet_rate codelet_rate(double hopper_us, double hopper_gbs, double unknown_us, double unknown_gbs,
				 int exchanges, enum rates_block block)
{
	return (struct codelet_rate){ { [RATES_HOPPER] = { hopper_us, hopper_gbs, 0 },
					[RATES_UNKNOWN] = { unknown_us, unknown_gbs, 0 } },
				      exchanges,
				      block };
}

int row_is_by(const struct row *row, int protocol)
{
	return (int)row->protocol == protocol || (protocol == PLAN_FIFO && row->protocol == PLAN_BULK);
}

double row_us(const struct row *row, const struct gpu_machine *machine, const struct plan_call *call)
{
	const int over_nodes = (row->traits & ROW_OVER_NODES) != 0;
	const int refused = !over_nodes && machine->refused[call->coll] >> row->codelet->index & 1;
	/* In host memory small calls are lowered: by words, or data behind a flag. */
	const int is_small =
	    machine->host_window && !over_nodes && row_is_by(row, PLAN_FIFO) &&
	    (int)row->protocol != machine->forced && !coll_is_uneven(call->coll) &&
	    row->codelet->sent(row, machine, call->bytes) * (uint64_t)(machine->ranks - 1) < LEAST_IN_HOST;
	if (over_nodes != machine->over_nodes || refused || is_small ||
	    !row->codelet->can(row, machine, call))
		return -1;
	return row->codelet->us(row, machine, call);
}

int row_is_registered(const struct plan_call *call)
{
	return call->memory & PLAN_MEMORY_REGISTERED;
}

int row_copies_direct(const struct gpu_machine *machine, const struct plan_call *call)
{
	int no_other_way =
	    (machine->zero_ctas && coll_moves(call->coll)) || !(call->memory & PLAN_MEMORY_SCRATCH);
	return (call->memory & PLAN_MEMORY_EXPORTED) || (row_is_registered(call) && no_other_way);
}

/* What more ranks than the root receive. */
static int can_store_direct(const struct row *row)
{
	return row_is_by(row, PLAN_FIFO) &&
	       (row->coll == CORALE_ALL_REDUCE || row->coll == CORALE_BROADCAST ||
		(coll_moves(row->coll) && !coll_is_rooted(row->coll)));
}

int row_uses_scratch(const struct row *row, const struct gpu_machine *machine, const struct plan_call *call)
{
	if (row->codelet->engine == PLAN_CE)
		return coll_folds(call->coll) || !row_copies_direct(machine, call);
	const int direct = row_stores_direct(row, machine, call);
	const int stages = coll_folds(call->coll) || (coll_moves(call->coll) && !direct);
	return row_is_by(row, PLAN_FIFO) && stages &&
	       row->codelet->sent(row, machine, call->bytes) >= (double)machine->rates->scratch_bytes;
}

int row_stores_direct(const struct row *row, const struct gpu_machine *machine, const struct plan_call *call)
{
	if (!row_is_registered(call))
		return 0;
	if (row->codelet->engine == PLAN_CE)
		return call->coll != CORALE_REDUCE_SCATTER && row_copies_direct(machine, call);
	return can_store_direct(row);
}

/* ---- Time ----------------------------------------------------------------------------------------------- */

static struct codelet_speed speed_at(const struct row *row, const struct gpu_machine *machine,
				     const struct codelet_rate *rate)
{
	const struct rates *rates = machine->rates;
	return (struct codelet_speed){ rate->of[rates->generation].gbs * rates->faster,
				       row->codelet->engine == PLAN_CE ? 0 : rates->block_gbs[rate->block] };
}

struct codelet_speed codelet_speed_of(const struct row *row, const struct gpu_machine *machine)
{
	const struct codelet_rate rate = row->codelet->rate(row, machine);
	return speed_at(row, machine, &rate);
}

double codelet_gbs(const struct codelet_speed *speed, const struct gpu_machine *machine)
{
	const double blocks_gbs = speed->block_gbs * machine->max_blocks;
	return speed->block_gbs == 0 || speed->link_gbs <= blocks_gbs ? speed->link_gbs : blocks_gbs;
}

double codelet_us_at(const struct row *row, const struct gpu_machine *machine, const struct plan_call *call,
		     const struct codelet_rate *rate)
{
	const struct codelet *codelet = row->codelet;
	const struct rates *rates = machine->rates;
	const struct codelet_speed speed = speed_at(row, machine, rate);
	const double start_us = rate->of[rates->generation].start_us + rate->exchanges * rates->later_us,
		     pieces = codelet->pieces ? (double)codelet->pieces(row, machine, call->bytes) : 1;
	return (start_us < 0 ? 0 : start_us) + rate->of[rates->generation].piece_us * (pieces - 1) +
	       codelet->sent(row, machine, call->bytes) / codelet_gbs(&speed, machine) / 1e3;
}

double codelet_us(const struct row *row, const struct gpu_machine *machine, const struct plan_call *call)
{
	const struct codelet_rate rate = row->codelet->rate(row, machine);
	return codelet_us_at(row, machine, call, &rate);
}

double codelet_sent_to_all(const struct row *row, const struct gpu_machine *machine, uint64_t bytes)
{
	(void)row;
	return (double)(machine->ranks - 1) * (double)bytes;
}

double codelet_sent_in_parts(const struct row *row, const struct gpu_machine *machine, uint64_t bytes)
{
	const double others = machine->ranks - 1;
	return coll_is_rooted(row->coll) ? (double)bytes : 2 * others / machine->ranks * (double)bytes;
}
