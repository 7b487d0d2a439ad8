/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which ranks of a communicator are still there, and how the others have left. A rank of this node shows it in its window; one of another node says so in a
 * control message (diagnose.h), or the transport loses it. Those ranks are told that have exchanged messages with it; another one that waits for it asks, and is
 * answered. A call fails when it waits for a rank that has left: on hosts after 0.1 s without progress on this node, and when the link says that nothing is on its way any
 * more between nodes; on GPUs when the kernel's notes of long waits name the rank (gpu_waits.c), between nodes when no message has moved for 0.4 s.
 */
#ifndef PRESENCE_H
#define PRESENCE_H

#include "state/comm.h"

enum presence {
	IS_PRESENT,
	HAS_REVOKED, /* it has revoked comm, and may make communicators of its ranks */
	HAS_LEFT,
	HAS_DIED /* its process has ended without leaving comm first, or its node or link is lost */
};
/* Whether a rank makes calls of comm. */
enum presence presence_of(const struct comm *comm, int rank);
/* 1: a call that has waited for the rank for a while waits in vain. 0 also where a link to the rank says what is still on its way from it. */
int presence_is_over(const struct comm *comm, int rank);

/* Shows the ranks of this node that this one has left comm; the first time counts. 1: it does. */
int presence_leave(struct comm *comm, enum window_left how);
/* A rank of another node has left comm: it has said how, or the transport has lost it for a reason. */
void presence_told(struct comm *comm, int rank, enum window_left how);
void presence_lost(struct comm *comm, int rank, const char *reason);

/* 1 + enum window_left of one that is not present, WINDOW_PRESENT: it has died; 0: it is present. */
int presence_how(const struct comm *comm, int rank);

/* The process of a rank of this node; 0: this one, or not known. */
long presence_pid(const struct comm *comm, int rank);

/* "rank 3 (process 812 of host b)" */
void presence_print_rank(const struct comm *comm, int rank, char *buf, size_t bytes);
/* "rank 3, which has destroyed the communicator (process 812 of this host)", of one that is not present. */
void presence_print_gone(const struct comm *comm, int rank, char *buf, size_t bytes);
/* "rank 3 (process 812 of this host) has died", of a rank that has ended comm by not being there; 0: it is there. how: what another rank knows
 * (presence_how). */
int presence_print_end(const struct comm *comm, int rank, int how, char *buf, size_t bytes);

#endif
