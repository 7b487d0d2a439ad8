/* Messages that came before their recv or their communicator. Under the lock. */
#ifndef UCX_HELD_H
#define UCX_HELD_H

#include <ucp/api/ucp.h>

#include "ucx_wire.h"

struct ucx_held {
	struct ucx_held *next;
	struct ucx_wire wire;
	void *data;
	size_t bytes;
	int from_ucx; /* data goes back by ucp_am_data_release */
};

/* Zeroed: empty. */
struct ucx_queue {
	struct ucx_held *head, *last;
	size_t bytes; /* of all payloads */
	unsigned count;
};

/* Keeps a message; NULL without memory, which it says. If from_ucx is set, UCX must not free data. */
struct ucx_held *ucx_held_make(const struct ucx_wire *wire, void *data, size_t bytes,
			       const ucp_am_recv_param_t *param);
/* Behind before, which may be NULL: in front. */
void ucx_held_insert(struct ucx_queue *queue, struct ucx_held *before, struct ucx_held *held);
/* Takes out what follows before, or the first. */
struct ucx_held *ucx_held_take(struct ucx_queue *queue, struct ucx_held *before);
/* NULL is allowed. */
void ucx_held_free(ucp_worker_h ucp, struct ucx_held *held);
void ucx_held_free_all(ucp_worker_h ucp, struct ucx_queue *queue);

#endif
