/*
 * Links over UCX (net/link.h). Slots are registered once and granted to the peer; small messages carry their payload, large
 * ones go the way that was measured, straight into the slot. Data travels over endpoints without error handling: they
 * write into slots alone, which therefore stay until the peer has said that it is through (ucx_link_end.c). That it died
 * is heard by the endpoint beside them.
 */
#ifndef UCX_LINK_H
#define UCX_LINK_H

#include "net/link.h"
#include "ucx_comm.h"

/* A message on its way from a slot of ours. */
struct ucx_out {
	struct ucx_link *link;
	int busy; /* UCX requests that refer to this */
	const void *data; /* of the user, or NULL: the slot */
	size_t bytes;
	struct ucx_wire wire; /* of the message, or of its notice */
};

/* A slot of ours that a peer writes. */
struct ucx_in {
	struct ucx_link *link;
	uint64_t number; /* the last message that is there whole, from 1 */
	void *receiving; /* the UCX request that fills it with the message after that */
	struct ucx_wire wire; /* of that one */
};

struct ucx_credit {
	struct ucx_link *link;
	int busy;
	struct ucx_wire wire;
};

struct ucx_link {
	struct link base;
	struct ucx_worker *worker;
	struct ucx_comm *comm; /* NULL once that is closed */
	struct ucx_peer *p;
	int given; /* slots are the user's: */
	const struct link_memory *memory; /* until the communicator is closed */
	int large[2]; /* large messages were received, sent: their slots are in large pages */
	_Atomic int lost; /* 0, or why the peer sends and takes no more */
	/* sending */
	struct ucx_out *outs;
	ucp_mem_h out_memory;
	struct ucx_grant grant; /* the peer's; depth 0: not yet */
	ucp_rkey_h key;
	_Atomic int borrowed; /* messages in the user's memory that UCX refers to */
	uint64_t done, peer_taken; /* messages that UCX has let go of; that the peer has taken */
	/* receiving */
	struct ucx_in *ins;
	unsigned char *slots;
	ucp_mem_h in_memory;
	uint64_t tag, ends; /* ends: messages that the peer had posted when it left */
	_Atomic uint64_t told; /* of taken, to the peer */
	struct ucx_credit credits[2];
};

extern const struct link_ops ucx_link_ops;

/* Under the lock, all of them, except where it says otherwise. */

/* The link, made at first use; NULL without memory. */
struct ucx_link *ucx_link_get(struct ucx_comm *c, int peer, int lane);
/* Makes the slots for messages of the peer, once, and grants them; 0 or an error. */
int ucx_link_open_in(struct ucx_link *l);
/* Memory for one direction, registered; 0 or an error. */
int ucx_link_slots(struct ucx_link *l, int sends, int *depth, unsigned char **slots, ucp_mem_h *memory);
/* The first large message of a direction: its slots' pages are better taken many at a time. Small ones leave them untaken. */
void ucx_link_enlarge(struct ucx_link *l, int sends);
/* The peer asks for slots; or grants some. */
void ucx_link_want(struct ucx_comm *c, int peer, int lane);
void ucx_link_grant(struct ucx_comm *c, const struct ucx_wire *wire, const void *data, size_t bytes);
/* A message or a credit. As ucx_message_arrive. */
ucs_status_t ucx_link_arrive(struct ucx_comm *c, const struct ucx_wire *wire, void *data, size_t bytes,
			     const ucp_am_recv_param_t *param);

/* ucx_link_post.c */
/* As link_post. */
int ucx_link_post(struct ucx_link *l, enum ucx_way way, const void *header, const void *data, size_t bytes);
/* Makes the slots to send from, once; 0 or an error. */
int ucx_link_open_out(struct ucx_link *l);
/* The peer has taken so many messages. */
void ucx_link_credited(struct ucx_link *l, uint64_t taken);
/* Tells the peer what was taken, if that is much. */
void ucx_link_credit(struct ucx_link *l);

/* ucx_link_end.c */
/* Nothing comes from the peer any more but what its BYE counts. */
void ucx_link_lose(struct ucx_peer *p, int code);
/* The same for all peers. */
void ucx_link_fail(struct ucx_comm *c, int code);
/* Messages to a peer in the user's memory that UCX refers to. */
int ucx_link_borrowed(const struct ucx_peer *p);
/* What a BYE says. */
void ucx_link_leave(struct ucx_peer *p, const struct ucx_wire *wire, const void *data, size_t bytes);
int ucx_link_say_bye(struct ucx_comm *c, int peer);
/* Waits for what links have under way, at most so long: 1 if all of it is there. Not under the lock. */
int ucx_link_drain(struct ucx_comm *c, int64_t timeout_ns);
/* Frees a communicator's links; what a peer may still write or UCX still reads stays. */
void ucx_link_free_all(struct ucx_comm *c);
/* Frees a link of a closed communicator, unless UCX still holds some of it: 1 if it is gone. */
int ucx_link_retire(struct ucx_link *l);
/* A rank of a closed communicator is through; NULL: all are. */
void ucx_link_free_graves(struct ucx_worker *w, const struct ucx_wire *bye);

#endif
