/* Calls of one communicator run one after the other, whatever their streams. */
#include "engine_cuda.h"

static int capture_of(struct engine *e, cudaStream_t stream, unsigned long long *id)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	cuuint64_t found = 0;
	int ret = engine_check_driver(e, e->driver.capture_info(stream, &status, &found, NULL, NULL, NULL),
				      "asking whether a stream is captured");
	*id = status == CU_STREAM_CAPTURE_STATUS_ACTIVE ? found : 0;
	return ret;
}

/*
 * On one stream after another: an event. A call that is captured comes after those of the same capture; how captures, their
 * replays and eager calls follow each other is the user's to order.
 */
int engine_order(struct engine *e, cudaStream_t stream)
{
	unsigned long long capture;
	int ret = capture_of(e, stream, &capture);
	if (ret)
		return ret;
	if (e->has_last && stream != e->last_stream && capture == e->last_capture) {
		ret = engine_check(e, cudaEventRecord(e->order, e->last_stream), "recording an event");
		if (!ret)
			ret =
			    engine_check(e, cudaStreamWaitEvent(stream, e->order, 0), "waiting for an event");
	}
	e->captured |= capture != 0;
	e->last_stream = stream;
	e->last_capture = capture;
	e->has_last = 1;
	return ret;
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
	int ret = capture_of(e, stream, &mine);
	if (!ret)
		ret = capture_of(e, e->beside, &held);
	if (!ret)
		ret = capture_of(e, e->work, &held_too);
	if (ret)
		return ret;
	int ours = (!held || held == mine) && (!held_too || held_too == mine);
	*beside = ours ? e->beside : stream;
	*work = ours ? e->work : stream;
	return 0;
}
