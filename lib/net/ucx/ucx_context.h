/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening of UCX: a context for a rail's devices, with what Corale wants of UCX's settings. */
#ifndef UCX_CONTEXT_H
#define UCX_CONTEXT_H

#include <ucp/api/ucp.h>

#include "base/settings.h"

struct ucx_context_params {
	int rank; /* for log lines; -1: none */
	const struct settings *settings;
	const char *devices; /* UCX's NET_DEVICES; "": as ucx_network.h says */
	int shares_memory; /* transport_params */
	int gpu_slots; /* it registers GPUs' memory: RDMA transports alone, in strict order */
};

/* 0, or an error that was logged; then nothing is left. CORALE_ENOTSUP: gpu_slots, and there is no RDMA transport. Blocks for UCX's start. */
int ucx_context_open(const struct ucx_context_params *params, ucp_context_h *out);

#endif
