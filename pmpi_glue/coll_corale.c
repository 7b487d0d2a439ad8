/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A collective by Corale. Data that is only moved travels as bytes, so that the ranks' types may differ; what is not contiguous is packed. Ranks that have
 * nothing to pack and those that do make the same call.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "call/coll.h"
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
	size_t *counts, *displs; /* of each block, in bytes */
	char *packed; /* what data is then; NULL: the program's own memory */
	size_t pinned; /* bytes of packed, if pmpi_pinned's */
};

struct coll_routed {
	struct coll_call *call;
	const struct pmpi_comm *comm;
	struct routed_side send, recv;
};

struct measuring {
	struct routed_side *to;
	size_t bytes; /* of all blocks */
	int is_plain; /* all blocks are contiguous */
};

static int measure(void *arg, int block, MPI_Aint at, size_t count, const struct pmpi_layout *layout)
{
	struct measuring *m = arg;
	m->is_plain &= layout->is_contiguous && at >= 0;
	m->to->counts[block] = count * layout->size;
	m->to->displs[block] = (size_t)at; /* of a plain side; pack has others */
	m->bytes += count * layout->size;
	return 0;
}

/* Blocks of other layouts, and of contexts that are not the core's, go through packed host memory. */
static int pack(const struct coll_call *call, const struct coll_side *side, size_t bytes,
		struct routed_side *to)
{
	size_t at = 0;
	to->pinned = side->ordinal >= 0 ? bytes : 0;
	to->packed = to->pinned ? pmpi_pinned(bytes) : malloc(bytes ? bytes : 1);
	if (!to->packed)
		return log_error(CORALE_ENOMEM, pmpi.rank, "no memory to pack %zu bytes", bytes);
	for (int i = 0; i < side->blocks; i++) {
		to->displs[i] = at;
		at += to->counts[i];
	}
	to->data = to->packed;
	return side->is_read ? coll_copy_side(call, side, PMPI_TO_PACKED, to->packed, to->displs) : 0;
}

/* arrays: 2 * size entries for it. */
static int open_side(const struct coll_routed *c, const struct coll_side *side, size_t *arrays,
		     struct routed_side *to)
{
	struct measuring m = { .to = to, .is_plain = pmpi_ordinal_reaches(c->comm->ordinal, side->ordinal) };
	if (!side->blocks)
		return 0;
	memset(arrays, 0, 2 * sizeof *arrays * (size_t)c->comm->size);
	to->counts = arrays;
	to->displs = arrays + c->comm->size;
	const int ret = coll_each_block(c->call, side, measure, &m);
	if (ret)
		return ret;
	to->bytes = to->counts[0];
	to->data = pmpi.device ? pmpi.device->reach(side->buffer) : side->buffer;
	return m.is_plain ? 0 : pack(c->call, side, m.bytes, to);
}

static int close_side(const struct coll_call *call, const struct coll_side *side,
		      const struct routed_side *from)
{
	return from->packed && side->is_written
		   ? coll_copy_side(call, side, PMPI_FROM_PACKED, from->packed, from->displs)
		   : 0;
}

static void free_side(struct routed_side *side)
{
	if (side->pinned)
		pmpi_unpinned(side->packed, side->pinned);
	else
		free(side->packed);
}

/* What stands for a side in place: the rank's own block of the other one, or all of that. */
static struct routed_side in_place(const struct routed_side *other, int rank, enum coll_form form)
{
	struct routed_side side = *other;
	side.packed = NULL;
	side.pinned = 0;
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

static int run_move(struct coll_routed *c)
{
	const struct coll_call *call = c->call;
	const struct coll_kind *kind = coll_kind(call);
	const int rank = c->comm->rank;
	int ret = open_side(c, &call->send, c->comm->arrays, &c->send);
	if (!ret)
		ret = open_side(c, &call->recv, c->comm->arrays + 2 * c->comm->size, &c->recv);
	if (!ret && call->send.buffer == MPI_IN_PLACE)
		c->send = in_place(&c->recv, rank, kind->send.form);
	if (!ret && call->recv.buffer == MPI_IN_PLACE)
		c->recv = in_place(&c->send, rank, kind->recv.form);
	if (!ret)
		ret = run(c);
	if (!ret)
		ret = close_side(call, &call->recv, &c->recv);
	free_side(&c->send);
	free_side(&c->recv);
	return ret;
}

/* Elements as Corale takes them: pinned memory stands in for that of contexts that are not the core's. */
static int find_elements(struct coll_routed *c, struct coll_side *side, char **out)
{
	if (!side->blocks)
		return 0;
	const int is_own = pmpi_ordinal_reaches(c->comm->ordinal, side->ordinal);
	const int ret = is_own ? 0 : coll_stage_side(c->call, side);
	*out = is_own && pmpi.device ? pmpi.device->reach(side->buffer) : (char *)side->at;
	return ret;
}

static int run_reduction(struct coll_routed *c)
{
	struct coll_call *call = c->call;
	int ret = find_elements(c, &call->recv, &c->recv.data);
	if (!ret)
		ret = find_elements(c, &call->send, &c->send.data);
	if (call->send.buffer == MPI_IN_PLACE)
		c->send.data = c->recv.data;
	if (!ret)
		ret = run(c);
	if (!ret)
		ret = coll_deliver_side(call, &call->recv);
	coll_unstage(call);
	return ret;
}

int coll_corale(struct coll_call *call, struct pmpi_comm *comm)
{
	struct coll_routed c = { .call = call, .comm = comm };
	int before = -1;
	int ret = pmpi_enter(comm->ordinal, &before);
	if (ret)
		return ret;
	ret = coll_kind(call)->has_op ? run_reduction(&c) : run_move(&c);
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
