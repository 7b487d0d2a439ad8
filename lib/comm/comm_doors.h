/* SPDX-License-Identifier: BSD-3-Clause */
/* What the front doors (inproc.c, mpi_glue, nccl_glue) ask of communicators beside corale.h. */
#ifndef COMM_DOORS_H
#define COMM_DOORS_H

#include "state/comm.h"

/*
 * What all doors create with. transport: the door's own, in place of the row of its name (NULL: none); stays while the communicator and those split
 * from it do. traits: NULL: all zero. on_destroy (or NULL): called with its ctx at the end of corale_comm_destroy, and when creation fails.
 */
int corale_private_comm_create(const corale_bootstrap *bootstrap, const corale_config *config,
			       const struct transport_row *transport, const struct comm_traits *traits,
			       void (*on_destroy)(void *), void *on_destroy_ctx, corale_comm **out)
    __attribute__((visibility("default")));

/* Destroys all communicators that were made with this on_destroy_ctx, and those split from them. */
void corale_private_comm_destroy_all(void *on_destroy_ctx) __attribute__((visibility("default")));

/* Ends comm for this rank alone: its calls end with CORALE_EABORTED, its streams are no longer held, and a call of another rank fails when it waits for
 * this one. Only corale_comm_destroy may follow. Any thread; never blocks; idempotent. */
void comm_quit(corale_comm *handle);
/* The same, but this rank may still make communicators of its ranks. */
void comm_revoke(corale_comm *handle);

/* What each rank gives to a split. */
struct comm_split {
	int32_t color, key, rank;
};
/* Sorts what all n have given. ranks (n): those of own's color, in the order of the new communicator; *mine: own's place there. Returns how many. */
int comm_split_ranks(struct comm_split *all, int n, const struct comm_split *own, int *ranks, int *mine);

/* For a function that makes a communicator of this one's ranks. Sets cannot[i] where ranks[i] can't come: it has ended, or waits in a call that this
 * rank has not made. Returns how many that are. */
int comm_cannot_come(corale_comm *handle, const int *ranks, int n, unsigned char *cannot);
/* A split or shrink, as window_wait_of has it with rank 0, alike on its ranks and on no others: this rank begins it, or, if it is all that this rank is in, waits for
 * a rank in it (-1: no longer). Ranks that wait for this one elsewhere then know. */
void comm_begin_making(corale_comm *handle, uint64_t making);
void comm_show_making(corale_comm *handle, uint64_t making, int rank);
/* Asks a rank of another node that has not come whether it is there: one that has left, and had not met this one, says so. */
void comm_ask(corale_comm *handle, int rank);
/* Logs why, of the likeliest cause: CORALE_EPEER, or CORALE_EMISMATCH, which ends the communicator; 0: they can come. call: the function's name. */
int comm_explain_absence(corale_comm *handle, const int *ranks, int n, const char *call);
/* After CORALE_EMISMATCH by corale_comm_async_error: the line of the rank that found it becomes this rank's last error. */
void comm_explain_mismatch(corale_comm *handle, const char *call);

/* Large calls will use this buffer: the ranks of the node may read it where it lies at once, until it is freed. Nothing where they never do. Any thread. */
void comm_publish(corale_comm *handle, const void *buffer, size_t bytes);

/* Bytes of GPU memory that a CUDA communicator holds; of a host communicator all that corale_comm_memory counts. */
size_t comm_device_memory(const corale_comm *handle);
/* Bytes of host memory for messages between nodes: pinned, of a CUDA communicator; of a host communicator a part of the above. */
size_t comm_pinned_memory(const corale_comm *handle);

#endif
