/* SPDX-License-Identifier: BSD-3-Clause */
/* How communicators come up, between init.c and child.c. */
#ifndef DOOR_INIT_H
#define DOOR_INIT_H

#include "door.h"

/* The ranks of a new communicator: of its parent, in its order; NULL: there is none. */
struct door_members {
	int *ranks, n, mine;
};

/* Makes the job's communicator of these ranks. The bootstrap becomes its own. */
ncclResult_t door_init_create(struct door_job *job, struct boot *boot, const struct door_members *m);
/* For a communicator that could not be made, for a cause that is logged. */
ncclResult_t door_init_failed(const struct door_job *job, int code, const char *cause);
ncclResult_t door_read_config(const char *call, const ncclConfig_t *given, struct door_config *out);

#endif
