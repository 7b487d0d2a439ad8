/* SPDX-License-Identifier: BSD-3-Clause */
/* From public arguments to checked calls; shared by coll.c, group.c and persist.c. */
#ifndef COLL_H
#define COLL_H

#include "state/comm.h"
#include "host/stream.h"

/* Checks everything about a call but its buffers, and fills in what belongs to its operator: 0, or CORALE_EINVAL with the
 * reason logged. */
int coll_check_shape(struct comm *comm, struct call *call);

/* Checks (of a persistent plan's call the buffers only), then executes, or appends to the open group of this thread. */
int coll_submit(corale_comm *handle, struct call *call, void *stream);

#endif
