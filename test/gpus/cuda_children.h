/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks as processes of one parent, for tests in which ranks die: no launcher ends the others then. The parent never
 * touches CUDA; it reaps the dead at once and ends those that stop making progress.
 */
#ifndef CUDA_CHILDREN_H
#define CUDA_CHILDREN_H

#include <stdatomic.h>
#include <stddef.h>
#include <sys/types.h>

#include "test/helpers/clock.h"

enum {
	CUDA_CHILDREN_MOST = 16,
	CUDA_CHILDREN_GROUPS = 3,
	CUDA_CHILDREN_SLOT = 64 << 10,
	CUDA_CHILDREN_WAIT_S = 15 /* for the others of a group */
};

/* What parent and children share: small data of each member of a group, by turns in two places. */
struct cuda_exchange {
	atomic_int round[CUDA_CHILDREN_MOST];
	int child[CUDA_CHILDREN_MOST]; /* that a member is */
	unsigned char data[2][CUDA_CHILDREN_MOST][CUDA_CHILDREN_SLOT];
};

struct cuda_children {
	int n;
	pid_t pids[CUDA_CHILDREN_MOST];
	atomic_int dead[CUDA_CHILDREN_MOST]; /* reaped */
	atomic_int progress; /* children raise it; the parent ends them if it stays the same for long */
	atomic_int at, done, faults, failed; /* for the parent: what body makes of them */
	atomic_llong moment_us; /* for the children */
	struct cuda_exchange exchanges[CUDA_CHILDREN_GROUPS];
};

/* A child's place in one of the groups. */
struct cuda_group {
	struct cuda_children *children;
	int number, rank, size, round;
};

/* Shared by all processes forked later; NULL if there is no memory. */
struct cuda_children *cuda_children_create(int n);

/*
 * Forks the children, each of which runs body and ends with its result, and waits for all. Their standard error goes
 * to log_fd. Returns the number of those that did not end with 0 by themselves; -1 if they made no progress for
 * stall_s seconds and were ended.
 */
int cuda_children_run(struct cuda_children *children, int (*body)(struct cuda_children *, int rank, void *),
		      void *arg, double stall_s, int log_fd);

/* Joins group number; each member says its rank in it. Groups have no life of their own: join each once a run. */
void cuda_group_join(struct cuda_group *group, struct cuda_children *children, int number, int child,
		     int rank, int size);
/* As corale_bootstrap's; ctx is a struct cuda_group. Fails soon if a member died, or after CUDA_CHILDREN_WAIT_S. */
int cuda_group_allgather(void *ctx, const void *in, size_t bytes, void *out);
/* Returns when all have come; 0, or -1 as above. */
int cuda_group_meet(struct cuda_group *group);
/* The largest of the members' values, or -1. */
int cuda_group_largest(struct cuda_group *group, int value);

#endif
