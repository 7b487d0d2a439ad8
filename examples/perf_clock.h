/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Times calls one at a time: from the last rank's entry into a call to the last rank's exit from it, on the clock that the processes of
 * a host share. Before each call the ranks agree on a start a little ahead and wait for it, so that no rank has a head start (the
 * windows of Hunold and Carpen-Amarie 2018).
 */
#ifndef PERF_CLOCK_H
#define PERF_CLOCK_H

#include <mpi.h>

struct perf_clock {
	MPI_Comm comm; /* a duplicate: its messages never meet those of the calls */
	int hosts; /* with more than 1 there is no common clock, and nothing can be timed */
	int ranks, cores; /* cores: that the ranks may use, if there is one host */
	double margin_us; /* from the agreement on a start to the start */
};

void perf_clock_open(struct perf_clock *clock, MPI_Comm comm);
void perf_clock_close(struct perf_clock *clock);

/* Waiting ranks then yield their cores to those that have work, and enter later than agreed. */
static inline int perf_clock_yields(const struct perf_clock *clock)
{
	return clock->ranks > clock->cores;
}

/*
 * us[i]: the time of call i of n; spread_us[i]: from the first rank's entry to the last rank's. Collective, on one host; all ranks get
 * the same values. call(arg) returns when the call has completed on this rank; it ends the job if the call fails.
 */
void perf_clock_time(const struct perf_clock *clock, void (*call)(const void *arg), const void *arg, int n,
		     double *us, double *spread_us);

#endif
