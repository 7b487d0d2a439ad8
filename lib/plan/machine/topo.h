/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The machine as data: which rank sits on which node, and what the links between ranks cost.
 * Pure: filled at communicator creation from exchanged facts, or by corale-plan from a text.
 */
#ifndef TOPO_H
#define TOPO_H

#include "plan/plan.h"

/*
 * One class of links, by LogGP (Alexandrov, Ionescu, Schauser and Scheiman 1995): a message of b bytes takes send_ns of who sends it,
 * latency_ns + b / bytes_per_ns on its way (1 byte/ns = 1 GB/s), and recv_ns of who receives it. The adapter begins one each gap_ns.
 */
struct topo_link {
	double latency_ns;
	double bytes_per_ns;
	double send_ns, recv_ns;
	double gap_ns;
};

struct topo {
	struct plan_map map; /* the arrays below, in the form that plans are evaluated against */
	int *node_of, *local_of; /* by rank */
	/* ranks of node b by local rank: member[node_first[b] .. node_first[b + 1]) */
	int *node_first, *member;
	/* What the cost model asks of the map for each plan: */
	double crossing; /* share of the steps around all ranks that goes between nodes */
	int in_smallest; /* the first rank of the smallest node */
	int in_order; /* nodes have the ranks one node after the other */
	struct topo_link node; /* between ranks of a node */
	struct topo_link rail; /* between nodes, per rank (each local rank has its own rail) */
	double reduce_bytes_per_ns; /* input bytes that one rank folds per ns */
	double step_ns; /* fixed cost of a step on its engine */
	double turn_ns; /* until a rank that shares its core gets its turn */
	double fused_step_ns; /* the same of a codelet, which reads no list of steps */
	/* Messages marked PLAN_STABLE go by reference inside a node from this size on; 0: none do. */
	double reference_bytes;
	/* Bytes that a rank's own cores move to or from the network per ns; 0: the NIC does it. */
	double net_bytes_per_ns;
	double
	    bus_gbs; /* GPUs whose windows lie in host memory, behind such a bus; 0: they reach each other */
	int proxied; /* between nodes a proxy, one thread a rank, sends and receives (GPUs), not who runs the plan */
	int shared_memory; /* a message to ALL of a node is written once (host memory), not once per peer */
	int cores_per_rank_x16; /* processor cores a rank may use, times 16: 8 means half a core */
};

/*
 * Builds the maps from node ids: node_id[r] is any number equal for ranks of one node; nodes are
 * numbered by their lowest rank. Links get the defaults of a host-memory machine.
 * Returns 0 or CORALE_ENOMEM, CORALE_EINVAL.
 */
int topo_create(int ranks, const uint64_t *node_id, struct topo **out);
struct rates; /* rates.h */
struct rates_links;
/* Other rates of hosts than the defaults. */
void topo_set_hosts(struct topo *topo, const struct rates_links *links);
/* Links and rates of GPUs instead of those of hosts. The arrays stay: it may be a copy of another topology by value. */
void topo_set_gpus(struct topo *topo, const struct rates *rates);
/* Reads what a machine has between nodes, "rail_us:2.4 rail_send_us:6.5", into topo, or only checks it (NULL). On CORALE_EINVAL error (error_bytes long) holds what was wrong and where. */
int topo_parse_rails(const char *text, struct topo *topo, char *error, size_t error_bytes);
/* The same the other way round; returns the length it needs, like snprintf. */
size_t topo_print_rails(const struct topo *topo, char *buf, size_t bytes);
void topo_destroy(struct topo *topo);

#endif
