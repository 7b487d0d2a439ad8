/* SPDX-License-Identifier: BSD-3-Clause */
/* Comparisons: ours and a peer's ways by turns, so that whatever else the machine does meets all alike. */
#include <stdlib.h>

#include "perf.h"

enum { MAX_SPREAD = 5 };

/* How long one timing takes about, and a line at most before blocks are no longer added. */
struct pace {
	double timing_us, line_us;
	int least_rounds;
};
static const struct pace mpi_pace = { 5e3, 1e9, 1 }, nccl_pace = { 20e3, 1.5e6, 1 };
static const double quiet = 0.85; /* noise that asks for no more blocks */

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* The median of n values that lie so many apart. */
double perf_median(const double *values, int n, int stride)
{
	double *sorted = malloc((size_t)n * sizeof(*sorted)), result;
	if (!sorted)
		perf_die("comparing", CORALE_ENOMEM);
	for (int i = 0; i < n; i++)
		sorted[i] = values[i * stride];
	qsort(sorted, (size_t)n, sizeof(*sorted), compare_doubles);
	result = n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
	free(sorted);
	return result;
}

/* Measured so far: ours once a block, each of the peer's ways twice a block, one after the other. */
struct blocks {
	int done;
	double spent_us;
	double *times[PERF_MAX_WAYS];
};

static void open_blocks(struct blocks *blocks, int n, int most)
{
	*blocks = (struct blocks){ 0 };
	for (int i = 0; i < n; i++)
		if (!(blocks->times[i] = calloc(2 * (size_t)most, sizeof(double))))
			perf_die("comparing", CORALE_ENOMEM);
}

static void close_blocks(struct blocks *blocks, int n)
{
	for (int i = 0; i < n; i++)
		free(blocks->times[i]);
}

static void take_turn(struct blocks *blocks, const struct perf_way *way, const struct perf_batch *batch,
		      double *us)
{
	*us = perf_time(way, batch->rounds);
	blocks->spent_us += *us * batch->rounds * (way->graph ? way->captured : 1);
}

static void take_block(struct blocks *blocks, const struct perf_way *ways, int n,
		       const struct perf_batch *batch)
{
	int block = blocks->done++;
	take_turn(blocks, &ways[0], batch, &blocks->times[0][block]);
	for (int turn = 0; turn < 2; turn++)
		for (int i = 1; i < n; i++)
			take_turn(blocks, &ways[i], batch, &blocks->times[i][2 * block + turn]);
}

static void judge(const struct blocks *blocks, const struct perf_way *ways, int n, struct perf_versus *versus)
{
	int done = blocks->done;
	*versus = (struct perf_versus){ .ours_us = perf_median(blocks->times[0], done, 1), .blocks = done };
	for (int i = 1; i < n; i++) {
		const double *times = blocks->times[i];
		double us = perf_median(times, 2 * done, 1), first = perf_median(times, done, 2),
		       second = perf_median(times + 1, done, 2);
		double *slot = &versus->us[ways[i].slot];
		*slot = *slot && *slot < us ? *slot : us;
		if (versus->best_us && us >= versus->best_us)
			continue;
		versus->best_us = us;
		versus->noise = first < second ? first / second : second / first;
	}
	versus->ratio = versus->best_us / versus->ours_us;
	versus->stock_ratio = versus->us[0] / versus->ours_us;
}

/* Blocks are added until the noise is small, five times as many as asked for have run, or the time is up. */
static void take_blocks(const struct perf_way *ways, int n, const struct perf_batch *batch,
			const struct pace *pace, struct perf_versus *versus)
{
	struct blocks blocks;
	int least = ways[0].call.job->options->blocks, most = MAX_SPREAD * least;
	open_blocks(&blocks, n, most);
	do {
		take_block(&blocks, ways, n, batch);
		judge(&blocks, ways, n, versus);
	} while (blocks.done < least ||
		 (blocks.done < most && versus->noise < quiet && blocks.spent_us < pace->line_us));
	close_blocks(&blocks, n);
}

/* Leaves out the ways that cannot be captured; how many are left. */
static int prepare_all(struct perf_way *ways, int n, int captured)
{
	int left = 0;
	for (int i = 0; i < n; i++) {
		if (perf_prepare(&ways[i], captured))
			continue;
		ways[left] = ways[i];
		perf_time(&ways[left++], 1);
	}
	return left;
}

int perf_compare(const struct perf_way *all, int n, struct perf_versus *versus)
{
	const struct perf_job *job = all[0].call.job;
	const struct pace *pace = job->nccl ? &nccl_pace : &mpi_pace;
	struct perf_way ways[PERF_MAX_WAYS];
	double slowest = 0;
	for (int i = 0; i < n; i++) {
		ways[i] = all[i];
		perf_time(&ways[i], 2);
		double us = perf_time(&ways[i], 2);
		slowest = us > slowest ? us : slowest;
	}
	struct perf_batch batch = perf_batch_for(job, slowest, pace->timing_us, pace->least_rounds);
	n = prepare_all(ways, n, batch.captured);
	int comparable = n > 1 && ways[0].run == job->coll->ours;
	if (comparable)
		take_blocks(ways, n, &batch, pace, versus);
	for (int i = 0; i < n; i++)
		perf_finish(&ways[i]);
	return comparable;
}

/* ---- The MPI library --------------------------------------------------------------------- */

static const char *explain_mpi(const struct perf_job *job, int code)
{
	static char text[MPI_MAX_ERROR_STRING];
	int length;
	(void)job;
	MPI_Error_string(code, text, &length);
	return text;
}

struct perf_way perf_mpi(const struct perf_call *call)
{
	struct perf_way way = { .name = "mpi",
				.pair = &call->job->pair,
				.call = *call,
				.run = call->job->coll->mpi,
				.explain = explain_mpi };
	perf_place_way(&way, 0);
	return way;
}

static int add_mpi(const struct perf_call *call, struct perf_way *ways)
{
	ways[1] = perf_mpi(call);
	ways[0].call = ways[1].call; /* on the same buffers */
	return 2;
}

/* ---- NCCL -------------------------------------------------------------------------------- */

static const size_t nccl_sample = 1 << 20; /* of larger lines NCCL's results are sampled */

/* Whether NCCL's call is right: the time of a wrong one would be worth nothing. Says what is not. */
static int is_right(struct perf_way *way, int in_place)
{
	struct reference ref = perf_next_reference(&way->call, 1);
	long wrong = perf_try(way, &ref, nccl_sample, in_place);
	if (wrong && way->call.job->rank == 0)
		printf("# %s of %zu elements is left out: %s\n", way->name, way->call.count,
		       wrong < 0 ? "the call failed" : "its result is wrong");
	return wrong == 0;
}

static int add_nccl(const struct perf_call *call, struct perf_way *ways)
{
	int in_place = call->job->coll->has_place && call->job->options->in_place, left = 1;
	int n = 1 + perf_nccl_ways(call, in_place, ways + 1);
	perf_place(&ways[0].call, &call->job->pair, in_place);
	for (int i = 1; i < n; i++)
		if (is_right(&ways[i], in_place))
			ways[left++] = ways[i];
	return left;
}

int perf_peer_can(const struct perf_call *call)
{
	const struct perf_job *job = call->job;
	const char *why_not = "";
	if (job->nccl ? perf_nccl_can(call, &why_not) : perf_mpi_can(call, &why_not))
		return 1;
	if (job->rank == 0)
		printf("# %s: not %s %s\n", why_not, job->options->only ? "timed with" : "compared with",
		       job->nccl ? "NCCL" : "MPI");
	return 0;
}

int perf_ways(const struct perf_call *call, struct perf_way *ways)
{
	const struct perf_job *job = call->job;
	ways[0] = perf_ours(call);
	perf_place(&ways[0].call, &job->pair, 0);
	if ((!job->options->vs_mpi && !job->nccl) || !perf_peer_can(call))
		return 1;
	return job->nccl ? add_nccl(call, ways) : add_mpi(call, ways);
}
