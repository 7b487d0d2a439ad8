#include <limits.h>
#include <string.h>

#include "perf.h"

static MPI_Datatype mpi_type(corale_type type)
{
	const MPI_Datatype types[CORALE_NUM_TYPES] = {
		MPI_INT8_T,  MPI_UINT8_T,  MPI_INT32_T,       MPI_UINT32_T,
		MPI_INT64_T, MPI_UINT64_T, MPI_DATATYPE_NULL, MPI_DATATYPE_NULL,
		MPI_FLOAT,   MPI_DOUBLE,   MPI_DATATYPE_NULL, MPI_DATATYPE_NULL
	};
	return types[type];
}

static MPI_Op mpi_op(corale_op op)
{
	const MPI_Op ops[] = { MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX };
	return op <= CORALE_MAX ? ops[op] : MPI_OP_NULL;
}

static int bytes_of(const struct perf_call *call)
{
	return (int)(call->count * corale_type_bytes(call->type));
}

static const void *or_in_place(const struct perf_call *call, const void *where)
{
	return call->send == where ? MPI_IN_PLACE : call->send;
}

static unsigned char *block(const struct perf_call *call, const void *buf, int i)
{
	return (unsigned char *)buf + (size_t)i * call->count * corale_type_bytes(call->type);
}

/* ---- all_reduce ---- */

static int all_reduce(const struct perf_call *c)
{
	return corale_all_reduce(c->send, c->recv, c->count, c->type, c->op, c->job->comm, c->job->stream);
}

static int all_reduce_mpi(const struct perf_call *c)
{
	return MPI_Allreduce(or_in_place(c, c->recv), c->recv, (int)c->count, mpi_type(c->type),
			     mpi_op(c->op), c->job->mpi);
}

static void fill_one(const struct perf_call *c, const struct reference *ref)
{
	reference_fill(ref, c->job->rank, 0, c->count, (void *)c->send);
}

static size_t check_all_reduce(const struct perf_call *c, const struct reference *ref,
			       struct reference_fault *fault)
{
	return reference_check_fold(ref, 0, c->count, c->recv, fault);
}

/* ---- all_gather ---- */

static int all_gather(const struct perf_call *c)
{
	return corale_all_gather(c->send, c->recv, c->count, c->type, c->job->comm, c->job->stream);
}

static int all_gather_mpi(const struct perf_call *c)
{
	return MPI_Allgather(or_in_place(c, block(c, c->recv, c->job->rank)), bytes_of(c), MPI_BYTE, c->recv,
			     bytes_of(c), MPI_BYTE, c->job->mpi);
}

static size_t check_all_gather(const struct perf_call *c, const struct reference *ref,
			       struct reference_fault *fault)
{
	size_t wrong = 0;
	for (int r = 0; r < c->job->size; r++)
		wrong +=
		    reference_check_copy(ref, r, 0, c->count, block(c, c->recv, r), wrong ? NULL : fault);
	return wrong;
}

/* ---- reduce_scatter ---- */

static int reduce_scatter(const struct perf_call *c)
{
	return corale_reduce_scatter(c->send, c->recv, c->count, c->type, c->op, c->job->comm,
				     c->job->stream);
}

static int reduce_scatter_mpi(const struct perf_call *c)
{
	int in_place = c->recv == block(c, c->send, c->job->rank);
	return MPI_Reduce_scatter_block(in_place ? MPI_IN_PLACE : c->send,
					in_place ? (void *)c->send : c->recv, (int)c->count,
					mpi_type(c->type), mpi_op(c->op), c->job->mpi);
}

static void fill_all(const struct perf_call *c, const struct reference *ref)
{
	reference_fill(ref, c->job->rank, 0, c->count * (size_t)c->job->size, (void *)c->send);
}

static size_t check_reduce_scatter(const struct perf_call *c, const struct reference *ref,
				   struct reference_fault *fault)
{
	return reference_check_fold(ref, c->count * (size_t)c->job->rank, c->count, c->recv, fault);
}

/* ---- broadcast ---- */

static int broadcast(const struct perf_call *c)
{
	return corale_broadcast(c->send, c->recv, c->count, c->type, c->root, c->job->comm, c->job->stream);
}

static int broadcast_mpi(const struct perf_call *c)
{
	return MPI_Bcast(c->recv, bytes_of(c), MPI_BYTE, c->root, c->job->mpi);
}

static void fill_root(const struct perf_call *c, const struct reference *ref)
{
	if (c->job->rank == c->root)
		reference_fill(ref, c->root, 0, c->count, (void *)c->send);
}

static size_t check_broadcast(const struct perf_call *c, const struct reference *ref,
			      struct reference_fault *fault)
{
	return reference_check_copy(ref, c->root, 0, c->count, c->recv, fault);
}

/* ---- all_to_all ---- */

static int all_to_all(const struct perf_call *c)
{
	return corale_all_to_all(c->send, c->recv, c->count, c->type, c->job->comm, c->job->stream);
}

static int all_to_all_mpi(const struct perf_call *c)
{
	return MPI_Alltoall(c->send, bytes_of(c), MPI_BYTE, c->recv, bytes_of(c), MPI_BYTE, c->job->mpi);
}

static size_t check_all_to_all(const struct perf_call *c, const struct reference *ref,
			       struct reference_fault *fault)
{
	size_t wrong = 0, mine = c->count * (size_t)c->job->rank;
	for (int r = 0; r < c->job->size; r++)
		wrong +=
		    reference_check_copy(ref, r, mine, c->count, block(c, c->recv, r), wrong ? NULL : fault);
	return wrong;
}

/* ---- all_to_all_v: from a to b goes (a + b) mod 3 times count, so some edges are empty ---- */

static size_t edge_count(size_t count, int from, int to)
{
	return (size_t)((from + to) % 3) * count;
}

void perf_set_edges(struct perf_job *job, size_t count, corale_type type)
{
	size_t bytes = corale_type_bytes(type), sent = 0, received = 0;
	for (int r = 0; r < job->size; r++) {
		job->send_counts[r] = edge_count(count, job->rank, r);
		job->recv_counts[r] = edge_count(count, r, job->rank);
		job->send_displs[r] = sent;
		job->recv_displs[r] = received;
		job->mpi_send_counts[r] = (int)(job->send_counts[r] * bytes);
		job->mpi_recv_counts[r] = (int)(job->recv_counts[r] * bytes);
		job->mpi_send_displs[r] = (int)(sent * bytes);
		job->mpi_recv_displs[r] = (int)(received * bytes);
		sent += job->send_counts[r];
		received += job->recv_counts[r];
	}
}

static int all_to_all_v(const struct perf_call *c)
{
	const struct perf_job *job = c->job;
	return corale_all_to_all_v(c->send, job->send_counts, job->send_displs, c->recv, job->recv_counts,
				   job->recv_displs, c->type, job->comm, job->stream);
}

static int all_to_all_v_mpi(const struct perf_call *c)
{
	const struct perf_job *job = c->job;
	return MPI_Alltoallv(c->send, job->mpi_send_counts, job->mpi_send_displs, MPI_BYTE, c->recv,
			     job->mpi_recv_counts, job->mpi_recv_displs, MPI_BYTE, job->mpi);
}

static void fill_edges(const struct perf_call *c, const struct reference *ref)
{
	size_t bytes = corale_type_bytes(c->type);
	for (int r = 0; r < c->job->size; r++)
		reference_fill(ref, c->job->rank, 2 * c->count * (size_t)r, c->job->send_counts[r],
			       (unsigned char *)c->send + c->job->send_displs[r] * bytes);
}

static size_t check_edges(const struct perf_call *c, const struct reference *ref,
			  struct reference_fault *fault)
{
	size_t wrong = 0, bytes = corale_type_bytes(c->type);
	for (int r = 0; r < c->job->size; r++)
		wrong += reference_check_copy(
		    ref, r, 2 * c->count * (size_t)c->job->rank, c->job->recv_counts[r],
		    (unsigned char *)c->recv + c->job->recv_displs[r] * bytes, wrong ? NULL : fault);
	return wrong;
}

/* ---- sendrecv: to the next rank, from the previous one ---- */

static int next_rank(const struct perf_call *c, int step)
{
	return (c->job->rank + step + c->job->size) % c->job->size;
}

static int sendrecv(const struct perf_call *c)
{
	corale_group_begin();
	corale_send(c->send, c->count, c->type, next_rank(c, 1), c->job->comm, c->job->stream);
	corale_recv(c->recv, c->count, c->type, next_rank(c, -1), c->job->comm, c->job->stream);
	return corale_group_end(); /* returns the error of a refused call */
}

static int sendrecv_mpi(const struct perf_call *c)
{
	return MPI_Sendrecv(c->send, bytes_of(c), MPI_BYTE, next_rank(c, 1), 0, c->recv, bytes_of(c),
			    MPI_BYTE, next_rank(c, -1), 0, c->job->mpi, MPI_STATUS_IGNORE);
}

static size_t check_sendrecv(const struct perf_call *c, const struct reference *ref,
			     struct reference_fault *fault)
{
	return reference_check_copy(ref, next_rank(c, -1), 0, c->count, c->recv, fault);
}

/* ---- barrier ---- */

static int barrier(const struct perf_call *c)
{
	return corale_barrier(c->job->comm, c->job->stream);
}

static int barrier_mpi(const struct perf_call *c)
{
	return MPI_Barrier(c->job->mpi);
}

static void fill_nothing(const struct perf_call *c, const struct reference *ref)
{
	(void)c, (void)ref;
}

static size_t check_nothing(const struct perf_call *c, const struct reference *ref,
			    struct reference_fault *fault)
{
	(void)c, (void)ref, (void)fault;
	return 0;
}

enum { EACH = PERF_PER_RANK };
/* name, op, root, place, send and recv blocks, busbw factor, equal results, functions */
static const struct perf_coll colls[] = {
	{ "all_reduce", 1, 0, 1, 1, 1, 2, -2, 1, all_reduce, all_reduce_mpi, fill_one, check_all_reduce },
	{ "all_gather", 0, 0, 1, 1, EACH, 1, -1, 1, all_gather, all_gather_mpi, fill_one, check_all_gather },
	{ "reduce_scatter", 1, 0, 1, EACH, 1, 1, -1, 0, reduce_scatter, reduce_scatter_mpi, fill_all,
	  check_reduce_scatter },
	{ "broadcast", 0, 1, 1, 1, 1, 1, 0, 1, broadcast, broadcast_mpi, fill_root, check_broadcast },
	{ "all_to_all_v", 0, 0, 0, EACH, EACH, 1, -1, 0, all_to_all_v, all_to_all_v_mpi, fill_edges,
	  check_edges },
	{ "all_to_all", 0, 0, 0, EACH, EACH, 1, -1, 0, all_to_all, all_to_all_mpi, fill_all,
	  check_all_to_all },
	{ "sendrecv", 0, 0, 0, 1, 1, 1, 0, 0, sendrecv, sendrecv_mpi, fill_one, check_sendrecv },
	{ "barrier", 0, 0, 0, 0, 0, 0, 0, 0, barrier, barrier_mpi, fill_nothing, check_nothing },
};

/* The collective whose name the program's name holds; the longer names come first in the table. */
const struct perf_coll *perf_coll_of_program(const char *program)
{
	const char *slash = strrchr(program, '/');
	for (size_t i = 0; i < sizeof(colls) / sizeof(colls[0]); i++)
		if (strstr(slash ? slash + 1 : program, colls[i].name))
			return &colls[i];
	return NULL;
}

size_t perf_blocks(const struct perf_coll *coll, int ranks)
{
	return coll->send_blocks == EACH || coll->recv_blocks == EACH ? (size_t)ranks
								      : (size_t)coll->send_blocks;
}

static size_t buffer_bytes(const struct perf_job *job, int blocks, size_t count, corale_type type)
{
	size_t n = blocks == EACH ? (size_t)job->size : (size_t)blocks;
	return n * count * corale_type_bytes(type);
}

size_t perf_send_bytes(const struct perf_job *job, size_t count, corale_type type)
{
	size_t bytes = 0;
	if (job->coll->ours != all_to_all_v)
		return buffer_bytes(job, job->coll->send_blocks, count, type);
	for (int r = 0; r < job->size; r++)
		bytes += edge_count(count, job->rank, r) * corale_type_bytes(type);
	return bytes;
}

size_t perf_recv_bytes(const struct perf_job *job, size_t count, corale_type type)
{
	if (job->coll->ours == all_to_all_v) /* who sends how much to whom is symmetric */
		return perf_send_bytes(job, count, type);
	return buffer_bytes(job, job->coll->recv_blocks, count, type);
}

void perf_place(struct perf_call *call, int in_place)
{
	const struct perf_job *job = call->job;
	call->send = job->send;
	call->recv = job->recv;
	if (!in_place)
		return;
	call->send = call->recv;
	if (job->coll->send_blocks == EACH)
		call->recv = block(call, call->send, job->rank);
	else if (job->coll->recv_blocks == EACH)
		call->send = block(call, call->recv, job->rank);
}

int perf_mpi_can(const struct perf_call *call, const char **why_not)
{
	size_t largest = 2 * call->count * corale_type_bytes(call->type);
	if (call->job->coll->has_op && mpi_type(call->type) == MPI_DATATYPE_NULL)
		*why_not = "MPI has no such type to reduce";
	else if (call->job->coll->has_op && mpi_op(call->op) == MPI_OP_NULL)
		*why_not = "MPI has no such operator";
	else if (largest * (call->job->coll->ours == all_to_all_v ? (size_t)call->job->size : 1) > INT_MAX)
		*why_not = "MPI counts in int";
	else
		return 1;
	return 0;
}
