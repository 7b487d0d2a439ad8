/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections to other processes, shared by the communicators, and what is known of their UCX lanes. */
#ifndef UCX_ENDPOINT_H
#define UCX_ENDPOINT_H

#include "ucx_worker.h"

/* Lanes of one description behave alike, so one endpoint of a class is measured for all. */
struct ucx_class {
	struct ucx_class *next;
	char lanes[96]; /* "tcp/eth0" */
	double gbps[UCX_SCHEMES]; /* 0: not measured */
	enum ucx_scheme scheme; /* how large messages go */
	int rdma; /* some lane is a queue pair of an RDMA adapter */
	int ordered; /* an active message behind a put can't come before it: one path carries both, in order */
	int emulates_put; /* puts are active messages, which end this process where their sender dies: none are made */
	int measured; /* 1: by us; 0: scheme was forced or is the default */
};

struct ucx_endpoint {
	struct ucx_endpoint *next;
	struct ucx_worker *worker;
	uint64_t uid; /* the peer's worker */
	ucp_ep_h ep; /* reports the peer's death, and can be made to release the user's buffers */
	ucp_ep_h data; /* of links: ep itself, unless ucx_endpoint_data has made one without error handling */
	struct ucx_class *class; /* of data's lanes */
	int failed; /* 0 or a CORALE_E* code */
	char reason[120];
	int closed; /* by force, after a failure */
	int has_put; /* puts have been posted */
	int flushing; /* flushes that are under way */
	int pings; /* that are not answered */
	int mute; /* none is: its process ends */
};

/* Finds or makes the endpoint to a worker. Under the lock. */
int ucx_endpoint_get(struct ucx_worker *w, uint64_t uid, const void *address, int rank,
		     struct ucx_endpoint **out);
/* Makes an endpoint for large messages, where it moves them faster and is not there; 0 or an error. Under the lock. */
int ucx_endpoint_data(struct ucx_endpoint *e, const void *address, int rank);
/* Ends it without waiting for the peer: its requests end with an error. Under the lock. */
void ucx_endpoint_abandon(struct ucx_endpoint *e, int code, const char *reason);
/* The same, as UCX says that the connection has failed. Under the lock. */
void ucx_endpoint_lost(struct ucx_endpoint *e, ucs_status_t status);
/* Starts the forced close of one that failed: nothing that it has posted lands afterwards, where it has error handling. Under the lock. */
void ucx_endpoint_close(struct ucx_endpoint *e);
/* Starts to wait, on one of its two (or NULL), until what was sent is with the network, and puts with the peer: e->flushing counts. Under the lock. */
void ucx_endpoint_flush(struct ucx_endpoint *e, ucp_ep_h ep);
/* A ping to the worker of this uid was answered; is_last: it answers no more. Under the lock. */
void ucx_endpoint_answered(struct ucx_worker *w, uint64_t uid, int is_last);

/* A worker's endpoint to itself: only the adapter's own transport can read what it has registered. Made, if it is not there; to be closed by force, and
 * what is under way over it ends with an error; closed, if it has failed: no slab is read back any more. Under the lock. */
ucs_status_t ucx_endpoint_open_loop(struct ucx_worker *w);
void ucx_endpoint_abandon_loop(struct ucx_worker *w);
void ucx_endpoint_reap_loop(struct ucx_worker *w);

#endif
