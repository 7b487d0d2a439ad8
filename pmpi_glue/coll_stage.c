/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device buffers of a collective in host memory. The copy has the buffer's own layout, so that MPI is called with the program's types, counts and offsets, and
 * user's operators see the elements that they know. Only what the types cover is written back.
 */
#include <stdint.h>
#include <stdlib.h>

#include "base/log.h"
#include "coll.h"
#include "door.h"

int coll_find_blocks(const struct coll_call *call, struct coll_side *side)
{
	struct pmpi_layout *layout = NULL;
	if (side->list)
		return 0;
	side->list = side->blocks == 1 ? &side->only : calloc((size_t)side->blocks, sizeof *side->list);
	if (!side->list)
		return log_error(CORALE_ENOMEM, pmpi.rank, "no memory for %d blocks of a call", side->blocks);
	for (int i = 0; i < side->blocks; i++) {
		struct coll_block *block = &side->list[i];
		const MPI_Count count = coll_count(call, side, i);
		if (count <= 0)
			continue;
		layout =
		    layout && !side->types ? pmpi_layout_share(layout) : pmpi_layout_get(coll_type(side, i));
		if (!layout)
			return log_error(CORALE_ENOMEM, pmpi.rank, "no memory for the layout of a datatype");
		const MPI_Aint at = side->displs ? coll_displ(call, side, i) : i * (MPI_Aint)count;
		*block =
		    (struct coll_block){ at * (side->types ? 1 : layout->extent), (size_t)count, layout };
	}
	return 0;
}

/* Where a block begins and ends, if that is farther. */
static void widen(const struct coll_block *block, MPI_Aint *from, MPI_Aint *to)
{
	const MPI_Aint last = block->count ? (MPI_Aint)(block->count - 1) * block->layout->extent : 0;
	for (size_t i = 0; block->count && i < block->layout->n; i++) {
		const struct pmpi_run *run = &block->layout->runs[i];
		const MPI_Aint at = block->at + run->at, low = last < 0 ? at + last : at,
			       high = (last < 0 ? at : at + last) +
				      (MPI_Aint)((run->count - 1) * run->stride + run->bytes);
		*from = low < *from ? low : *from;
		*to = high > *to ? high : *to;
	}
}

int coll_copy_side(const struct coll_side *side, enum pmpi_direction direction, void *host, int is_packed)
{
	struct pmpi_copies copies;
	MPI_Aint packed_at = 0;
	int ret = 0;
	pmpi_copies_begin(&copies, direction, side->ordinal, 1);
	copies.is_alike = !is_packed;
	for (const struct coll_block *b = side->list; b < side->list + side->blocks && !ret; b++) {
		const size_t bytes = b->count ? b->count * b->layout->size : 0;
		if (bytes)
			ret =
			    pmpi_copies_add(&copies, b->layout, b->count, bytes, (char *)side->buffer + b->at,
					    (char *)host + (is_packed ? packed_at : b->at));
		packed_at += (MPI_Aint)bytes;
	}
	return pmpi_copies_end(&copies, ret, NULL);
}

static int take_memory(const struct coll_call *call, struct coll_side *side)
{
	MPI_Aint from = INTPTR_MAX, to = INTPTR_MIN;
	int ret = coll_find_blocks(call, side);
	for (int i = 0; i < side->blocks && !ret; i++)
		widen(&side->list[i], &from, &to);
	if (ret || from >= to)
		return ret;
	ret = pmpi_host_take(&side->staged, (size_t)(to - from), 1);
	side->at = side->staged.memory - from;
	return ret;
}

static int stage(const struct coll_call *call, struct coll_side *side)
{
	int ret = 0;
	if (side->ordinal >= 0 && !side->staged.memory)
		ret = take_memory(call, side);
	return ret || !side->staged.memory || !side->is_read
		   ? ret
		   : coll_copy_side(side, PMPI_TO_PACKED, (void *)side->at, 0);
}

int coll_stage(struct coll_call *call)
{
	const int ret = stage(call, &call->send);
	return ret ? ret : stage(call, &call->recv);
}

int coll_deliver(const struct coll_call *call)
{
	const struct coll_side *side = &call->recv;
	return side->staged.memory && side->is_written
		   ? coll_copy_side(side, PMPI_FROM_PACKED, (void *)side->at, 0)
		   : 0;
}

static void end_side(struct coll_side *side)
{
	pmpi_host_free(&side->staged);
	for (int i = 0; side->list && i < side->blocks; i++)
		if (side->list[i].layout)
			pmpi_layout_put(side->list[i].layout);
	if (side->list != &side->only)
		free(side->list);
	side->list = NULL;
}

void coll_end(struct coll_call *call)
{
	end_side(&call->send);
	end_side(&call->recv);
}
