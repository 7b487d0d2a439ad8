/* SPDX-License-Identifier: BSD-3-Clause */
#include "coll.h"
#include "door.h"

/* The ranks of a call: of an intercommunicator a rank has blocks for those of the other group. */
struct ranks {
	int rank, size, is_inter;
	int to, from; /* that it sends blocks to, and has them from */
};

/* Of a topology. */
static void find_neighbors(MPI_Comm comm, struct ranks *ranks)
{
	int kind = MPI_UNDEFINED, n = 0, weighted;
	ranks->from = ranks->to = 0;
	PMPI_Topo_test(comm, &kind);
	if (kind == MPI_DIST_GRAPH) {
		PMPI_Dist_graph_neighbors_count(comm, &ranks->from, &ranks->to, &weighted);
	} else if (kind == MPI_GRAPH) {
		PMPI_Graph_neighbors_count(comm, ranks->rank, &n);
		ranks->from = ranks->to = n;
	} else if (kind == MPI_CART) {
		PMPI_Cartdim_get(comm, &n);
		ranks->from = ranks->to = 2 * n;
	}
}

/* Of a communicator that MPI does not know it has no blocks. */
static struct ranks ranks_of(const struct coll_call *call)
{
	const struct pmpi_comm *comm = pmpi_comm_find(call->comm);
	struct ranks ranks = { 0 };
	if (!comm)
		return ranks;
	ranks = (struct ranks){ comm->rank, comm->size, comm->is_inter, comm->peers, comm->peers };
	if (coll_kind(call)->is_of_neighbors)
		find_neighbors(call->comm, &ranks);
	return ranks;
}

static int is_root(const struct ranks *ranks, int root)
{
	return ranks->is_inter ? root == MPI_ROOT : root == ranks->rank;
}

/* In a rooted call of an intercommunicator: this rank is one that the root of the other group talks to. */
static int is_leaf(const struct ranks *ranks, int root)
{
	return ranks->is_inter ? root != MPI_ROOT && root != MPI_PROC_NULL : root != ranks->rank;
}

static int has_side(const struct coll_call *call, const struct coll_side_kind *side,
		    const struct ranks *ranks)
{
	if (!coll_kind(call)->is_rooted)
		return 1;
	return side->at == COLL_AT_ROOT ? is_root(ranks, call->root)
					: !ranks->is_inter || is_leaf(ranks, call->root);
}

static int blocks_of(enum coll_form form, int peers, const struct ranks *ranks)
{
	if (form == SIDE_BUFFERS)
		return ranks->size;
	return form == SIDE_BUFFER || form == SIDE_ONE || form == SIDE_RESULTS ? 1 : peers;
}

/* The operands of a reduction are as its result, but that has one rank's part only where it is scattered. */
static void fill_operands(struct coll_call *call, const struct ranks *ranks)
{
	struct coll_side *recv = &call->recv;
	const int in_place = call->send.buffer == MPI_IN_PLACE;
	MPI_Count all = 0;
	call->send.type = recv->type;
	for (int i = 0; recv->results && i < ranks->size; i++)
		all += coll_count_at(call, recv->results, i);
	call->send.count = recv->results ? all : recv->count;
	if (recv->results)
		recv->count = in_place ? all : coll_count_at(call, recv->results, ranks->rank);
	if (in_place && recv->blocks)
		recv->blocks = call->send.blocks;
}

/* What is in place is read from where the result goes. */
static void set_directions(struct coll_side *send, struct coll_side *recv)
{
	send->is_read = send->blocks && send->buffer != MPI_IN_PLACE;
	recv->is_written = recv->blocks && recv->buffer != MPI_IN_PLACE;
	if (send->buffer == MPI_IN_PLACE) {
		recv->is_read = recv->is_written;
		send->blocks = 0;
	}
	if (recv->buffer == MPI_IN_PLACE)
		recv->blocks = 0;
}

static void fill_bcast(struct coll_call *call, const struct ranks *ranks)
{
	call->recv.is_read = is_root(ranks, call->root);
	call->recv.is_written = is_leaf(ranks, call->root);
	call->recv.blocks = call->recv.is_read || call->recv.is_written;
}

void coll_fill(struct coll_call *call)
{
	const struct coll_kind *kind = coll_kind(call);
	const struct ranks ranks = ranks_of(call);
	struct coll_side *send = &call->send, *recv = &call->recv;
	send->buffer = (void *)send->at;
	recv->buffer = (void *)recv->at;
	if (kind->send.form == SIDE_NONE) {
		fill_bcast(call, &ranks);
		return;
	}
	if (has_side(call, &kind->send, &ranks))
		send->blocks = blocks_of(kind->send.form, ranks.to, &ranks);
	if (has_side(call, &kind->recv, &ranks))
		recv->blocks = blocks_of(kind->recv.form, ranks.from, &ranks);
	if (kind->has_op)
		fill_operands(call, &ranks);
	set_directions(send, recv);
	recv->is_read |= kind->reads_recv;
}
