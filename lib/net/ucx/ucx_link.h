/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Links over UCX (net/link.h). Slots are registered once and granted to the peer. Small messages carry their payload; large ones go straight into the slot, by
 * the scheme that was measured. The peer's death is reported by an endpoint with error handling, which carries small messages, too. The first large message
 * makes an endpoint without, where UCX would copy large messages else; it writes into slots alone: slots therefore stay until the peer's BYE (ucx_slots.c).
 */
#ifndef UCX_LINK_H
#define UCX_LINK_H

#include "net/link.h"
#include "ucx_comm.h"

/*
 * Memory for a link's slots, registered with UCX, or a piece of a slab that is. A peer's puts land in the slots that it was granted whatever this side does. So
 * slots are freed when the peer's BYE has come. Without it only their pages are released.
 */

/* A GPU's memory for slots: mapped once with a rail's context, so that links take pieces of it and register nothing (net/link.h). */

/* Parameters of ucp_mem_map. */
static inline ucp_mem_map_params_t ucx_map_params(void *at, size_t bytes, ucs_memory_type_t type)
{
	return (ucp_mem_map_params_t){ .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
						     UCP_MEM_MAP_PARAM_FIELD_LENGTH |
						     UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
				       .address = at,
				       .length = bytes,
				       .memory_type = type };
}

struct link_slab {
	struct ucx_worker *worker;
	ucp_mem_h memory;
	ucp_rkey_h key; /* over the loopback */
	int reads_back;
	int reads; /* under way */
};

/* link_ops.map and unmap, which waits for reads under way, 2 s at most. Not under the lock. */
int ucx_slab_map(struct transport *t, void *at, size_t bytes, int reads_back, struct link_slab **out,
		 char *why_not, size_t why_bytes);
void ucx_slab_unmap(struct link_slab *slab);

/* The adapter reads bytes of it into host memory, after all that it wrote before. Returns a request, for the caller to complete, or a status. Under the
 * lock. */
void *ucx_slab_read(struct link_slab *slab, const void *from, size_t bytes, void *to,
		    const ucp_request_param_t *param);
static inline void ucx_slab_read_ended(struct link_slab *slab)
{
	slab->reads--;
}

/* Of one direction. */
struct ucx_slots {
	unsigned char *at; /* NULL: not made */
	size_t bytes; /* of all */
	ucp_mem_h memory;
	int given; /* the user's: */
	struct link_memory user;
	int large; /* in large pages */
	struct ucx_retired *retired; /* what keeps them for the peer while UCX still fills them; or NULL */
};

/* Under the lock, all of them. */

/* Makes them, of the user's memory (NULL: of ours), for messages to (sends) or from a peer; 0 or an error. */
int ucx_slots_make(struct ucx_slots *s, const struct ucx_comm *c, int peer, const struct link_memory *user,
		   int sends, size_t bytes);
/* On each large message: uses large pages, as far as the worker's slots may. Small messages touch few pages, which stay small. */
void ucx_slots_enlarge(struct ucx_worker *w, struct ucx_slots *s);
/* Frees slots that nobody reads or writes any more. Slots that were not made are allowed. */
void ucx_slots_free(struct ucx_worker *w, struct ucx_slots *s);
/* Keeps slots that a peer may still write until its BYE, and until ucx_slots_free(s) if a link still receives into them. */
void ucx_slots_retire(const struct ucx_comm *c, int peer, struct ucx_slots *s, int receives);
/* Frees kept slots of a rank of a closed communicator, if its BYE says that nothing is under way; NULL: of all ranks. */
void ucx_slots_free_retired(struct ucx_worker *w, const struct ucx_wire *bye);

/* A message on its way from one of our slots. */
struct ucx_out {
	struct ucx_link *link;
	int busy; /* UCX requests that refer to this */
	const void *data; /* of the user, or NULL: the slot, or few */
	size_t bytes;
	int is_inline; /* it is in ucx_link.inline_out */
	struct ucx_wire wire; /* of the message, or of its notice */
};

/* One of our slots, which a peer writes. */
struct ucx_in {
	struct ucx_link *link;
	uint64_t number; /* the last message that is there whole, from 1 */
	void *receiving; /* the UCX request that fills it with the message after that, or reads it back */
	struct link_slab *slab; /* that is read */
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
	const struct link_memory *memory; /* the user's, until the communicator is closed; or NULL */
	/* sending */
	struct ucx_out *outs;
	struct ucx_slots out;
	unsigned char *inline_out, *inline_in; /* of a slab's slots: LINK_INLINE_BYTES each, in host memory */
	struct ucx_grant grant; /* the peer's; depth 0: not yet */
	unsigned char *packed; /* of the grant: the key, */
	size_t packed_bytes;
	ucp_rkey_h key; /* for this endpoint: */
	ucp_ep_h key_ep;
	_Atomic int borrowed; /* messages in the user's memory that UCX refers to */
	uint64_t done, peer_taken; /* messages that UCX has let go of; that the peer has taken */
	/* receiving */
	struct ucx_in *ins;
	struct ucx_slots in;
	uint64_t tag, ends; /* ends: messages that the peer had posted when it left */
	_Atomic uint64_t taken_sent; /* of taken, to the peer */
	struct ucx_credit credits[2];
};

extern const struct link_ops ucx_link_ops;

/* The GPU's memory that its slots are in, or NULL. */
static inline struct link_slab *ucx_link_slab(const struct ucx_link *l)
{
	return l->memory ? l->memory->slab : NULL;
}

/* Under the lock, all of them, except where it says otherwise. */

/* The link, made at first use; NULL without memory. */
struct ucx_link *ucx_link_get(struct ucx_comm *c, int peer, int index);
/* The peer asks for slots; or grants some. */
void ucx_link_want(struct ucx_comm *c, int peer, int index);
void ucx_link_grant(struct ucx_comm *c, const struct ucx_wire *wire, const void *data, size_t bytes);
/* Makes the endpoint of large messages to the peer, and the key of its slots for it; 0 or an error. */
int ucx_link_enlarge(struct ucx_link *l);
/* ucx_link_key.c: keeps the key of the peer's slots. */
ucs_status_t ucx_link_keep_key(struct ucx_link *l, const void *key, size_t bytes);
/* A message or a credit. As ucx_message_arrive. */
ucs_status_t ucx_link_arrive(struct ucx_comm *c, const struct ucx_wire *wire, void *data, size_t bytes,
			     const ucp_am_recv_param_t *param);

/* ucx_link_post.c */
/* As link_post. scheme: of a large message; UCX_SCHEMES: the peer's. */
int ucx_link_post(struct ucx_link *l, enum ucx_scheme scheme, const void *header, const void *data,
		  size_t bytes);
/* The peer has taken so many messages. */
void ucx_link_credited(struct ucx_link *l, uint64_t taken);
/* 1 if enough was taken for a credit: half of the slots; of the probes' link, a message. Not only under the lock. */
static inline int ucx_link_owes_credit(const struct ucx_link *l)
{
	const uint64_t taken = link_taken(&l->base),
		       sent = atomic_load_explicit(&l->taken_sent, memory_order_relaxed);
	const int all = l->base.index == UCX_PROBE_LINK || l->base.in_depth < 2;
	return taken - sent >= (all ? 1 : (uint64_t)l->base.in_depth / 2);
}
/* Sends a credit, if enough was taken. */
void ucx_link_credit(struct ucx_link *l);

/* ucx_link_end.c */
/* Messages to a peer in the user's memory that UCX refers to. */
int ucx_link_borrowed(const struct ucx_peer *p);
void ucx_link_leave(struct ucx_peer *p, const struct ucx_wire *wire, const void *data, size_t bytes);
int ucx_link_say_bye(struct ucx_comm *c, int peer);
/* 1 if UCX holds no message to a peer. */
int ucx_link_all_sent(const struct ucx_peer *p);
/* 1 if the adapter reads back no slot of a GPU's memory; such reads end by themselves. */
int ucx_link_all_read(const struct ucx_peer *p);
/* Frees a communicator's links; slots that a peer may still write or UCX still reads stay. */
void ucx_link_free_all(struct ucx_comm *c);
/* Frees a link of a closed communicator, unless UCX still holds some of it: 1 if it is gone. */
int ucx_link_retire(struct ucx_link *l);

#endif
