/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What carries messages between nodes: links (link.h) for all data, and best-effort control messages beside them. A transport is a row of
 * lib/comm/transport_rows.c: its name, whether ranks can use it (probe), and how one is opened. Implementations: ucx/transport_ucx.c,
 * mpi_glue/transport_mpi.c.
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
	TRANSPORT_MAX_LINKS = 64,
	TRANSPORT_CONTROL_BYTES = 256,
	TRANSPORT_RAILS = 8,
	TRANSPORT_ROWS = 8,
	TRANSPORT_NAME_BYTES = 16
};

/* on_failure's reason where a peer has closed its side in order while something of it was awaited. */
static const char transport_peer_left[] = "the peer has closed its side";

struct transport;
struct link_ops;

/* Slots of links whose user brings no memory. Equal on all ranks, but for cap and used. */
struct transport_slots {
	int links; /* links with an index below this are made when the peer's end asks for them */
	int depth; /* slots of a link and direction, at most; at least 2 */
	size_t bytes; /* of a slot */
	size_t cap; /* bytes of all slots of this rank; a direction in use takes two slots at least */
	_Atomic size_t *used; /* bytes of slots, counted here; NULL: not counted */
};

struct transport_params {
	int rank, size;
	uint64_t comm_id; /* equal on all ranks, unique among the transports of these processes */
	int rail; /* transports of different rails, devices, shares_memory or gpu_slots share no thread and no lock; below TRANSPORT_RAILS */
	const unsigned char *needed; /* [rank]: 1: on another node; until transport_open returns */
	const struct settings *settings;
	const char *devices; /* in place of CORALE_NET_DEVICES ("mlx5_0:1"); NULL, "": that setting */
	int shares_memory; /* a rank that is needed may share memory with this one by the transport */
	int gpu_slots; /* links may have slots in a GPU's memory (link_ops.map): CORALE_ENOTSUP where no RDMA adapter can be opened */
	struct transport_slots slots;
	/* A peer's control message (at most TRANSPORT_CONTROL_BYTES); called from progress in any thread; must not block. */
	void (*on_control)(void *ctx, int peer, const void *message, size_t bytes);
	/* A link to peer has failed; called once per peer, as above. reason is a sentence. */
	void (*on_failure)(void *ctx, int peer, int code, const char *reason);
	void *handler_ctx;
};

/* Who has to call progress. */
enum transport_progress {
	TRANSPORT_OWN_THREAD, /* nobody: the transport has a thread */
	TRANSPORT_ANY_THREAD,
	TRANSPORT_CALLERS /* threads inside calls of the user's, and a thread of Corale's if probe allows GPUs */
};

struct transport_row {
	const char *name; /* as CORALE_TRANSPORT has it */
	/* A number: ranks of equal numbers reach each other; or 0, and why_not says what must change. gpus: a thread of Corale's will call progress. Local,
	 * cheap. */
	uint64_t (*probe)(const struct transport_row *row, int gpus, char *why_not, size_t bytes);
	/* Writes the network devices that it opens ("tcp/eth0"); 0 or an error. NULL: not known. Local; may block. */
	int (*devices)(const struct settings *settings, char *text, size_t bytes);
	/* Likewise, writes how it would reach a GPU's memory (GPUDirect RDMA), or "none: " and why not. */
	int (*gpudirect)(const struct settings *settings, char *text, size_t bytes);
	/* Starts one on this rank and says its address; connect makes it usable. Local; may block. */
	int (*open)(const struct transport_row *row, const struct transport_params *params,
		    struct transport **out);
};

struct transport_ops {
	enum transport_progress progress_by;
	int one_rail; /* several would wait for each other */
	/* All ranks have opened theirs, and their addresses are here (transport_address), by which alone it may fail: so on all ranks. Local. NULL: nothing to do. */
	int (*connect)(struct transport *t);
	const struct link_ops *links;
	/* Advances what is under way; 1 if anything happened, 0 if not, or an error. Calls handlers. */
	int (*progress)(struct transport *t);
	/* Behind transport_control, which has checked peer and bytes. */
	int (*control)(struct transport *t, int peer, const void *message, size_t bytes);
	/* 1: messages may have been exchanged with the peer, so it is told how this rank leaves. NULL: no rank is, as a message would make a connection. */
	int (*has_met)(struct transport *t, int peer);
	/* The peer's process has ended, though its connections live on: on_failure will hear the reason. NULL: nobody is asked. */
	void (*lose)(struct transport *t, int peer, const char *reason);
	/* The process ends, and t stays open: what was posted goes out, and peers learn that nothing follows. NULL: nothing to do. */
	void (*leave)(struct transport *t, int64_t until_ns);
	/* From now on all links fail with code. Waits, some seconds at most, until nothing reads users' memory. Any thread. */
	void (*fail)(struct transport *t, int code);
	/* Drains what was sent (bounded wait), frees; also one that was not connected. Local. */
	void (*close)(struct transport *t);
};

/* The first member of every implementation's struct. */
struct transport {
	const struct transport_ops *ops;
	int rails; /* how many carry more than one; 0: one, and 1: as well */
	int rdma; /* it has an RDMA adapter, which may reach a GPU's memory: by open */
	int shares_memory; /* it does with those ranks that transport_params.shares_memory speaks of */
	const void *address; /* of this rank, for the others: by open, which keeps it until connect */
	size_t address_bytes;
	/* transport_open's */
	const struct transport_row *row;
	int rank, size;
	unsigned char *addresses; /* of all ranks, */
	size_t stride; /* so many bytes apart */
};

static inline const void *transport_address(const struct transport *t, int rank)
{
	return t->addresses + (size_t)rank * t->stride;
}

/* Collective: a transport among the ranks of bootstrap, connected. On failure every rank returns an error. */
int transport_open(const struct transport_row *row, const struct transport_params *params,
		   const corale_bootstrap *bootstrap, struct transport **out);
/* Best-effort message beside all links, for aborts and call records; of at most TRANSPORT_CONTROL_BYTES; copies it. */
int transport_control(struct transport *t, int peer, const void *message, size_t bytes);
/* NULL is allowed. */
void transport_close(struct transport *t);

/* NULL: nothing is moved. */
static inline void transport_progress(struct transport *t)
{
	if (t)
		t->ops->progress(t);
}

/* end: called once the process's exit handlers have run, while libraries of transports can still be used. Before the first transport is opened. */
void transport_on_exit(void (*end)(void));
/* Calls it: the end of a library comes that a transport uses. */
void transport_exit(void);

extern const struct transport_row
    transport_mpi_absent; /* of communicators that were not made over MPI: probe says so */

#endif
