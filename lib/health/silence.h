/*
 * Calls that stand still: which rank they wait for, whether it has made the call, and whether its process answers, or on this node is stopped.
 * Nothing ends and nothing changes by it: a rank that goes on has lost nothing.
 */
#ifndef SILENCE_H
#define SILENCE_H

#include "state/comm.h"

/* What a rank tells of itself when it is asked. */
enum silence_state {
	SILENCE_HOST, /* its calls run on the host */
	SILENCE_IDLE, /* no call is under way on its GPU */
	SILENCE_ENQUEUED, /* one is, behind other work of the GPU */
	SILENCE_RUNNING
};

struct silence_wait {
	const struct record *call; /* that stands still; on a GPU the last one made */
	uint64_t number; /* of the last collective made here; 0: the call is none */
	int peer; /* the rank whose message is awaited; PLAN_NONE: any may be */
};

/*
 * For a call in which nothing has moved since since_ns: asks the ranks of other nodes that it waits for after a second, and a second later
 * says in one line which of them it is. On one node, where windows show what ranks have called, it asks nobody and says so after 10 s. Any thread that waits, or the watch thread, again and again; does not block.
 */
void silence_look(struct comm *comm, const struct silence_wait *wait, int64_t since_ns);

/* The transport's handlers, when a rank of another node asks or answers (diagnose.c). */
enum silence_state silence_own(const struct comm *comm);
void silence_answered(struct comm *comm, int peer, enum silence_state state);

#endif
