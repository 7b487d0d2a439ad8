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

/* group.c: 1 if a group is open in this thread; then the call was appended (*ret tells how that went). */
int group_append(struct comm *comm, const struct call *call, struct corale_stream *stream, int refused,
		 int *ret);

#endif
