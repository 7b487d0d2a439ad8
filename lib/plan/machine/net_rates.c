/* SPDX-License-Identifier: BSD-3-Clause */
#include "net_rates.h"

#include <stddef.h>
#include <stdlib.h>

#include "base/sort.h"
#include "rates.h"

/*
 * Steps, and half of one. What is as near to the built-in rate as three quarters of a step is taken for it; a latency as near as one and a half, as it
 * is a difference of what was measured, and small. By multiplication, as some doors of the library must not need libm.
 */
static const double step = 1.5, half_a_step = 1.2247, near_rate = 1.355, near_latency = 1.84;
static const double least_ns = 20;

/* Of a member of the valid samples. values: room for n. */
static double median_of(const struct net_sample *samples, int n, size_t member, double *values)
{
	int valid = 0;
	for (int i = 0; i < n; i++)
		if (samples[i].valid)
			values[valid++] = *(const double *)((const char *)&samples[i] + member);
	return valid ? sort_median(values, (size_t)valid) : 0;
}

static double rounded(double value, double built_in, double near)
{
	double at = built_in;
	if (value < near * built_in && built_in < near * value)
		return built_in;
	while (value > at * half_a_step)
		at *= step;
	while (value > least_ns && value < at / half_a_step)
		at /= step;
	return value > least_ns ? at : least_ns;
}

/* Adapter and cores by one factor: a message's bytes are measured on the whole way. */
static void scale_bytes(double byte_ns, const struct rates_links *built_in, struct topo *topo)
{
	const double all = 1 / built_in->rail_gbs + 2 / built_in->net_gbs;
	if (byte_ns <= 0)
		return;
	const double factor = rounded(1000 * byte_ns / all, 1000, near_rate) / 1000;
	topo->rail.bytes_per_ns = built_in->rail_gbs / factor;
	topo->net_bytes_per_ns = built_in->net_gbs / factor;
}

int net_rates_apply(const struct net_sample *samples, int n, struct topo *topo)
{
	const struct rates_links *built_in = rates_of_hosts();
	double *values = malloc((size_t)n * sizeof *values);
	int valid = 0;
	for (int i = 0; i < n; i++)
		valid += samples[i].valid;
	if (values && valid) {
		const double send = median_of(samples, n, offsetof(struct net_sample, send_ns), values),
			     recv = median_of(samples, n, offsetof(struct net_sample, recv_ns), values),
			     way = median_of(samples, n, offsetof(struct net_sample, latency_ns), values);
		topo->rail.send_ns = rounded(send, built_in->send_ns, near_rate);
		topo->rail.recv_ns = rounded(recv, built_in->recv_ns, near_rate);
		topo->rail.latency_ns = rounded(way, built_in->rail_ns, near_latency);
		scale_bytes(median_of(samples, n, offsetof(struct net_sample, byte_ns), values), built_in,
			    topo);
	}
	free(values);
	return values ? valid : 0;
}
