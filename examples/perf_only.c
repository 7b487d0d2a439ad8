/* SPDX-License-Identifier: BSD-3-Clause */
/* What a line's first columns are of: Corale, or with --only a peer in the fastest of its modes. */
#include <math.h>

#include "perf.h"

static const double glance_us = 5e3;

/* MPI_Bcast has one buffer. */
static int has_one_buffer(const struct perf_way *way)
{
	const struct perf_coll *coll = way->call.job->coll;
	return way->run == coll->mpi && coll->has_root && coll->equal_results;
}

void perf_place_way(struct perf_way *way, int in_place)
{
	perf_place(&way->call, way->pair, in_place || has_one_buffer(way));
}

/* A short timing in the mode of the long one; the same on all ranks. */
static double glance(struct perf_way way)
{
	perf_time(&way, 2);
	struct perf_batch batch = perf_batch_for(way.call.job, perf_time(&way, 2), glance_us, 3);
	if (perf_prepare(&way, batch.captured))
		return INFINITY;
	perf_time(&way, 1);
	double us = fmin(perf_time(&way, batch.rounds), perf_time(&way, batch.rounds));
	perf_finish(&way);
	return us;
}

static struct perf_way fastest(const struct perf_way *ways, int n)
{
	int best = 0;
	double least = n > 1 ? glance(ways[0]) : 0;
	for (int i = 1; i < n; i++) {
		double us = glance(ways[i]);
		if (us >= least)
			continue;
		least = us;
		best = i;
	}
	return ways[best];
}

int perf_way_of_line(const struct perf_call *call, struct perf_way *way)
{
	const enum perf_library only = call->job->options->only;
	struct perf_way modes[PERF_MAX_WAYS];
	if (only != PERF_CORALE && !perf_peer_can(call))
		return 0;
	if (only == PERF_NCCL)
		*way = fastest(modes, perf_nccl_ways(call, 0, modes));
	else
		*way = only == PERF_MPI ? perf_mpi(call) : perf_ours(call);
	return 1;
}
