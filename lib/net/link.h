/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A link is a path to one rank of another node, both directions; links to one peer differ in index (channel x queue). Each direction has a queue of slots
 * at both ends: the sender fills its slot of message k and posts it, it lands in the receiver's slot of message k, and the receiver releases that, so
 * that the sender may post one more. A message is neither announced nor asked for. A header of TRANSPORT_HEADER_BYTES travels with it.
 *
 * A direction gets memory, within transport_slots.cap, on its first use or when the peer's end asks for it. The peer may write the slots until it has
 * closed its side: the user's memory is given back then (struct link_memory).
 *
 * Threads: one sends and one receives on a link at a time. Nothing blocks, and no message allocates. After transport_ops.close no link is used.
 * What is posted from the user's memory is read there until it is sent; transport_ops.fail waits for that.
 */
#ifndef LINK_H
#define LINK_H

#include "base/log.h"
#include "transport.h"

struct link;

/* A message that has arrived, until it is released. */
struct link_message {
	unsigned char header[TRANSPORT_HEADER_BYTES];
	size_t bytes;
	unsigned char *data; /* of a slot in a GPU's memory: of LINK_INLINE_BYTES at most, else NULL */
};

/*
 * A GPU's memory that a transport has registered, for slots of many links, at both ends. No CPU touches it. A message that has arrived is visible to
 * kernels. Up to LINK_INLINE_BYTES may lie in host memory instead: link_post's data, link_message.data.
 */
struct link_slab;

enum { LINK_INLINE_BYTES = 256, LINK_WHY_BYTES = 640 };

/* The user's memory for a link's slots, instead of the transport's. */
struct link_memory {
	struct link_slab *slab; /* in and out lie in it; NULL: host memory */
	int depth;
	size_t bytes; /* of a slot */
	unsigned char *in, *out; /* depth * bytes each; there when the direction is opened */
	/* Called once for each opened direction, by progress, close or free, when nothing touches it any more; never if the peer may still write. */
	void (*release)(void *ctx);
	void *ctx;
};

struct link_params {
	int rank, peer, index; /* rank: the caller's */
	const struct transport_slots *slots; /* those of the transport; stays */
	const struct link_memory *memory; /* NULL: the transport's; stays until the transport is closed */
};

struct link_ops {
	/*
	 * Registers a GPU's memory with a transport that was opened for it (transport_params.gpu_slots). reads_back: the GPU may see a later write to
	 * pinned memory before the bytes of a message, so the message has arrived only when the adapter has read its end back. NULL: host memory alone.
	 * Called by the thread that makes the communicator. 0, CORALE_ENOTSUP or ENOMEM; not logged: the caller falls back to pinned slots and logs why_not.
	 */
	int (*map)(struct transport *t, void *at, size_t bytes, int reads_back, struct link_slab **out,
		   char *why_not, size_t why_bytes);
	void (*unmap)(struct link_slab *slab);
	/* As link_open. */
	int (*open)(struct transport *t, const struct link_params *params, struct link **out);
	/* Makes the slots of a direction and grants them to the peer; once each, before its first use. */
	int (*open_in)(struct link *l);
	int (*open_out)(struct link *l);
	/* As link_post, link_release. */
	int (*post)(struct link *l, const void *header, const void *data, size_t bytes);
	int (*release)(struct link *l);
	/* For a user who found no message (sends: no room): looks once more. 0, or why none will ever come. */
	int (*poll)(struct link *l, int sends);
	/* 1 if all posted messages leave without the user's help and memory; NULL: they always do. */
	int (*sent)(struct link *l);
	/* Called after the transport is closed; NULL: close has freed the link. */
	void (*free)(struct link *l);
};

/* Written by the transport, read by the link's user. */
struct link {
	const struct link_ops *ops;
	int peer, index;
	size_t slot_bytes;
	int direct; /* messages may be posted from the user's memory */
	void *landing; /* the receiver's: where the awaited message may land; or NULL */
	size_t landing_bytes;
	int in_open, out_open;
	/* Sending: message k may be filled and posted while k < limit. */
	unsigned char *out;
	int out_depth;
	uint64_t posted;
	_Atomic uint64_t limit;
	/* Receiving: messages below arrived have arrived whole; those below taken were released. */
	struct link_message *in;
	int in_depth;
	_Atomic uint64_t arrived, taken;
};

/* Of a zeroed link, the fields that follow from how it is opened. */
static inline void link_init(struct link *l, const struct link_ops *ops, const struct link_params *params)
{
	l->ops = ops;
	l->peer = params->peer;
	l->index = params->index;
	l->slot_bytes = params->memory ? params->memory->bytes : params->slots->bytes;
}

/* link_ops.map, or why not. */
int link_map(struct transport *t, void *at, size_t bytes, int reads_back, struct link_slab **out,
	     char *why_not, size_t why_bytes);

/* A link without slots yet. Each peer and index once. 0, or an error, logged: no memory, or the peer can't be reached. */
int link_open(struct transport *t, const struct link_params *params, struct link **out);

/* Counts the slots of a direction, and returns how many: depth up to a quarter of the cap, half of that up to three eighths, then two. Logs once. */
int link_reserve(const struct transport_slots *slots, int rank) LOG_EXPORT("link_reserve");
void link_unreserve(const struct transport_slots *slots, int depth) LOG_EXPORT("link_unreserve");

/* 1: a message may be filled (link_slot) and posted, 0: not yet, or an error. */
static inline int link_room(struct link *l)
{
	if (l->posted < atomic_load_explicit(&l->limit, memory_order_acquire))
		return 1;
	int ret = l->out_open ? l->ops->poll(l, 1) : l->ops->open_out(l);
	return ret ? ret : l->posted < atomic_load_explicit(&l->limit, memory_order_acquire);
}

/* The slot of the next message to post, while there is room. */
static inline unsigned char *link_slot(const struct link *l)
{
	return l->out + l->posted % (uint64_t)l->out_depth * l->slot_bytes;
}

/* Sends the bytes in link_slot, or data (not NULL): of a direct link, unchanged until link_ops.sent returns 1; with slots in a GPU's memory
 * LINK_INLINE_BYTES at most, copied. Only while there is room; 0 or an error. */
static inline int link_post(struct link *l, const void *header, const void *data, size_t bytes)
{
	return l->ops->post(l, header, data, bytes);
}

static inline uint64_t link_taken(const struct link *l)
{
	return atomic_load_explicit(&l->taken, memory_order_relaxed);
}

/* 1: the next message has arrived (link_next); 0: not yet; or an error: it never comes. */
static inline int link_ready(struct link *l)
{
	if (atomic_load_explicit(&l->arrived, memory_order_acquire) > link_taken(l))
		return 1;
	int ret = l->in_open ? l->ops->poll(l, 0) : l->ops->open_in(l);
	return ret ? ret : atomic_load_explicit(&l->arrived, memory_order_acquire) > link_taken(l);
}

static inline const struct link_message *link_next(const struct link *l)
{
	return &l->in[link_taken(l) % (uint64_t)l->in_depth];
}

/* Releases the next message's slot; 0 or an error. The peer gets a credit before half of the slots are released. */
static inline int link_release(struct link *l)
{
	return l->ops->release(l);
}

/* ---- All links of a communicator ---- */

struct link_table {
	struct transport *transport;
	const struct link_ops *ops;
	const struct transport_slots *slots;
	int rank, ranks;
	struct link **_Atomic *rows; /* [rank]: NULL, or [index], each NULL until used */
	_Atomic int code; /* why the last link that could not be made was not */
};

int link_table_open(struct link_table *table, struct transport *t, const struct transport_slots *slots,
		    int rank, int ranks);
/* After the transport is closed. A zeroed table is allowed. */
void link_table_close(struct link_table *table);
/* A rank's link, made on first use: each by one thread; NULL: table->code says why not, and this thread's last logged error. */
struct link *link_table_get(struct link_table *table, int rank, int index);
/* A rank to which messages posted on links [first, last) do not leave yet without the user's help and memory, or -1. */
int link_table_unsent(const struct link_table *table, int first, int last);

/*
 * The cost of a message on a link. Both ends measure together; each in turn sends bursts. The parameters are LogGP's
 * (Alexandrov, Ionescu, Schauser and Scheiman 1995); how they are separated follows Culler, Liu, Martin and Yoshikawa, "Assessing fast network
 * interfaces" (1996): the sender's time is that of a burst's posts, the receiver's that of taking messages which are all there.
 */

/* Of one end, in ns. */
struct link_costs {
	double one_way_ns; /* of a small message, from its post until it is taken */
	double post_ns, recv_ns; /* the core's share of that, as sender and as receiver */
	double pace_ns; /* between arrivals of a burst: the sender's adapter is included */
	double byte_ns; /* of each byte of a large one beyond that; 0: slots are too small to measure it */
};

/*
 * Both ends call it at about the same time, one with leads 1, the other with 0. The link has no other user and no message in flight, before and
 * afterwards. Takes some milliseconds, spins. 0; CORALE_ETIMEDOUT: the other end did not answer
 * within timeout_ns; or the link's error: not logged.
 */
int link_measure(struct transport *t, struct link *l, int leads, int64_t timeout_ns, struct link_costs *out);

#endif
