/* A worker's endpoint to itself: only the adapter's own transport can read what it has registered. Under the lock, all of it. */
#ifndef UCX_LOOP_H
#define UCX_LOOP_H

#include "ucx_worker.h"

/* Makes worker->loop, if it is not there. */
ucs_status_t ucx_loop_open(struct ucx_worker *w);
/* It will be closed by force, and what is under way over it ends with an error. */
void ucx_loop_abandon(struct ucx_worker *w);
/* Closes it, if it has failed: no slab is read back any more. */
void ucx_loop_reap(struct ucx_worker *w);

#endif
