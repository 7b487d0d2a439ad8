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
