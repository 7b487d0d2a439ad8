/* From public arguments to checked calls; shared by coll.c, group.c and persist.c. */
#ifndef COLL_H
#define COLL_H

#include "comm.h"
#include "stream.h"

/* Checks everything about a call that this rank can see; 0 or CORALE_EINVAL / CORALE_ECOMM with the reason logged. */
int coll_check(struct comm *comm, const struct call *call);

/* Checks, then executes, or appends to the open group of this thread. */
int coll_submit(corale_comm *handle, const struct call *call, void *stream);

/* group.c: 1 if a group is open in this thread; then the call was appended (*ret tells how that went). */
int group_append(struct comm *comm, const struct call *call, struct corale_stream *stream, int refused,
		 int *ret);

#endif
