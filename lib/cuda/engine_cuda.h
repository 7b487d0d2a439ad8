/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the CUDA engine of fused codelets share. */
#ifndef ENGINE_CUDA_H
#define ENGINE_CUDA_H

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdatomic.h>

#include "kernels/codelets.h"
#include "cuda_driver.h"
#include "engine.h"
#include "exporter.h"

/* A peer's allocation as it is mapped here. */
struct engine_opened {
	void *base; /* NULL: none */
	size_t bytes; /* of what came by a descriptor; 0: it came by the runtime's inter-process calls */
};

/*
 * Memory of the user that peers map: what kernels and copies need for stores into it. A target (engine.h) names a
 * region and an offset: rank r's byte is at peers[r] + offset on the host's side, gpu_peers[r] + offset in a kernel.
 */
struct engine_region {
	unsigned char *begin; /* here; NULL: this region is free */
	size_t bytes; /* the least of all ranks' */
	unsigned char **peers; /* by rank, on the host; mine is begin */
	unsigned char **gpu_peers; /* the same in GPU memory */
	struct engine_opened *opened; /* by rank: what to close */
	int exported; /* all of it came by descriptors */
	/* the allocation that held it when it was attached */
	CUdeviceptr allocation;
	size_t allocation_bytes;
	unsigned long long buffer_id;
};

/* The stream of the last call, of the eager ones or of those captured. */
struct engine_last {
	cudaStream_t stream; /* of an eager call: perhaps destroyed since */
	unsigned long long id; /* which no other stream has, nor another thread's cudaStreamPerThread */
	uint64_t capture; /* of a captured call; 0: there was none */
};

/* A lowered plan on the GPU. */
struct engine_list {
	struct lowered host;
	const unsigned char *memory; /* its operations, then its peers, then those of other nodes */
	int nfar; /* ranks of other nodes in it */
	int16_t few_far[CODELET_FEW_FAR]; /* the first of them */
	uint32_t open; /* channels whose connections to them are, a bit each */
};

struct engine_lists {
	struct engine_list *list;
	int n, room;
	unsigned char *memory;
	size_t bytes, used;
};

struct engine_connections {
	remote_offset *offsets; /* as on the GPU */
	uint64_t first_new, end_new; /* of offsets: between these the GPU lacks some */
	struct proxy *proxy;
	size_t bytes; /* of the pinned memory */
};

/* GPU memory for slots that adapters reach. */
struct engine_slab_memory {
	void *at; /* NULL: none */
	size_t bytes;
	/* kernels that look at what comes: each has words of its own, in pinned memory; */
	struct probe_words *words; /* until the engine ends */
	cudaStream_t probing; /* of the one that runs */
	int probes, senders; /* so many kernels, with words for each sender */
	int unbegun; /* kernels that must end and have not begun: they will read their words */
};

/* In pinned memory of the host. */
struct engine_words {
	struct codelet_failure failure; /* written by kernels */
	uint64_t waits[CODELET_MAX_RANKS]; /* written by kernels */
	uint32_t abort, hold; /* read by kernels */
	uint64_t stop; /* what peers' windows get as struct codelet_control */
	uint64_t done; /* codelet_state.done, as engine_wait_own has copied it last */
};

/* Where a launch's packets or messages lie. */
enum engine_area { AREA_WORDS, AREA_LINES, AREA_SLOTS, AREA_SCRATCH, ENGINE_AREAS };

struct engine {
	struct cuda_driver driver;
	CUcontext context; /* for threads in which another GPU is current */
	cudaStream_t control; /* its copies wait for no call */
	struct engine_words *words;
	int rank, ranks, ordinal; /* among the ranks of this node */
	int world_rank, world_ranks; /* among all; in messages */
	struct gpu_machine machine; /* as all ranks of the node have it from share_machine on */
	struct codelet_args args[ENGINE_AREAS]; /* of all launches: a call sets the rest */
	const int *index_of; /* of each rank of the communicator; NULL: all are of this node */
	struct engine_own_gpu gpu;
	struct codelet_layout layout;
	CUdeviceptr base; /* of the addresses for all windows */
	size_t stride; /* bytes of one window in them; 0: nothing is reserved */
	CUmemGenericAllocationHandle *handles; /* by rank */
	unsigned char *mapped; /* by rank: 1 while mapped */
	int hangs; /* a copy to or from a peer does not end: nothing is freed */
	int host_fd; /* of this rank's window in host memory, until it is passed on; -1: none */
	struct codelet_state *state; /* on the GPU */
	struct codelet_failure *failure; /* in words */
	uint32_t *abort, *hold; /* in words */
	uint64_t *waits; /* in words, by rank of this node */
	int holds; /* engine_params.holds */
	_Atomic int released; /* for good */
	uint32_t launches; /* each has its number, */
	int staging; /* but those of a call whose thread waits for the stream: they do not hold it */
	struct codelet_p2p *p2p; /* the arguments of a launch, too large for a stack */
	size_t bytes; /* of GPU memory held */
	void *_Atomic
	    spare; /* a little of it, which waiting for the whole GPU frees; of one thread at a time */
	pthread_mutex_t opened_lock; /* of what regions have mapped of peers, which two threads may give up */
	struct engine_region regions[ENGINE_MAX_REGIONS];
	int nregions; /* those from here on are free */
	unsigned char **
	    gpu_peers; /* of all regions, in GPU memory: from the start, as a send may wait while the first is made */
	/* buffers that peers read; NULL: none */
	struct exporter *exporter;
	struct exporter_user exporter_user;
	const struct exports **exports, **gpu_exports; /* tables by rank; the same in GPU memory */
	/* calls by copy engines */
	cudaStream_t second, work; /* for what runs beside the user's stream; made with the first region */
	cudaEvent_t ready; /* of one of these streams, for another */
	size_t memory_cap;
	void *scratch; /* two buffers of a chunk from each other rank; NULL: none yet */
	int scratch_region;
	struct engine_lists lists;
	struct remote_calls remote; /* ranks of other nodes; counts: on the GPU */
	struct engine_connections connections; /* to them */
	struct engine_slab_memory slab;
	int edges_at_once; /* of a launch, in each direction */
	/* the order of calls */
	struct engine_last last_eager, last_captured;
	uint32_t follows; /* the last kernel launched is a follower (engine_cuda_order.c) */
	uint64_t counted; /* what the eager launches so far add to the state's `done` */
	int last_captures; /* the last call was captured */
	int captured; /* a call was, so that a graph may name our memory */
	int lost_count; /* a launch has failed, which `counted` may contain */
	/* of what captured all_to_alls in place send: one for all, whose order is the caller's; never freed */
	void *graph_copy;
	uint64_t graph_copy_bytes;
	_Atomic int calling, closed; /* a call is being enqueued; collectives are refused */
	cudaEvent_t order;
	cudaEvent_t copied; /* of a communicator of one rank: after its last eager copy */
};

/* Of messages: it sends to another rank; it receives from one; the rest are copies within the rank, with both buffers. */
static inline int engine_sends(const struct call *c)
{
	return !c->recv && c->record.coll == CORALE_SEND;
}

static inline int engine_receives(const struct call *c)
{
	return c->record.coll == CORALE_RECV;
}

/* The code of the first failure of a kernel; 0: none. */
static inline int engine_failed(const struct engine *engine)
{
	return *(const volatile int32_t *)&engine->failure->code;
}

/* What codelet_args.launch of the next launch says. */
static inline uint32_t engine_next_launch(struct engine *e)
{
	if (e->staging)
		return 0;
	e->launches += e->launches + 1 ? 1 : 2;
	return e->launches;
}

/* A launch whose blocks, or warps, count themselves (codelet_args.counted) is so many of them. */
static inline void engine_count(struct engine *e, int n)
{
	if (!e->last_captures)
		__atomic_store_n(&e->counted, e->counted + (uint64_t)n, __ATOMIC_RELAXED);
}

/* Whether the next launch is the first one behind a follower. */
static inline uint32_t engine_take_follows(struct engine *e)
{
	const uint32_t follows = e->follows;
	e->follows = 0;
	return follows;
}

/* What differs from launch to launch. */
static inline void engine_number_args(struct engine *e, struct codelet_args *a)
{
	a->launch = engine_next_launch(e);
	a->counted = !e->last_captures;
	a->follows = engine_take_follows(e);
}

/* ---- engine_cuda_check.c */

/* A rank's GPU, with the driver's functions. */
struct cuda_device engine_device(const struct engine *engine);
/* Errors of runtime and driver as CORALE_E*, logged with what was tried; 0 passes through. */
int engine_check(const struct engine *engine, int error, const char *what);
int engine_check_driver(const struct engine *engine, CUresult error, const char *what);
/* A stream that waits for no other one, of priority 0 or higher (less than 0); an event without a time. */
int engine_make_stream(const struct engine *engine, int priority, cudaStream_t *out);
int engine_make_event(const struct engine *engine, cudaEvent_t *out);

/* What this thread does until engine_end_spare(what engine_spare_captures returned) ends no capture of any thread: allocating, freeing, waiting. */
static inline int engine_spare_captures(void)
{
	enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
	cudaThreadExchangeStreamCaptureMode(&mode);
	return (int)mode;
}

static inline void engine_end_spare(int before)
{
	enum cudaStreamCaptureMode mode = (enum cudaStreamCaptureMode)before;
	cudaThreadExchangeStreamCaptureMode(&mode);
}

/* ---- engine_cuda_open.c: window, peers' windows, state */

/* load: loads all kernels; 0 or a cudaError_t. */
int engine_open(const struct engine_params *params, int (*load)(void), struct engine **out);
void engine_share_machine(struct engine *engine, int max_blocks, const struct rates *rates, int words_only,
			  int forced);
void engine_identify(struct engine_identity *out);
void engine_links(const struct engine_identity *gpus, int n, enum engine_link *out);
int engine_window_fds(struct engine *engine, int zero_copy, int fds[ENGINE_FDS]);
int engine_connect(struct engine *engine, const int *fds, int zero_copy);
void engine_close(struct engine *engine);

/* ---- engine_cuda_host.c: windows in host memory, at one stride from each other */

int engine_host_window_works(int rank, size_t bytes);
/* This rank's, with host_fd; a peer's, by its descriptor, which stays the caller's. CORALE_ESYSTEM, CORALE_ENOMEM, CORALE_EDEVICE, CORALE_EPEER. */
int engine_host_make(struct engine *engine);
int engine_host_map(struct engine *engine, int rank, int fd);
/* Kernels have ended. Unregistering waits for all work of the GPU, so memory stays until the process's last engine closes. */
void engine_host_give(struct engine *engine);
void engine_host_count(int engines); /* of the process: so many more */

/* ---- engine_cuda_peers.c */

int engine_try_peers(struct engine *engine, uint64_t seed, double timeout_s, unsigned char *wrong);

/* ---- engine_cuda_malloc.c */

/* Memory of the GPU, given back without waiting for the GPU: the engine's own work with it has ended (NULL is nothing). */
int engine_malloc(struct engine *engine, size_t bytes, void **out);
void engine_mfree(struct engine *engine, void *memory, size_t bytes);

/* ---- engine_cuda_memory.c: memory that travels by file descriptors */

int engine_alloc(struct engine *engine, size_t bytes, void **out);
void engine_free(struct engine *engine, void *memory, int used);
/* Whether memory can be passed on so: then 1, and a descriptor that the caller closes. */
int engine_export(const struct engine *engine, CUdeviceptr allocation, int *fd);
/* A peer's allocation of so many bytes, here. */
int engine_import(const struct engine *engine, int fd, size_t bytes, void **out);
/* Instead: what is stored to these addresses goes nowhere. For graphs that name them and may be replayed. */
int engine_sink(const struct engine *engine, void *mapped, size_t bytes);

/* ---- engine_cuda_share.c: memory that peers map */

int engine_share(struct engine *engine, const void *buffer, size_t bytes,
		 unsigned char handle[ENGINE_HANDLE_BYTES], int *fd);
int engine_attach(struct engine *engine, const unsigned char *handles, size_t stride, const int *fds,
		  void *buffer, int *region);
void engine_detach(struct engine *engine, int region, int used);
uint64_t engine_find(const struct engine *engine, const void *buffer, size_t bytes);
int engine_is_exported(const struct engine *engine, uint64_t target);
int engine_verify(const struct engine *engine, uint64_t target);
void engine_detach_all(struct engine *engine);
/* Unmaps a rank's memory, which the GPU does not use; where graphs may name it, memory that nobody reads is mapped at its addresses. */
int engine_forget_rank(struct engine *engine, int rank);

static inline const struct engine_region *engine_region_of(const struct engine *engine, uint64_t target)
{
	return &engine->regions[(target >> ENGINE_TARGET_SHIFT) - 1];
}

static inline uint64_t engine_offset_of(uint64_t target)
{
	return target & (((uint64_t)1 << ENGINE_TARGET_SHIFT) - 1);
}

static inline size_t engine_peers_bytes(const struct engine *engine)
{
	return ENGINE_MAX_REGIONS * (size_t)engine->ranks * sizeof(*engine->gpu_peers);
}

/* ---- engine_cuda_control.c: the control stream, which never waits for calls, the engine's own or those of other communicators */

int engine_control_open(struct engine *engine);
void engine_control_close(struct engine *engine);
/* Host memory into memory of the GPU, which is there when it returns. */
int engine_put(struct engine *engine, void *to, const void *from, size_t bytes);
int engine_fill(struct engine *engine, void *to, int byte, size_t bytes);
/*
 * Waits until the GPU has done all that the engine has launched; meanwhile no kernel that has failed keeps its stream. Work of others is not waited
 * for, but where the engine can't tell its own end: once a call was captured, as replays count nothing, or after a launch that has failed.
 * In a thread of relaxed capture mode; any thread, while no other one launches. CORALE_EDEVICE.
 */
int engine_wait_own(struct engine *engine);
/* For exporter_user: 1 if no call of the engine runs or is being launched, but for graphs that are replayed. */
int engine_rests(void *engine);
/* A call is captured from now on: engine_wait_own will have to wait for the whole GPU. */
void engine_note_capture(struct engine *engine);
int engine_health(struct engine *engine);
void engine_stop(struct engine *engine, int code);
void engine_quit(struct engine *engine, int code);
void engine_release(struct engine *engine);
void engine_abort(struct engine *engine, int code);
/* Later kernels, of graphs that are replayed, end at once; peers get no signal. */
void engine_end_kernels(struct engine *engine, int code);

/* ---- engine_cuda_one_rank.c: calls of one rank: no kernel, but for premultiplied sums */

int engine_has_one_rank(const struct engine *engine, const struct call *call);
/* 1 if nothing is to be enqueued either: it is in place, or empty. */
int engine_one_rank_is_done(const struct call *call);
int engine_run_one_rank(struct engine *engine, const struct call *call, cudaStream_t stream);
int engine_send_one_rank(struct engine *engine, const struct call *messages, int n, cudaStream_t stream);

/* ---- engine_cuda_launch.c: the arguments of all launches, once the windows are there; scratch; a line at TRACE for each launch, as corale-plan prints it */

void engine_make_args(struct engine *engine);
/* bytes: for each sender, two buffers. */
void engine_use_scratch(struct engine *engine, int region, size_t bytes);
size_t engine_scratch_bytes(const struct engine *engine);
void engine_keep_scratch(struct engine *engine, void *memory, int region);
/* What calls of a launch have in common, in this area; and what each call adds. */
void engine_fill_args(const struct engine *engine, struct gpu_launch *launch, enum engine_area area);
void engine_patch_args(struct engine *engine, const struct call *call, struct codelet_args *args);
/* Logs a launch, and counts its n blocks, or warps (engine_count). */
void engine_begin_launch(struct engine *engine, const struct launch *launch, int n);

/* ---- engine_cuda_exports.c: buffers that peers read (exporter.h) */

/* The descriptor of the board, which peers map; it stays the engine's. -1: this GPU's memory can't be exported. */
int engine_board_fd(struct engine *engine);
/* Every rank's board, by descriptors that stay the caller's, so far apart. CORALE_ENOMEM, CORALE_EDEVICE, CORALE_EPEER. */
int engine_attach_exports(struct engine *engine, const int *fds, int stride);
void engine_close_exports(struct engine *engine);
/* Where a call's buffers lie, for kernels. */
void engine_name_buffers(struct engine *engine, const struct call *call, struct codelet_zero_copy *named);
/* The same for n messages of a launch, as far as their receivers may read them. */
void engine_name_messages(struct engine *engine, struct codelet_p2p *launch, int n, int captured);

/* ---- engine_cuda_lists.c: lowered plans on the GPU */

int engine_open_lists(struct engine *engine);
void engine_close_lists(struct engine *engine);
int engine_add_list(struct engine *engine, struct lowered *list, int *index);

/* ---- engine_cuda_remote.c: messages between nodes */

int engine_open_remote(struct engine *engine, const struct engine_params *params);
void engine_close_remote(struct engine *engine);

/* ---- engine_cuda_pool.c: memory whose freeing waits for all work of the GPU; engines use it one after the other */

enum engine_pool {
	POOL_PINNED, /* for messages between nodes: zeroed, every page there, for kernels of all GPUs. Up to 256 MiB of it stay, what is more is freed */
	POOL_WORDS, /* the same of few bytes, which outlive the CUDA context: struct engine_words. Never freed */
	POOL_GPU /* of the engine's GPU, not initialized: less than a unit of its memory (engine_malloc). Never freed */
};

/* A block that was given back, if one of up to twice the size is left, or a new one. Any thread. */
cudaError_t engine_pool_take(const struct engine *engine, enum engine_pool kind, size_t bytes, void **out);
/* Nothing reads or writes it any more. NULL is nothing. Any thread; never blocks, but where POOL_PINNED is freed. */
void engine_pool_give(void *memory);

/* ---- engine_cuda_slab.c: slots of these in GPU memory */

int engine_slab_open(struct engine *engine, size_t behind, struct engine_slab *out, char *why_not,
		     size_t bytes);
void engine_slab_close(struct engine *engine);
/* The engine's work has ended. */
void engine_slab_free(struct engine *engine);
void engine_slab_use(struct engine *engine, uint32_t channels);
struct engine_kept *engine_keep(struct engine *engine, int slab_alone);
void engine_free_kept(struct engine_kept *kept);
int engine_probe_begin(struct engine *engine, const struct engine_probe *probe, struct probe_words **words);
void engine_probe_end(struct engine *engine);

/* ---- engine_cuda_connections.c: before a launch, the connections that it needs */

/* CORALE_ENOMEM. */
int engine_connections_open(struct engine *engine);
void engine_connections_close(struct engine *engine);
/* Of a lowered plan; of the messages in engine->p2p. No call of CUDA allocates or waits for a call. */
int engine_open_list(struct engine *engine, int list, int first_channel, int channels);
int engine_open_p2p(struct engine *engine);

/* ---- engine_cuda_stage.c: calls on ordinary host memory, which no kernel can read */

typedef int engine_launch_call(struct engine *engine, const struct call *call,
			       const struct gpu_launch *launch, cudaStream_t stream);
typedef int engine_launch_messages(struct engine *engine, const struct call *messages, int n,
				   cudaStream_t stream);

/* Runs a call by memory of the GPU that stands in for its ordinary host memory. May wait for the stream; has waited for the
 * call's end where it received into such memory, which is as it was if the call has failed. */
int engine_stage_call(struct engine *engine, const struct call *call, const struct gpu_launch *launch,
		      cudaStream_t stream, engine_launch_call *run);
int engine_stage_messages(struct engine *engine, const struct call *messages, int n, cudaStream_t stream,
			  engine_launch_messages *launch);
/* Runs an all_to_all in place from a copy of what it sends. */
int engine_copy_call(struct engine *engine, const struct call *call, const struct gpu_launch *launch,
		     cudaStream_t stream, engine_launch_call *run);
/* Runs a reduce_scatter of uneven blocks, of which the largest has so many bytes, from a copy in which all have the call's count: in rounds, if that is less. */
int engine_copy_uneven(struct engine *engine, const struct call *call, uint64_t largest,
		       const struct gpu_launch *launch, cudaStream_t stream, engine_launch_call *run);

/* ---- engine_cuda_kind.c */

int engine_memory_kind(const void *memory, corale_memory *out);

/* ---- engine_cuda_admit.c */

int engine_admit(struct engine *engine, const struct call *call, void *stream, struct admission *out);

/* ---- engine_cuda_order.c: before each call, that it comes after the last one */

/* Distinguishes streams of one handle: outside captures the number of the stream, within one that of the thread of cudaStreamPerThread. */
int engine_stream_id(const struct engine *engine, cudaStream_t stream, uint64_t capture,
		     unsigned long long *id);
int engine_order(struct engine *engine, cudaStream_t stream, uint64_t capture);
int engine_join(struct engine *engine, void *before, void *after);

/* ---- engine_cuda_streams.c */

/* Two streams of the engine and an event, for what runs beside a call by copy engines: a second stream of copies, and one of kernels. Made
 * once, which may wait for work of the GPU. A call gets its own stream for both where another capture holds one of the engine's. */
int engine_make_streams(struct engine *engine);
void engine_choose_streams(struct engine *engine, cudaStream_t stream, cudaStream_t *second,
			   cudaStream_t *work);
void engine_free_streams(struct engine *engine);

#endif
