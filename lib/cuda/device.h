/*
 * The seam to a kind of GPU: memory that peers map, and the execution of plans on streams.
 * Implementations: device_cuda.c with kernels/; lib/cuda/none.c stands in where a build has none.
 *
 * One struct device serves one communicator on one GPU: its window, its lanes and their sequence numbers.
 * How one comes up: open; window_fd; exchange descriptors with the peers of this host (fdpass.h) and close
 * the own one; connect; then a barrier among the peers, because from then on they write into each other.
 *
 * Threads: one thread at a time per struct device, but for abort and failure, which any thread may call at any
 * time. "Never blocks" below means: does not wait for a peer or for work on the GPU. All errors are CORALE_E*
 * codes; the cause has been logged.
 */
#ifndef DEVICE_H
#define DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include "plan/plan_eval.h"

struct device;

struct device_params {
	const struct plan_map *map; /* of the communicator; copied */
	int rank;
	const int
	    *peer_of; /* by rank: number of the window of a rank of this host, from 0; -1 elsewhere; copied */
	int peers; /* how many of those, mine included */
	int ordinal; /* which GPU, as this process counts them; negative: the calling thread's current one */
	int channels, slots; /* layout of the window: equal on all peers */
	size_t slot_bytes;
	double timeout_s; /* of one wait of a kernel; 0: never */
};

/* One call's buffers and meaning; the same plan runs with many bindings. Device memory, any alignment of elements. */
struct device_binding {
	const void *send;
	void *recv;
	int op; /* corale_op */
	uint64_t signature; /* what every message of the call must carry */
	int copy_engines; /* 1: programs for copy engines run on them; 0: blocks stand in */
	unsigned stall_us; /* for tests: blocks of this rank are so late with each action; 0 */
};

/* The first failure on this GPU. */
struct device_failure {
	int code; /* CORALE_ETIMEDOUT, CORALE_EMISMATCH, CORALE_EABORTED, CORALE_EDEVICE */
	int peer; /* number of the window that was waited for, or whose message was wrong */
	int program, channel, ring, sending;
	uint64_t message, expected, got;
};

struct device_ops {
	const char *name; /* "cuda" */

	/* 1 if it can be used here; else 0, and why_not says in a sentence why. Any thread; never blocks, but may take a
	 * second when it loads the driver. */
	int (*available)(char *why_not, size_t bytes);

	/* How many GPUs this process sees; 0 where available() says no. Any thread; never blocks. */
	int (*count)(void);

	/* Picks the GPU, loads all kernels, makes streams and the window (zeroed). Called once per communicator, from the
	 * user's thread; may wait for other work of this GPU. CORALE_ENOMEM, CORALE_EDEVICE, CORALE_EINVAL. */
	int (*open)(const struct device_params *params, struct device **out);

	/* A file descriptor by which peers map the window; the caller closes it. After open; never blocks. CORALE_EDEVICE. */
	int (*window_fd)(struct device *device, int *fd);

	/* Maps the peers' windows: fds by peer (mine ignored), which stay the caller's. Once, after open; never blocks.
	 * CORALE_EDEVICE. */
	int (*connect)(struct device *device, const int *fds);

	/* Enqueues one call on stream (NULL: the default stream). plan and binding are read now; the buffers belong to the
	 * call until it has completed on the stream. env: as plan_env_init made it; its map is ignored in favour of the
	 * device's. Never blocks, but waits for room when very many calls are queued. CORALE_ENOTSUP (a type, operator or
	 * plan that this device has no code for, or a peer of another host; nothing was started), CORALE_ECOMM (it has
	 * failed before), CORALE_EDEVICE. */
	int (*run)(struct device *device, const struct plan *plan, const struct plan_env *env,
		   const struct device_binding *binding, void *stream);

	/* CORALE_INPROGRESS while work is queued on stream, 0 when all has completed well, else the code of the first
	 * failure on this device. After a failure it also makes what is queued end. Never blocks. */
	int (*query)(struct device *device, void *stream);

	/* 0 if nothing has failed; else its code, and *out says more. Reads host memory only; any thread; never blocks. */
	int (*failure)(struct device *device, struct device_failure *out);

	/* Ends all waits on this device, and by them those of its peers: kernels return, queued copies run on without
	 * waiting. The buffers of calls in progress are undefined from then on. Any thread; never blocks. */
	int (*abort)(struct device *device);

	/* Bytes of GPU memory held. Any thread. */
	size_t (*memory)(const struct device *device);

	/* Frees everything; fails the device first if work is still queued, and waits until its streams have drained (at
	 * most some seconds). Peers must not write here any more: a barrier among them comes first, unless they failed. */
	void (*close)(struct device *device);

	/* ---- For programs, tests and corale_mem_alloc; current GPU of the calling thread unless a device is named. */

	/* Memory of the device's GPU. May block (free waits for the GPU). CORALE_ENOMEM, CORALE_EDEVICE. */
	int (*alloc)(struct device *device, size_t bytes, void **out);
	void (*free)(struct device *device, void *memory);
	/* Copies between any two of host and GPU memory; blocks until done. CORALE_EDEVICE. */
	int (*copy)(struct device *device, void *to, const void *from, size_t bytes);
	/* A stream of the user's own. Never blocks; destroy lets queued work finish. CORALE_EDEVICE. */
	int (*stream_create)(struct device *device, void **stream);
	void (*stream_destroy)(struct device *device, void *stream);
};

/* In a build without CUDA: available() says so, and nothing else may be called. */
extern const struct device_ops device_cuda;

#endif
