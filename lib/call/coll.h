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

/* The v-forms: checks of their counts, displacements and buffers. */

/* Checks the arrays, forgets those that only the root has, and fills in the count of this rank's own block, which gather_v and scatter_v have already, and
 * where all ranks know the counts the record's: of the largest block. 0, or CORALE_EINVAL with the reason logged. */
int uneven_check_counts(struct comm *comm, struct call *call);
/* NULL buffers, and buffers that overlap without being in place. Only blocks that are not empty matter. */
int uneven_check_buffers(struct comm *comm, const struct call *call);
/* Block i of the send (receive) buffer that the rank has: 1 with where it begins and its bytes; 0: there are fewer. */
int uneven_block(const struct comm *comm, const struct call *call, int sending, int i, const char **at,
		 size_t *bytes);
/* GPUs move blocks as an all_to_all_v does: gives a checked call that rank's arrays of edges, where it lacks some, in memory that the next call uses
 * again; a call that folds has one edge of the other side, its result. CORALE_ENOMEM. */
int uneven_as_edges(struct comm *comm, struct call *call);

#endif
