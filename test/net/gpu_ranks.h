/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that are processes of one machine, each with Corale's transport over UCX and a slab in memory that stands for a GPU's, over the adapter
 * of test/fake_verbs. What is not as it should be ends the process with a line.
 */
#ifndef GPU_RANKS_H
#define GPU_RANKS_H

#include "base/settings.h"
#include "test/helpers/fake_gpu_memory.h"
#include "net/link.h"
#include "net/transport.h"

enum { GPU_SLOT_BYTES = 64 << 10, GPU_DEPTH = 4, GPU_DEADLINE_MS = 20000, GPU_WRONG_BYTES = 3 };

#define EXPECT(good) gpu_expect(good, #good, __FILE__, __LINE__)

void gpu_expect(int good, const char *what, const char *file, int line);

/* One of two ranks, with a link to the other. */
struct gpu_rank {
	int rank, size, socket;
	struct transport *t;
	struct fake_gpu_memory gpu; /* slots for what comes, then those for what goes */
	struct link_slab *slab;
	struct link_memory memory;
	struct link *link;
	_Atomic int failures, code; /* that on_failure was told */
	char reason[256];
	int released; /* directions of the link that were given back */
};

/* A transport of this process's own; 0 or an error. */
int gpu_open_alone(int rail, int gpu_slots, const char *devices, struct transport **out);
/* 0, or link_map's error. */
int gpu_map(struct transport *t, struct fake_gpu_memory *gpu, struct link_slab **slab, char *why);

/* Both ranks; gpu_slots 0: the link's slots are the transport's, in host memory. Its first message need not wait for anything. */
void gpu_rank_open(struct gpu_rank *r, int gpu_slots);
/* 1: a message is posted, has come as it should be and its slot is free again; 0: not in so long; or an error. Wrong bytes end the process with status
 * GPU_WRONG_BYTES. */
int gpu_rank_send(struct gpu_rank *r, size_t bytes, int ms);
int gpu_rank_send_few(struct gpu_rank *r, size_t bytes,
		      int ms); /* brought in host memory; LINK_INLINE_BYTES at most */
int gpu_rank_receive(struct gpu_rank *r, size_t bytes, int ms);
/* Moves the transport for so long. */
void gpu_rank_move(struct gpu_rank *r, int ms);
/* As transport_ops.fail. */
void gpu_rank_fail(struct gpu_rank *r, int code);
/* Closes the transport; the slab, if both directions were given back. */
void gpu_rank_close(struct gpu_rank *r);
/* Waits for the other rank; not for the network. */
void gpu_rank_meet(struct gpu_rank *r);

/* Runs a body in a process of its own, or one in each of two: statuses of waitpid. */
int gpu_run(void (*body)(void));
void gpu_run_two(void (*body)(struct gpu_rank *r), int statuses[2]);

#endif
