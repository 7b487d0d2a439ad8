/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The proxy carries messages between the GPUs of this process and ranks of other nodes (kernels/remote.h), over links. A communicator has one or more
 * rails, each with a transport of its own; all connections of a channel use one rail. Each rail has one thread for all communicators of the process. The proxy
 * makes no CUDA call, waits for no connection and knows no plan: it sends what kernels post, and hands to them what arrives, in the order of each connection.
 */
#ifndef PROXY_H
#define PROXY_H

#include "kernels/remote.h"
#include "transport.h"

struct link_slab;
struct proxy;

enum { PROXY_FIRST_LINK = 8 };

struct proxy_params {
	struct transport *rails[TRANSPORT_RAILS]; /* links PROXY_FIRST_LINK and up of each are the proxy's */
	int nrails; /* equal on all ranks: channels are theirs in turn (proxy_rail_of) */
	struct link_slab *slabs
	    [TRANSPORT_RAILS]; /* where remote.data is a GPU's memory: registered with each rail; else NULL */
	struct remote remote; /* its memory and data live until proxy_free has returned 1 */
	size_t bytes; /* of that memory, from which ends are cut */
	const int *ranks; /* of the communicator, by a peer's index among those of other nodes; copied */
	int rank; /* for messages */
};

static inline int proxy_rail_of(uint32_t channel, int nrails)
{
	return (int)(channel % (uint32_t)nrails);
}

/* Without a thread: only proxy_progress moves messages. Opens no connection, sends nothing. CORALE_ENOMEM. */
int proxy_create(const struct proxy_params *params, struct proxy **out);

/* Moves what can be moved now on a rail; 1 if anything was. Never blocks. One thread at a time on a rail; after proxy_open the rail's thread alone. */
int proxy_progress(struct proxy *proxy, int rail);

/* As proxy_create, and each rail's thread moves messages; starts threads that do not run yet. CORALE_ENOMEM, CORALE_ESYSTEM. */
int proxy_open(const struct proxy_params *params, struct proxy **out);

/* Opens a connection's end, or finds it open, before a kernel uses it. Posted messages wait until the peer opens its end. One thread at a time.
 * CORALE_ENOMEM; CORALE_EINTERNAL: the memory is used up, against the count of planner_room.h. */
int proxy_open_end(struct proxy *proxy, int peer, enum remote_direction direction, uint32_t index,
		   remote_offset *offset);

/* Called before a call that uses the proxy is enqueued: wakes its threads. Any thread; waits for no message. */
void proxy_expect(struct proxy *proxy);

/* The call was refused after all; or captured: its graph may be replayed without proxy_expect, so from now on threads nap instead of sleep. */
void proxy_unexpect(struct proxy *proxy, int captured);

/* Whether a call is under way on this GPU, or enqueued behind other work. Any thread. */
enum proxy_state { PROXY_IDLE, PROXY_ENQUEUED, PROXY_RUNNING };
enum proxy_state proxy_state(const struct proxy *proxy);

/* A rank to or from which nothing goes any more, or -1. The transport's on_failure has said why, unless it only refused a message. Any thread. */
int proxy_lost(const struct proxy *proxy);

/* Messages sent and received so far. Any thread. */
uint64_t proxy_moved(const struct proxy *proxy);

/* Bytes of these: from and into GPU memory, and through pinned slots. Any thread. */
void proxy_bytes(const struct proxy *proxy, uint64_t *in_gpu, uint64_t *pinned);

/* Waits, for so long at most, until all posted messages have left. Afterwards no thread touches the proxy. Its transports do until they are closed; then call
 * proxy_free. */
void proxy_stop(struct proxy *proxy, int64_t timeout_ns);
/* 1: freed; nothing uses the memory of params.remote any more. 0: not freed, because a peer or the transport may use it; call it again later. */
int proxy_free(struct proxy *proxy);

/* The process exits: pinned memory may be gone from here on. */
void proxy_exiting(void);

#endif
