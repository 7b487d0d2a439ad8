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

/* GPUs of this generation (Hopper, with 900 GB/s of NVLink): what does not depend on their memory. Ways and blocks: measured with 2 and 4 ranks
 * on H200, sums of floats (docs/performance.md). */
#define HOPPER_NVLINK                                                                                        \
	.row = { [RATES_ONE_SHOT] = { 1.8, 260, 0 },                                                         \
		 [RATES_ONE_SHOT_BLOCKS] = { 3.5, 320, 0 },                                                  \
		 [RATES_PAIR_TWO_SHOT] = { 3.3, 353, 0.3 },                                                  \
		 [RATES_TWO_SHOT] = { 3.3, 338, 0.5 },                                                       \
		 [RATES_SCATTER_ALLGATHER] = { 4, 280, 0 },                                                  \
		 [RATES_PAIR_FOLD] = { 21, 277, 0 },                                                         \
		 [RATES_FOLD] = { 22, 300, 0 },                                                              \
		 [RATES_TWO_SHOT_FIFO] = { 28, 323, 0 },                                                     \
		 [RATES_TWO_SHOT_DIRECT] = { 14, 362, 0 },                                                   \
		 [RATES_PAIR_STAGED] = { 9, 344, 0 },                                                        \
		 [RATES_STAGED] = { 11, 340, 0 },                                                            \
		 [RATES_DIRECT] = { 8, 360, 0 },                                                             \
		 [RATES_PAIR_BROADCAST_FIFO] = { 14, 362, 0 },                                               \
		 [RATES_SCATTER_ALLGATHER_FIFO] = { 30, 355, 0 },                                            \
		 [RATES_PAIR_BROADCAST_DIRECT] = { 10, 367, 0 },                                             \
		 [RATES_SCATTER_ALLGATHER_DIRECT] = { 22, 359, 0 },                                          \
		 [RATES_COPIES] = { 17.5, 392, 0 } },                                                        \
	.block_gbs = { [RATES_FOLDING] = 9,                                                                  \
		       [RATES_MOVING] = 14,                                                                  \
		       [RATES_SCATTERING] = 5.5,                                                             \
		       [RATES_PASSING] = 17 },                                                               \
	.scratch_bytes = 6000000, .step_us = 5.5, .hop_us = 14, .chunk_us = 4, .pieces_us = 12,              \
	.last_bytes = 12e6, .blocks = 128, .measured_ranks = 4

static const struct rates gpus[] = {
	/* Links: round numbers. */
	{ .name = "H200 behind NVSwitch",
	  .gpu = "NVIDIA H200",
	  .links = { .node_ns = 1500,
		     .node_gbs = 360,
		     .rail_ns = 4200,
		     .rail_gbs = 50,
		     .send_ns = 400,
		     .recv_ns = 400,
		     .proxy_ns = 2600,
		     .reduce_gbs = 1500,
		     .step_ns = 500,
		     .fused_step_ns = 100 },
	  .memory_gbs = 2500,
	  HOPPER_NVLINK },
	/*
	 * The H100 with NVLink between all GPUs (SXM), the row above with the memory of the data sheets: 3.35 TB/s of an H200's 4.8, so what
	 * memory limits is scaled by 0.7. Links and processors are the same. H100 PCIe and H100 NVL have NVLink to the GPU beside them at most,
	 * and other memory: they have no row, so the conservative one.
	 */
	{ .name = "H100 behind NVSwitch",
	  .gpu = "NVIDIA H100 80GB HBM3",
	  .links = { .node_ns = 1500,
		     .node_gbs = 360,
		     .rail_ns = 4200,
		     .rail_gbs = 50,
		     .send_ns = 400,
		     .recv_ns = 400,
		     .proxy_ns = 2600,
		     .reduce_gbs = 1047,
		     .step_ns = 500,
		     .fused_step_ns = 100 },
	  .memory_gbs = 1745,
	  HOPPER_NVLINK },
	/*
	 * Measured on no GPU: the row of the H200 scaled to an A100, the slowest GPU with links between all GPUs that many machines have. By
	 * NVIDIA's data sheets its links have 600 GB/s of an H200's 900, its memory a third of the speed, its clock three quarters: links by
	 * 2/3, memory by 1/3, blocks by 3/4, times by 3/2.
	 */
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
	  .row = { [RATES_ONE_SHOT] = { 2.7, 173, 0 },
		   [RATES_ONE_SHOT_BLOCKS] = { 5.3, 213, 0 },
		   [RATES_PAIR_TWO_SHOT] = { 5, 235, 0.5 },
		   [RATES_TWO_SHOT] = { 5, 225, 0.8 },
		   [RATES_SCATTER_ALLGATHER] = { 6, 187, 0 },
		   [RATES_PAIR_FOLD] = { 32, 185, 0 },
		   [RATES_FOLD] = { 33, 200, 0 },
		   [RATES_TWO_SHOT_FIFO] = { 42, 215, 0 },
		   [RATES_TWO_SHOT_DIRECT] = { 21, 241, 0 },
		   [RATES_PAIR_STAGED] = { 14, 229, 0 },
		   [RATES_STAGED] = { 17, 227, 0 },
		   [RATES_DIRECT] = { 12, 240, 0 },
		   [RATES_PAIR_BROADCAST_FIFO] = { 21, 241, 0 },
		   [RATES_SCATTER_ALLGATHER_FIFO] = { 45, 237, 0 },
		   [RATES_PAIR_BROADCAST_DIRECT] = { 15, 245, 0 },
		   [RATES_SCATTER_ALLGATHER_DIRECT] = { 33, 239, 0 },
		   [RATES_COPIES] = { 26, 261, 0 } },
	  .block_gbs = { [RATES_FOLDING] = 6.8,
			 [RATES_MOVING] = 10.5,
			 [RATES_SCATTERING] = 4.1,
			 [RATES_PASSING] = 12.8 },
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

/* Exchanges between ranks that follow each other in a call of the row. */
static int exchanges(int row)
{
	switch (row) {
	case RATES_PAIR_TWO_SHOT:
	case RATES_TWO_SHOT:
	case RATES_SCATTER_ALLGATHER:
	case RATES_TWO_SHOT_FIFO:
	case RATES_TWO_SHOT_DIRECT:
	case RATES_SCATTER_ALLGATHER_FIFO:
	case RATES_SCATTER_ALLGATHER_DIRECT:
		return 2;
	default:
		return 1;
	}
}

double rates_link_gbs(const struct rates *rates)
{
	double gbs = 0;
	for (int i = 0; i < RATES_ROWS; i++)
		gbs = rates->row[i].gbs > gbs ? rates->row[i].gbs : gbs;
	return gbs;
}

struct rates rates_with_links(const struct rates *of_class, const char *name, double node_gbs, double node_ns)
{
	const double faster = node_gbs / rates_link_gbs(of_class),
		     later_us = (node_ns - of_class->links.node_ns) / 1e3;
	struct rates rates = *of_class;
	rates.name = name;
	rates.links.node_gbs = node_gbs;
	rates.links.node_ns = node_ns;
	for (int i = 0; i < RATES_ROWS; i++) {
		rates.row[i].gbs *= faster;
		rates.row[i].start_us += exchanges(i) * later_us;
		if (rates.row[i].start_us < 0)
			rates.row[i].start_us = 0;
	}
	rates.hop_us = rates.hop_us + later_us > 0 ? rates.hop_us + later_us : 0;
	return rates;
}

const struct rates *rates_of_default_gpu(void)
{
	return gpus;
}
