/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory for a link's slots, registered with UCX, or a piece of a slab that is. A peer's puts land in the slots that it was granted whatever this side does. So
 * slots are freed when the peer's BYE has come. Without it only their pages are released.
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
/* On each large message: uses large pages, as far as the worker's slots may. Small messages touch few pages, which stay small. */
void ucx_slots_enlarge(struct ucx_worker *w, struct ucx_slots *s);
/* Frees slots that nobody reads or writes any more. Slots that were not made are allowed. */
void ucx_slots_free(struct ucx_worker *w, struct ucx_slots *s);
/* Keeps slots that a peer may still write until its BYE. */
void ucx_slots_retire(const struct ucx_comm *c, int peer, const struct ucx_slots *s);
/* Frees kept slots of a rank of a closed communicator, if its BYE says that nothing is under way; NULL: of all ranks. */
void ucx_slots_free_retired(struct ucx_worker *w, const struct ucx_wire *bye);

#endif
