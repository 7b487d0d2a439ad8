/* SPDX-License-Identifier: BSD-3-Clause */
/* A worker of lib/net/ucx/ucx_*.c over test/net/fake_ucx.c and its communicators, whose other ranks the test plays. */
#ifndef UCX_WORLD_H
#define UCX_WORLD_H

#include "fake_ucx.h"
#include "net/ucx/ucx_comm.h"

enum { WORLD_RANKS = 3 }; /* of every communicator; the worker's is rank 0 of it */
enum { WORLD_DEPTH = 4, WORLD_SLOT_BYTES = 100000 }; /* of links */

struct ucx_world {
	struct ucx_worker *worker;
	int controls, failures; /* told to handlers */
};

void ucx_world_open(struct ucx_world *world);
/* A communicator; scheme: "am", "tag" or "put". */
struct ucx_comm *ucx_world_comm(struct ucx_world *world, uint64_t comm_id, const char *scheme);
/* Ends the connections and closes every communicator. */
void ucx_world_close(struct ucx_world *world);
/* Completes what UCX was asked for, but for receives by tag. */
void ucx_world_settle(struct ucx_world *world);

#endif
