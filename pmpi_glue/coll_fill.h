/* SPDX-License-Identifier: BSD-3-Clause */
/* A call's record, by the arguments of MPI's functions: which buffers a rank has, how many blocks, which of them are read and written. */
#ifndef PMPI_COLL_FILL_H
#define PMPI_COLL_FILL_H

#include "coll.h"
#include "door.h"

void coll_fill_bcast(struct coll_call *call, void *buffer, MPI_Count count, MPI_Datatype type, int root);
/* MPI_Allreduce, MPI_Scan, MPI_Exscan */
void coll_fill_all_reduce(struct coll_call *call, const void *send, void *recv, MPI_Count count,
			  MPI_Datatype type, MPI_Op op);
void coll_fill_reduce(struct coll_call *call, const void *send, void *recv, MPI_Count count,
		      MPI_Datatype type, MPI_Op op, int root);
void coll_fill_reduce_scatter_block(struct coll_call *call, const void *send, void *recv, MPI_Count count,
				    MPI_Datatype type, MPI_Op op);
void coll_fill_reduce_scatter(struct coll_call *call, const void *send, void *recv, const void *counts,
			      MPI_Datatype type, MPI_Op op);

/* The others move blocks. one: the whole of a side; each: a block of each rank, with counts and displs or without. */
struct coll_blocks {
	const void *buffer;
	MPI_Count count;
	const void *counts, *displs;
	MPI_Datatype type;
	const MPI_Datatype *types;
};
void coll_fill_all_gather(struct coll_call *call, const struct coll_blocks *one,
			  const struct coll_blocks *each);
void coll_fill_gather(struct coll_call *call, const struct coll_blocks *one, const struct coll_blocks *each,
		      int root);
void coll_fill_scatter(struct coll_call *call, const struct coll_blocks *each, const struct coll_blocks *one,
		       int root);
void coll_fill_all_to_all(struct coll_call *call, const struct coll_blocks *send,
			  const struct coll_blocks *recv);
/* Of MPI_Neighbor_allgather and the like send is one block. */
void coll_fill_neighbors(struct coll_call *call, const struct coll_blocks *send,
			 const struct coll_blocks *recv, int sends_one);

#endif
