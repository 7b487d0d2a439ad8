/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory for a link's slots, registered with UCX, or a piece of a slab that is. A peer's puts land in the slots that it was granted whatever this side does. So
 * slots are freed when the peer's BYE has come. Without it only their pages are released.
 */
#ifndef UCX_SLOTS_H
#define UCX_SLOTS_H

#include "net/link.h"
#include "ucx_comm.h"

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
