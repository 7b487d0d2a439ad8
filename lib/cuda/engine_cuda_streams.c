/* SPDX-License-Identifier: BSD-3-Clause */
/* The engine's streams for what runs beside a call by copy engines. */
#include "engine_cuda.h"

int engine_make_streams(struct engine *e)
{
	int lowest, highest;
	if (e->second)
		return 0;
	int ret = engine_check(e, cudaDeviceGetStreamPriorityRange(&lowest, &highest),
			       "asking for the priorities of streams");
	ret = ret ? ret : engine_make_event(e, &e->ready);
	ret = ret ? ret : engine_make_stream(e, highest, &e->second);
	return ret ? ret : engine_make_stream(e, highest, &e->work);
}

void engine_free_streams(struct engine *e)
{
	if (e->second)
		cudaStreamDestroy(e->second);
	if (e->work)
		cudaStreamDestroy(e->work);
	if (e->ready)
		cudaEventDestroy(e->ready);
}

/* Whether what the stream is given now becomes part of this capture, or of none. */
static int is_free(const struct engine *e, cudaStream_t stream, uint64_t capture)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	cuuint64_t held = 0;
	CUresult error = e->driver.capture_info(stream, &status, &held, NULL, NULL, NULL);
	return error == CUDA_SUCCESS && (status == CU_STREAM_CAPTURE_STATUS_NONE ||
					 (status == CU_STREAM_CAPTURE_STATUS_ACTIVE && held == capture));
}

void engine_choose_streams(struct engine *e, cudaStream_t stream, cudaStream_t *second, cudaStream_t *work)
{
	const uint64_t capture = e->last_captures ? e->last_captured.capture : 0;
	const int ours = is_free(e, e->second, capture) && is_free(e, e->work, capture);
	*second = ours ? e->second : stream;
	*work = ours ? e->work : stream;
}
