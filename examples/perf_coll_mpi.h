/* SPDX-License-Identifier: BSD-3-Clause */
/* The same calls by MPI, and what both files of collectives need to know of a call. */
#ifndef PERF_COLL_MPI_H
#define PERF_COLL_MPI_H

#include "perf.h"

typedef int perf_run(const struct perf_call *c);
perf_run all_reduce_mpi, all_gather_mpi, reduce_scatter_mpi, broadcast_mpi, reduce_mpi, gather_mpi,
    scatter_mpi, all_to_all_mpi, all_to_all_v_mpi, all_gather_v_mpi, reduce_scatter_v_mpi, gather_v_mpi,
    scatter_v_mpi, sendrecv_mpi, barrier_mpi;

static inline unsigned char *block(const struct perf_call *call, const void *buf, int i)
{
	return (unsigned char *)buf + (size_t)i * call->count * corale_type_bytes(call->type);
}

static inline int is_root(const struct perf_call *c)
{
	return c->job->rank == c->root;
}

static inline int next_rank(const struct perf_call *c, int step)
{
	return (c->job->rank + step + c->job->size) % c->job->size;
}

/* perf_coll.c */
size_t own_count(const struct perf_call *c); /* v-forms but all_to_all_v: elements of this rank */
int is_uneven(const struct perf_coll *coll);

#endif
