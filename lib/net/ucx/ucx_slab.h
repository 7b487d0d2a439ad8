/* SPDX-License-Identifier: BSD-3-Clause */
/* A GPU's memory for slots: mapped once with a rail's context, so that links take pieces of it and register nothing (net/link.h). */
#ifndef UCX_SLAB_H
#define UCX_SLAB_H

#include "net/link.h"
#include "ucx_comm.h"

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

#endif
