/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A collective by Corale. Data that is only moved travels as bytes, so that the ranks' types may differ; what is not contiguous is packed. Ranks that have
 * nothing to pack and those that do make the same call.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "coll.h"
#include "door.h"
#include "reduction.h"

/* ---- What all ranks know */

/* Of the side that this rank has for certain; where it has both, their blocks have one size. */
static size_t block_bytes(const struct coll_call *call)
{
	const struct coll_side *own = call->recv.blocks ? &call->recv : &call->send;
	return (size_t)own->count * coll_type_bytes(own->type);
}

int coll_is_eligible(struct coll_call *call, size_t *bytes)
{
	*bytes = 0;
	switch (call->function) {
	case PMPI_BARRIER:
		return pmpi.mode != PMPI_MODE_DEVICE;
	case PMPI_ALLGATHERV:
	case PMPI_GATHERV:
	case PMPI_SCATTERV:
	case PMPI_ALLTOALLV: /* only this rank knows its blocks */
		return 1;
	default:
		break;
	}
	if (call->op == MPI_OP_NULL) {
		*bytes = block_bytes(call);
		return 1;
	}
	*bytes = (size_t)call->send.count * coll_type_bytes(call->recv.type);
	return pmpi_reduction_find(call->recv.type, call->op, &call->corale_type, &call->corale_op);
}

/* ---- A side as bytes */

/* counts, displs: of each block, in bytes; NULL: blocks of `bytes` each, one behind the other. */
struct bytes_side {
	char *data; /* as Corale takes it */
	size_t bytes;
	size_t *counts, *displs;
	char *packed; /* to be freed; NULL: the program's own memory */
};

struct packing {
	const struct coll_side *side;
	struct bytes_side *to;
	size_t at; /* in packed */
	int is_plain; /* all blocks are contiguous */
	int direction; /* 0: out of the program's memory; 1: into it */
};

static int measure(void *arg, int block, MPI_Aint at, size_t count, const struct pmpi_layout *layout)
{
	struct packing *packing = arg;
	packing->is_plain &= layout->is_contiguous && at >= 0;
	packing->to->counts[block] = count * layout->size;
	packing->to->displs[block] = (size_t)at; /* of a plain side; pack has others */
	packing->at += count * layout->size;
	return 0;
}

struct rows_packing {
	char *user, *packed;
	int direction;
};

static int copy_rows(void *arg, const struct pmpi_rows *rows)
{
	const struct rows_packing *p = arg;
	char *user = p->user + rows->at, *packed = p->packed + rows->packed_at;
	for (size_t i = 0; i < rows->rows; i++) {
		char *u = user + i * rows->pitch, *b = packed + i * rows->packed_pitch;
		memcpy(p->direction ? u : b, p->direction ? b : u, rows->width);
	}
	return 0;
}

static int pack_block(void *arg, int block, MPI_Aint at, size_t count, const struct pmpi_layout *layout)
{
	struct packing *packing = arg;
	struct rows_packing rows = { (char *)packing->side->at + at,
				     packing->to->packed + packing->to->displs[block], packing->direction };
	return pmpi_layout_walk(layout, count, count * layout->size, copy_rows, &rows);
}

/* Blocks of other layouts, and of contexts that are not the core's, go through packed host memory. */
static int pack(struct coll_call *call, struct coll_side *side, struct packing *packing)
{
	struct bytes_side *to = packing->to;
	size_t at = 0;
	int ret = coll_stage_side(call, side);
	if (ret)
		return ret;
	to->packed = malloc(packing->at ? packing->at : 1);
	if (!to->packed)
		return log_error(CORALE_ENOMEM, pmpi.rank, "no memory to pack %zu bytes", packing->at);
	for (int i = 0; i < side->blocks; i++) {
		to->displs[i] = at;
		at += to->counts[i];
	}
	to->data = to->packed;
	return side->is_read ? coll_each_block(call, side, pack_block, packing) : 0;
}

static int open_side(struct coll_call *call, struct pmpi_comm *comm, struct coll_side *side,
		     struct bytes_side *to)
{
	struct packing packing = { .side = side,
				   .to = to,
				   .is_plain = pmpi_ordinal_reaches(comm->ordinal, side->ordinal) };
	memset(to->counts, 0, sizeof *to->counts * (size_t)side->blocks);
	memset(to->displs, 0, sizeof *to->displs * (size_t)side->blocks);
	int ret = coll_each_block(call, side, measure, &packing);
	if (ret)
		return ret;
	to->bytes = side->blocks ? to->counts[0] : 0;
	to->packed = NULL;
	to->data = pmpi.device ? pmpi.device->reach(side->buffer) : side->buffer;
	return packing.is_plain ? 0 : pack(call, side, &packing);
}

static int close_side(struct coll_call *call, struct coll_side *side, struct bytes_side *from)
{
	struct packing packing = { .side = side, .to = from, .direction = 1 };
	if (!from->packed || !side->is_written)
		return 0;
	const int ret = coll_each_block(call, side, pack_block, &packing);
	return ret ? ret : coll_deliver_side(call, side);
}

/* ---- Calls that move data */

static char *or_null(const struct coll_side *side, const struct bytes_side *bytes)
{
	return side->blocks ? bytes->data : NULL;
}

static int move(struct pmpi_comm *comm, const struct coll_call *call, struct bytes_side *s,
		struct bytes_side *r)
{
	const int in_place = call->send.buffer == MPI_IN_PLACE, root = call->root, rank = comm->rank;
	const int sends = call->send.blocks > 0,
		  receives = call->recv.blocks > 0; /* an empty buffer may be NULL */
	corale_comm *core = comm->core;
	void *stream = comm->stream;
	char *to = or_null(&call->recv, r), *from = or_null(&call->send, s);
	const struct bytes_side *sent = in_place ? r : s;
	switch (call->function) {
	case PMPI_BCAST:
		return corale_broadcast(to, to, r->bytes, CORALE_INT8, root, core, stream);
	case PMPI_ALLGATHER:
		return corale_all_gather(in_place ? to + (size_t)rank * r->bytes : from, to, r->bytes,
					 CORALE_INT8, core, stream);
	case PMPI_ALLGATHERV:
		return corale_all_gather_v(in_place ? to + r->displs[rank] : from, to, r->counts, r->displs,
					   CORALE_INT8, core, stream);
	case PMPI_GATHER:
		return corale_gather(in_place ? to + (size_t)rank * r->bytes : from, to,
				     in_place ? r->bytes : s->bytes, CORALE_INT8, root, core, stream);
	case PMPI_GATHERV:
		return corale_gather_v(in_place ? to + r->displs[rank] : from,
				       in_place ? r->counts[rank] : s->bytes, to, receives ? r->counts : NULL,
				       receives ? r->displs : NULL, CORALE_INT8, root, core, stream);
	case PMPI_SCATTER:
		return corale_scatter(from, receives ? to : from + (size_t)rank * s->bytes,
				      receives ? r->bytes : s->bytes, CORALE_INT8, root, core, stream);
	case PMPI_SCATTERV:
		return corale_scatter_v(from, sends ? s->counts : NULL, sends ? s->displs : NULL,
					receives ? to : from + s->displs[rank],
					receives ? r->bytes : s->counts[rank], CORALE_INT8, root, core,
					stream);
	case PMPI_ALLTOALL:
		return corale_all_to_all(in_place ? to : from, to, r->bytes, CORALE_INT8, core, stream);
	default: /* PMPI_ALLTOALLV */
		return corale_all_to_all_v(sent->data, sent->counts, sent->displs, r->data, r->counts,
					   r->displs, CORALE_INT8, core, stream);
	}
}

static int run_move(struct coll_call *call, struct pmpi_comm *comm)
{
	const size_t n = (size_t)comm->size;
	struct bytes_side s = { .counts = comm->arrays, .displs = comm->arrays + n };
	struct bytes_side r = { .counts = comm->arrays + 2 * n, .displs = comm->arrays + 3 * n };
	int ret = open_side(call, comm, &call->send, &s);
	if (!ret)
		ret = open_side(call, comm, &call->recv, &r);
	if (!ret)
		ret = move(comm, call, &s, &r);
	if (!ret)
		ret = pmpi_comm_wait(comm);
	if (!ret)
		ret = close_side(call, &call->recv, &r);
	free(s.packed);
	free(r.packed);
	coll_unstage(call);
	return ret;
}

/* ---- Reductions */

struct operands {
	const char *from;
	char *to;
};

static int reduce_scatter(struct coll_call *call, struct pmpi_comm *comm, const struct operands *o)
{
	size_t *counts = comm->arrays, *displs = counts + comm->size, at = 0;
	for (int i = 0; i < comm->size; i++) {
		counts[i] = (size_t)coll_result_count(call, i);
		displs[i] = at;
		at += counts[i];
	}
	return corale_reduce_scatter_v(o->from, counts, displs, o->to, call->corale_type, call->corale_op,
				       comm->core, comm->stream);
}

/* Its elements as Corale takes them: pinned memory stands in for that of contexts that are not the core's. */
static int find_elements(struct coll_call *call, struct pmpi_comm *comm, struct coll_side *side, char **out)
{
	const int is_own = pmpi_ordinal_reaches(comm->ordinal, side->ordinal);
	const int ret = is_own ? 0 : coll_stage_side(call, side);
	*out = is_own && pmpi.device ? pmpi.device->reach(side->buffer) : side->at;
	return ret;
}

static int reduce(struct coll_call *call, struct pmpi_comm *comm, const struct operands *o)
{
	const size_t count = (size_t)call->recv.count;
	switch (call->function) {
	case PMPI_ALLREDUCE:
		return corale_all_reduce(o->from, o->to, count, call->corale_type, call->corale_op,
					 comm->core, comm->stream);
	case PMPI_REDUCE:
		return corale_reduce(o->from, call->recv.blocks ? o->to : NULL, count, call->corale_type,
				     call->corale_op, call->root, comm->core, comm->stream);
	case PMPI_REDUCE_SCATTER_BLOCK:
		return corale_reduce_scatter(o->from, o->to, count, call->corale_type, call->corale_op,
					     comm->core, comm->stream);
	default: /* PMPI_REDUCE_SCATTER */
		return reduce_scatter(call, comm, o);
	}
}

static int run_reduction(struct coll_call *call, struct pmpi_comm *comm)
{
	struct operands o;
	char *from = NULL;
	int ret = find_elements(call, comm, &call->recv, &o.to);
	if (!ret && call->send.buffer != MPI_IN_PLACE)
		ret = find_elements(call, comm, &call->send, &from);
	o.from = call->send.buffer == MPI_IN_PLACE ? o.to : from;
	if (!ret)
		ret = reduce(call, comm, &o);
	if (!ret)
		ret = pmpi_comm_wait(comm);
	if (!ret)
		ret = coll_deliver_side(call, &call->recv);
	coll_unstage(call);
	return ret;
}

int coll_corale(struct coll_call *call, struct pmpi_comm *comm)
{
	int before = -1;
	int ret = pmpi_comm_enter(comm, &before);
	if (ret)
		return ret;
	if (call->function == PMPI_BARRIER) {
		ret = corale_barrier(comm->core, comm->stream);
		if (!ret)
			ret = pmpi_comm_wait(comm);
	} else if (call->op != MPI_OP_NULL) {
		ret = run_reduction(call, comm);
	} else {
		ret = run_move(call, comm);
	}
	pmpi_comm_leave(before);
	return ret;
}
