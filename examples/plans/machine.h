/* SPDX-License-Identifier: BSD-3-Clause */
/* Machines from texts. */
#ifndef MACHINE_TEXT_H
#define MACHINE_TEXT_H

#include "plan/machine/topo.h"

struct rates;
struct rates_links;

/*
 * Parses a machine: "node:2 gpu:8 nvlink:390 rail:50", "node:[8,8,4] ...", "node:4 rank:2 memory:10".
 * node: count, or a list of the ranks on each; gpu or rank: ranks per node; nvlink or memory: GB/s between
 * ranks of a node; bus: GB/s each way between a GPU and host memory, where GPUs can't reach each other (nvlink:0); rail: GB/s per rank between nodes; optional nvlink_us, memory_us, rail_us: latencies; rail_send_us, rail_recv_us,
 * rail_gap_us, rail_core: the other members of topo_link and net_bytes_per_ns.
 * On CORALE_EINVAL error (error_bytes long) holds what was wrong and where.
 */
int machine_parse(const char *text, struct topo **out, char *error, size_t error_bytes);
/* The same with other rates of hosts and GPUs than the built-in ones, where the text says none. */
int machine_parse_with(const char *text, const struct rates_links *hosts, const struct rates *gpus,
		       struct topo **out, char *error, size_t error_bytes);

#endif
