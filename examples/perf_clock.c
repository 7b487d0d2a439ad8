/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "perf_clock.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { AGREEMENTS = 31 };

static const double least_margin_us = 20;

static double now_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static double *allocate(int n)
{
	double *values = calloc((size_t)n, sizeof(*values));
	if (!values) {
		fprintf(stderr, "timing one call at a time: no memory\n");
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	return values;
}

static int count_hosts(MPI_Comm comm)
{
	MPI_Comm host;
	int rank, first, hosts;
	MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
	MPI_Comm_rank(host, &rank);
	first = rank == 0;
	MPI_Allreduce(&first, &hosts, 1, MPI_INT, MPI_SUM, comm);
	MPI_Comm_free(&host);
	return hosts;
}

/* Each rank may be bound to cores of its own. */
static int count_cores(MPI_Comm comm)
{
	cpu_set_t mine, all;
	CPU_ZERO(&mine);
	if (sched_getaffinity(0, sizeof(mine), &mine))
		CPU_SET(0, &mine);
	MPI_Allreduce(&mine, &all, sizeof(mine), MPI_BYTE, MPI_BOR, comm);
	return CPU_COUNT(&all);
}

/* The time when the last rank has come here. MPI's collective, so that MPI completes what earlier calls have left to it. */
static double last_arrival(const struct perf_clock *clock)
{
	double mine = now_us(), last;
	MPI_Allreduce(&mine, &last, 1, MPI_DOUBLE, MPI_MAX, clock->comm);
	return last;
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* Twice the time that an agreement usually takes to reach the last rank. */
static void choose_margin(struct perf_clock *clock)
{
	double arrivals[AGREEMENTS], ends[AGREEMENTS], took[AGREEMENTS];
	for (int i = 0; i < AGREEMENTS; i++) {
		arrivals[i] = last_arrival(clock);
		ends[i] = now_us();
	}
	MPI_Allreduce(MPI_IN_PLACE, ends, AGREEMENTS, MPI_DOUBLE, MPI_MAX, clock->comm);
	for (int i = 0; i < AGREEMENTS; i++)
		took[i] = ends[i] - arrivals[i];
	qsort(took, AGREEMENTS, sizeof(*took), compare_doubles);
	clock->margin_us = 2 * took[AGREEMENTS / 2];
	if (clock->margin_us < least_margin_us)
		clock->margin_us = least_margin_us;
}

void perf_clock_open(struct perf_clock *clock, MPI_Comm comm)
{
	MPI_Comm_dup(comm, &clock->comm);
	MPI_Comm_size(comm, &clock->ranks);
	clock->hosts = count_hosts(comm);
	clock->cores = count_cores(comm);
	clock->margin_us = 0;
	if (clock->hosts == 1)
		choose_margin(clock);
}

void perf_clock_close(struct perf_clock *clock)
{
	MPI_Comm_free(&clock->comm);
}

static void wait_until(const struct perf_clock *clock, double start)
{
	while (now_us() < start)
		if (perf_clock_yields(clock))
			sched_yield();
}

void perf_clock_time(const struct perf_clock *clock, void (*call)(const void *arg), const void *arg, int n,
		     double *us, double *spread_us)
{
	double *entry = allocate(n), *first_entry = allocate(n);
	for (int i = 0; i < n; i++) {
		wait_until(clock, last_arrival(clock) + clock->margin_us);
		entry[i] = now_us();
		call(arg);
		us[i] = now_us();
	}
	MPI_Allreduce(entry, first_entry, n, MPI_DOUBLE, MPI_MIN, clock->comm);
	MPI_Allreduce(MPI_IN_PLACE, entry, n, MPI_DOUBLE, MPI_MAX, clock->comm);
	MPI_Allreduce(MPI_IN_PLACE, us, n, MPI_DOUBLE, MPI_MAX, clock->comm);
	for (int i = 0; i < n; i++) {
		us[i] -= entry[i];
		spread_us[i] = entry[i] - first_entry[i];
	}
	free(entry);
	free(first_entry);
}
