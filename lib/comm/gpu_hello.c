/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu.h"
#include "gpu_blocks.h"

#include <string.h>

int gpu_hello_on_one_gpu(const struct gpu_hello *a, const struct gpu_hello *b)
{
	return !memcmp(a->id.uuid, b->id.uuid, ENGINE_UUID_BYTES);
}

int gpu_hello_beside(const struct gpu_hello *all, int ranks, int rank)
{
	int n = 0;
	for (int r = 0; r < ranks; r++)
		n += all[r].process == all[rank].process && gpu_hello_on_one_gpu(&all[r], &all[rank]);
	return n;
}

/* Ranks of all processes that are on a rank's GPU. */
static int on_gpu(const struct gpu_hello *all, int ranks, int rank)
{
	int n = 0;
	for (int r = 0; r < ranks; r++)
		n += gpu_hello_on_one_gpu(&all[r], &all[rank]);
	return n;
}

int gpu_hello_share(const struct gpu_hello *all, int ranks, int rank)
{
	const int beside = gpu_hello_beside(all, ranks, rank), offered = all[rank].offered / beside,
		  fitting = gpu_blocks_room(all[rank].processors) / on_gpu(all, ranks, rank),
		  share = offered < fitting ? offered : fitting;
	return share < 1 && all[rank].max_blocks >= beside ? 1 : share;
}

int gpu_hello_find_beside(const struct gpu_hello *all, int ranks)
{
	for (int r = 0; r < ranks; r++)
		if (gpu_hello_beside(all, ranks, r) > 1)
			return r;
	return -1;
}

int gpu_hello_find_process(const struct gpu_hello *all, int ranks)
{
	for (int r = 0; r < ranks; r++)
		for (int q = r + 1; q < ranks; q++)
			if (all[r].process == all[q].process)
				return r;
	return -1;
}

int gpu_hello_find_no_scratch(const struct gpu_hello *all, int ranks)
{
	for (int r = 0; r < ranks; r++)
		if (all[r].no_scratch)
			return r;
	return -1;
}

int gpu_hello_all_export(const struct gpu_hello *all, int ranks)
{
	for (int r = 0; r < ranks; r++)
		if (!all[r].exports)
			return 0;
	return 1;
}

int gpu_hello_slowest_bus(const struct gpu_hello *all, int ranks)
{
	int least = 0;
	for (int r = 0; r < ranks; r++)
		if (all[r].bus_gbs > 0 && (!least || all[r].bus_gbs < least))
			least = all[r].bus_gbs;
	return least ? least : RATES_BUS_GBS;
}
