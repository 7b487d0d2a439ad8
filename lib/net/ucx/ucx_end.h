/* The end of a communicator over UCX. Not under the lock; at most about 1.3 s, the deadlines of a link that is cut. */
#ifndef UCX_END_H
#define UCX_END_H

#include "ucx_comm.h"

/* As transport_ops.fail. */
void ucx_end_fail(struct ucx_comm *c, int code);
/* Drains, says goodbye, and takes c out of the worker; waits up to 2 s more for sends that no peer receives. */
void ucx_end_close(struct ucx_comm *c);
/* Hands all that communicators have sent to the network, or gives up on it at a deadline. */
void ucx_end_flush(struct ucx_worker *w);

#endif
