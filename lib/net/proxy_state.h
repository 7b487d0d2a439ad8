/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by proxy.c and proxy_thread.c. */
#ifndef PROXY_STATE_H
#define PROXY_STATE_H

#include "link.h"
#include "proxy.h"

/* Messages are counted from 0. The thread that opens an end makes it; afterwards its rail's thread alone uses all fields but the offsets. */
struct proxy_connection {
	struct proxy_connection *next; /* of its rail */
	int peer;
	uint32_t number;
	const struct remote_slots *slots;
	_Atomic remote_offset offsets[2]; /* by enum remote_direction; 0: that end is not open */
	struct link_memory memory;
	struct link *link; /* NULL: not yet */
	uint64_t delivered; /* to the kernels */
};

struct proxy_peer {
	int rank;
	struct proxy_connection **connections; /* NULL, or by number, each NULL until an end is open */
};

/* A proxy's part of a rail, which the rail's thread moves. */
struct proxy_rail {
	struct proxy *next; /* of the thread's */
	struct transport *transport;
	struct proxy_connection *_Atomic connections; /* those with an open end; the last opened first */
	unsigned char *lost; /* a peer: nothing more goes to it; the transport has said why */
	_Atomic uint64_t bytes[2]; /* sent and received, through pinned slots and a GPU's; of its thread */
};

struct proxy {
	struct proxy_params params;
	const struct link_ops *ops;
	struct transport_slots slots[REMOTE_USES]; /* of its links */
	struct proxy_peer *peers;
	uint64_t used; /* lines of the memory, the calls' progress first; of the thread that opens ends */
	struct proxy_rail rails[TRANSPORT_RAILS];
	_Atomic int held; /* directions of links whose memory the transport may still use */
	_Atomic uint64_t moved;
	_Atomic uint64_t enqueued; /* calls, of the user's thread */
	_Atomic int captured;
	_Atomic int lost; /* a rank, + 1 */
};

static inline struct proxy_connection *proxy_connections(const struct proxy *p, int rail)
{
	return atomic_load_explicit(&p->rails[rail].connections, memory_order_acquire);
}

static inline remote_offset proxy_offset(const struct proxy_connection *at, enum remote_direction direction)
{
	return atomic_load_explicit(&at->offsets[direction], memory_order_acquire);
}

/* 1 if a rail's thread has something to do, and must not sleep. */
int proxy_has_work(const struct proxy *proxy, int rail);

/* 1 if all messages posted on a rail leave without its thread. Called by that thread, or while it moves nothing. */
int proxy_rail_sent(const struct proxy *proxy, int rail);

static inline uint64_t proxy_load(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

#endif
