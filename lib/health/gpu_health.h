/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators whose calls run on a GPU: what their kernels wait for, and what has failed there. */
#ifndef GPU_HEALTH_H
#define GPU_HEALTH_H

#include "host/host_engine.h"
#include "state/comm.h"

/* The calls that a GPU has been given of late, by number: what fails there, long after the call, is named by it. */

/* To be freed by free. NULL: no memory. */
struct gpu_journal *gpu_journal_create(void);

/* Keeps n calls that start together; the number of the first one, which is 1 or more. One thread at a time; all other functions
 * beside it too. */
uint32_t gpu_journal_add(struct gpu_journal *journal, const struct call *calls, int n);

/* The number of the last call; 0: there was none. */
uint32_t gpu_journal_last(const struct gpu_journal *journal);

/* 1 if what was called last waits for that rank: it is a collective, or with this peer. */
int gpu_journal_concerns(const struct gpu_journal *journal, int rank);

/*
 * The call of a number, or of those that started with it the one with that peer, without its buffers and scalar. One that is no longer
 * kept: its coll is CORALE_NUM_COLLS.
 */
struct record gpu_journal_find(const struct gpu_journal *journal, uint32_t number, int peer);

/* A rank, and its index among the peers that kernels know (gpu.h). */
static inline int gpu_rank_at(const struct comm *comm, int index)
{
	return comm->gpu_rank ? comm->gpu_rank[index] : index;
}
static inline int gpu_index_of(const struct comm *comm, int rank)
{
	return comm->gpu_index ? comm->gpu_index[rank] : rank;
}
static inline int gpu_is_remote(const struct comm *comm, int rank)
{
	return comm->gpu_index && comm->gpu_index[rank] >= comm->engine.locals;
}

/* 0, or the code that ended the communicator: looks for failures of kernels, of the GPU itself and of other ranks, and reports
 * one. Any thread. */
int gpu_failure(struct comm *comm);

/* The same for the watch thread: without any call of CUDA. */
void gpu_watch(struct comm *comm);

/* For the watch thread, while nothing comes from other nodes: CORALE_EMISMATCH if a rank there is in another call, CORALE_EPEER if one has
 * left, CORALE_ETRANSPORT if messages to one are refused. Says whom a call waits for that stands still (stall.h). */
int gpu_remote_look(struct comm *comm);
/* A rank of another node that has left and that a collective of that number needs; or -1. */
int gpu_remote_gone(struct comm *comm, uint64_t number);

/* gpu_waits.c. For the watch thread: CORALE_EPEER, reported, if a kernel waits for a rank of this node that is gone. Says of a wait that lasts
 * for whom it is, and whether that rank has made the call. */
int gpu_waits_open(struct comm *comm);
int gpu_waits_look(struct comm *comm);

#endif
