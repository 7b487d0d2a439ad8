/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls of choices_ranks, ours and MPI's: float32, sums, root 0. */
#include "base/collectives.h"
#include "choices.h"
#include "test/helpers/any_call.h"

size_t choices_blocks(corale_coll coll, int ranks)
{
	size_t send = coll_blocks(coll_table[coll].send, ranks),
	       recv = coll_blocks(coll_table[coll].recv, ranks);
	return send > recv ? send : recv;
}

int choices_ours(const struct choices_call *c)
{
	/* A broadcast is in place, as MPI's always is. */
	return any_call(&(struct any_call){ .coll = c->coll,
					    .count = c->count,
					    .type = CORALE_FLOAT32,
					    .send = c->coll == CORALE_BROADCAST ? c->job->recv : c->job->send,
					    .recv = c->job->recv,
					    .comm = c->job->handle });
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
