/*
 * Communicators whose buffers are a GPU's: how their engine comes up, and how calls reach it. The host engine of
 * such a communicator stays for what Corale itself tells its ranks, and its windows for the diagnosis.
 */
#ifndef GPU_H
#define GPU_H

#include "comm.h"
#include "host/fdpass.h"

/* Collective. Opens the engine on the current GPU and maps the windows of all ranks, which must be of one node. */
int gpu_open(struct comm *comm);
void gpu_close(struct comm *comm);

/*
 * Collective over one node: passes a descriptor (or -1) of each rank to all others. names: of rank 0's listener, the next
 * rank's stride bytes on. *fds: by rank, -1 for mine; a rank's without one stands for nothing; gpu_close_fds closes them all (NULL is allowed).
 */
int gpu_pass_fds(struct comm *comm, struct fdpass *pass, const char *names, size_t stride, int fd, int **fds);
void gpu_close_fds(const struct comm *comm, int *fds);

/* CORALE_ENOTSUP, reported, for a collective that GPUs do not run. */
int gpu_check(const struct comm *comm, const struct call *call);
/* Enqueues one collective, or n sends and receives that start together, on a stream of the GPU. */
int gpu_submit(struct comm *comm, const struct call *calls, int n, void *stream);

/* 0, or the code that ended the communicator: looks for failures of kernels, of the GPU itself and of other ranks, and reports
 * one. Any thread. */
int gpu_failure(struct comm *comm);

/* The same for the watch thread: without any call of CUDA. */
void gpu_watch(struct comm *comm);

/* Before the end: waits until the GPU has done all that was enqueued, then reports what nobody has seen. */
void gpu_finish(struct comm *comm);

#endif
