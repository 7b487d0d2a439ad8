/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Zero-copy: calls by teams of warps whose ranks read each other's buffers where they lie, as far as these are mapped. What decides here all ranks share; whether
 * they are mapped the kernels agree on when they run (kernels/zero_copy.cuh), and go through slots if not.
 */
#include "cut.h"

#include "base/collectives.h"

int zero_copy_pays(const struct row *row, const struct gpu_machine *machine, const struct plan_call *call)
{
	if (!machine->zero_copy || machine->ranks < 2 || machine->ranks > LAUNCH_ZERO_COPY_RANKS ||
	    row_stores_direct(row, machine, call))
		return 0;
	return (machine->max_blocks > LAUNCH_BULK_BLOCKS && !slots_are_of_bulk(row->coll)) ||
	       zero_copy_us(row, machine, call) < codelet_us(row, machine, call);
}

enum rates_block zero_copy_block(corale_coll coll)
{
	return coll_folds(coll) || coll == CORALE_BROADCAST ? RATES_READ_FOLDING : RATES_READ_MOVING;
}

/* Measured on 2 H200 with 4 to 32 blocks. In a broadcast to more ranks the root's link carries all before the others pass their parts on: 3/5 of its rate with 4 ranks. */
static struct codelet_rate rate_of(corale_coll coll, int ranks)
{
	const enum rates_block block = zero_copy_block(coll);
	if (coll == CORALE_ALL_REDUCE)
		return codelet_rate(14, 338, 21, 225, 2, block);
	if (coll == CORALE_BROADCAST)
		return ranks > 2 ? codelet_rate(16, 220, 24, 147, 2, block)
				 : codelet_rate(11, 366, 17, 244, 1, block);
	return coll_folds(coll) ? codelet_rate(12, 332, 18, 221, 1, block)
				: codelet_rate(11, 336, 17, 224, 1, block);
}

double zero_copy_us(const struct row *row, const struct gpu_machine *machine, const struct plan_call *call)
{
	const struct codelet_rate rate = rate_of(row->coll, machine->ranks);
	struct gpu_machine reading = *machine;
	if (reading.max_blocks > machine->zero_copy)
		reading.max_blocks = machine->zero_copy;
	return codelet_us_at(row, &reading, call, &rate);
}
