/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators whose buffers are a GPU's: how their engine comes up and ends (calls reach it by call/gpu_call.h). The host engine of
 * such a communicator stays for what Corale itself tells its ranks, and its windows for the diagnosis.
 */
#ifndef GPU_H
#define GPU_H

#include "health/gpu_health.h"
#include "hello.h"
#include "host/fdpass.h"
#include "cuda/engine.h"

/* The handshake of the ranks of a CUDA communicator, and what follows from it: the same on all ranks. Pure. */

struct gpu_hello {
	struct engine_identity id;
	char name[FDPASS_NAME_BYTES];
	char gpu[ENGINE_NAME_BYTES];
	int32_t max_blocks; /* of a kernel, by the GPU's size and the settings; */
	int32_t processors; /* of its GPU */
	int32_t offered; /* beside other communicators of the process (gpu_blocks.h), once its GPU is known */
	uint64_t process;
	int32_t bus_gbs; /* engine_own_gpu.bus_gbs */
	int32_t untried; /* its process has not tried peers' memory (gpu_peers.c) */
	int32_t no_scratch; /* it was created to make none */
	int32_t
	    exports; /* it has a board, on which allocations stand that others may map (cuda/exporter.h) */
};

int gpu_hello_on_one_gpu(const struct gpu_hello *a, const struct gpu_hello *b);

/* Ranks of a rank's process that are on its GPU, itself included. */
int gpu_hello_beside(const struct gpu_hello *all, int ranks, int rank);

/* Blocks of a rank's kernels. Ranks of one process on one GPU divide them, and all ranks of a GPU fit on it together, as their kernels wait for each other side by
 * side (those of several processes under MPS). 0: more ranks of one process are there than the kernels may have blocks. */
int gpu_hello_share(const struct gpu_hello *all, int ranks, int rank);

/* A rank whose process has another rank on the same GPU; -1: there is none. */
int gpu_hello_find_beside(const struct gpu_hello *all, int ranks);

/* A rank whose process has another rank, on whatever GPU; -1: there is none. */
int gpu_hello_find_process(const struct gpu_hello *all, int ranks);

/* Whether ranks can read each other's buffers: all have boards. */
int gpu_hello_all_export(const struct gpu_hello *all, int ranks);

/* GB/s, of those that are known. */
int gpu_hello_slowest_bus(const struct gpu_hello *all, int ranks);

/* A rank that was created to make no scratch; -1: there is none. */
int gpu_hello_find_no_scratch(const struct gpu_hello *all, int ranks);

/* Collective. Opens the engine on the current GPU, maps the windows of the ranks of its node, and starts the proxy to the others. *met: what this rank alone has
 * met, before and at the end. */
int gpu_open(struct comm *comm, int *met);
void gpu_close(struct comm *comm);

/*
 * Collective over each node: passes n descriptors of this rank to every other rank of it, but those that pids (NULL: none) has as of this process (0).
 * names: of rank 0's listener, the next rank's stride bytes on. *fds: k of local rank q at q * n + k, -1 where nothing was passed.
 */
int comm_pass_fds(struct comm *comm, struct fdpass *pass, const char *names, size_t stride, const int *mine,
		  int n, const pid_t *pids, int **fds);
void comm_close_fds(const struct comm *comm, int n, int *fds); /* and frees them; NULL is allowed */

/* comm_pass_fds with descriptors some of which may be -1: the others get one that stands for nothing. */
int gpu_pass_fds(struct comm *comm, struct fdpass *pass, const char *names, size_t stride, const int *mine,
		 int n, int **fds);

/*
 * gpu_links.c. Collective, before the map of ranks is made: how the GPUs of each host reach each other. Where two can't, hellos says now which ranks of
 * the host are nodes of their own: those in a node all reach each other. comm->words_only: a link of some node tears lines, or may, or a setting says
 * so; the same on all ranks.
 */
int gpu_find_links(struct comm *comm, struct hello *hellos);

/*
 * gpu_peers.c. Collective, once the windows are mapped: whether they work, where a process has not tried that. COMM_AGAIN on all ranks: some don't, which gpu_peers_are_bad says
 * from now on. CORALE_ETIMEDOUT names a pair whose copy does not end.
 */
int gpu_try_peers(struct comm *comm, const struct gpu_hello *all);
int gpu_peers_are_bad(const struct engine_identity *a, const struct engine_identity *b);
int gpu_peers_are_tried(void);

/* gpu_remote.c: kernels know a peer by its index: its local rank on this node, and behind those the ranks of other nodes in order. */
int gpu_indices_open(struct comm *comm);
/* Collective: messages to and from other nodes move from here on. */
int gpu_remote_open(struct comm *comm);
void gpu_remote_close(struct comm *comm);
/* Collective: the scratch that the communicator was created to have, in which no call makes any. */
int gpu_make_scratch(struct comm *comm);

/* Before the end: waits until the GPU has done all that was enqueued, then reports what nobody has seen. */
void gpu_finish(struct comm *comm);

#endif
