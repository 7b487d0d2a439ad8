/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening of UCX: a context for a rail's devices, with what Corale wants of UCX's settings. */
#ifndef UCX_CONTEXT_H
#define UCX_CONTEXT_H

#include <stddef.h>
#include <ucp/api/ucp.h>

#include "base/settings.h"

struct ucx_context_params {
	int rank; /* for log lines; -1: none */
	const struct settings *settings;
	const char *devices; /* UCX's NET_DEVICES; "": as ucx_devices.h says */
	int shares_memory; /* transport_params */
	int gpu_slots; /* it registers GPUs' memory: RDMA transports alone, in strict order */
};

/* 0, or an error that was logged; then nothing is left. CORALE_ENOTSUP: gpu_slots, and there is no RDMA transport. Blocks for UCX's start. */
int ucx_context_open(const struct ucx_context_params *params, ucp_context_h *out);

/*
 * From the first call on the lines of this process's UCX are lines of the library's log, "UCX: ..." without a rank. UCX prints them to the program's
 * stdout, where they stand in the middle of its results. What UCX calls an error is a warning here: a call that it makes fail has its own error line.
 * Nothing changes where the user has set UCX_LOG_FILE. Any thread.
 */
void ucx_log_take(void);

/*
 * What this machine and its UCX have for GPUDirect RDMA, where a network adapter reads and writes a GPU's memory. UCX registers that in one of
 * two ways: by its address, which the kernel module nvidia-peermem resolves for the adapter's driver; or as a dmabuf, which UCX's cuda_copy exports.
 */

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
