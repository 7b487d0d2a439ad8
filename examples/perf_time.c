/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>

#include "perf.h"

enum { MAX_ROUNDS = 20000, MAX_CAPTURED = 200, CHECKED_CALLS = 3 };

void perf_die(const char *what, int code)
{
	fprintf(stderr, "%s: %s\n", what, corale_strerror(code));
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static void complete(const struct perf_job *job)
{
	int ret = job->device->complete(job);
	if (!ret)
		return;
	if (job->comm && *corale_comm_last_error(job->comm))
		fprintf(stderr, "rank %d: %s\n", job->rank, corale_comm_last_error(job->comm));
	perf_die(job->coll->name, ret);
}

static int make_round(const struct perf_way *way)
{
	if (!way->graph)
		return way->run(&way->call);
	way->call.job->device->replay(way->call.job, way->graph);
	return 0;
}

void perf_round(const struct perf_way *way)
{
	int ret = make_round(way);
	if (ret)
		perf_way_die(way, ret);
	complete(way->call.job);
}

/* Calls of one group, or a round. */
static int make_group(const struct perf_way *way, int calls)
{
	if (calls <= 1)
		return make_round(way);
	int ret = corale_group_begin();
	for (int i = 0; i < calls && !ret; i++)
		ret = make_round(way);
	int ended = corale_group_end();
	return ret ? ret : ended;
}

double perf_time(const struct perf_way *way, int rounds)
{
	const struct perf_job *job = way->call.job;
	MPI_Barrier(job->mpi);
	double start = MPI_Wtime(), us, slowest;
	for (int i = 0; i < rounds; i++) {
		int ret = make_group(way, job->options->grouped);
		if (ret)
			perf_way_die(way, ret);
	}
	complete(job);
	us = (MPI_Wtime() - start) * 1e6 / rounds / (way->graph ? way->captured : job->options->grouped);
	MPI_Allreduce(&us, &slowest, 1, MPI_DOUBLE, MPI_MAX, job->mpi);
	return slowest;
}

void perf_way_die(const struct perf_way *way, int code)
{
	fprintf(stderr, "rank %d: %s %s: %s\n", way->call.job->rank, way->name, way->call.job->coll->name,
		way->explain(way->call.job, code));
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static const char *explain(const struct perf_job *job, int code)
{
	(void)job;
	return corale_strerror(code);
}

struct perf_way perf_ours(const struct perf_call *call)
{
	return (struct perf_way){ .name = "corale",
				  .pair = &call->job->pair,
				  .call = *call,
				  .run = call->job->coll->ours,
				  .explain = explain };
}

static int clamp(double value, int least, int most)
{
	return value < least ? least : value > most ? most : (int)value;
}

struct perf_batch perf_batch_for(const struct perf_job *job, double call_us, double target_us, int least)
{
	const struct perf_options *options = job->options;
	double calls = target_us / (call_us > 0.01 ? call_us : 0.01);
	struct perf_batch batch = { 0, options->iterations };
	if (options->replays) {
		batch.captured = options->iterations ? options->iterations
						     : clamp(calls / options->replays, 1, MAX_CAPTURED);
		batch.rounds = clamp(calls / batch.captured, 1, options->replays);
	} else if (!options->iterations) {
		batch.rounds = clamp(calls, least, MAX_ROUNDS);
	}
	return batch;
}

static int fails_anywhere(const struct perf_job *job, int failed)
{
	int any;
	MPI_Allreduce(&failed, &any, 1, MPI_INT, MPI_MAX, job->mpi);
	return any;
}

int perf_prepare(struct perf_way *way, int captured)
{
	const struct perf_job *job = way->call.job;
	if (!captured)
		return 0;
	way->captured = captured;
	way->graph = job->device->capture(way, captured);
	if (!fails_anywhere(job, !way->graph))
		return 0;
	perf_finish(way);
	return -1;
}

void perf_finish(struct perf_way *way)
{
	if (way->graph)
		way->call.job->device->drop(way->graph);
	way->graph = NULL;
}

/* ---- Checks --------------------------------------------------------------------------- */

void perf_create_op(struct perf_call *call, const struct reference *ref)
{
	unsigned char scalar[8];
	if (ref->op != CORALE_NUM_OPS)
		return;
	reference_scalar(ref, call->job->rank, scalar);
	int ret = corale_op_create_premul_sum(scalar, call->type, call->job->comm, &call->op);
	if (ret)
		perf_die("corale_op_create_premul_sum", ret);
}

void perf_destroy_op(struct perf_call *call, const struct reference *ref)
{
	if (ref->op == CORALE_NUM_OPS)
		corale_op_destroy(call->op, call->job->comm);
	call->op = ref->op;
}

/* One call; in graph mode a replayed graph, out of place of several calls, which leave what one leaves. */
static int run_once(struct perf_way *way, int in_place)
{
	const struct perf_job *job = way->call.job;
	if (job->options->replays && perf_prepare(way, in_place ? 1 : CHECKED_CALLS))
		return -1;
	int ret = make_round(way);
	if (ret)
		fprintf(stderr, "rank %d: %s %s: %s\n", job->rank, way->name, job->coll->name,
			way->explain(job, ret));
	if (fails_anywhere(job, ret != 0))
		return -1;
	complete(job);
	perf_finish(way);
	return 0;
}

long perf_try(struct perf_way *way, const struct reference *ref, size_t limit, int in_place)
{
	const struct perf_job *job = way->call.job;
	long wrong, all;
	perf_poison(&way->call, in_place);
	perf_fill(&way->call, ref, limit);
	perf_create_op(&way->call, ref);
	int ret = run_once(way, in_place);
	perf_destroy_op(&way->call, ref);
	if (ret)
		return -1;
	wrong = perf_check(way, ref, limit, in_place, in_place ? "in place" : "out of place");
	MPI_Allreduce(&wrong, &all, 1, MPI_LONG, MPI_SUM, job->mpi);
	return all;
}

struct reference perf_next_reference(const struct perf_call *call, int i)
{
	static uint64_t seed;
	const struct perf_job *job = call->job;
	int wide = call->type == CORALE_FLOAT32 || call->type == CORALE_FLOAT64;
	return (struct reference){ call->type, job->coll->has_op ? call->op : REFERENCE_COPY, job->size,
				   (i + !wide) % 2 ? REFERENCE_EXACT : REFERENCE_RANDOM, ++seed };
}

static long check(struct perf_way *way, int in_place, struct reference *last)
{
	const struct perf_job *job = way->call.job;
	long wrong = job->options->checks ? 0 : -1;
	*last = perf_next_reference(&way->call, 1);
	for (int i = 0; i < job->options->checks; i++) {
		*last = perf_next_reference(&way->call, i);
		long found = perf_try(way, last, perf_check_limit(job), in_place);
		if (found < 0)
			perf_die(job->coll->name, CORALE_EINVAL);
		wrong += found;
	}
	return wrong;
}

/* What many calls in a row, out of place on the data of the last check, have left. */
static long check_after(const struct perf_way *way, const struct reference *ref)
{
	long wrong, all;
	wrong =
	    perf_check(way, ref, perf_check_limit(way->call.job), 0, "out of place, after the timed calls");
	MPI_Allreduce(&wrong, &all, 1, MPI_LONG, MPI_SUM, way->call.job->mpi);
	return all;
}

struct perf_result perf_measure(const struct perf_way *of, int in_place)
{
	const struct perf_job *job = of->call.job;
	const struct perf_options *options = job->options;
	struct perf_way way = *of;
	struct perf_result result;
	struct reference ref;
	perf_place_way(&way, in_place);
	result.wrong = check(&way, in_place, &ref);
	int checks_after = options->checks && job->stream && !in_place;
	if (checks_after)
		perf_poison(&way.call, in_place);
	perf_create_op(&way.call, &ref);
	if (options->warmup)
		perf_time(&way, options->warmup);
	struct perf_batch batch = perf_batch_for(job, options->iterations ? 1 : perf_time(&way, 2), 50e3, 5);
	if (perf_prepare(&way, batch.captured))
		perf_die("capturing a graph", CORALE_EDEVICE);
	if (way.graph)
		perf_time(&way, 1);
	result.us = perf_time(&way, batch.rounds);
	perf_finish(&way);
	perf_destroy_op(&way.call, &ref);
	if (checks_after)
		result.wrong += check_after(&way, &ref);
	return result;
}
