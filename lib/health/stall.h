/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that stand still: which rank they wait for, whether it has made the call, and whether its process answers, or on this node is stopped.
 * A rank that goes on has lost nothing.
 */
#ifndef STALL_H
#define STALL_H

#include "state/comm.h"

/* What a rank answers when it is asked. */
enum stall_state {
	STALL_HOST, /* its calls run on the host */
	STALL_IDLE, /* no call is under way on its GPU */
	STALL_ENQUEUED, /* one is, behind other work of the GPU */
	STALL_RUNNING
};

struct stall_wait {
	const struct record *call; /* that stands still; on a GPU the last one made */
	uint64_t number; /* of the last collective made here; 0: the call is none */
	int peer; /* the rank whose message is awaited; PLAN_NONE: any may be */
};

/*
 * For a call in which nothing has moved since since_ns: asks the ranks of other nodes that it waits for after a second, and a second later
 * logs one line. On one node, where windows show what ranks have called, it asks nobody and logs after 10 s. Any thread, again and again; does not block.
 */
void stall_look(struct comm *comm, const struct stall_wait *wait, int64_t since_ns);

/* Logs now for which rank a call has waited so long, and what is known of that rank. */
void stall_log(struct comm *comm, const struct stall_wait *wait, double seconds);

/* The transport's handlers, when a rank of another node asks or answers (control_receive.c). */
enum stall_state stall_own_state(const struct comm *comm);
void stall_answered(struct comm *comm, int peer, enum stall_state state);

#endif
