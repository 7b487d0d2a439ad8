/* SPDX-License-Identifier: BSD-3-Clause */
/* What NCCL_DEBUG=INFO says of a communicator while it is made: the lines that people look for in NCCL's log. */
#ifndef INIT_LOG_H
#define INIT_LOG_H

#include "door.h"

/* Where a rank is, as all others need it for their lines. */
struct init_place {
	uint64_t process; /* process_number() */
	int64_t ordinal; /* of its GPU there */
	int64_t pins; /* what pins its sums: door_fixes_order */
};

/* "ncclCommInitRank comm 0x... rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x... - Init START". */
void init_log_line(const struct ncclComm *comm, const struct door_job *job, const char *state);

/* Before the ranks meet: NCCL's version, the network, the start, fields of ncclConfig_t that have no effect. */
void init_log_start(const struct ncclComm *comm, const struct door_job *job, int version);

/* The communicator stands: how each peer is reached, and the end. places: of all ranks. */
void init_log_complete(const struct ncclComm *comm, const struct door_job *job,
		       const struct init_place *places);

#endif
