/* A GPU's memory for slots: mapped once with a rail's context, so that links take pieces of it and register nothing (net/link.h). */
#ifndef UCX_SLAB_H
#define UCX_SLAB_H

#include "net/link.h"
#include "ucx_comm.h"

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

/* Reads bytes of it into host memory by the adapter that wrote them: behind what that wrote before. A request, whose end is to be told, or a status.
 * Under the lock. */
void *ucx_slab_read(struct link_slab *slab, const void *from, size_t bytes, void *to,
		    const ucp_request_param_t *param);
static inline void ucx_slab_read_ended(struct link_slab *slab)
{
	slab->reads--;
}

#endif
