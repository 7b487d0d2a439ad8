/* SPDX-License-Identifier: BSD-3-Clause */
/* How much of the communication the backward pass hides: each alone, one after the other, and both at once. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "train.h"

enum kind { BACKWARD, COMMUNICATION, AFTERWARDS, ALONG, KINDS };

static double now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int start(struct net *net, enum kind kind)
{
	switch (kind) {
	case BACKWARD:
		return net_backward(net, 0, SEND_NOTHING);
	case COMMUNICATION:
		return net_send_all(net);
	case AFTERWARDS:
		return net_backward(net, 0, SEND_AFTERWARDS);
	default:
		return net_backward(net, 0, SEND_ALONG);
	}
}

/* From all ranks' common start to this rank's end. */
static int measure(struct net *net, enum kind kind, double *ms)
{
	int ret = corale_barrier(net->comm, net->compute->stream);
	if (!ret)
		ret = net_finish(net);
	double begin = now_ms();
	if (!ret)
		ret = start(net, kind);
	if (!ret)
		ret = net_finish(net);
	*ms = now_ms() - begin;
	return ret;
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median(const double *ms, int kind, int repeats, double *sorted)
{
	for (int i = 0; i < repeats; i++)
		sorted[i] = ms[i * KINDS + kind];
	qsort(sorted, (size_t)repeats, sizeof(*sorted), compare_doubles);
	return (sorted[(repeats - 1) / 2] + sorted[repeats / 2]) / 2;
}

static void print(const struct net *net, const double *ms, double *sorted)
{
	int repeats = net->options->repeats;
	double m[KINDS];
	for (int kind = 0; kind < KINDS; kind++)
		m[kind] = median(ms, kind, repeats, sorted);
	double sum = m[BACKWARD] + m[COMMUNICATION], bytes = (double)net->count * sizeof(float);
	printf("# one backward pass, ms: medians of %d, each of the slowest rank\n", repeats);
	printf("time backward alone        %10.3f\n", m[BACKWARD]);
	printf("time communication alone   %10.3f  (%.1f MB at %.2f GB/s)\n", m[COMMUNICATION], bytes / 1e6,
	       bytes / m[COMMUNICATION] / 1e6);
	printf("time sum of both           %10.3f\n", sum);
	printf("time one after the other   %10.3f\n", m[AFTERWARDS]);
	printf("time overlapped            %10.3f\n", m[ALONG]);
	printf("time hidden                %10.3f  (%.0f %% of the communication)\n", sum - m[ALONG],
	       100 * (sum - m[ALONG]) / m[COMMUNICATION]);
	if (net->sharing > 1)
		printf("# %d ranks share a GPU: each one's communication waits for the others' turns on it "
		       "and takes "
		       "time from their backward passes, so this is no measure of what overlap hides: give "
		       "each rank "
		       "a GPU\n",
		       net->sharing);
}

int train_times(struct net *net)
{
	int repeats = net->options->repeats, ret = 0;
	double *ms = malloc((size_t)repeats * (KINDS + 1) * sizeof(*ms)), unused;
	if (!ms)
		return CORALE_ENOMEM;
	for (int kind = 0; kind < KINDS && !ret; kind++)
		ret = measure(net, kind, &unused); /* whatever happens at the first time only */
	for (int i = 0; i < repeats * KINDS && !ret; i++)
		ret = measure(net, i % KINDS, &ms[i]);
	if (!ret)
		ret = net_all_reduce(net, ms, (size_t)repeats * KINDS, CORALE_FLOAT64, CORALE_MAX);
	if (!ret && net->rank == 0)
		print(net, ms, ms + repeats * KINDS);
	free(ms);
	return ret;
}
