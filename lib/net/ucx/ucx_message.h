/* Notes to peers, and what arrives from them: checked, and handed to its communicator or link. Under the lock. */
#ifndef UCX_MESSAGE_H
#define UCX_MESSAGE_H

#include "ucx_comm.h"

/* Sends a note of some kind with a payload, which is copied; number: as in the wire. 0 or an error. */
int ucx_message_note(struct ucx_comm *c, int peer, int lane, enum ucx_kind kind, uint64_t number,
		     const void *payload, size_t bytes);
/* The handler of all active messages; arg: the worker. */
ucs_status_t ucx_message_arrive(void *arg, const void *header, size_t header_bytes, void *data, size_t bytes,
				const ucp_am_recv_param_t *param);
/* Delivers the notes that came before c was open. */
void ucx_message_deliver_early(struct ucx_comm *c);
/* Frees the notes of communicators that were never opened. */
void ucx_message_free_early(struct ucx_worker *w);

/* Drops a message that nobody here awaits, with a line in the log; few lines for many messages. */
void ucx_message_refuse(struct ucx_worker *w, const struct ucx_wire *wire, size_t bytes, const char *why);

#endif
