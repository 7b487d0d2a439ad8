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
		    e, "it is, or that one was, on the default stream, and a stream that waits for the "
		       "default stream is being captured: use streams of cudaStreamNonBlocking, or "
		       "wait until the capture has ended");
	if (error == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_INVALIDATED)
		return refuse(e, "the capture of its stream, or of that one's, was invalidated: end it first "
				 "(cudaStreamEndCapture)");
	*id = status == CU_STREAM_CAPTURE_STATUS_ACTIVE ? found : 0;
	return engine_check_driver(e, error, "asking whether a stream is captured");
}

int engine_join(struct engine *e, void *before, void *after)
{
	int ret = engine_check(e, cudaEventRecord(e->order, before), "recording an event");
	return ret ? ret : engine_check(e, cudaStreamWaitEvent(after, e->order, 0), "waiting for an event");
}

/* The stream after the one of the last call of its kind, which must still be what it was. */
static int follow(struct engine *e, const struct engine_last *last, cudaStream_t stream)
{
	unsigned long long capture;
	if (last->stream == cudaStreamPerThread && !pthread_equal(last->thread, pthread_self()))
		return refuse(e, "that one is on cudaStreamPerThread of another thread; give such calls a "
				 "stream that both threads name");
	if (stream == last->stream)
		return 0;
	int ret = engine_capture_of(e, last->stream, &capture);
	if (ret)
		return ret;
	if (capture != last->capture)
		return refuse(e, "that one's stream is being captured since; make this call before the "
				 "capture begins, or when it has ended");
	return engine_join(e, last->stream, stream);
}

/*
 * On one stream after another: an event. A call that is captured comes after those of the same capture, an eager one after the eager
 * one before it; how captures, their replays and eager calls follow each other is the user's to order.
 */
int engine_order(struct engine *e, cudaStream_t stream)
{
	unsigned long long capture;
	int ret = engine_capture_of(e, stream, &capture);
	if (ret)
		return ret;
	struct engine_last *last = capture ? &e->last_captured : &e->last_eager;
	if (last->any && capture == last->capture)
		ret = follow(e, last, stream);
	if (ret)
		return ret;
	e->captured |= capture != 0;
	e->last_captures = capture != 0;
	*last = (struct engine_last){ 1, stream, pthread_self(), capture };
	return 0;
}

/* ---- The engine's own stream, for what runs beside a call ------------------------------------------------ */

int engine_make_beside(struct engine *e)
{
	int lowest, highest;
	if (e->beside)
		return 0;
	int ret = engine_check(e, cudaDeviceGetStreamPriorityRange(&lowest, &highest),
			       "asking for the priorities of streams");
	if (!ret)
		ret = engine_check(e, cudaEventCreateWithFlags(&e->ready, cudaEventDisableTiming),
				   "making an event");
	if (!ret)
		ret =
		    engine_check(e, cudaStreamCreateWithPriority(&e->beside, cudaStreamNonBlocking, highest),
				 "making a stream");
	if (!ret)
		ret = engine_check(e, cudaStreamCreateWithPriority(&e->work, cudaStreamNonBlocking, highest),
				   "making a stream");
	return ret;
}

void engine_free_beside(struct engine *e)
{
	if (e->beside)
		cudaStreamDestroy(e->beside);
	if (e->work)
		cudaStreamDestroy(e->work);
	if (e->ready)
		cudaEventDestroy(e->ready);
}

int engine_choose_beside(struct engine *e, cudaStream_t stream, cudaStream_t *beside, cudaStream_t *work)
{
	unsigned long long mine, held, held_too;
	int ret = engine_capture_of(e, stream, &mine);
	if (!ret)
		ret = engine_capture_of(e, e->beside, &held);
	if (!ret)
		ret = engine_capture_of(e, e->work, &held_too);
	if (ret)
		return ret;
	int ours = (!held || held == mine) && (!held_too || held_too == mine);
	*beside = ours ? e->beside : stream;
	*work = ours ? e->work : stream;
	return 0;
}
