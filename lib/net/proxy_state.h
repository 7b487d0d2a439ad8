/* What the proxy's two files share. */
#ifndef PROXY_STATE_H
#define PROXY_STATE_H

#include "link.h"
#include "proxy.h"

/* Counts messages, from 0. */
struct proxy_lane {
	struct link *link;
	uint64_t delivered; /* to the kernels */
};

struct proxy_peer {
	int rank;
	struct proxy_lane lanes[REMOTE_LANES];
};

/* What one thread moves. */
struct proxy_rail {
	struct proxy *next; /* of the thread's */
	struct transport *transport;
	uint32_t channels; /* so many first ones have been used */
	uint32_t looks;
	unsigned char *lost; /* a peer: nothing more goes to it; the transport has said why */
};

struct proxy {
	struct proxy_params params;
	const struct link_ops *ops;
	struct transport_slots slots; /* of its links */
	struct proxy_peer *peers;
	struct proxy_rail rails[TRANSPORT_RAILS];
	_Atomic int held; /* directions of links whose memory the transport may still use */
	_Atomic uint64_t moved;
	_Atomic uint64_t enqueued; /* calls, of the user's thread */
	_Atomic int captured;
	_Atomic int lost; /* a rank, + 1 */
};

static inline int proxy_rail_of(const struct proxy *p, uint32_t lane)
{
	return (int)(lane / (uint32_t)REMOTE_RINGS) % p->params.nrails;
}

/* Whether a rail's thread, should it sleep, has something to do. */
int proxy_has_work(const struct proxy *proxy, int rail);

static inline uint64_t proxy_load(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

#endif
