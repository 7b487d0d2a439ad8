/* SPDX-License-Identifier: BSD-3-Clause */
/* The rates of machines. */
#include "rates.h"

#include <string.h>

/*
 * A host-memory machine whose nodes are joined by UCX over loopback sockets, where most of a message is the system call that sends it: fitted to
 * the times of 16 ranks as 16 nodes on 16 cores. Communicators replace what is between nodes by what they have measured (net_rates.h).
 */
static const struct rates_links hosts = { .node_ns = 150,
					  .node_gbs = 6,
					  .rail_ns = 800,
					  .rail_gbs = 10,
					  .send_ns = 6500,
					  .recv_ns = 2600,
					  .reduce_gbs = 8,
					  .step_ns = 60,
					  .net_gbs = 5,
					  .turn_ns = 2500 };

/* GPUs of the Hopper generation behind NVSwitch, by what their memory limits. Links: round numbers. */
#define HOPPER(fold_gbs, hbm_gbs)                                                                            \
	.links = { .node_ns = 1500,                                                                          \
		   .node_gbs = 360,                                                                          \
		   .rail_ns = 4200,                                                                          \
		   .rail_gbs = 50,                                                                           \
		   .send_ns = 400,                                                                           \
		   .recv_ns = 400,                                                                           \
		   .proxy_ns = 2600,                                                                         \
		   .reduce_gbs = fold_gbs,                                                                   \
		   .step_ns = 500,                                                                           \
		   .fused_step_ns = 100 },                                                                   \
	.generation = RATES_HOPPER, .link_gbs = 392,                                                         \
	.faster = 1, .block_gbs = { [RATES_FOLDING] = 10,       [RATES_FOLDING_BLOCKS] = 7.2,                \
				    [RATES_MOVING] = 14,        [RATES_MOVING_BLOCKS] = 7.8,                 \
				    [RATES_SCATTERING] = 5.5,   [RATES_PASSING] = 7,                         \
				    [RATES_TEAM_FOLDING] = 20,  [RATES_TEAM_MOVING] = 18.5,                  \
				    [RATES_PAIR_FOLDING] = 5.4, [RATES_PAIR_MOVING] = 3,                     \
				    [RATES_READ_FOLDING] = 38,  [RATES_READ_MOVING] = 24 },                  \
	.memory_gbs = hbm_gbs, .scratch_bytes = 6000000, .step_us = 5.5, .hop_us = 14, .chunk_us = 4,        \
	.pieces_us = 12, .last_bytes = 12e6, .blocks = 128, .measured_ranks = 4

static const struct rates gpus[] = {
	{ .name = "H200 behind NVSwitch", .gpu = "NVIDIA H200", HOPPER(1500, 2500) },
	/*
	 * The H100 with NVLink between all GPUs (SXM), the row above with the memory of the data sheets: 3.35 TB/s of an H200's 4.8, so what
	 * memory limits is scaled by 0.7. Links and processors are the same. H100 PCIe and H100 NVL have NVLink to the GPU beside them at most,
	 * and other memory: they have no row, so the conservative one.
	 */
	{ .name = "H100 behind NVSwitch", .gpu = "NVIDIA H100 80GB HBM3", HOPPER(1047, 1745) },
	{ .name = "unknown GPU",
	  .links = { .node_ns = 2250,
		     .node_gbs = 240,
		     .rail_ns = 6300,
		     .rail_gbs = 25,
		     .send_ns = 600,
		     .recv_ns = 600,
		     .proxy_ns = 3900,
		     .reduce_gbs = 500,
		     .step_ns = 750,
		     .fused_step_ns = 150 },
	  .generation = RATES_UNKNOWN,
	  .link_gbs = 261,
	  .faster = 1,
	  .block_gbs = { [RATES_FOLDING] = 6.7,
			 [RATES_FOLDING_BLOCKS] = 4.8,
			 [RATES_MOVING] = 10.5,
			 [RATES_MOVING_BLOCKS] = 5.2,
			 [RATES_SCATTERING] = 4.1,
			 [RATES_PASSING] = 5.2,
			 [RATES_TEAM_FOLDING] = 13.3,
			 [RATES_TEAM_MOVING] = 12.3,
			 [RATES_PAIR_FOLDING] = 3.6,
			 [RATES_PAIR_MOVING] = 2,
			 [RATES_READ_FOLDING] = 25.3,
			 [RATES_READ_MOVING] = 16 },
	  .memory_gbs = 830,
	  .scratch_bytes = 6000000,
	  .step_us = 8,
	  .hop_us = 21,
	  .chunk_us = 6,
	  .pieces_us = 18,
	  .last_bytes = 12e6,
	  .blocks = 105 },
};

const struct rates_links *rates_of_hosts(void)
{
	return &hosts;
}

const struct rates *rates_of_gpu(const char *gpu)
{
	const struct rates *r = gpus;
	while (r->gpu && (!gpu || strcmp(r->gpu, gpu)))
		r++;
	return r;
}

int rates_are_known(const struct rates *rates)
{
	return rates->gpu != NULL;
}

double rates_link_gbs(const struct rates *rates)
{
	return rates->link_gbs * rates->faster;
}

struct rates rates_with_links(const struct rates *of_class, const char *name, double node_gbs, double node_ns)
{
	struct rates rates = *of_class;
	rates.name = name;
	rates.links.node_gbs = node_gbs;
	rates.links.node_ns = node_ns;
	rates.faster = node_gbs / rates_link_gbs(of_class);
	rates.later_us = (node_ns - of_class->links.node_ns) / 1e3;
	const double later_us = rates.later_us;
	rates.hop_us = rates.hop_us + later_us > 0 ? rates.hop_us + later_us : 0;
	return rates;
}

/* Of 50 GB/s each way 28 are left where a GPU stores and loads at a time; a word takes 1.73 us instead of 0.75 (PCIe 5 x16, H200). */
double rates_bus_link_gbs(double bus_gbs)
{
	return bus_gbs * 28 / 50;
}

struct rates rates_with_bus(const struct rates *of_class, const char *name, double bus_gbs)
{
	return rates_with_links(of_class, name, rates_bus_link_gbs(bus_gbs),
				of_class->links.node_ns * 1.73 / 0.75);
}

const struct rates *rates_of_default_gpu(void)
{
	return gpus;
}
