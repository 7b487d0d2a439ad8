/*
 * Communicators of GPUs as far as tests need them: bootstrapped by MPI alone, one window each, plans of a chosen
 * algorithm.
 */
#ifndef GPU_GROUP_H
#define GPU_GROUP_H

#include "cuda/device.h"
#include "plan/planner.h"

enum { GPU_GROUP_MOST_RANKS = 16 };

/* How a communicator is made: its nodes, its window, and how its plans are cut. */
struct gpu_shape {
	const char *name;
	int node_size, channels, slots;
	size_t slot_bytes, chunk_bytes;
};

/* A GPU communicator, as far as this test needs one. */
struct gpu_group {
	int rank, ranks;
	const struct gpu_shape *shape;
	struct topo *topo;
	struct planner planner;
	struct device *device;
	void *stream;
	uint64_t calls;
};

/* Collective over MPI_COMM_WORLD. Returns 0 or what failed. */
int gpu_group_open(struct gpu_group *group, const struct gpu_shape *shape, double timeout_s);
void gpu_group_close(struct gpu_group *group);
/* The plan by the algorithm of that name; CORALE_ENOTSUP if it does not apply. */
int gpu_group_build(const struct gpu_group *group, corale_coll coll, const char *algo, size_t count,
		    struct plan *plan);

#endif
