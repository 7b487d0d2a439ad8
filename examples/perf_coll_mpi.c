/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf_coll_mpi.h"

#include <limits.h>

static MPI_Datatype mpi_type(corale_type type)
{
	const MPI_Datatype types[] = {
		[CORALE_INT8] = MPI_INT8_T,
		[CORALE_UINT8] = MPI_UINT8_T,
		[CORALE_INT32] = MPI_INT32_T,
		[CORALE_UINT32] = MPI_UINT32_T,
		[CORALE_INT64] = MPI_INT64_T,
		[CORALE_UINT64] = MPI_UINT64_T,
		[CORALE_FLOAT16] = MPI_DATATYPE_NULL,
		[CORALE_BFLOAT16] = MPI_DATATYPE_NULL,
		[CORALE_FLOAT32] = MPI_FLOAT,
		[CORALE_FLOAT64] = MPI_DOUBLE,
		[CORALE_FLOAT8_E4M3] = MPI_DATATYPE_NULL,
		[CORALE_FLOAT8_E5M2] = MPI_DATATYPE_NULL,
		[CORALE_INT16] = MPI_INT16_T,
		[CORALE_UINT16] = MPI_UINT16_T,
		[CORALE_BOOL] = MPI_C_BOOL,
		[CORALE_COMPLEX64] = MPI_C_FLOAT_COMPLEX,
		[CORALE_COMPLEX128] = MPI_C_DOUBLE_COMPLEX,
		[CORALE_PAIR_FLOAT32] = MPI_FLOAT_INT,
		[CORALE_PAIR_FLOAT64] = MPI_DOUBLE_INT,
		[CORALE_PAIR_INT64] = MPI_LONG_INT,
		[CORALE_PAIR_INT32] = MPI_2INT,
		[CORALE_PAIR_INT16] = MPI_SHORT_INT,
	};
	_Static_assert(sizeof(types) / sizeof(*types) == CORALE_NUM_TYPES, "a datatype for each type");
	return types[type];
}

static MPI_Op mpi_op(corale_op op)
{
	const MPI_Op ops[CORALE_NUM_OPS] = { MPI_SUM,  MPI_PROD,   MPI_MIN,   MPI_MAX,  MPI_OP_NULL,
					     MPI_BAND, MPI_BOR,    MPI_BXOR,  MPI_LAND, MPI_LOR,
					     MPI_LXOR, MPI_MINLOC, MPI_MAXLOC };
	return op < CORALE_NUM_OPS ? ops[op] : MPI_OP_NULL;
}

static int bytes_of(const struct perf_call *call)
{
	return (int)(call->count * corale_type_bytes(call->type));
}

static const void *or_in_place(const struct perf_call *call, const void *where)
{
	return call->send == where ? MPI_IN_PLACE : call->send;
}

static int own_bytes(const struct perf_call *c)
{
	return (int)(own_count(c) * corale_type_bytes(c->type));
}

int all_reduce_mpi(const struct perf_call *c)
{
	return MPI_Allreduce(or_in_place(c, c->recv), c->recv, (int)c->count, mpi_type(c->type),
			     mpi_op(c->op), c->job->mpi);
}

int all_gather_mpi(const struct perf_call *c)
{
	return MPI_Allgather(or_in_place(c, block(c, c->recv, c->job->rank)), bytes_of(c), MPI_BYTE, c->recv,
			     bytes_of(c), MPI_BYTE, c->job->mpi);
}

int reduce_scatter_mpi(const struct perf_call *c)
{
	int in_place = c->recv == block(c, c->send, c->job->rank);
	return MPI_Reduce_scatter_block(in_place ? MPI_IN_PLACE : c->send,
					in_place ? (void *)c->send : c->recv, (int)c->count,
					mpi_type(c->type), mpi_op(c->op), c->job->mpi);
}

int broadcast_mpi(const struct perf_call *c)
{
	return MPI_Bcast(c->recv, bytes_of(c), MPI_BYTE, c->root, c->job->mpi);
}

int reduce_mpi(const struct perf_call *c)
{
	return MPI_Reduce(is_root(c) ? or_in_place(c, c->recv) : c->send, is_root(c) ? c->recv : NULL,
			  (int)c->count, mpi_type(c->type), mpi_op(c->op), c->root, c->job->mpi);
}

int gather_mpi(const struct perf_call *c)
{
	return MPI_Gather(is_root(c) ? or_in_place(c, block(c, c->recv, c->root)) : c->send, bytes_of(c),
			  MPI_BYTE, is_root(c) ? c->recv : NULL, bytes_of(c), MPI_BYTE, c->root, c->job->mpi);
}

int scatter_mpi(const struct perf_call *c)
{
	int in_place = is_root(c) && c->recv == block(c, c->send, c->root);
	return MPI_Scatter(is_root(c) ? c->send : NULL, bytes_of(c), MPI_BYTE,
			   in_place ? MPI_IN_PLACE : c->recv, bytes_of(c), MPI_BYTE, c->root, c->job->mpi);
}

int all_to_all_mpi(const struct perf_call *c)
{
	return MPI_Alltoall(c->send, bytes_of(c), MPI_BYTE, c->recv, bytes_of(c), MPI_BYTE, c->job->mpi);
}

int all_to_all_v_mpi(const struct perf_call *c)
{
	const struct perf_job *job = c->job;
	return MPI_Alltoallv(c->send, job->mpi_send_counts, job->mpi_send_displs, MPI_BYTE, c->recv,
			     job->mpi_recv_counts, job->mpi_recv_displs, MPI_BYTE, job->mpi);
}

int all_gather_v_mpi(const struct perf_call *c)
{
	const struct perf_job *job = c->job;
	return MPI_Allgatherv(c->send, own_bytes(c), MPI_BYTE, c->recv, job->mpi_recv_counts,
			      job->mpi_recv_displs, MPI_BYTE, job->mpi);
}

int reduce_scatter_v_mpi(const struct perf_call *c)
{
	return MPI_Reduce_scatter(c->send, c->recv, c->job->mpi_send_counts, mpi_type(c->type), mpi_op(c->op),
				  c->job->mpi);
}

int gather_v_mpi(const struct perf_call *c)
{
	const struct perf_job *job = c->job;
	return MPI_Gatherv(c->send, own_bytes(c), MPI_BYTE, is_root(c) ? c->recv : NULL, job->mpi_recv_counts,
			   job->mpi_recv_displs, MPI_BYTE, c->root, job->mpi);
}

int scatter_v_mpi(const struct perf_call *c)
{
	const struct perf_job *job = c->job;
	return MPI_Scatterv(is_root(c) ? c->send : NULL, job->mpi_send_counts, job->mpi_send_displs, MPI_BYTE,
			    c->recv, own_bytes(c), MPI_BYTE, c->root, job->mpi);
}

int sendrecv_mpi(const struct perf_call *c)
{
	return MPI_Sendrecv(c->send, bytes_of(c), MPI_BYTE, next_rank(c, 1), 0, c->recv, bytes_of(c),
			    MPI_BYTE, next_rank(c, -1), 0, c->job->mpi, MPI_STATUS_IGNORE);
}

int barrier_mpi(const struct perf_call *c)
{
	return MPI_Barrier(c->job->mpi);
}

int perf_mpi_can(const struct perf_call *call, const char **why_not)
{
	size_t largest = 2 * call->count * corale_type_bytes(call->type);
	if (call->job->coll->has_op && mpi_type(call->type) == MPI_DATATYPE_NULL)
		*why_not = "MPI has no such type to reduce";
	else if (call->job->coll->has_op && mpi_op(call->op) == MPI_OP_NULL)
		*why_not = "MPI has no such operator";
	else if (largest * (is_uneven(call->job->coll) ? (size_t)call->job->size : 1) > INT_MAX)
		*why_not = "MPI counts in int";
	else
		return 1;
	return 0;
}
