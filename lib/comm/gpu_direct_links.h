/* SPDX-License-Identifier: BSD-3-Clause */
/* Probes of GPUDirect RDMA, and their links. */
#ifndef GPU_DIRECT_LINKS_H
#define GPU_DIRECT_LINKS_H

#include "gpu_direct.h"

/* A rank that this one sends to, or receives from, or both. */
struct probe_peer {
	struct link *link;
	struct link_memory memory;
	int rank, sends;
	int sender; /* its number among those that send here; -1: it does not */
	uint64_t sent;
};

struct gpu_direct_probe {
	struct gpu_direct_probe *next;
	struct comm *comm;
	struct transport *transport;
	struct probe_words *words; /* of each sender */
	unsigned char *pinned; /* its slots, of a comparison; NULL: the slab's */
	int npeers, senders;
	uint64_t until; /* messages that are looked at */
	uint64_t streamed; /* messages of a stream that have been sent */
	struct probe_peer peers[];
};

/* memory: of its slots; NULL: of its own, of the host. NULL: there is none. */
struct gpu_direct_probe *gpu_direct_make_probe(struct comm *comm, int rail, unsigned char *memory);
/* An attempt's part of the slab. */
unsigned char *gpu_direct_area(const struct comm *comm, int rail, int attempt);
/* Links to all peers, by slots of the slab (NULL: pinned ones). What fails is in *out. */
void gpu_direct_connect(struct comm *comm, int rail, int index, struct link_slab *slab,
			struct gpu_direct_probe *probe, struct gpu_direct_outcome *out);
/* 0 or a CORALE_E* code. */
int gpu_direct_progress(const struct gpu_direct_probe *probe);
/* Why the transport has failed. */
const char *gpu_direct_failure(const struct gpu_direct *direct, const char *otherwise);

#endif
