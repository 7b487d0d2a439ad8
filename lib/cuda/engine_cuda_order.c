/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls of one communicator run one after the other, whatever their streams. Kernels of eager calls count in GPU memory when they end; a call on another stream than
 * the last one is launched behind a kernel that waits for the count (kernels/order.cu), without programmatic launch: with it, calls on streams that were destroyed
 * at once hung on an H100. An event after every call would cost a third of a small call. Replays count nothing: the caller orders them.
 */
#include "engine_cuda.h"

#include "base/process.h"

/* A stream that is captured can't be asked. Within a capture handles name streams, but for that of the calling thread. */
int engine_stream_id(const struct engine *e, cudaStream_t stream, uint64_t capture, unsigned long long *id)
{
	*id = stream == cudaStreamPerThread ? process_thread_number() : 0;
	return capture
		   ? 0
		   : engine_check_driver(e, e->driver.stream_id(stream, id), "asking for a stream's number");
}

int engine_join(struct engine *e, void *before, void *after)
{
	int ret = engine_check(e, cudaEventRecord(e->order, before), "recording an event");
	return ret ? ret : engine_check(e, cudaStreamWaitEvent(after, e->order, 0), "waiting for an event");
}

/* ---- Captured calls: those of one capture, whose streams are alive ------------------------------------------ */

static int order_captured(struct engine *e, cudaStream_t stream, unsigned long long id, uint64_t capture)
{
	struct engine_last *last = &e->last_captured;
	int ret = last->capture == capture && (stream != last->stream || id != last->id)
		      ? engine_join(e, last->stream, stream)
		      : 0;
	if (!ret)
		*last = (struct engine_last){ stream, id, capture };
	return ret;
}

/* ---- Eager calls: nothing touches the stream of the last one, which may have been destroyed ------------------- */

static int follow_eager(struct engine *e, cudaStream_t stream)
{
	int ret = e->copied
		      ? engine_check(e, cudaStreamWaitEvent(stream, e->copied, 0), "waiting for an event")
		      : 0;
	if (ret || !e->counted)
		return ret;
	struct codelet_follow f = { .args = e->args[AREA_SLOTS], .until = e->counted };
	engine_number_args(e, &f.args);
	e->follows = 1;
	return engine_check(e, codelets_follow(&f, stream), "launching a kernel");
}

/* A new stream may have the handle of one that was destroyed. */
static int order_eager(struct engine *e, cudaStream_t stream, unsigned long long id)
{
	struct engine_last *last = &e->last_eager;
	int ret = stream != last->stream || id != last->id ? follow_eager(e, stream) : 0;
	if (!ret)
		*last = (struct engine_last){ .stream = stream, .id = id };
	return ret;
}

/* A call that is captured comes after those of the same capture, an eager one after all eager ones before it; how captures, their replays and
 * eager calls follow each other is the user's to order. */
int engine_order(struct engine *e, cudaStream_t stream, uint64_t capture)
{
	unsigned long long id;
	int ret = engine_stream_id(e, stream, capture, &id);
	if (ret)
		return ret;
	e->last_captures = capture != 0;
	ret = capture ? order_captured(e, stream, id, capture) : order_eager(e, stream, id);
	if (!ret && capture)
		engine_note_capture(e);
	return ret;
}
