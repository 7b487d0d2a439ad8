/*
 * What carries messages between nodes: links (link.h) for all data, and best-effort control messages beside them.
 * Implementations: ucx/transport_ucx.c, transport_inproc.c (tests), mpi_glue/transport_mpi.c.
 *
 * A lane is an independent first-in-first-out path per ordered pair of ranks and communicator; lane numbers are
 * small (channel x ring). A header of TRANSPORT_HEADER_BYTES travels with each message.
 *
 * Threads: progress and control may be called by several threads at once; the implementation locks. No call blocks, but open, fail
 * and close.
 */
#ifndef TRANSPORT_H
#define TRANSPORT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "corale.h"
#include "base/settings.h"

enum {
	TRANSPORT_HEADER_BYTES = 32,
	TRANSPORT_MAX_LANES = 64,
	TRANSPORT_CONTROL_BYTES = 256,
	TRANSPORT_RAILS = 8
};

/* The reason that on_failure gives where a peer has closed its side in order, and something of it was still awaited. */
static const char transport_peer_left[] = "the peer has closed its side";

struct transport;
struct link_ops;

/* What links have, unless their user brings memory: equal on all ranks but for the cap and the count. */
struct transport_slots {
	int lanes; /* links below this are made when the peer's end asks for them */
	int depth; /* slots of a link and direction, at most; at least 2 */
	size_t bytes; /* of a slot */
	size_t
	    cap; /* of all slots of this rank; two slots of each direction in use are taken whatever it is */
	_Atomic size_t *used; /* bytes of slots, counted here; NULL: not counted */
};

struct transport_params {
	int rank, size;
	uint64_t comm_id; /* equal on all ranks, unique among the transports of these processes */
	int rail; /* transports of different rails share no thread and no lock; below TRANSPORT_RAILS */
	const unsigned char *needed; /* needed[r]: 1 if rank r sits on another node */
	int (*allgather)(void *ctx, const void *in, size_t bytes, void *out); /* as corale_bootstrap */
	void *allgather_ctx;
	const struct settings *settings;
	struct transport_slots slots;
	/* A peer's control message (at most TRANSPORT_CONTROL_BYTES); called from progress in any thread; must not block. */
	void (*on_control)(void *ctx, int peer, const void *message, size_t bytes);
	/* A link to peer has failed; called once per peer, as above. reason is a sentence. */
	void (*on_failure)(void *ctx, int peer, int code, const char *reason);
	void *handler_ctx;
};

struct transport_ops {
	const char *name; /* "ucx" */
	/* 1 if it can be used here; else 0 and why_not (bytes long) is filled. Local, cheap. */
	int (*available)(const struct settings *settings, char *why_not, size_t bytes);
	/* Writes the network devices that it opens ("tcp/eth0"); 0 or an error. NULL: not known to it. Local; may block. */
	int (*devices)(const struct settings *settings, char *text, size_t bytes);
	/* Collective over the communicator (uses allgather, all ranks call it even those without a needed peer); may block.
	 * On failure every rank returns an error. */
	int (*open)(const struct transport_ops *ops, const struct transport_params *params,
		    struct transport **out);
	const struct link_ops *links;
	/* Moves things along; 1 if anything happened, 0 if not, or an error. Calls handlers. */
	int (*progress)(struct transport *t);
	/* Best-effort small message outside all lanes, for aborts and call records; copies message. */
	int (*control)(struct transport *t, int peer, const void *message, size_t bytes);
	/* All links fail with code from here on. Waits, at most some seconds, until nothing of the users' memory is read any more. Any
	 * thread. */
	void (*fail)(struct transport *t, int code);
	/* 1 if the implementation progresses by itself (a thread); 0 if only calls to progress move it. */
	int (*threaded)(const struct transport *t);
	/* 1 if a thread of Corale's may move it while the program goes on; else 0, and why_not (bytes long) says what must change.
	 * NULL: always. */
	int (*any_thread)(const struct transport *t, char *why_not, size_t bytes);
	/* How many rails carry more than one: 1 where the network's adapter moves the bytes itself; 0: no more than one is possible. NULL:
	 * 1. Local. */
	int (*rails)(const struct transport *t);
	/* How messages to peer travel, for people ("tcp/eth0, am (measured: put 0.13, tag 1.9, am 2.1 GB/s)"). */
	void (*describe)(const struct transport *t, int peer, char *buf, size_t bytes);
	/* Drains what was sent (bounded wait), frees. Not collective, no allgather. */
	void (*close)(struct transport *t);
};

struct transport {
	const struct transport_ops *ops; /* first member of every implementation's struct */
};

extern const struct transport_ops transport_ucx; /* without UCX at build time: available() says so */
extern const struct transport_ops transport_inproc; /* among threads of one process */

#endif
