/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What this machine and its UCX have for GPUDirect RDMA, where a network adapter reads and writes a GPU's memory. UCX registers that in one of
 * two ways: by its address, which the kernel module nvidia-peermem resolves for the adapter's driver; or as a dmabuf, which UCX's cuda_copy exports.
 */
#ifndef UCX_GPUDIRECT_H
#define UCX_GPUDIRECT_H

#include <stddef.h>
#include <ucp/api/ucp.h>

enum ucx_gpudirect_mode { UCX_GPUDIRECT_NONE, UCX_GPUDIRECT_PEERMEM, UCX_GPUDIRECT_DMABUF };

struct ucx_gpudirect {
	enum ucx_gpudirect_mode mode; /* as far as can be known before memory is mapped */
	unsigned major, minor, release; /* of UCX */
	const char *peermem; /* a file that UCX takes for nvidia-peermem; NULL: none is there */
	int has_adapter; /* the context has a transport of an RDMA adapter */
	int has_verbs, has_cuda; /* UCX's own components */
};

/* Any context will do. */
void ucx_gpudirect_look(ucp_context_h context, struct ucx_gpudirect *out);
/* For people: the mode, or why there is none, and the facts: "by nvidia-peermem (FILE), UCX 1.20.0 with verbs and CUDA". */
void ucx_gpudirect_print(const struct ucx_gpudirect *g, char *text, size_t bytes);
/* Advice where a GPU's memory could not be mapped. */
const char *ucx_gpudirect_advice(const struct ucx_gpudirect *g);

#endif
