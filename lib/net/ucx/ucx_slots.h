/*
 * Memory for a link's slots, registered with UCX, or a piece of a slab that is. A peer's puts land in the slots that it was granted whatever this side does, so those are given
 * back when the peer has said that it is through, or never: then only their pages are.
 */
#ifndef UCX_SLOTS_H
#define UCX_SLOTS_H

#include "net/link.h"
#include "ucx_comm.h"
#include "ucx_slab.h"

/* Of one direction. */
struct ucx_slots {
	unsigned char *at; /* NULL: not made */
	size_t bytes; /* of all */
	ucp_mem_h memory;
	int given; /* the user's: */
	struct link_memory user;
	int large; /* in large pages */
};

/* Under the lock, all of them. */

/* Makes them, of the user's memory (NULL: of ours), for messages to (sends) or from a peer; 0 or an error. */
int ucx_slots_make(struct ucx_slots *s, const struct ucx_comm *c, int peer, const struct link_memory *user,
		   int sends, size_t bytes);
/* The first large message: their pages are better taken many at a time. Small ones leave them untaken. */
void ucx_slots_enlarge(struct ucx_slots *s);
/* Nobody reads or writes them any more. Those that were not made are allowed. */
void ucx_slots_free(struct ucx_worker *w, struct ucx_slots *s);
/* A peer may still write them: they are kept until its BYE. */
void ucx_slots_retire(const struct ucx_comm *c, int peer, const struct ucx_slots *s);
/* A rank of a closed communicator is through, if its BYE says so; NULL: all are. */
void ucx_slots_free_retired(struct ucx_worker *w, const struct ucx_wire *bye);

#endif
