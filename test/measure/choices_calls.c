/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls of choices_ranks, ours and MPI's: float32, sums, root 0. */
#include "base/collectives.h"
#include "choices.h"

size_t choices_blocks(corale_coll coll, int ranks)
{
	size_t send = coll_blocks(coll_table[coll].send, ranks),
	       recv = coll_blocks(coll_table[coll].recv, ranks);
	return send > recv ? send : recv;
}

int choices_ours(const struct choices_call *c)
{
	const void *send = c->job->send;
	void *recv = c->job->recv;
	corale_comm *comm = c->job->handle;
	switch (c->coll) {
	case CORALE_ALL_REDUCE:
		return corale_all_reduce(send, recv, c->count, CORALE_FLOAT32, CORALE_SUM, comm, NULL);
	case CORALE_ALL_GATHER:
		return corale_all_gather(send, recv, c->count, CORALE_FLOAT32, comm, NULL);
	case CORALE_REDUCE_SCATTER:
		return corale_reduce_scatter(send, recv, c->count, CORALE_FLOAT32, CORALE_SUM, comm, NULL);
	case CORALE_BROADCAST: /* in place, as MPI's always is */
		return corale_broadcast(recv, recv, c->count, CORALE_FLOAT32, 0, comm, NULL);
	case CORALE_ALL_TO_ALL:
		return corale_all_to_all(send, recv, c->count, CORALE_FLOAT32, comm, NULL);
	case CORALE_REDUCE:
		return corale_reduce(send, recv, c->count, CORALE_FLOAT32, CORALE_SUM, 0, comm, NULL);
	case CORALE_GATHER:
		return corale_gather(send, recv, c->count, CORALE_FLOAT32, 0, comm, NULL);
	case CORALE_SCATTER:
		return corale_scatter(send, recv, c->count, CORALE_FLOAT32, 0, comm, NULL);
	case CORALE_BARRIER:
		return corale_barrier(comm, NULL);
	default:
		return CORALE_ENOTSUP;
	}
}

int choices_mpi(const struct choices_call *c)
{
	const void *send = c->job->send;
	void *recv = c->job->recv;
	const int n = (int)c->count;
	MPI_Comm comm = c->job->mpi;
	switch (c->coll) {
	case CORALE_ALL_REDUCE:
		return MPI_Allreduce(send, recv, n, MPI_FLOAT, MPI_SUM, comm);
	case CORALE_ALL_GATHER:
		return MPI_Allgather(send, n, MPI_FLOAT, recv, n, MPI_FLOAT, comm);
	case CORALE_REDUCE_SCATTER:
		return MPI_Reduce_scatter_block(send, recv, n, MPI_FLOAT, MPI_SUM, comm);
	case CORALE_BROADCAST:
		return MPI_Bcast(recv, n, MPI_FLOAT, 0, comm);
	case CORALE_ALL_TO_ALL:
		return MPI_Alltoall(send, n, MPI_FLOAT, recv, n, MPI_FLOAT, comm);
	case CORALE_REDUCE:
		return MPI_Reduce(send, recv, n, MPI_FLOAT, MPI_SUM, 0, comm);
	case CORALE_GATHER:
		return MPI_Gather(send, n, MPI_FLOAT, recv, n, MPI_FLOAT, 0, comm);
	case CORALE_SCATTER:
		return MPI_Scatter(send, n, MPI_FLOAT, recv, n, MPI_FLOAT, 0, comm);
	case CORALE_BARRIER:
		return MPI_Barrier(comm);
	default:
		return MPI_ERR_OTHER;
	}
}
