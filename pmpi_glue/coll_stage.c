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

struct walk {
	const struct coll_side *side;
	int to_device;
	MPI_Aint block; /* where it begins */
	struct pmpi_copying copies;
};

static int copy_rows(void *arg, const struct pmpi_rows *rows)
{
	struct walk *walk = arg;
	char *device = (char *)walk->side->buffer + walk->block + rows->at;
	char *host = (char *)walk->side->at + walk->block + rows->at;
	return pmpi_copying_add(&walk->copies, &(struct piece){ walk->to_device ? device : host, rows->pitch,
								walk->to_device ? host : device, rows->pitch,
								rows->width, rows->rows });
}

static int copy_block(void *arg, int block, MPI_Aint at, size_t count, const struct pmpi_layout *layout)
{
	struct walk *walk = arg;
	(void)block;
	walk->block = at;
	return pmpi_layout_walk(layout, count, count * layout->size, copy_rows, walk);
}

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

static int copy_side(const struct coll_call *call, const struct coll_side *side, int to_device)
{
	struct walk walk = { .side = side, .to_device = to_device };
	pmpi_copying_begin(&walk.copies, side->ordinal, 1);
	const int ret = coll_each_block(call, side, copy_block, &walk);
	const int end = pmpi_copying_end(&walk.copies);
	return ret ? ret : end;
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
	return side->is_read ? copy_side(call, side, 0) : 0;
}

int coll_stage(struct coll_call *call)
{
	const int ret = coll_stage_side(call, &call->send);
	return ret ? ret : coll_stage_side(call, &call->recv);
}

int coll_restage_side(const struct coll_call *call, struct coll_side *side)
{
	return side->staged && side->is_read ? copy_side(call, side, 0) : 0;
}

int coll_deliver_side(const struct coll_call *call, struct coll_side *side)
{
	return side->staged && side->is_written ? copy_side(call, side, 1) : 0;
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
