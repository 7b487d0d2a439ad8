/* SPDX-License-Identifier: BSD-3-Clause */
#include "coll_fill.h"

/* The ranks of a call: of an intercommunicator a rank has blocks for those of the other group. */
struct ranks {
	int rank, size, peers, is_inter;
};

static struct ranks ranks_of(MPI_Comm handle)
{
	const struct pmpi_comm *comm = pmpi_comm_find(handle);
	struct ranks ranks = { 0 };
	if (comm)
		return (struct ranks){ comm->rank, comm->size, comm->peers, comm->is_inter };
	PMPI_Comm_rank(handle, &ranks.rank);
	PMPI_Comm_size(handle, &ranks.size);
	PMPI_Comm_test_inter(handle, &ranks.is_inter);
	ranks.peers = ranks.size;
	if (ranks.is_inter)
		PMPI_Comm_remote_size(handle, &ranks.peers);
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

static struct coll_side side(const void *buffer, MPI_Count count, MPI_Datatype type, int blocks)
{
	return (struct coll_side){ .buffer = (void *)buffer, .count = count, .type = type, .blocks = blocks };
}

static struct coll_side side_of(const struct coll_blocks *blocks, int n)
{
	return (struct coll_side){ .buffer = (void *)blocks->buffer,
				   .count = blocks->count,
				   .counts = blocks->counts,
				   .displs = blocks->displs,
				   .type = blocks->type,
				   .types = blocks->types,
				   .blocks = n };
}

/* What is in place is read from where the result goes. */
static void set_sides(struct coll_call *call, struct coll_side send, struct coll_side recv)
{
	call->send = send;
	call->recv = recv;
	call->send.is_read = call->send.blocks && call->send.buffer != MPI_IN_PLACE;
	call->recv.is_written = call->recv.blocks && call->recv.buffer != MPI_IN_PLACE;
	if (call->send.buffer == MPI_IN_PLACE) {
		call->recv.is_read = call->recv.is_written;
		call->send.blocks = 0;
	}
	if (call->recv.buffer == MPI_IN_PLACE)
		call->recv.blocks = 0;
}

void coll_fill_bcast(struct coll_call *call, void *buffer, MPI_Count count, MPI_Datatype type, int root)
{
	const struct ranks ranks = ranks_of(call->comm);
	const int roots = is_root(&ranks, root), leaf = is_leaf(&ranks, root);
	call->root = root;
	call->recv = side(buffer, count, type, roots || leaf);
	call->recv.is_read = roots;
	call->recv.is_written = leaf;
}

void coll_fill_all_reduce(struct coll_call *call, const void *send, void *recv, MPI_Count count,
			  MPI_Datatype type, MPI_Op op)
{
	call->op = op;
	set_sides(call, side(send, count, type, 1), side(recv, count, type, 1));
	if (call->function == PMPI_EXSCAN)
		call->recv.is_read = 1; /* at rank 0 nothing is written, so the buffer is to stay as it is */
}

void coll_fill_reduce(struct coll_call *call, const void *send, void *recv, MPI_Count count,
		      MPI_Datatype type, MPI_Op op, int root)
{
	const struct ranks ranks = ranks_of(call->comm);
	call->op = op;
	call->root = root;
	set_sides(call, side(send, count, type, is_leaf(&ranks, root) || !ranks.is_inter),
		  side(recv, count, type, is_root(&ranks, root)));
}

void coll_fill_reduce_scatter_block(struct coll_call *call, const void *send, void *recv, MPI_Count count,
				    MPI_Datatype type, MPI_Op op)
{
	const struct ranks ranks = ranks_of(call->comm);
	const int in_place = send == MPI_IN_PLACE;
	call->op = op;
	set_sides(call, side(send, count, type, ranks.size),
		  side(recv, count, type, in_place ? ranks.size : 1));
}

void coll_fill_reduce_scatter(struct coll_call *call, const void *send, void *recv, const void *counts,
			      MPI_Datatype type, MPI_Op op)
{
	const struct ranks ranks = ranks_of(call->comm);
	MPI_Count all = 0;
	call->op = op;
	call->counts = counts;
	for (int i = 0; counts && i < ranks.size; i++)
		all += coll_result_count(call, i);
	const MPI_Count own = coll_result_count(call, ranks.rank); /* 0 without counts */
	set_sides(call, side(send, all, type, 1), side(recv, send == MPI_IN_PLACE ? all : own, type, 1));
}

void coll_fill_all_gather(struct coll_call *call, const struct coll_blocks *one,
			  const struct coll_blocks *each)
{
	const struct ranks ranks = ranks_of(call->comm);
	set_sides(call, side_of(one, 1), side_of(each, ranks.peers));
}

void coll_fill_gather(struct coll_call *call, const struct coll_blocks *one, const struct coll_blocks *each,
		      int root)
{
	const struct ranks ranks = ranks_of(call->comm);
	call->root = root;
	set_sides(call, side_of(one, is_leaf(&ranks, root) || !ranks.is_inter),
		  side_of(each, is_root(&ranks, root) ? ranks.peers : 0));
}

void coll_fill_scatter(struct coll_call *call, const struct coll_blocks *each, const struct coll_blocks *one,
		       int root)
{
	const struct ranks ranks = ranks_of(call->comm);
	call->root = root;
	set_sides(call, side_of(each, is_root(&ranks, root) ? ranks.peers : 0),
		  side_of(one, is_leaf(&ranks, root) || !ranks.is_inter));
}

void coll_fill_all_to_all(struct coll_call *call, const struct coll_blocks *send,
			  const struct coll_blocks *recv)
{
	const struct ranks ranks = ranks_of(call->comm);
	set_sides(call, side_of(send, ranks.peers), side_of(recv, ranks.peers));
}

static void degrees(MPI_Comm comm, int *in, int *out)
{
	int kind = MPI_UNDEFINED, n = 0, weighted, rank;
	*in = *out = 0;
	PMPI_Topo_test(comm, &kind);
	if (kind == MPI_DIST_GRAPH) {
		PMPI_Dist_graph_neighbors_count(comm, in, out, &weighted);
	} else if (kind == MPI_GRAPH) {
		PMPI_Comm_rank(comm, &rank);
		PMPI_Graph_neighbors_count(comm, rank, &n);
		*in = *out = n;
	} else if (kind == MPI_CART) {
		PMPI_Cartdim_get(comm, &n);
		*in = *out = 2 * n;
	}
}

void coll_fill_neighbors(struct coll_call *call, const struct coll_blocks *send,
			 const struct coll_blocks *recv, int sends_one)
{
	int in, out;
	degrees(call->comm, &in, &out);
	set_sides(call, side_of(send, sends_one ? 1 : out), side_of(recv, in));
	call->recv.is_read =
	    1; /* no block comes from a neighbour beyond the edge of a grid (MPI_PROC_NULL) */
}
