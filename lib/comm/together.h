/*
 * Calls that advance together, step by step, in whatever thread polls: those of a group, on any communicators, and those that only
 * the user's thread may move.
 */
#ifndef TOGETHER_H
#define TOGETHER_H

#include "comm.h"

/* Calls of one communicator: sends and receives first, which start at once; then collectives, one after the other beside them. */
struct together_part {
	struct comm *comm;
	uint64_t number; /* they start when comm->completed is this, and make it one more */
	struct call *calls; /* copies, to be freed by free(); their persistent plans are kept */
	int npairs, ncalls;
};

struct together;

/* The parts' calls are the new object's, or freed if there is no memory for it (NULL). */
struct together *together_create(const struct together_part *parts, int n);

/* 1 when all calls have ended, 0 when not. A communicator that fails ends its own part; the others go on. */
int together_poll(struct together *together);

/* The first part's error, or 0. */
int together_result(const struct together *together);

void together_destroy(struct together *together);

/* Copies of n calls of comm with their count arrays; NULL with an error logged. Persistent plans are kept. */
struct call *together_copy(const struct comm *comm, const struct call *calls, int n);
void together_free_calls(struct call *calls, int n);

#endif
