/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls that all ranks make one after the other, each rank in its own time. */
#ifndef SCRIPT_H
#define SCRIPT_H

#include "calls.h"

enum { SCRIPT_CALLS = 256 };

struct script {
	struct world_params params;
	struct world world;
	struct test_call calls[SCRIPT_CALLS];
	int n;
	unsigned streams; /* calls are on so many, which nothing else orders; 0: on one */
	unsigned most_pause; /* turns between two calls of a rank at most */
	int without_slots; /* no call may use any */
	uint64_t seed;
	int made[GPU_MAX_HOSTS], done[GPU_MAX_HOSTS]; /* calls of each rank */
	int faults[GPU_MAX_HOSTS];
};

struct script *script_new(struct world_params params, uint64_t seed);

/* Appends a call, with a seed of its own and, if it has a place, one of its own. */
void script_add(struct script *script, struct test_call call);

/* Runs it and frees it: the number of faults, which have been printed, or -1 if it did not end. */
int script_run(struct script *script);

/* Waits until the calling rank's kernels on all its streams have ended. */
void script_synchronize(void);

/* Prints a case's line of TAP. 1 if the program must end, because kernels did not: then faults is negative. */
int script_report(const char *name, int number, int faults);

/* Prints the failure that an engine has recorded: 1, or 0 if there is none. */
int script_print_failure(const struct engine *engine);

#endif
