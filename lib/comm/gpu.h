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

/* Collective. Opens the engine on the current GPU, maps the windows of the ranks of its node, and starts the proxy to the others. */
int gpu_open(struct comm *comm);
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
struct gpu_hello;
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
