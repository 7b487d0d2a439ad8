/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "perf_coll_mpi.h"

/* ---- all_reduce ---- */

static int all_reduce(const struct perf_call *c)
{
	return corale_all_reduce(c->send, c->recv, c->count, c->type, c->op, c->job->comm, c->job->stream);
}

static int one_part(int i, int source, size_t first, size_t count, struct perf_part *part)
{
	*part = (struct perf_part){ 0, source, first, count };
	return i == 0;
}

/* Block i of size ones: what source contributes from first on. */
static int block_part(const struct perf_call *c, int i, int source, size_t first, struct perf_part *part)
{
	*part = (struct perf_part){ c->count * (size_t)i, source, first, c->count };
	return i < c->job->size;
}

static int sends_one(const struct perf_call *c, int i, struct perf_part *part)
{
	return one_part(i, c->job->rank, 0, c->count, part);
}

static int receives_fold(const struct perf_call *c, int i, struct perf_part *part)
{
	return one_part(i, PERF_FOLD, 0, c->count, part);
}

/* ---- all_gather ---- */

static int all_gather(const struct perf_call *c)
{
	return corale_all_gather(c->send, c->recv, c->count, c->type, c->job->comm, c->job->stream);
}

static int receives_all(const struct perf_call *c, int i, struct perf_part *part)
{
	return block_part(c, i, i, 0, part);
}

/* ---- reduce_scatter ---- */

static int reduce_scatter(const struct perf_call *c)
{
	return corale_reduce_scatter(c->send, c->recv, c->count, c->type, c->op, c->job->comm,
				     c->job->stream);
}

static int sends_blocks(const struct perf_call *c, int i, struct perf_part *part)
{
	return block_part(c, i, c->job->rank, c->count * (size_t)i, part);
}

static int receives_folded_block(const struct perf_call *c, int i, struct perf_part *part)
{
	return one_part(i, PERF_FOLD, c->count * (size_t)c->job->rank, c->count, part);
}

/* ---- broadcast ---- */

static int broadcast(const struct perf_call *c)
{
	return corale_broadcast(c->send, c->recv, c->count, c->type, c->root, c->job->comm, c->job->stream);
}

static int sends_root(const struct perf_call *c, int i, struct perf_part *part)
{
	return one_part(i, c->root, 0, c->count, part) && c->job->rank == c->root;
}

static int receives_root(const struct perf_call *c, int i, struct perf_part *part)
{
	return one_part(i, c->root, 0, c->count, part);
}

/* ---- reduce, gather, scatter: a buffer is the root's alone ---- */

static int reduce(const struct perf_call *c)
{
	return corale_reduce(c->send, is_root(c) ? c->recv : NULL, c->count, c->type, c->op, c->root,
			     c->job->comm, c->job->stream);
}

static int root_receives_fold(const struct perf_call *c, int i, struct perf_part *part)
{
	return is_root(c) && receives_fold(c, i, part);
}

static int gather(const struct perf_call *c)
{
	return corale_gather(c->send, is_root(c) ? c->recv : NULL, c->count, c->type, c->root, c->job->comm,
			     c->job->stream);
}

static int root_receives_all(const struct perf_call *c, int i, struct perf_part *part)
{
	return is_root(c) && receives_all(c, i, part);
}

static int scatter(const struct perf_call *c)
{
	return corale_scatter(is_root(c) ? c->send : NULL, c->recv, c->count, c->type, c->root, c->job->comm,
			      c->job->stream);
}

static int root_sends_blocks(const struct perf_call *c, int i, struct perf_part *part)
{
	return is_root(c) && sends_blocks(c, i, part);
}

static int receives_block_of_root(const struct perf_call *c, int i, struct perf_part *part)
{
	return one_part(i, c->root, c->count * (size_t)c->job->rank, c->count, part);
}

/* ---- all_to_all ---- */

static int all_to_all(const struct perf_call *c)
{
	return corale_all_to_all(c->send, c->recv, c->count, c->type, c->job->comm, c->job->stream);
}

static int receives_blocks(const struct perf_call *c, int i, struct perf_part *part)
{
	return block_part(c, i, i, c->count * (size_t)c->job->rank, part);
}

/* ---- all_to_all_v: from a to b goes (a + b) mod 3 times count, so some edges are empty ---- */

static int all_to_all_v(const struct perf_call *c);

static size_t edge_count(size_t count, int from, int to)
{
	return (size_t)((from + to) % 3) * count;
}

/* Of other v-forms: odd ranks' blocks are twice as long as even ranks', and all together as long as those of the even call. */
static size_t block_count(const struct perf_job *job, size_t count, int rank)
{
	if (rank == job->size - 1 && job->size % 2)
		return count;
	return rank % 2 ? count + count / 3 : count - count / 3;
}

void perf_set_edges(struct perf_job *job, size_t count, corale_type type)
{
	const int by_edge = job->coll->ours == all_to_all_v;
	size_t bytes = job->coll->has_op ? 1 : corale_type_bytes(type), sent = 0, received = 0;
	for (int r = 0; r < job->size; r++) {
		job->send_counts[r] = by_edge ? edge_count(count, job->rank, r) : block_count(job, count, r);
		job->recv_counts[r] = by_edge ? edge_count(count, r, job->rank) : block_count(job, count, r);
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

static int sends_edges(const struct perf_call *c, int i, struct perf_part *part)
{
	const struct perf_job *job = c->job;
	if (i >= job->size)
		return 0;
	*part = (struct perf_part){ job->send_displs[i], job->rank, 2 * c->count * (size_t)i,
				    job->send_counts[i] };
	return 1;
}

static int receives_edges(const struct perf_call *c, int i, struct perf_part *part)
{
	const struct perf_job *job = c->job;
	if (i >= job->size)
		return 0;
	*part = (struct perf_part){ job->recv_displs[i], i, 2 * c->count * (size_t)job->rank,
				    job->recv_counts[i] };
	return 1;
}

/* ---- all_gather_v, reduce_scatter_v, gather_v, scatter_v ---- */

size_t own_count(const struct perf_call *c)
{
	return block_count(c->job, c->count, c->job->rank);
}

static int all_gather_v(const struct perf_call *c)
{
	const struct perf_job *job = c->job;
	return corale_all_gather_v(c->send, c->recv, job->recv_counts, job->recv_displs, c->type, job->comm,
				   job->stream);
}

static int reduce_scatter_v(const struct perf_call *c)
{
	const struct perf_job *job = c->job;
	return corale_reduce_scatter_v(c->send, job->send_counts, job->send_displs, c->recv, c->type, c->op,
				       job->comm, job->stream);
}

static int gather_v(const struct perf_call *c)
{
	const struct perf_job *job = c->job;
	return corale_gather_v(c->send, own_count(c), is_root(c) ? c->recv : NULL, job->recv_counts,
			       job->recv_displs, c->type, c->root, job->comm, job->stream);
}

static int scatter_v(const struct perf_call *c)
{
	const struct perf_job *job = c->job;
	return corale_scatter_v(is_root(c) ? c->send : NULL, job->send_counts, job->send_displs, c->recv,
				own_count(c), c->type, c->root, job->comm, job->stream);
}

static int sends_own(const struct perf_call *c, int i, struct perf_part *part)
{
	return one_part(i, c->job->rank, 0, own_count(c), part);
}

static int receives_every_own(const struct perf_call *c, int i, struct perf_part *part)
{
	if (i >= c->job->size)
		return 0;
	*part = (struct perf_part){ c->job->recv_displs[i], i, 0, c->job->recv_counts[i] };
	return 1;
}

static int receives_folded_own(const struct perf_call *c, int i, struct perf_part *part)
{
	return one_part(i, PERF_FOLD, 2 * c->count * (size_t)c->job->rank, own_count(c), part);
}

static int root_receives_every_own(const struct perf_call *c, int i, struct perf_part *part)
{
	return is_root(c) && receives_every_own(c, i, part);
}

static int root_sends_edges(const struct perf_call *c, int i, struct perf_part *part)
{
	return is_root(c) && sends_edges(c, i, part);
}

static int receives_own_of_root(const struct perf_call *c, int i, struct perf_part *part)
{
	return one_part(i, c->root, 2 * c->count * (size_t)c->job->rank, own_count(c), part);
}

int is_uneven(const struct perf_coll *coll)
{
	return strstr(coll->name, "_v") != NULL;
}

/* ---- sendrecv: to the next rank, from the previous one ---- */

static int sendrecv(const struct perf_call *c)
{
	corale_group_begin();
	corale_send(c->send, c->count, c->type, next_rank(c, 1), c->job->comm, c->job->stream);
	corale_recv(c->recv, c->count, c->type, next_rank(c, -1), c->job->comm, c->job->stream);
	return corale_group_end(); /* returns the error of a refused call */
}

static int receives_previous(const struct perf_call *c, int i, struct perf_part *part)
{
	return one_part(i, next_rank(c, -1), 0, c->count, part);
}

/* ---- barrier ---- */

static int barrier(const struct perf_call *c)
{
	return corale_barrier(c->job->comm, c->job->stream);
}

static int moves_nothing(const struct perf_call *c, int i, struct perf_part *part)
{
	(void)c, (void)i, (void)part;
	return 0;
}

enum { EACH = PERF_PER_RANK };
/* name, op, root, place, send and recv blocks, busbw factor, equal results, ours, MPI, what is sent and received */
static const struct perf_coll colls[PERF_COLLS] = {
	{ "all_reduce", 1, 0, 1, 1, 1, 2, -2, 1, all_reduce, all_reduce_mpi, sends_one, receives_fold },
	{ "all_gather_v", 0, 0, 0, 1, EACH, 1, -1, 1, all_gather_v, all_gather_v_mpi, sends_own,
	  receives_every_own },
	{ "reduce_scatter_v", 1, 0, 0, EACH, 1, 1, -1, 0, reduce_scatter_v, reduce_scatter_v_mpi, sends_edges,
	  receives_folded_own },
	{ "gather_v", 0, 1, 0, 1, EACH, 1, -1, 0, gather_v, gather_v_mpi, sends_own,
	  root_receives_every_own },
	{ "scatter_v", 0, 1, 0, EACH, 1, 1, -1, 0, scatter_v, scatter_v_mpi, root_sends_edges,
	  receives_own_of_root },
	{ "all_gather", 0, 0, 1, 1, EACH, 1, -1, 1, all_gather, all_gather_mpi, sends_one, receives_all },
	{ "reduce_scatter", 1, 0, 1, EACH, 1, 1, -1, 0, reduce_scatter, reduce_scatter_mpi, sends_blocks,
	  receives_folded_block },
	{ "broadcast", 0, 1, 1, 1, 1, 1, 0, 1, broadcast, broadcast_mpi, sends_root, receives_root },
	{ "all_to_all_v", 0, 0, 0, EACH, EACH, 1, -1, 0, all_to_all_v, all_to_all_v_mpi, sends_edges,
	  receives_edges },
	{ "all_to_all", 0, 0, 0, EACH, EACH, 1, -1, 0, all_to_all, all_to_all_mpi, sends_blocks,
	  receives_blocks },
	{ "reduce", 1, 1, 1, 1, 1, 1, 0, 0, reduce, reduce_mpi, sends_one, root_receives_fold },
	{ "gather", 0, 1, 1, 1, EACH, 1, -1, 0, gather, gather_mpi, sends_one, root_receives_all },
	{ "scatter", 0, 1, 1, EACH, 1, 1, -1, 0, scatter, scatter_mpi, root_sends_blocks,
	  receives_block_of_root },
	{ "sendrecv", 0, 0, 0, 1, 1, 1, 0, 0, sendrecv, sendrecv_mpi, sends_one, receives_previous },
	{ "barrier", 0, 0, 0, 0, 0, 0, 0, 0, barrier, barrier_mpi, moves_nothing, moves_nothing },
};

const char *perf_file_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

/* The collective whose name the program's name holds; the longer names come first in the table. */
int perf_coll_of_program(const char *program)
{
	for (int i = 0; i < PERF_COLLS; i++)
		if (strstr(perf_file_name(program), colls[i].name))
			return i;
	return -1;
}

const struct perf_coll *perf_coll_number(int number)
{
	return &colls[number];
}

const char *perf_coll_name(int number)
{
	return colls[number].name;
}

size_t perf_blocks(const struct perf_coll *coll, int ranks)
{
	return coll->send_blocks == EACH || coll->recv_blocks == EACH ? (size_t)ranks
								      : (size_t)coll->send_blocks;
}

double perf_bus_factor(const struct perf_job *job)
{
	return job->coll->bus_constant + job->coll->bus_per_rank / job->size;
}

size_t perf_recv_bytes(const struct perf_job *job, size_t count, corale_type type)
{
	size_t blocks = job->coll->recv_blocks == EACH ? (size_t)job->size : (size_t)job->coll->recv_blocks;
	size_t elements = 0;
	if (!is_uneven(job->coll))
		return blocks * count * corale_type_bytes(type);
	if (job->coll->recv_blocks != EACH)
		return block_count(job, count, job->rank) * corale_type_bytes(type);
	for (int r = 0; r < job->size; r++)
		elements += job->coll->ours == all_to_all_v ? edge_count(count, r, job->rank)
							    : block_count(job, count, r);
	return elements * corale_type_bytes(type);
}

void perf_place(struct perf_call *call, const struct perf_pair *pair, int in_place)
{
	const struct perf_job *job = call->job;
	call->send = pair->send;
	call->recv = pair->recv;
	if (!in_place)
		return;
	call->send = call->recv;
	if (job->coll->send_blocks == EACH)
		call->recv = block(call, call->send, job->rank);
	else if (job->coll->recv_blocks == EACH)
		call->send = block(call, call->recv, job->rank);
}
