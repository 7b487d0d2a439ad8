/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine of one GPU: runs a communicator's calls on the user's streams. engine_cuda*.c with kernels/; none.c where a build has no CUDA.
 *
 * One struct engine serves one communicator on the GPU that was current when it was opened. Creation: open; window_fds; the ranks exchange
 * descriptors (fdpass.h); connect; a barrier, because from then on peers write into each other's windows.
 *
 * One thread at a time per struct engine, but for what says "any thread". "Never blocks": waits neither for a peer nor for work on the GPU.
 * Errors are CORALE_E* codes; the cause has been logged.
 */
#ifndef ENGINE_H
#define ENGINE_H

#include <stddef.h>
#include <stdint.h>

#include "base/call.h"
#include "kernels/codelets.h"
#include "kernels/probe.h"
#include "kernels/remote.h"
#include "plan/codelet/launch.h"
#include "plan/lower.h"

enum {
	ENGINE_UUID_BYTES = 16,
	ENGINE_NAME_BYTES = 64, /* of a GPU's name */
	ENGINE_PCI_BYTES = 32, /* "0000:1b:00.0" */
	ENGINE_MOST_GROUPED = 160, /* sends and receives of one group */
	ENGINE_HANDLE_BYTES = 96, /* of what describes memory to peers */
	ENGINE_MAX_REGIONS = 64, /* pieces of memory that peers map, at a time */
	ENGINE_WINDOW_FD = 0, /* of a rank's descriptors */
	ENGINE_BOARD_FD,
	ENGINE_FDS,
	ENGINE_TARGET_SHIFT = 48 /* a target: (region + 1) << 48 | offset in it */
};

struct engine;
struct engine_kept;

struct engine_params {
	int rank, ranks; /* among those of this node */
	int most_ranks, least_ranks; /* of any node */
	int world_rank, world_ranks; /* among all */
	size_t window_bytes; /* about; equal on all ranks */
	int host_window; /* windows lie in host memory (gpu_machine.host_window) */
	size_t memory_cap; /* of windows and scratch together */
	int max_blocks; /* 0, and at most: all of the GPU but one processor of 32 */
	double timeout_s; /* of one wait of a kernel; 0: never */
	int holds; /* a kernel that fails keeps its stream until release, so nothing behind it runs on what it has not made */
	int nodes;
	size_t pinned_bytes; /* for messages between nodes; equal on all ranks */
};

struct proxy;

/* GPU memory for the slots of messages between nodes, which network adapters reach (GPUDirect RDMA). */
struct engine_slab {
	unsigned char *at; /* slots lie at the same offsets as in the pinned memory of `remote`, */
	size_t behind; /* and here begins what was asked for behind them */
	size_t bytes;
	int reads_back; /* the GPU may see pinned memory change before bytes that an adapter stored into its memory earlier */
};

/* What a slab is shown to work by (kernels/probe.h). */
struct engine_probe {
	unsigned char *out, *in; /* PROBE_AREA in the slab, and one for each sender */
	uint64_t seed; /* of what lies in out */
	int senders;
	const uint64_t *seeds; /* of each */
};

/* A launch, prepared for all calls like one another: a call patches the arguments by what differs. */
struct gpu_launch {
	struct launch cut;
	struct codelet_args args;
};

/* Of admission.plain: buffers that the call copies; ENGINE_OTHER_GPU: the buffer of that bit is memory of another GPU, not of the host. */
enum { ENGINE_PLAIN_SEND = 1, ENGINE_PLAIN_RECV = 2, ENGINE_OTHER_GPU = 2 /* bits further */ };

/* The first failure on this GPU. */
struct engine_failure {
	int code; /* CORALE_ETIMEDOUT, CORALE_EMISMATCH, CORALE_EABORTED, ... */
	int peer; /* that was waited for, or whose header was another one */
	uint64_t epoch, expected, got; /* signatures, or bytes of a message */
	uint32_t number; /* of the call that waited; of messages: the first one's */
	int of_message; /* then these are bytes, of elements of these types: */
	corale_type expected_type, got_type;
};

/* A GPU that this process sees, for people. */
struct engine_gpu {
	char name[256], pci[ENGINE_PCI_BYTES];
	size_t bytes;
};

/* How one GPU reaches another one's memory, from the worst to the best. */
enum engine_link {
	ENGINE_NO_LINK,
	ENGINE_UNKNOWN_LINK,
	ENGINE_PEER, /* over the bus, which may tear lines of 128 bytes */
	ENGINE_NVLINK /* or it is the same GPU */
};

enum { ENGINE_WHY_BYTES = 512 };

/* A GPU for other processes, whatever its ordinal there. */
struct engine_identity {
	unsigned char uuid[ENGINE_UUID_BYTES];
	char pci[ENGINE_PCI_BYTES];
};

/* The GPU of an engine. */
struct engine_own_gpu {
	struct engine_identity id;
	char name[ENGINE_NAME_BYTES];
	int processors; /* multiprocessors */
	int bus_gbs; /* where windows lie in host memory: nvml_bus_gbs */
};

/* Of this process and its GPUs, without an engine. */
struct engine_process_ops {
	/* Any thread: 1 if it can be used here; else 0, and why_not says in a sentence why. */
	int (*available)(char *why_not, size_t bytes);
	/* Any thread: the GPUs that this process sees; what each is, 0 or CORALE_EDEVICE; how the first n reach each other, GPU i to GPU k
	 * at [i * n + k]; versions of driver and runtime, 1000 x major + 10 x minor. */
	int (*count)(void);
	int (*gpu)(int i, struct engine_gpu *out);
	void (*gpu_links)(int n, enum engine_link *out);
	void (*versions)(int *driver, int *runtime);
	/* As corale_memory_kind; makes no context. Any thread. */
	int (*memory_kind)(const void *memory, corale_memory *out);

	/* What this thread, or a library that it calls, does with CUDA until end_spare(what spare_captures returned) ends no other thread's capture. */
	int (*spare_captures)(void);
	void (*end_spare)(int mode);

	/* Without an engine, of the thread's current GPU: which it is, all zero where none can be used; how it reaches n others of this machine,
	 * which need not be visible to this process. May take some 10 ms for each GPU. */
	void (*identify)(struct engine_identity *out);
	void (*links)(const struct engine_identity *gpus, int n, enum engine_link *out);

	/* The same: 1 if windows of so many bytes of host memory, of so many ranks, can be those of this GPU (engine_params.host_window); 0: not, and why says why
	 * in a sentence. Where the process has no engine it may wait for the GPU's work. */
	int (*host_window_works)(int ranks, size_t bytes, char *why, size_t why_bytes);
};

/* Memory of an engine and of the user. */
struct engine_memory_ops {
	/* Pinned memory of the messages to and from ranks of other nodes, and its bytes (NULL: not asked): for the proxy, which uses it until close. */
	struct remote (*remote)(const struct engine *engine, size_t *bytes);

	/* Takes that memory and the slab, or the slab alone, from the engine, as an adapter may still store there; free_kept frees them. NULL:
	 * there was none, or it is never freed: a graph may name it, or there was no memory to note it. */
	struct engine_kept *(*keep)(struct engine *engine, int slab_alone);
	void (*free_kept)(struct engine_kept *kept); /* NULL is allowed */

	/* Before the first call: makes a slab with room for all slots, and so many bytes behind. CORALE_ENOTSUP: adapters can't reach this GPU's
	 * memory, and why_not says why; CORALE_ENOMEM, CORALE_EDEVICE. slab_use: the slots of these channels (a bit each) lie in the slab from
	 * now on; all others lie in pinned memory. */
	int (*slab_open)(struct engine *engine, size_t behind, struct engine_slab *out, char *why_not,
			 size_t bytes);
	void (*slab_use)(struct engine *engine, uint32_t channels);

	/* From its return on nothing that this GPU runs stores into a rank's registered memory, not even a graph that is replayed. failed: the
	 * communicator has failed, so calls may be under way, and are waited for; else that rank has ended all its calls. Later collectives are
	 * refused. By one thread, beside calls of another one. CORALE_EDEVICE. */
	int (*unmap)(struct engine *engine, int rank, int failed);

	/* Bytes of GPU memory held; of pinned host memory: for messages between nodes, a window. Any thread. */
	size_t (*memory)(const struct engine *engine);
	size_t (*pinned_memory)(const struct engine *engine);

	/* Memory of this GPU for the user, in units of 2 MB. free waits as finish does, unless no call has used the memory.
	 * engine NULL: its engine is closed. CORALE_ENOMEM, CORALE_EDEVICE. */
	int (*alloc)(struct engine *engine, size_t bytes, void **out);
	void (*free)(struct engine *engine, void *memory, int used);

	/*
	 * Memory of the user that peers map. share describes the allocation that holds the buffer, with a descriptor that the caller closes (-1:
	 * the peers need none). The ranks exchange both, and each attaches all: rank r's, its own too, at handles + r * stride, and fds[r], which
	 * stays the caller's (fds NULL: no rank has one). attach gives the lowest free region, so that equal sequences of calls give equal
	 * regions. When all ranks have detached, the owner may free. CORALE_ENOTSUP, logged at level info: of share, no peer can map such
	 * memory; of attach, a peer's can't be mapped here.
	 */
	int (*share)(struct engine *engine, const void *buffer, size_t bytes,
		     unsigned char handle[ENGINE_HANDLE_BYTES], int *fd);
	int (*attach)(struct engine *engine, const unsigned char *handles, size_t stride, const int *fds,
		      void *buffer, int *region);
	void (*detach)(struct engine *engine, int region, int used);

	/* Scratch of large calls: bytes of GPU memory for each sender (0: the cap has no room). All ranks share and attach it like memory of the
	 * user, by the same one of their calls; then the engine keeps it. */
	size_t (*scratch_bytes)(const struct engine *engine);
	void (*keep_scratch)(struct engine *engine, void *memory, int region);

	/* The target of a buffer: where in which region it lies; 0 if all of it is in none. Host only, never blocks. */
	uint64_t (*find)(const struct engine *engine, const void *buffer, size_t bytes);

	/* 1 if all ranks' memory of a target's region came by descriptors: copy engines store into that at the link's speed. Equal on all ranks. */
	int (*is_exported)(const struct engine *engine, uint64_t target);

	/* 0 if the memory of a target's region is still the allocation that was attached; else CORALE_EINVAL, logged. */
	int (*verify)(const struct engine *engine, uint64_t target);

	/* Large calls will use this buffer: peers may map its allocation at once, rather than after some calls, as long as it lives. Any thread; never blocks. */
	void (*publish)(struct engine *engine, const void *buffer, size_t bytes);
};

/* An engine from its opening to its end, and its calls. */
struct engine_ops {
	/* Picks the current GPU, loads all kernels, makes the window. May wait for other work of this GPU. CORALE_ENOMEM,
	 * CORALE_EDEVICE. */
	int (*open)(const struct engine_params *params, struct engine **out);

	/* The engine's GPU is the thread's current one until leave, which is given what enter returned: with captures spared, around what comes before the
	 * first call: window_fds, connect, try_peers, slab_open, probe_begin and probe_end. */
	int (*enter)(const struct engine *engine);
	void (*leave)(const struct engine *engine, int entered);

	/* As the driver has it. */
	const struct engine_own_gpu *(*own_gpu)(const struct engine *engine);

	/* File descriptors by which peers map the window, and with zero_copy the board of what this GPU's process exports (exporter.h; -1: it can't). The
	 * caller closes the window's. Never blocks. CORALE_EDEVICE. */
	int (*window_fds)(struct engine *engine, int zero_copy, int fds[ENGINE_FDS]);

	/* Before connect, what all ranks agreed on from what each one's describe says: blocks of a kernel, rates. words_only: no message goes by
	 * lines (gpu_machine.words_only). forced: the protocol that settings name (gpu_machine.forced). */
	void (*share_machine)(struct engine *engine, int max_blocks, const struct rates *rates,
			      int words_only, int forced);

	/* Maps the peers' windows, and with zero_copy, which all ranks must have asked for, their boards: ENGINE_FDS descriptors a rank (mine ignored),
	 * which stay the caller's. Never blocks. CORALE_EDEVICE, CORALE_ENOMEM, CORALE_EPEER. */
	int (*connect)(struct engine *engine, const int *fds, int zero_copy);

	/*
	 * After connect, before any call: whether the peers' windows work. wrong NULL: copies a pattern into each; else, when all ranks have done that, reads what
	 * they have stored here and what lies there: wrong[local rank] = 1 if either is another one. CORALE_ETIMEDOUT: a copy does not end; then close frees nothing.
	 */
	int (*try_peers)(struct engine *engine, uint64_t seed, double timeout_s, unsigned char *wrong);

	/* Before the first call over nodes: the proxy of which calls open connections, and each rank's index: among the ranks of this node; of other
	 * nodes' ranks, their index among those, plus the ranks of this node. Both stay the caller's. */
	void (*set_proxy)(struct engine *engine, struct proxy *proxy, const int *index_of);

	/* Writes what is to be sent, poisons where it is to arrive, and starts a kernel on a stream of its own that looks at what comes: by *words,
	 * one of each sender, which it shares with the caller until probe_end. The kernel ends when all messages have come, or when probe_end
	 * stops it; probe_end waits for a kernel that has begun. CORALE_EDEVICE, CORALE_ENOMEM. */
	int (*probe_begin)(struct engine *engine, const struct engine_probe *probe,
			   struct probe_words **words);
	void (*probe_end)(struct engine *engine);

	/* What the choice of a row needs to know of this engine; equal on all ranks from connect on. */
	void (*describe)(const struct engine *engine, struct gpu_machine *machine);

	/* Takes over a lowered plan, which *list then names; one that is there already has that number. May copy to the GPU, but waits for no
	 * call. CORALE_ENOTSUP (too long), CORALE_ENOMEM, CORALE_EDEVICE. */
	int (*add_list)(struct engine *engine, struct lowered *lowered, int *list);

	/* Before a call is enqueued, or any call of its group: whether its buffers and its stream (NULL: the default stream) can be used.
	 * A send has no receive buffer, a receive no send buffer. Enqueues nothing, leaves a capture whole, never blocks. CORALE_EINVAL
	 * (a scalar on another GPU), CORALE_ENOTSUP (the stream takes no call now, or none with buffers that are copied), CORALE_EDEVICE. */
	int (*admit)(struct engine *engine, const struct call *call, void *stream, struct admission *out);

	/* Fills the arguments of a launch that has been cut. Host only. */
	void (*prepare)(const struct engine *engine, struct gpu_launch *launch);

	/* Enqueues one collective that was admitted, by a launch that was prepared for calls like it. Never blocks, but for ordinary host memory,
	 * which waits for the stream, and when very many calls are queued. CORALE_ECOMM (it has failed before), CORALE_EDEVICE. */
	int (*run)(struct engine *engine, const struct call *call, const struct gpu_launch *launch,
		   void *stream);

	/* Whether the last call was captured into a graph. */
	int (*captures)(const struct engine *engine);

	/* Enqueues sends and receives that start together, in one capture or none. What a rank sends itself is one call, a send that has the
	 * receive's buffer too. As run. */
	int (*run_messages)(struct engine *engine, const struct call *messages, int n, void *stream);

	/* What one stream has been given so far comes before what another one is given from now on. Never blocks. CORALE_EDEVICE. */
	int (*join)(struct engine *engine, void *before, void *after);

	/* 0 if nothing has failed; else its code, and *out says more. Reads host memory only; any thread; never blocks. */
	int (*failure)(const struct engine *engine, struct engine_failure *out);

	/* The last note of a kernel that waits for a rank of this node, 0: none: it changes at least every 50 ms while one has waited longer than
	 * some 50 ms, and its high 32 bits are call.number of that one's call. Reads host memory only; any thread; never blocks. */
	uint64_t (*waits)(const struct engine *engine, int rank);

	/* 0, or CORALE_EDEVICE (logged) if the GPU's context is lost, in which nothing will run any more. Any thread. */
	int (*health)(struct engine *engine);

	/* Ends all waits on this GPU. Makes no CUDA call; any thread; never blocks. */
	void (*stop)(struct engine *engine, int code);
	/* The same, but the kernels that end by it signal no peer: calls there go on until they need this rank. No effect after stop or abort. */
	void (*quit)(struct engine *engine, int code);
	/* As stop, and signals the peers' GPUs at once. Any thread. */
	void (*abort)(struct engine *engine, int code);

	/* The kernels that have failed end, so that their streams go on (engine_params.holds), and from now on none keeps its stream. finish,
	 * close, and unmap where the communicator has failed do so first, as they wait for the GPU; free and detach of memory that
	 * calls have used do so as long as they wait. Makes no CUDA call; any thread; never blocks. */
	void (*release)(struct engine *engine);

	/* Waits until the GPU has done all that this engine has enqueued; where a call was captured, or has failed, all that anybody has. Leaves captures
	 * whole. CORALE_EDEVICE. */
	int (*finish)(struct engine *engine);

	/* Waits until what was enqueued has ended, then frees everything that no captured graph may still name. */
	void (*close)(struct engine *engine);
};

extern const struct engine_process_ops engine_process;
extern const struct engine_memory_ops engine_memory;
extern const struct engine_ops engine_cuda;

#endif
