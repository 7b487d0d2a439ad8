/*
 * The protocol: small messages travel with their payload; large ones are announced, and move when their recv is
 * there, in the way that the sender chose. Under the lock.
 */
#ifndef UCX_MESSAGE_H
#define UCX_MESSAGE_H

#include "ucx_op.h"

/* As transport_ops.send and recv. */
int ucx_message_send(struct ucx_comm *c, int peer, int lane, const void *header, const void *buf,
		     size_t bytes, struct transport_request *request);
int ucx_message_recv(struct ucx_comm *c, int peer, int lane, void *buf, size_t capacity,
		     struct transport_request *request);
/* Sends a note of some kind with a payload, which is copied; number: its send_id. */
int ucx_message_note(struct ucx_comm *c, int peer, int lane, enum ucx_kind kind, uint64_t number,
		     const void *text, size_t bytes);
/* The handler of all active messages; arg: the worker. */
ucs_status_t ucx_message_arrive(void *arg, const void *header, size_t header_bytes, void *data, size_t bytes,
				const ucp_am_recv_param_t *param);
/* Delivers what came before c was open. */
void ucx_message_deliver_early(struct ucx_comm *c);

/* Drops a message that nobody here awaits, with a line in the log; few lines for many messages. */
void ucx_message_refuse(struct ucx_worker *w, const struct ucx_wire *wire, size_t bytes, const char *why);

/* A peer's packed key for memory of its own, of so many bytes and believed in nothing else; UCX's status. */
ucs_status_t ucx_way_unpack(ucp_ep_h ep, const void *key, size_t bytes, ucp_rkey_h *out);

/* ucx_way.c: the recv op meets an announced message of way: asks the sender for it. */
void ucx_way_ask(struct ucx_op *op, const struct ucx_wire *rts);
/* The least payload of a CTS. */
size_t ucx_way_least(const struct ucx_wire *cts);
/* The sender is asked; where: the payload of a CTS. */
void ucx_way_answer(struct ucx_op *op, const struct ucx_wire *cts, const void *where);
/* The payload of the recv op comes by active message. As ucx_message_arrive. */
ucs_status_t ucx_way_data(struct ucx_op *op, void *data, size_t bytes, const ucp_am_recv_param_t *param);

#endif
