/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether messages between nodes go from and to the memory of GPUs (GPUDirect RDMA), rail by rail. All ranks find it out together at creation: by
 * registering memory, and by messages that a kernel of the receiving GPU must see. Where a step fails on any rank the rail keeps pinned slots.
 */
#ifndef GPU_DIRECT_H
#define GPU_DIRECT_H

#include "cuda/engine.h"
#include "net/adapters.h"
#include "net/link.h"
#include "state/comm.h"

enum { GPU_DIRECT_WHY = 320 };

/* The outcome of a step on a rank. */
struct gpu_direct_outcome {
	int32_t code; /* 0: nothing is wrong */
	int32_t is_late; /* a kernel saw a message before all of its bytes, which reading back may mend; */
	int32_t is_broken; /* or none came: nothing goes over this rail */
	char why[GPU_DIRECT_WHY];
};

enum { GPU_DIRECT_ATTEMPTS = 2 }; /* of a rail: the second one reads back what arrives */

struct gpu_direct {
	const struct link_ops *links;
	struct engine_slab slab;
	/* Registered with each rail until all are closed: a message that came too late may still be under way. */
	struct link_slab *mapped[TRANSPORT_RAILS][GPU_DIRECT_ATTEMPTS];
	struct link_slab *used[TRANSPORT_RAILS]; /* one of these; NULL: this rail has pinned slots */
	int reads_back; /* on some rail */
	struct gpu_direct_outcome *outcomes; /* of all ranks in the last step; NULL once all is settled */
	_Atomic int settled; /* a rail that fails from here on ends the communicator; */
	_Atomic int failed; /* before, why is here */
	char failure[GPU_DIRECT_WHY];
	struct transport_slots slots; /* of links of probes: none but what they bring */
	struct adapters_choice choice; /* of this rank's GPU */
	int compares; /* a rank's adapter is worth it only by its rate */
	struct gpu_direct_probe *probes; /* the last first; their links live as long as the transports */
	_Atomic int held; /* directions of their links that a peer may still write */
};

/*
 * Collective. Opens comm's rails, and uses slots in GPU memory on those where they work. If there is none, no rail is open, and comm->direct has
 * what was tried, if anything. CORALE_ENOTSUP on all ranks where CORALE_GPUDIRECT=yes asks for it in vain.
 */
int gpu_direct_open(struct comm *comm);

/* After the rails and the proxy are closed: 1, or 0: a peer may still write into slots. */
int gpu_direct_free(struct gpu_direct *direct);

/* ---- gpu_direct_probe.c, gpu_direct_links.c: one rail at a time */
/* Bytes of the slab for all probes of so many rails. */
size_t gpu_direct_probe_bytes(const struct plan_map *map, int rank, int rails);
/* Collective: messages of all sizes to a rank of the next node, and from the node before. Twice a rail at most. */
int gpu_direct_probe(struct comm *comm, int rail, int attempt, struct gpu_direct_outcome *out);
/* Collective, behind it: whether slots in GPU memory are about as fast as pinned ones, for GPUs and adapters that a host bridge connects. */
int gpu_direct_compare(struct comm *comm, int rail, struct link_slab *slab, struct gpu_direct_outcome *out);
int gpu_direct_refuse(struct gpu_direct_outcome *o, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void gpu_direct_free_probes(struct gpu_direct *direct);

/* Probes of GPUDirect RDMA, and their links. */

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
