/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What machines take for what: the data of the cost models, a row a class of machines. Pure. The arithmetic that reads them is in plan/cost (plans:
 * hosts, and what GPUs run lowered) and in plan/codelet, where each codelet has its own rates, too.
 */
#ifndef RATES_H
#define RATES_H

#include <stdint.h>

/* Links, folds and steps, as a machine's topology begins with; 1 byte/ns = 1 GB/s. */
struct rates_links {
	double node_ns, node_gbs; /* between ranks of a node */
	double rail_ns, rail_gbs; /* between nodes, a rank */
	double send_ns, recv_ns; /* of who sends and receives a message between nodes */
	double proxy_ns; /* GPUs: between GPU and proxy, at both ends together */
	double reduce_gbs; /* input bytes that one rank folds */
	double step_ns; /* of each step of a plan */
	double fused_step_ns; /* GPUs: of a step of a codelet */
	double net_gbs; /* of a rank's own cores from or to the network; 0: the NIC does it */
	double turn_ns; /* until a rank that shares its core gets its turn */
};

/* Generations of GPUs, by which codelets know how fast they are (plan/codelet/X.c). */
enum rates_generation {
	RATES_HOPPER, /* with 900 GB/s of NVLink: measured with 2 and 4 ranks on H200, sums of floats (docs/lab/gpus.md) */
	/* Measured on no GPU: Hopper scaled to an A100, the slowest GPU with links between all GPUs that many machines have. By NVIDIA's data sheets its links
	 * have 600 GB/s of an H200's 900, its memory a third of the speed, its clock three quarters: links by 2/3, memory by 1/3, blocks by 3/4, times by 3/2. */
	RATES_UNKNOWN,
	RATES_GENERATIONS
};

/*
 * What one block of a kernel does, so that few blocks do not fill a link: folds parts of a vector; folds a block of each rank; moves each byte once; moves blocks to
 * each rank; a broadcast's packets, to several ranks; its messages, passed on; folds and moves by teams of warps; the packets of two ranks' all_reduce, and of
 * their broadcast; folds and moves that read the peers' own buffers.
 */
enum rates_block {
	RATES_FOLDING,
	RATES_FOLDING_BLOCKS,
	RATES_MOVING,
	RATES_MOVING_BLOCKS,
	RATES_SCATTERING,
	RATES_PASSING,
	RATES_TEAM_FOLDING,
	RATES_TEAM_MOVING,
	RATES_PAIR_FOLDING,
	RATES_PAIR_MOVING,
	RATES_READ_FOLDING,
	RATES_READ_MOVING,
	RATES_BLOCK_KINDS
};

struct rates {
	const char *name; /* of the class, for people */
	const char *gpu; /* the GPUs' name as their driver has it; NULL: any */
	struct rates_links links; /* of lowered plans */
	enum rates_generation generation;
	double link_gbs; /* of the fastest codelet, which no call exceeds */
	double faster,
	    later_us; /* links, as someone describes them: so many times as fast, so much later an exchange's first byte; 1 and 0 */
	double block_gbs[RATES_BLOCK_KINDS];
	double memory_gbs; /* of a kernel's reads and writes */
	uint64_t scratch_bytes; /* that one GPU sends, from which scratch pays */
	/* Copy engines: */
	double step_us; /* of a copy to each other rank */
	double hop_us; /* of a chain of copies, from one rank to the next */
	double chunk_us; /* between two copies of it */
	double pieces_us; /* of copies that a kernel works on piece by piece */
	double last_bytes; /* of the last of these pieces, about */
	int blocks; /* of a kernel at most, where corale-plan has only the class to go by */
	int measured_ranks; /* with so many at most; 0: nothing was measured */
};

/* Hosts whose engines have measured nothing. */
const struct rates_links *rates_of_hosts(void);

/* The class of a GPU by its name; GPUs that no class knows, and NULL, have the last one, of conservative rates. */
const struct rates *rates_of_gpu(const char *gpu);
int rates_are_known(const struct rates *rates);
/* The rate of a GPU's link. */
double rates_link_gbs(const struct rates *rates);
/*
 * The class with other links between the GPUs of a node, as someone describes them: each codelet keeps its share of the link's rate, and
 * starts later by what its exchanges take longer. Modelled, not measured.
 */
struct rates rates_with_links(const struct rates *of_class, const char *name, double node_gbs,
			      double node_ns);
/* The same where windows lie in host memory, behind a bus of so many GB/s one way. */
enum { RATES_BUS_GBS = 50 };
double rates_bus_link_gbs(double bus_gbs);
struct rates rates_with_bus(const struct rates *of_class, const char *name, double bus_gbs);
/* What corale-plan takes "gpu:8" for. */
const struct rates *rates_of_default_gpu(void);

#endif
