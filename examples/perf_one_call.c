/* SPDX-License-Identifier: BSD-3-Clause */
/* One call at a time: ours and a peer's by turns, in the same way as they are compared. */
#include <stdlib.h>

#include "perf.h"

enum { TURNS = 5, MOST_A_TURN = 40, MOST_CALLS = TURNS * MOST_A_TURN };

static const double each_us = 20e3; /* of all calls of one way, about */

struct samples {
	double us[MOST_CALLS], spread_us[MOST_CALLS];
	int n;
};

static void round_of(const void *way)
{
	perf_round(way);
}

static void take_turn(const struct perf_way *way, int calls, struct samples *samples)
{
	perf_clock_time(&way->call.job->clock, round_of, way, calls, samples->us + samples->n,
			samples->spread_us + samples->n);
	samples->n += calls;
}

/* As many calls a turn as the slowest way has time for. */
static int calls_a_turn(const struct perf_way *ways, int n)
{
	const struct perf_job *job = ways[0].call.job;
	double slowest = 0, calls;
	for (int i = 0; i < n; i++) {
		double us = perf_time(&ways[i], 2);
		slowest = us > slowest ? us : slowest;
	}
	calls =
	    job->options->iterations ? job->options->iterations : each_us / (slowest + job->clock.margin_us);
	calls = (calls + TURNS - 1) / TURNS;
	if (calls < 1) /* one call alone takes longer than all should */
		return 1;
	return calls < MOST_A_TURN ? (int)calls : MOST_A_TURN;
}

static void judge(const struct samples *samples, int n, struct perf_one_call *one)
{
	*one = (struct perf_one_call){ .ours_us = perf_median(samples[0].us, samples[0].n, 1) };
	for (int i = 0; i < n; i++) {
		double us = perf_median(samples[i].us, samples[i].n, 1),
		       spread = perf_median(samples[i].spread_us, samples[i].n, 1);
		one->spread_us = spread > one->spread_us ? spread : one->spread_us;
		if (i && (!one->peer_us || us < one->peer_us))
			one->peer_us = us;
	}
	one->ratio = one->peer_us / one->ours_us;
}

/* Ours is ways[0]. A peer's call that cannot be captured has been named, and left out, where it was compared. */
static int prepare(struct perf_way *ways, int n)
{
	int captured = ways[0].call.job->options->replays > 0, left = 0;
	for (int i = 0; i < n; i++) {
		if (!perf_prepare(&ways[i], captured))
			ways[left++] = ways[i];
		else if (i == 0)
			perf_die("capturing a graph", CORALE_EDEVICE);
	}
	return left;
}

int perf_measure_one_call(const struct perf_way *all, int n, struct perf_one_call *one)
{
	struct perf_way ways[PERF_MAX_WAYS];
	const struct reference ref = perf_next_reference(&all[0].call, 1);
	struct samples *samples;
	if (all[0].call.job->clock.hosts > 1)
		return 0;
	if (!(samples = calloc((size_t)n, sizeof(*samples))))
		perf_die("timing one call at a time", CORALE_ENOMEM);
	for (int i = 0; i < n; i++)
		ways[i] = all[i];
	perf_create_op(&ways[0].call, &ref);
	n = prepare(ways, n);
	int calls = calls_a_turn(ways, n);
	for (int turn = 0; turn < TURNS; turn++)
		for (int i = 0; i < n; i++)
			take_turn(&ways[i], calls, &samples[i]);
	judge(samples, n, one);
	for (int i = 0; i < n; i++)
		perf_finish(&ways[i]);
	perf_destroy_op(&ways[0].call, &ref);
	free(samples);
	return 1;
}
