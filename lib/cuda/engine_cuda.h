/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the CUDA engine of fused codelets share. */
#ifndef ENGINE_CUDA_H
#define ENGINE_CUDA_H

#include "engine_cuda_state.h"

/* ---- engine_cuda_check.c */

/* A rank's GPU, with the driver's functions. */
struct cuda_device engine_device(const struct engine *engine);
/* Errors of runtime and driver as CORALE_E*, logged with what was tried; 0 passes through. */
int engine_check(const struct engine *engine, int error, const char *what);
int engine_check_driver(const struct engine *engine, CUresult error, const char *what);
/* A stream that waits for no other one, of priority 0 or higher (less than 0); an event without a time. */
int engine_make_stream(const struct engine *engine, int priority, cudaStream_t *out);
int engine_make_event(const struct engine *engine, cudaEvent_t *out);
/* A window has what the kernels' arrays and the smallest slots need; bytes that are enough for so many ranks. */
int engine_layout_fits(const struct codelet_layout *layout);
size_t engine_enough_window(int ranks);

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

int engine_host_window_works(int ranks, size_t bytes, char *why, size_t why_bytes);
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

/* ---- engine_cuda_stage.c: calls whose buffers are copied: before the launch one of these, with the call, which gets the copies' addresses; then engine_stage_end */

enum { STAGE_MOST = 2 * ENGINE_MOST_GROUPED };

/* What was received, to be copied to its place. */
struct stage_back {
	void *host;
	const void *device;
	uint64_t bytes;
};

/* Of the call that is staged, too large for a stack; one engine makes one call at a time. */
struct stage_room {
	void *memory[STAGE_MOST];
	struct stage_back back[STAGE_MOST];
	struct call messages[ENGINE_MOST_GROUPED];
};

struct stage {
	struct engine *engine;
	cudaStream_t stream;
	void **memory; /* the room's; NULL: there is one, */
	void *copy; /* of what a call in place sends */
	int allocated, backs;
	int waits; /* the call receives into ordinary memory, which no stream can write on its own */
};

/* Memory of the GPU stands in for ordinary host memory, which no kernel can read. May wait for the stream. */
int engine_stage_call(struct stage *stage, struct engine *engine, struct call *call, cudaStream_t stream);
/* staged: the messages with the copies' addresses. */
int engine_stage_messages(struct stage *stage, struct engine *engine, const struct call *messages, int n,
			  cudaStream_t stream, struct call **staged);
/* Of an all_to_all in place: a copy of what it sends. */
int engine_copy_call(struct stage *stage, struct engine *engine, struct call *call, cudaStream_t stream);
/* For one copy of what a call sends, and such a copy, by the stream. */
int engine_stage_reserve(struct stage *stage, const struct call *call, uint64_t bytes, unsigned char **out);
int engine_stage_copy(struct stage *stage, void *to, const void *from, uint64_t bytes, const char *what);
/* ret: what came of copying and launching. Has waited for the call's end where it received into ordinary memory, which is as it was if the call has
 * failed. The copies' memory is freed in any case. */
int engine_stage_end(struct stage *stage, int ret);

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
