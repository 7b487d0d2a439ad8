/*
 * The proxy carries messages between the GPUs of this process and ranks of other nodes (kernels/remote.h), over links. A communicator has one or more
 * rails, a transport each; the connections of a channel are those of one rail. A thread a rail serves all communicators of the process. It makes no call of
 * CUDA, waits for no connection and knows no plan: what a kernel posts it sends, what arrives it hands to the kernel, in the order of each connection.
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
	size_t bytes; /* of that memory: ends are cut from it, and stay */
	const int *ranks; /* of the communicator, by the index of a peer among those of other nodes; copied */
	int rank; /* for messages */
};

static inline int proxy_rail_of(uint32_t channel, int nrails)
{
	return (int)(channel % (uint32_t)nrails);
}

/* Without a thread: moves when it is told to. No connection is open, and the peers hear nothing. CORALE_ENOMEM. */
int proxy_create(const struct proxy_params *params, struct proxy **out);

/* Moves what can be moved now on a rail; 1 if anything was. Never blocks. One thread at a time a rail; of one that is open its thread alone. */
int proxy_progress(struct proxy *proxy, int rail);

/* Created, and moved by a thread a rail, which starts if there is none. CORALE_ENOMEM, CORALE_ESYSTEM. */
int proxy_open(const struct proxy_params *params, struct proxy **out);

/* Opens a connection's end, or finds it open, before a kernel uses it. Until the peer opens its own end what is posted
 * waits. By one thread at a time. CORALE_ENOMEM; CORALE_EINTERNAL: the memory is used up, which planner_room.h should have counted. */
int proxy_open_end(struct proxy *proxy, int peer, enum remote_direction direction, uint32_t index,
		   remote_offset *offset);

/* A call that will use it is about to be enqueued: ends a sleep. Any thread; waits for no message. */
void proxy_expect(struct proxy *proxy);

/* It was not enqueued after all: refused, or captured: its graph may be replayed without a call of this, so from now on the proxy naps. */
void proxy_unexpect(struct proxy *proxy, int captured);

/* Whether a call is under way on this GPU, or enqueued behind other work. Any thread. */
enum proxy_state { PROXY_IDLE, PROXY_ENQUEUED, PROXY_RUNNING };
enum proxy_state proxy_state(const struct proxy *proxy);

/* A rank to or from which nothing goes any more, or -1. The transport's on_failure has said why, unless it only refused a message. Any thread. */
int proxy_lost(const struct proxy *proxy);

/* Messages that it has sent and received so far. Any thread. */
uint64_t proxy_moved(const struct proxy *proxy);

/* Bytes of these, by where slots lie: messages put from and into GPU memory, and those through pinned slots. Any thread. */
void proxy_bytes(const struct proxy *proxy, uint64_t *in_gpu, uint64_t *pinned);

/*
 * Waits, for so long at most, until what kernels have posted is on its way; from its return on no thread touches anything of it. The
 * transports still do until their own close; then proxy_free.
 */
void proxy_stop(struct proxy *proxy, int64_t timeout_ns);
/* 1: nothing uses the memory of params.remote any more; 0: a peer, or the transport, may: not freed, try again later. */
int proxy_free(struct proxy *proxy);

/* The process exits: pinned memory may be gone from here on. */
void proxy_exiting(void);

#endif
