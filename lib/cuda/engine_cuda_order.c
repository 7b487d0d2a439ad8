/* Calls of one communicator run one after the other, whatever their streams. */
#include "engine_cuda.h"

#include "base/log.h"

static int refuse(const struct engine *e, const char *why)
{
	return log_error(CORALE_ENOTSUP, e->world_rank,
			 "a call can't be ordered behind the communicator's last one: %s", why);
}

/* Asking leaves a capture whole; enqueueing in these cases would not. */
int engine_capture_of(struct engine *e, cudaStream_t stream, unsigned long long *id)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	cuuint64_t found = 0;
	CUresult error = e->driver.capture_info(stream, &status, &found, NULL, NULL, NULL);
	if (error == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
		return refuse(
		    e, "it is on the default stream, and a stream that waits for the default stream is "
		       "being captured: use streams of cudaStreamNonBlocking, or wait until the capture "
		       "has ended");
	if (error == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_INVALIDATED)
		return refuse(e, "the capture of its stream was invalidated: end it first "
				 "(cudaStreamEndCapture)");
	*id = status == CU_STREAM_CAPTURE_STATUS_ACTIVE ? found : 0;
	return engine_check_driver(e, error, "asking whether a stream is captured");
}

int engine_join(struct engine *e, void *before, void *after)
{
	int ret = engine_check(e, cudaEventRecord(e->order, before), "recording an event");
	return ret ? ret : engine_check(e, cudaStreamWaitEvent(after, e->order, 0), "waiting for an event");
}

/* ---- Captured calls: those of one capture, whose streams are alive ------------------------------------------ */

static int follow_captured(struct engine *e, const struct engine_last *last, cudaStream_t stream)
{
	if (last->stream == cudaStreamPerThread && !pthread_equal(last->thread, pthread_self()))
		return refuse(e,
			      "both are captured, and that one is on cudaStreamPerThread of another thread; "
			      "give such calls a stream that both threads name");
	return stream == last->stream ? 0 : engine_join(e, last->stream, stream);
}

static int order_captured(struct engine *e, cudaStream_t stream, unsigned long long capture)
{
	struct engine_last *last = &e->last_captured;
	int ret = last->capture == capture ? follow_captured(e, last, stream) : 0;
	if (!ret)
		*last = (struct engine_last){ stream, pthread_self(), 0, capture };
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
	struct codelet_follow f = { .args = engine_args(e), .until = e->counted };
	e->follows = 1;
	return engine_check(e, codelets_follow(&f, stream), "launching a kernel");
}

/* A new stream may have the handle of one that was destroyed. */
static int order_eager(struct engine *e, cudaStream_t stream)
{
	struct engine_last *last = &e->last_eager;
	unsigned long long id;
	int ret = engine_check_driver(e, e->driver.stream_id(stream, &id), "asking for a stream's number");
	if (!ret && (stream != last->stream || id != last->id))
		ret = follow_eager(e, stream);
	if (!ret)
		*last = (struct engine_last){ .stream = stream, .id = id };
	return ret;
}

/* A call that is captured comes after those of the same capture, an eager one after all eager ones before it; how captures, their replays and
 * eager calls follow each other is the user's to order. */
int engine_order(struct engine *e, cudaStream_t stream)
{
	unsigned long long capture;
	int ret = engine_capture_of(e, stream, &capture);
	if (ret)
		return ret;
	e->last_captures = capture != 0;
	ret = capture ? order_captured(e, stream, capture) : order_eager(e, stream);
	e->captured |= !ret && capture;
	return ret;
}
