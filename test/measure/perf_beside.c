/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A collective and a large matrix product side by side on each rank's GPU: how much slower each is than alone. The
 * product's time comes from a run in which calls go on until it has ended, that of the calls from one in which
 * products do.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "perf.h"

enum {
	MAX_PRODUCTS = 900,
	PROBES = 3,
	MAX_TRIES = 4,
	LEAST_PRODUCTS = 26,
	WARM_PRODUCTS = 200,
	MAX_CAPTURED = 20
};
enum { ALONE, BESIDE, PRODUCT_ALONE, PRODUCT_BESIDE, VALUES };

static const double run_us = 40e3; /* of one run, about */
static const double paced_us = 60e3, most_paced = 2000;

static double slowest(const struct perf_job *job, double us)
{
	double most;
	MPI_Allreduce(&us, &most, 1, MPI_DOUBLE, MPI_MAX, job->mpi);
	return most;
}

static int everywhere(const struct perf_job *job, int yes)
{
	int all;
	MPI_Allreduce(&yes, &all, 1, MPI_INT, MPI_MIN, job->mpi);
	return all;
}

static int clamp(double value, int least, int most)
{
	return value < least ? least : value > most ? most : (int)value;
}

/* Behind many others: a GPU that has rested is a fifth faster for some 100 ms than under load. */
static double product_alone(const struct perf_job *job)
{
	MPI_Barrier(job->mpi);
	perf_product_start(job, WARM_PRODUCTS);
	perf_product_end(job);
	MPI_Barrier(job->mpi);
	perf_product_start(job, LEAST_PRODUCTS);
	return slowest(job, perf_product_end(job));
}

/* ---- Calls one after the other ------------------------------------------------------------ */

static double round_calls(const struct perf_way *way)
{
	return way->graph ? way->captured : 1;
}

/* The calls' time while products run from before the first of them until after the last. */
static double calls_beside(const struct perf_way *way, int rounds, double guess_us, double product_us)
{
	const struct perf_job *job = way->call.job;
	double us = guess_us;
	for (int i = 0; i < MAX_TRIES; i++) {
		double length = 1.3 * us * rounds * round_calls(way) + 2 * product_us;
		MPI_Barrier(job->mpi);
		perf_product_start(job, clamp((1 << i) * length / product_us, LEAST_PRODUCTS, MAX_PRODUCTS));
		us = perf_time(way, rounds);
		int enough = everywhere(job, perf_product_runs(job));
		perf_product_end(job);
		if (enough)
			return us;
	}
	if (job->rank == 0)
		printf("# %s: the products ended before the calls: %.2f us is too little\n", way->name, us);
	return us;
}

/* A product's time while calls run from before until after it. */
static double product_beside(const struct perf_way *way, double call_us, double product_us)
{
	const struct perf_job *job = way->call.job;
	double us = 0;
	for (int i = 0; i < MAX_TRIES; i++) {
		double length = 1.3 * (1 << i) * product_us * LEAST_PRODUCTS;
		int rounds = clamp(length / (call_us * round_calls(way)), 1, 1 << 30);
		MPI_Barrier(job->mpi);
		perf_product_start(job, LEAST_PRODUCTS);
		perf_time(way, rounds);
		int enough = everywhere(job, !perf_product_runs(job));
		us = slowest(job, perf_product_end(job));
		if (enough)
			return us;
	}
	if (job->rank == 0)
		printf("# %s: the calls ended before the products: %.1f us is too little\n", way->name, us);
	return us;
}

static void measure_stream(const struct perf_way *way, double *values)
{
	const struct perf_job *job = way->call.job;
	double alone = perf_time(way, PROBES);
	alone = perf_time(way, clamp(run_us / (alone * round_calls(way)), PROBES, 1 << 20));
	double product = product_alone(job);
	double beside = calls_beside(way, PROBES, 2 * alone, product);
	beside =
	    calls_beside(way, clamp(run_us / (beside * round_calls(way)), PROBES, 1 << 20), beside, product);
	values[ALONE] = alone;
	values[BESIDE] = beside;
	values[PRODUCT_ALONE] = product;
	values[PRODUCT_BESIDE] = product_beside(way, beside, product);
}

/* ---- One call per so many microseconds ----------------------------------------------------- */

static double now_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* A moment soon that is the same for all ranks where they have one clock. */
static double common_start(const struct perf_job *job)
{
	double start = now_us();
	if (job->local_size == job->size)
		start = slowest(job, start);
	else
		MPI_Barrier(job->mpi);
	return start + 200;
}

/* The median over n calls of the time from a call to its end, seen by the host of its slowest rank. */
static double paced(const struct perf_way *way, int n)
{
	const struct perf_job *job = way->call.job;
	double *us = calloc(2 * (size_t)n, sizeof(*us)), *most = us + n, begin, median;
	if (!us)
		perf_die("--every", CORALE_ENOMEM);
	begin = common_start(job);
	for (int i = 0; i < n; i++) {
		double due = begin + (double)i * job->options->every_us, called;
		while ((called = now_us()) < due)
			;
		perf_round(way);
		us[i] = now_us() - called;
	}
	MPI_Allreduce(us, most, n, MPI_DOUBLE, MPI_MAX, job->mpi);
	median = perf_median(most, n, 1);
	free(us);
	return median;
}

static void measure_paced(const struct perf_way *way, double *values)
{
	const struct perf_job *job = way->call.job;
	double every = job->options->every_us;
	int n = clamp(paced_us / every, 50, (int)most_paced);
	values[ALONE] = paced(way, n);
	values[PRODUCT_ALONE] = product_alone(job);
	MPI_Barrier(job->mpi);
	perf_product_start(job, clamp(PROBES * every / values[PRODUCT_ALONE] + 5, 5, MAX_PRODUCTS));
	double probe = paced(way, PROBES), period = probe > every ? probe : every;
	perf_product_end(job);
	/* The calls outlast the products a little, so that no product is without. */
	MPI_Barrier(job->mpi);
	perf_product_start(job, clamp(0.95 * n * period / values[PRODUCT_ALONE], 5, MAX_PRODUCTS));
	values[BESIDE] = paced(way, n);
	values[PRODUCT_BESIDE] = slowest(job, perf_product_end(job));
}

/* ---- A line of each way --------------------------------------------------------------------- */

static void measure(struct perf_way *way, int in_place)
{
	const struct perf_job *job = way->call.job;
	double *times[VALUES], values[VALUES];
	int blocks = job->options->blocks, captured = 0;
	if (job->options->replays && job->options->every_us <= 0)
		captured = clamp(run_us / perf_time(way, PROBES), 1, MAX_CAPTURED);
	else if (job->options->replays)
		captured = 1;
	if (perf_prepare(way, captured))
		return;
	for (int v = 0; v < VALUES; v++)
		if (!(times[v] = calloc((size_t)blocks, sizeof(double))))
			perf_die("--beside", CORALE_ENOMEM);
	for (int i = 0; i < blocks; i++) {
		if (job->options->every_us > 0)
			measure_paced(way, values);
		else
			measure_stream(way, values);
		for (int v = 0; v < VALUES; v++)
			times[v][i] = values[v];
	}
	for (int v = 0; v < VALUES; v++) {
		values[v] = perf_median(times[v], blocks, 1);
		free(times[v]);
	}
	perf_finish(way);
	perf_print_beside(way, in_place,
			  &(struct perf_beside){ values[ALONE], values[BESIDE], values[PRODUCT_ALONE],
						 values[PRODUCT_BESIDE], blocks });
}

static const size_t sample = 1 << 20; /* of larger lines results are sampled */

long perf_measure_beside(const struct perf_call *call)
{
	const struct perf_job *job = call->job;
	struct perf_way ways[PERF_MAX_WAYS] = { perf_ours(call) };
	int in_place = job->coll->has_place && job->options->in_place, n = 1;
	const char *why_not = "";
	long all_wrong = 0;
	perf_place(&ways[0].call, &job->pair, in_place);
	if (job->nccl && perf_nccl_can(call, &why_not))
		n += perf_nccl_ways(call, in_place, ways + 1);
	else if (job->nccl && job->rank == 0)
		printf("# %s: not compared with NCCL\n", why_not);
	for (int i = 0; i < n; i++) {
		struct reference ref = perf_next_reference(&ways[i].call, 1);
		long wrong = perf_try(&ways[i], &ref, sample, in_place);
		if (i == 0)
			all_wrong = wrong < 0 ? 1 : wrong;
		if (wrong == 0)
			measure(&ways[i], in_place);
	}
	return all_wrong;
}
