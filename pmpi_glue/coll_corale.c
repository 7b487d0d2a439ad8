/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A collective by Corale. Data that is only moved travels as bytes, so that the ranks' types may differ; what is not contiguous is packed. Ranks that have
 * nothing to pack and those that do make the same call.
 */
#include "base/log.h"
#include "call/coll.h"
#include "coll.h"
#include "door.h"

/* ---- What all ranks know */

/* Of the side that this rank has for certain; where it has both, their blocks have one size. */
static size_t block_bytes(const struct coll_call *call)
{
	const struct coll_side *own = call->recv.blocks ? &call->recv : &call->send;
	return (size_t)own->count * coll_type_bytes(own->type);
}

int coll_is_eligible(struct coll_call *call, size_t *bytes)
{
	const struct coll_kind *kind = coll_kind(call);
	*bytes = 0;
	if (call->function == PMPI_BARRIER)
		return pmpi.mode != PMPI_MODE_DEVICE;
	if (kind->has_op) {
		*bytes = (size_t)call->send.count * coll_type_bytes(call->recv.type);
		return pmpi_reduction_find(call->recv.type, call->op, &call->corale_type, &call->corale_op);
	}
	if (kind->send.form != SIDE_ARRAYS &&
	    kind->recv.form != SIDE_ARRAYS) /* else only this rank knows its blocks */
		*bytes = block_bytes(call);
	return 1;
}

/* ---- A side as bytes, or, of a reduction, elements */

/* Without blocks all pointers are NULL. */
struct routed_side {
	char *data; /* as Corale takes it */
	size_t bytes; /* of each block, or of the only one */
	size_t *counts, *displs; /* of each block, in bytes; of a reduction's own memory not known */
	struct pmpi_host packed; /* what data is then; else it is the program's own memory */
};

struct coll_routed {
	struct coll_call *call;
	const struct pmpi_comm *comm;
	struct routed_side send, recv;
};

/* Blocks of other layouts, and of contexts that are not the core's, go through packed host memory. */
static int pack(const struct coll_side *side, size_t bytes, struct routed_side *to)
{
	const int ret = pmpi_host_take(&to->packed, bytes, side->ordinal >= 0);
	to->displs[0] = 0;
	for (int i = 1; i < side->blocks; i++)
		to->displs[i] = to->displs[i - 1] + to->counts[i - 1];
	to->data = to->packed.memory;
	return ret || !side->is_read ? ret : coll_copy_side(side, PMPI_TO_PACKED, to->data, 1);
}

/* arrays: 2 * size entries for it. */
static int open_side(const struct coll_routed *c, struct coll_side *side, size_t *arrays,
		     struct routed_side *to)
{
	int is_plain = pmpi_ordinal_reaches(c->comm->ordinal, side->ordinal);
	size_t bytes = 0;
	if (!side->blocks)
		return 0;
	to->data = pmpi.device ? pmpi.device->reach(side->buffer) : side->buffer;
	if (is_plain && coll_kind(c->call)->has_op)
		return 0; /* its types have no gaps */
	const int ret = coll_find_blocks(c->call, side);
	if (ret)
		return ret;
	to->counts = arrays;
	to->displs = arrays + c->comm->size;
	for (int i = 0; i < side->blocks; i++) {
		const struct coll_block *block = &side->list[i];
		to->counts[i] = block->count ? block->count * block->layout->size : 0;
		to->displs[i] = (size_t)block->at;
		bytes += to->counts[i];
		is_plain &= !block->count || (block->layout->is_contiguous && block->at >= 0);
	}
	to->bytes = to->counts[0];
	return is_plain ? 0 : pack(side, bytes, to);
}

/* What stands for a side in place: the rank's own block of the other one, or all of that. */
static struct routed_side in_place(const struct routed_side *other, int rank, enum coll_form form)
{
	struct routed_side side = *other;
	side.packed = (struct pmpi_host){ 0 };
	if (form == SIDE_ONE) {
		side.data += other->displs[rank];
		side.bytes = other->counts[rank];
	}
	return side;
}

/* ---- The call */

/* Of each rank's block of the result, elements, and where it begins. */
static void make_counts(const struct coll_routed *c, size_t *counts, size_t *displs)
{
	size_t at = 0;
	for (int i = 0; i < c->comm->size; i++) {
		counts[i] = (size_t)coll_count_at(c->call, c->call->recv.results, i);
		displs[i] = at;
		at += counts[i];
	}
}

static int run(const struct coll_routed *c)
{
	const struct coll_call *call = c->call;
	const struct coll_kind *kind = coll_kind(call);
	const int is_uneven = coll_is_uneven(kind->coll);
	struct call made = { .record = { .coll = kind->coll, .type = CORALE_INT8 },
			     .send = kind->send.form == SIDE_NONE ? c->recv.data : c->send.data,
			     .recv = c->recv.data };
	struct record *r = &made.record;
	if (kind->is_rooted)
		r->root = call->root;
	if (kind->has_op) {
		r->type = call->corale_type;
		r->op = call->corale_op;
	}
	if (!is_uneven)
		r->count = kind->has_op        ? (size_t)call->recv.count
			   : call->recv.blocks ? c->recv.bytes
					       : c->send.bytes;
	else if (kind->is_rooted)
		made.own = kind->send.form == SIDE_ONE ? c->send.bytes : c->recv.bytes;
	if (kind->send.form == SIDE_ARRAYS) {
		made.send_counts = c->send.counts;
		made.send_displs = c->send.displs;
	}
	if (kind->recv.form == SIDE_ARRAYS) {
		made.recv_counts = c->recv.counts;
		made.recv_displs = c->recv.displs;
	}
	if (kind->recv.form == SIDE_RESULTS) {
		made.send_counts = c->comm->arrays;
		made.send_displs = c->comm->arrays + c->comm->size;
		make_counts(c, c->comm->arrays, c->comm->arrays + c->comm->size);
	}
	const int ret = coll_submit(c->comm->core, &made, c->comm->stream);
	return ret ? ret : pmpi_comm_wait(c->comm);
}

static int run_packed(struct coll_routed *c)
{
	struct coll_call *call = c->call;
	const struct coll_kind *kind = coll_kind(call);
	const int rank = c->comm->rank;
	int ret = open_side(c, &call->send, c->comm->arrays, &c->send);
	if (!ret)
		ret = open_side(c, &call->recv, c->comm->arrays + 2 * c->comm->size, &c->recv);
	if (!ret && call->send.buffer == MPI_IN_PLACE)
		c->send = in_place(&c->recv, rank, kind->send.form);
	if (!ret && call->recv.buffer == MPI_IN_PLACE && !kind->has_op)
		c->recv = in_place(&c->send, rank, kind->recv.form);
	if (!ret)
		ret = run(c);
	if (!ret && c->recv.packed.memory && call->recv.is_written)
		ret = coll_copy_side(&call->recv, PMPI_FROM_PACKED, c->recv.data, 1);
	pmpi_host_free(&c->send.packed);
	pmpi_host_free(&c->recv.packed);
	coll_end(call);
	return ret;
}

int coll_corale(struct coll_call *call, struct pmpi_comm *comm)
{
	struct coll_routed c = { .call = call, .comm = comm };
	int before = -1;
	int ret = pmpi_enter(comm->ordinal, &before);
	if (ret)
		return ret;
	ret = run_packed(&c);
	pmpi_leave(before);
	return ret;
}

/* ---- The functions */

enum { HAS_NO_OP, HAS_OP, HAS_NO_ROOT = 0, HAS_ROOT };
#define RULE(at, in_place, commits) COLL_##at, COLL_##in_place, COLL_##commits
#define RUN_AS(name) .is_run = 1, .coll = CORALE_##name
#define ALWAYS RULE(EVERYWHERE, EVERYWHERE, NO_MPI)
#define COLLECTIVE(NAME, blocking, nonblocking, SEND, RECV, OP, ROOT, of_send, of_recv, who, ...)            \
	[PMPI_##NAME] = { .send = { SIDE_##SEND, of_send },                                                  \
			  .recv = { SIDE_##RECV, of_recv },                                                  \
			  .one_memory = COLL_##who,                                                          \
			  .has_op = HAS_##OP,                                                                \
			  .is_rooted = HAS_##ROOT,                                                           \
			  __VA_ARGS__ },
const struct coll_kind coll_kinds[PMPI_COLLECTIVES] = {
	[PMPI_BARRIER] = { RUN_AS(BARRIER) },
#include "collectives.def"
	[PMPI_REDUCE_LOCAL] = { .send = { SIDE_BUFFER, ALWAYS },
				.recv = { SIDE_ONE, ALWAYS },
				.has_op = 1,
				.reads_recv = 1 },
};
