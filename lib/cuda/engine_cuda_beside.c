/* The engine's own streams, for what runs beside a call. */
#include "engine_cuda.h"

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
