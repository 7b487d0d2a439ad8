/* Ops of the UCX transport: their life, their ids, and what UCX sends for them. All under the lock. */
#ifndef UCX_OP_H
#define UCX_OP_H

#include "ucx_comm.h"

/* NULL without memory. request NULL: a note. */
struct ucx_op *ucx_op_new(struct ucx_comm *c, int peer, int lane, struct transport_request *request);
/* Gives it an id that peers can name. */
int ucx_op_publish(struct ucx_op *op);
/* The op of an id, or NULL if it is done. */
struct ucx_op *ucx_op_find(struct ucx_worker *w, uint64_t id);
/* Completes the user's request, and frees the op as soon as UCX lets go of it. */
void ucx_op_finish(struct ucx_op *op, int status);
/* UCX has let go of one request that refers to op. */
void ucx_op_released(struct ucx_op *op);
void ucx_op_free_all(struct ucx_worker *w);

/*
 * Sends op->wire[which] with a payload to the peer by active message. done, if not NULL, is called when UCX has
 * sent it, perhaps before this returns (request NULL), and must call ucx_op_released. Returns 0 or an error.
 */
int ucx_op_send(struct ucx_op *op, int which, unsigned flags, const void *buf, size_t bytes,
		ucp_send_nbx_callback_t done);
/* Fills op->wire[which]. */
struct ucx_wire *ucx_op_wire(struct ucx_op *op, int which, enum ucx_kind kind);

#endif
