/*
 * Communicators whose buffers are a GPU's: how their engine comes up, and how calls reach it. The host engine of
 * such a communicator stays for what Corale itself tells its ranks, and its windows for the diagnosis.
 */
#ifndef GPU_H
#define GPU_H

#include "comm.h"

/* Collective. Opens the engine on the current GPU and maps the windows of all ranks, which must be of one node. */
int gpu_open(struct comm *comm);
void gpu_close(struct comm *comm);

/* Enqueues one collective, or n sends and receives that start together, on a stream of the GPU. */
int gpu_submit(struct comm *comm, const struct call *calls, int n, void *stream);

/* 0, or the code that ended the communicator: looks for failures of kernels and of other ranks, and reports one. Any thread. */
int gpu_failure(struct comm *comm);

#endif
