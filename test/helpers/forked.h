/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks as forked processes for tests: each with a socket to each other one, over which they create communicators. The parent never uses Corale itself. */
#ifndef FORKED_H
#define FORKED_H

#include "corale.h"

enum { FORKED_RANKS = 4, FORKED_NOBODY = -1 };

struct forked {
	int rank, size, faults, late;
	int sockets[FORKED_RANKS]; /* to each other rank */
	const void *arg;
};

/* Runs body in a process a rank; returns how many of them faulted or crashed, but for the victim, which must be killed. */
int forked_run(int size, int victim, int (*body)(struct forked *r), const void *arg);

/* A communicator of all ranks; a fault and NULL if there is none. */
corale_comm *forked_create(struct forked *r);

/* The all-gather of a bootstrap over such sockets: everybody writes to everybody, then reads, as sockets hold what Corale exchanges. 0, or 1. */
int forked_gather(const int *sockets, int rank, int size, const void *in, size_t bytes, void *out);

/* Whether ranks can be nodes of their own over UCX (CORALE_NODE_SIZE=1). */
int forked_has_ucx(void);

/* Counts a fault; a rank's first one is printed. */
void forked_fault(struct forked *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A fault that is only that something took too long (late.h). */
#define forked_late(r, ...) ((r)->late++, forked_fault(r, __VA_ARGS__))

#endif
