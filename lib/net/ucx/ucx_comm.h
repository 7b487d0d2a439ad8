/* SPDX-License-Identifier: BSD-3-Clause */
/* A communicator's part of the UCX transport: its peers, and events for its handlers. */
#ifndef UCX_COMM_H
#define UCX_COMM_H

#include "ucx_worker.h"

/* Connections to other processes, shared by the communicators, and what is known of their UCX lanes. */

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

enum ucx_peer_state { UCX_PEER_FINE, UCX_PEER_LEFT, UCX_PEER_LOST };

struct ucx_peer {
	struct ucx_endpoint *endpoint;
	enum ucx_peer_state state;
	int reported; /* on_failure was or will be called */
	int has_answered; /* something came from it, so it is connected to us */
	struct ucx_link *links[UCX_PROBE_LINK + 1]; /* NULL: not used */
	_Atomic int lost; /* 0, or the code with which its links ended */
	int64_t lost_ns; /* when its connection was lost */
	int through; /* its BYE says that nothing it sent is on its way to our slots */
};

struct ucx_event {
	struct ucx_event *next;
	int peer, code; /* code: of a failure; 0: a control message */
	size_t bytes;
	char text[TRANSPORT_CONTROL_BYTES]; /* message or reason */
};

/* The address of a rank, for the others. */
struct ucx_address {
	uint64_t uid; /* of its worker */
	unsigned char worker[]; /* UCX's */
};

struct ucx_comm {
	struct transport base;
	struct transport_params params;
	struct ucx_worker *worker;
	struct ucx_comm *next; /* of the worker */
	struct ucx_address *address; /* this rank's */
	int connected;
	struct ucx_peer **peers; /* NULL before first contact */
	struct ucx_event *events, **events_end;
	int dispatching; /* some thread calls handlers */
	int failure; /* the code of fail */
	int in_order; /* it has ended without a failure, and all peers had answered */
	int64_t until_ns; /* of the waits at its end */
	int forced; /* enum ucx_scheme, or -1: by measurement */
};

/* A communicator that is not in its worker's list yet; NULL: no memory. Not under the lock. */
struct ucx_comm *ucx_comm_new(const struct transport_params *params);
/* After ucx_end_close, or before it is in the worker's list. NULL is allowed. Not under the lock. */
void ucx_comm_free(struct ucx_comm *c);

static inline const struct ucx_address *ucx_comm_address(const struct ucx_comm *c, int rank)
{
	return transport_address(&c->base, rank);
}

/* Under the lock, all of them, except where it says otherwise. */

/* The scheme of large messages to a peer. */
static inline enum ucx_scheme ucx_comm_way(const struct ucx_comm *c, int peer)
{
	return c->forced >= 0 ? (enum ucx_scheme)c->forced : c->peers[peer]->endpoint->class->scheme;
}

struct ucx_comm *ucx_comm_find(struct ucx_worker *w, uint64_t comm_id, uint32_t rank);
/* The state of a peer, made and greeted at first contact. CORALE_EPEER, which on_failure will hear too: no connection can be made. */
int ucx_comm_peer(struct ucx_comm *c, int rank, struct ucx_peer **out);
/* Sends a note of some kind with a payload, which is copied; number: as in the wire. 0 or an error. */
int ucx_comm_note(struct ucx_comm *c, int peer, int index, enum ucx_kind kind, uint64_t number,
		  const void *payload, size_t bytes);
/* Sends a note without payload, of no open communicator. 0, or CORALE_ENOMEM, not logged. */
int ucx_comm_tell(struct ucx_worker *w, ucp_ep_h ep, const struct ucx_wire *wire);
/* Answers the greeting for a communicator that is closed here, and that had not met the peer: it has left. */
void ucx_comm_refuse(struct ucx_worker *w, ucp_ep_h ep, const struct ucx_wire *hello);
/* All links end with the code of the first call. */
void ucx_comm_fail(struct ucx_comm *c, int code);
/* Starts the forced close of failed endpoints, and reports their peers as lost. */
void ucx_comm_reap(struct ucx_worker *w);
/* The peer closed in order, or its connection failed: its links end. */
void ucx_comm_peer_left(struct ucx_comm *c, int rank);
void ucx_comm_peer_lost(struct ucx_comm *c, int rank, int code, const char *reason);
/* A peer is needed that is gone: on_failure will be called, once. */
void ucx_comm_report(struct ucx_comm *c, int rank, int code, const char *reason);
void ucx_comm_add_event(struct ucx_comm *c, int peer, int code, const void *text, size_t bytes);
/* Calls the handlers of all communicators. Not under the lock. 1 if any was called. */
int ucx_comm_dispatch(struct ucx_worker *w);

/* ucx_message.c: what arrives from peers is checked, and handed to its communicator or link. Under the lock. */
/* The handler of all active messages; arg: the worker. */
ucs_status_t ucx_message_arrive(void *arg, const void *header, size_t header_bytes, void *data, size_t bytes,
				const ucp_am_recv_param_t *param);
/* Delivers the notes that came before c was open. */
void ucx_message_deliver_early(struct ucx_comm *c);
/* Frees the notes of communicators that were never opened. */
void ucx_message_free_early(struct ucx_worker *w);

/* ucx_calibrate.c: measures the scheme of large messages to one or two peers, if the process has not measured UCX lanes of their class. Not under the lock;
 * takes at most about 50 ms, once they are connected. */
void ucx_calibrate(struct ucx_comm *c);

/* ucx_end.c. Not under the lock; at most about 1.3 s, the deadlines of a link that is cut; 10 s where all was in order and the process does not exit. */
/* As transport_ops.leave. */
void ucx_end_leave(struct ucx_comm *c, int64_t until_ns);
/* As transport_ops.fail. */
void ucx_end_fail(struct ucx_comm *c, int code);
/* Drains, sends BYE, and takes c out of the worker's list; waits up to 2 s more for sends that no peer receives. */
void ucx_end_close(struct ucx_comm *c);
/* Waits until peers have read all messages of all communicators. in_order: as in struct ucx_comm. */
void ucx_end_flush(struct ucx_worker *w, int in_order, int64_t until_ns);
/* Ends the worker's thread. Peers wait for no answer of this process any more. */
void ucx_end_worker(struct ucx_worker *w);

#endif
