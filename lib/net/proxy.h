/*
 * The proxy: carries messages between the GPUs of this process and ranks of other nodes (kernels/remote.h), over the transport of each
 * communicator. One thread serves all communicators of the process. It makes no call of CUDA or MPI, waits for no lane, and knows no plan:
 * what a kernel posts it sends, what arrives it hands to the kernel, in the order of each lane.
 */
#ifndef PROXY_H
#define PROXY_H

#include "kernels/remote.h"
#include "transport.h"

struct proxy;

struct proxy_params {
	struct transport *transport; /* lanes PROXY_FIRST_LANE and up are the proxy's */
	struct remote remote; /* its memory lives until proxy_close has returned */
	const int *ranks; /* of the communicator, by the place of a peer among those of other nodes; copied */
	int rank; /* for messages */
};

enum { PROXY_FIRST_LANE = 8 };

/* Without the thread: moves when it is told to. CORALE_ENOMEM. */
int proxy_create(const struct proxy_params *params, struct proxy **out);

/* Moves what can be moved now; 1 if anything was. Never blocks. One thread at a time; of one that is open the thread alone. */
int proxy_progress(struct proxy *proxy);

/* Created, and moved by the thread, which starts if there is none. CORALE_ENOMEM, CORALE_ESYSTEM. */
int proxy_open(const struct proxy_params *params, struct proxy **out);

/* A call that will use it is about to be enqueued: ends a sleep. Any thread; waits for no message. */
void proxy_expect(struct proxy *proxy);

/* It was not enqueued after all: it was refused, or captured. Then its graph may be replayed, and nobody wakes the proxy: from now on it naps. */
void proxy_unexpect(struct proxy *proxy, int captured);

/* Whether a call is under way on this GPU, or enqueued. Any thread. */
int proxy_is_busy(const struct proxy *proxy);

/* Messages that it has sent and received so far. Any thread. */
uint64_t proxy_moved(const struct proxy *proxy);

/*
 * Waits, for so long at most, until what kernels have posted is on its way; from its return on the thread touches nothing of it. The
 * transport still does until its own close; then proxy_free.
 */
void proxy_stop(struct proxy *proxy, int64_t timeout_ns);
void proxy_free(struct proxy *proxy);

/* The process exits: pinned memory may be gone from here on. */
void proxy_exiting(void);

#endif
