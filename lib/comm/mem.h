/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that the ranks of a communicator share beside its windows: scratch, and what the user has registered. */
#ifndef MEM_H
#define MEM_H

#include "state/comm.h"

/* comm->make_scratch. Here for_call may be no call: its coll is CORALE_NUM_COLLS. */
int mem_make_scratch(struct comm *comm, const struct call *for_call);

/* 1 if peers' GPUs may store into memory of the user. */
int mem_is_shared(const struct comm *comm);

/* Forgets what is registered, and keeps what was allocated, which stays the user's, for corale_mem_free. */
void mem_close(struct comm *comm);

#endif
