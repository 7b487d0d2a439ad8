/* What arrives from peers: checked, and handed to its communicator or link. Under the lock. */
#ifndef UCX_MESSAGE_H
#define UCX_MESSAGE_H

#include "ucx_comm.h"

/* The handler of all active messages; arg: the worker. */
ucs_status_t ucx_message_arrive(void *arg, const void *header, size_t header_bytes, void *data, size_t bytes,
				const ucp_am_recv_param_t *param);
/* Delivers the notes that came before c was open. */
void ucx_message_deliver_early(struct ucx_comm *c);
/* Frees the notes of communicators that were never opened. */
void ucx_message_free_early(struct ucx_worker *w);

#endif
