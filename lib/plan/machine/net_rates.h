/* SPDX-License-Identifier: BSD-3-Clause */
/* What messages between nodes cost, from what pairs of ranks have measured to what all ranks plan by. Pure. */
#ifndef NET_RATES_H
#define NET_RATES_H

#include "topo.h"

/* What one rank has measured; plain data that ranks exchange. */
struct net_sample {
	int32_t valid, pad;
	double latency_ns, send_ns, recv_ns; /* as topo_link; the adapter's gap is part of send_ns */
	double byte_ns; /* of each byte, with both ends' work; 0: not measured */
};

/*
 * The medians over the valid samples, rounded to steps of 1.5 times from the built-in rates on, so that one machine has the same rates in each
 * run although no two runs measure the same; near the built-in rates these are taken. Into topo's rail and net_bytes_per_ns, whose bytes keep their
 * proportion. Returns how many samples counted; with none topo stays.
 */
int net_rates_apply(const struct net_sample *samples, int n, struct topo *topo);

#endif
