/*
 * Calls that advance together, step by step, in whatever thread polls: those of a group, on any communicators, and those that only
 * the user's thread may move.
 */
#ifndef TOGETHER_H
#define TOGETHER_H

#include "state/comm.h"

/* Calls of one communicator: sends and receives first, which start at once; then collectives, one after the other beside them. */
struct together_part {
	struct comm *comm;
	const struct call *calls;
	int npairs, ncalls;
};

struct together;

/* Copies the calls, and keeps their persistent plans. They start when all that was issued on their communicators before has ended.
 * memory: so many bytes, aligned for any type. */
size_t together_bytes(const struct together_part *parts, int n);
struct together *together_create(void *memory, const struct together_part *parts, int n);

/* 1 when all calls have ended, 0 when not. A communicator that fails ends its own part; the others go on. */
int together_poll(struct together *together);

/* The first part's error, or 0. */
int together_result(const struct together *together);

/* The memory stays the caller's. */
void together_destroy(struct together *together);

/* Copies of n calls of comm with their count arrays into memory of so many bytes. Persistent plans are kept until they are let go. */
size_t together_copy_bytes(const struct comm *comm, const struct call *calls, int n);
struct call *together_copy(void *memory, const struct comm *comm, const struct call *calls, int n);
void together_let_go(const struct call *calls, int n);

#endif
