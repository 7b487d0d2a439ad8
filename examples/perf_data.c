/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The data of calls: made and checked on the host a piece at a time by several threads, copied to and from wherever
 * the buffers are. Of lines beyond a limit only samples of the pieces, the same on all ranks.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "perf.h"

enum { PIECE = 1 << 20, SAMPLED_PIECES = 16, MAX_THREADS = 16, MAX_FAULT_LINES = 10, MAX_ELEMENT = 8 };

struct perf_data {
	unsigned char *stage; /* one piece */
	int threads;
	int fault_lines;
};

/* ---- Pieces -------------------------------------------------------------------------- */

/* What one thread does of a piece. */
struct share {
	const struct reference *ref;
	int source, is_check;
	size_t first, count, at; /* at: index in the buffer */
	unsigned char *bytes;
	size_t wrong;
	struct reference_fault fault;
};

static void *work(void *argument)
{
	struct share *s = argument;
	if (!s->is_check)
		reference_fill(s->ref, s->source, s->first, s->count, s->bytes);
	else if (s->source == PERF_FOLD)
		s->wrong = reference_check_fold(s->ref, s->first, s->count, s->bytes, &s->fault);
	else
		s->wrong = reference_check_copy(s->ref, s->source, s->first, s->count, s->bytes, &s->fault);
	return NULL;
}

/* Splits whole among threads; wrong elements, the first of them in whole->fault. */
static size_t work_together(struct share *whole, int threads, size_t element)
{
	struct share shares[MAX_THREADS];
	pthread_t ids[MAX_THREADS];
	int started[MAX_THREADS] = { 0 };
	for (int t = 0; t < threads; t++) {
		size_t begin = whole->count * (size_t)t / (size_t)threads,
		       end = whole->count * (size_t)(t + 1) / (size_t)threads;
		shares[t] = *whole;
		shares[t].first += begin;
		shares[t].at += begin;
		shares[t].bytes += begin * element;
		shares[t].count = end - begin;
		started[t] = t + 1 < threads && !pthread_create(&ids[t], NULL, work, &shares[t]);
		if (!started[t])
			work(&shares[t]);
	}
	for (int t = 0; t < threads; t++) {
		if (started[t])
			pthread_join(ids[t], NULL);
		if (shares[t].wrong && !whole->wrong) {
			whole->fault = shares[t].fault;
			whole->fault.index += shares[t].at;
		}
		whole->wrong += shares[t].wrong;
	}
	return whole->wrong;
}

static size_t line_bytes(const struct perf_call *call)
{
	const struct perf_job *job = call->job;
	return perf_blocks(job->coll, job->size) * call->count * corale_type_bytes(call->type);
}

/* The first piece of a part, the last, and so many between, at random but alike on both ends. */
static int is_chosen(const struct perf_call *call, size_t limit, uint64_t seed, size_t piece, size_t pieces)
{
	size_t keep = SAMPLED_PIECES / perf_blocks(call->job->coll, call->job->size);
	uint64_t x = (seed << 32 ^ piece) * 0x9e3779b97f4a7c15u;
	if (line_bytes(call) <= limit || piece == 0 || piece + 1 == pieces)
		return 1;
	return (x >> 32) * pieces >> 32 < keep;
}

struct visit {
	const struct perf_call *call;
	const struct reference *ref;
	size_t limit;
	int is_check;
	long wrong;
	struct reference_fault fault;
	uint64_t digest;
};

static void visit_piece(struct visit *v, const struct perf_part *part, size_t done, size_t n)
{
	const struct perf_job *job = v->call->job;
	struct perf_data *data = job->data;
	size_t element = corale_type_bytes(v->call->type), at = part->at + done;
	struct share whole = { .ref = v->ref,
			       .source = part->source,
			       .is_check = v->is_check,
			       .first = part->first + done,
			       .count = n,
			       .at = at,
			       .bytes = data->stage };
	if (v->is_check)
		job->device->copy(job, data->stage, (unsigned char *)v->call->recv + at * element,
				  n * element);
	size_t wrong = work_together(&whole, n < PIECE / 16 ? 1 : data->threads, element);
	if (wrong && !v->wrong)
		v->fault = whole.fault;
	v->wrong += (long)wrong;
	if (v->is_check)
		v->digest = v->digest * 31 + reference_digest(data->stage, n * element);
	else
		job->device->copy(job, (unsigned char *)v->call->send + at * element, data->stage,
				  n * element);
}

static void visit_part(struct visit *v, const struct perf_part *part)
{
	size_t pieces = (part->count + PIECE - 1) / PIECE;
	for (size_t piece = 0; piece < pieces; piece++) {
		size_t done = piece * PIECE, left = part->count - done;
		if (is_chosen(v->call, v->limit, v->ref->seed, piece, pieces))
			visit_piece(v, part, done, left < PIECE ? left : PIECE);
	}
}

static void visit(struct visit *v)
{
	const struct perf_coll *coll = v->call->job->coll;
	struct perf_part part;
	for (int i = 0; (v->is_check ? coll->receives : coll->sends)(v->call, i, &part); i++)
		visit_part(v, &part);
}

/* ---- Whole buffers ------------------------------------------------------------------- */

void perf_fill(const struct perf_call *call, const struct reference *ref, size_t limit)
{
	struct visit v = { .call = call, .ref = ref, .limit = limit };
	visit(&v);
}

/* In place the last block of a larger send buffer may lie behind the result: nothing to guard there. */
static int is_guarded(const struct perf_call *call, int in_place)
{
	return !in_place || call->job->coll->send_blocks == 1;
}

void perf_poison(const struct perf_call *call, int in_place)
{
	const struct perf_job *job = call->job;
	size_t end = perf_recv_bytes(job, call->count, call->type);
	unsigned char guard[PERF_GUARD_BYTES];
	job->device->poison(job, call->recv, end);
	memset(guard, 0x5a, sizeof(guard));
	if (is_guarded(call, in_place))
		job->device->copy(job, (unsigned char *)call->recv + end, guard, sizeof(guard));
}

static int guard_is_whole(const struct perf_call *call, int in_place)
{
	const struct perf_job *job = call->job;
	size_t end = perf_recv_bytes(job, call->count, call->type);
	unsigned char guard[PERF_GUARD_BYTES], expected[PERF_GUARD_BYTES];
	if (!is_guarded(call, in_place))
		return 1;
	memset(expected, 0x5a, sizeof(expected));
	job->device->copy(job, guard, (unsigned char *)call->recv + end, sizeof(guard));
	return memcmp(guard, expected, sizeof(guard)) == 0;
}

static int digests_differ(const struct perf_job *job, uint64_t mine)
{
	unsigned long long digest = mine, least, most;
	MPI_Allreduce(&digest, &least, 1, MPI_UNSIGNED_LONG_LONG, MPI_MIN, job->mpi);
	MPI_Allreduce(&digest, &most, 1, MPI_UNSIGNED_LONG_LONG, MPI_MAX, job->mpi);
	return least != most;
}

static void report(const struct visit *v, const struct perf_way *way, const char *place)
{
	const struct perf_job *job = v->call->job;
	if (v->wrong && job->data->fault_lines++ < MAX_FAULT_LINES)
		fprintf(
		    stderr,
		    "# rank %d: %s %s of %zu %s %s: %ld wrong, the first at element %zu: %s, expected %s\n",
		    job->rank, way->name, job->coll->name, v->call->count, corale_type_name(v->call->type),
		    place, v->wrong, v->fault.index, v->fault.got, v->fault.expected);
}

long perf_check(const struct perf_way *way, const struct reference *ref, size_t limit, int in_place,
		const char *when)
{
	const struct perf_call *call = &way->call;
	const struct perf_job *job = call->job;
	struct visit v = { .call = call, .ref = ref, .limit = limit, .is_check = 1 };
	visit(&v);
	report(&v, way, when);
	if (!guard_is_whole(call, in_place)) {
		fprintf(stderr, "# rank %d: %s %s wrote behind its receive buffer\n", job->rank, way->name,
			job->coll->name);
		v.wrong++;
	}
	if (job->coll->equal_results && digests_differ(job, v.digest) && v.wrong == 0) {
		fprintf(stderr, "# rank %d: the results of %s %s of %zu differ between ranks\n", job->rank,
			way->name, job->coll->name, call->count);
		v.wrong++;
	}
	return v.wrong;
}

size_t perf_check_limit(const struct perf_job *job)
{
	return job->options->check_max ? job->options->check_max : job->device->check_max;
}

int perf_is_sampled(const struct perf_call *call)
{
	return call->job->options->checks && line_bytes(call) > perf_check_limit(call->job);
}

/* A GPU's buffers are large and its host has nothing else to do; on the host the ranks have the cores. */
static int choose_threads(const struct perf_job *job)
{
	cpu_set_t set;
	long all = sysconf(_SC_NPROCESSORS_ONLN) / job->local_size;
	if (!*job->gpu || sched_getaffinity(0, sizeof(set), &set))
		return 1;
	if (CPU_COUNT(&set) < all)
		all = CPU_COUNT(&set);
	return all < 1 ? 1 : all > MAX_THREADS ? MAX_THREADS : (int)all;
}

void perf_data_open(struct perf_job *job)
{
	job->data = calloc(1, sizeof(*job->data));
	if (!job->data)
		perf_die("allocating buffers", CORALE_ENOMEM);
	job->data->stage = job->device->allocate_stage((size_t)PIECE * MAX_ELEMENT);
	job->data->threads = choose_threads(job);
}

void perf_data_close(struct perf_job *job)
{
	job->device->release_stage(job->data->stage);
	free(job->data);
}
