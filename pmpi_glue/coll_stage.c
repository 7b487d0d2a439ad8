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

int coll_each_block(const struct coll_call *call, const struct coll_side *side, coll_visitor *visit_block,
		    void *arg)
{
	struct pmpi_layout *layout = NULL;
	int ret = 0;
	for (int i = 0; i < side->blocks && !ret; i++) {
		const MPI_Count count = coll_count(call, side, i);
		if (count <= 0)
			continue;
		if (layout && side->types) {
			pmpi_layout_put(layout);
			layout = NULL;
		}
		if (!layout)
			layout = pmpi_layout_get(coll_type(side, i));
		if (!layout)
			return log_error(CORALE_ENOMEM, pmpi.rank, "no memory for the layout of a datatype");
		const MPI_Aint at = side->types    ? coll_displ(call, side, i)
				    : side->displs ? coll_displ(call, side, i) * layout->extent
						   : i * (MPI_Aint)count * layout->extent;
		ret = visit_block(arg, i, at, (size_t)count, layout);
	}
	if (layout)
		pmpi_layout_put(layout);
	return ret;
}

struct bounds {
	MPI_Aint low, high;
};

static int widen(void *arg, int block, MPI_Aint at, size_t count, const struct pmpi_layout *layout)
{
	struct bounds *bounds = arg;
	const MPI_Aint last = (MPI_Aint)(count - 1) * layout->extent;
	for (size_t i = 0; i < layout->n; i++) {
		const struct pmpi_run *run = &layout->runs[i];
		MPI_Aint low = at + run->at;
		MPI_Aint high = low + (MPI_Aint)((run->count - 1) * run->stride + run->bytes);
		if (last < 0)
			low += last;
		else
			high += last;
		bounds->low = low < bounds->low ? low : bounds->low;
		bounds->high = high > bounds->high ? high : bounds->high;
	}
	return 0;
}

struct copying {
	const struct coll_side *side;
	char *host;
	const size_t *displs; /* in host; NULL: as in the buffer */
	struct pmpi_transfer transfer;
};

static int copy_block(void *arg, int block, MPI_Aint at, size_t count, const struct pmpi_layout *layout)
{
	struct copying *c = arg;
	return pmpi_transfer_add(&c->transfer, layout, count, count * layout->size,
				 (char *)c->side->buffer + at,
				 c->host + (c->displs ? (MPI_Aint)c->displs[block] : at));
}

int coll_copy_side(const struct coll_call *call, const struct coll_side *side, enum pmpi_direction direction,
		   const void *host, const size_t *displs)
{
	struct copying c = { .side = side, .host = (char *)host, .displs = displs };
	pmpi_transfer_begin(&c.transfer, direction, side->ordinal, 1);
	c.transfer.is_alike = !displs;
	return pmpi_transfer_end(&c.transfer, coll_each_block(call, side, copy_block, &c), NULL);
}

int coll_stage_side(const struct coll_call *call, struct coll_side *side)
{
	struct bounds bounds = { INTPTR_MAX, INTPTR_MIN };
	int ret;
	if (side->ordinal < 0 || side->staged)
		return 0;
	ret = coll_each_block(call, side, widen, &bounds);
	if (ret || bounds.low >= bounds.high)
		return ret;
	side->staged_bytes = (size_t)(bounds.high - bounds.low);
	side->staged = pmpi_pinned(side->staged_bytes);
	if (!side->staged)
		return log_error(CORALE_ENOMEM, pmpi.rank,
				 "no pinned memory for a device buffer of %zu bytes", side->staged_bytes);
	side->at = side->staged - bounds.low;
	return side->is_read ? coll_copy_side(call, side, PMPI_TO_PACKED, side->at, NULL) : 0;
}

int coll_stage(struct coll_call *call)
{
	const int ret = coll_stage_side(call, &call->send);
	return ret ? ret : coll_stage_side(call, &call->recv);
}

int coll_restage_side(const struct coll_call *call, struct coll_side *side)
{
	return side->staged && side->is_read ? coll_copy_side(call, side, PMPI_TO_PACKED, side->at, NULL) : 0;
}

int coll_deliver_side(const struct coll_call *call, struct coll_side *side)
{
	return side->staged && side->is_written ? coll_copy_side(call, side, PMPI_FROM_PACKED, side->at, NULL)
						: 0;
}

void coll_unstage_side(struct coll_side *side)
{
	if (side->staged)
		pmpi_unpinned(side->staged, side->staged_bytes);
	side->staged = NULL;
}

void coll_unstage(struct coll_call *call)
{
	coll_unstage_side(&call->send);
	coll_unstage_side(&call->recv);
}
