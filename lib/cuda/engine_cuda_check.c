/* SPDX-License-Identifier: BSD-3-Clause */
/* Errors of the runtime and the driver as the engine's files report them, and what is made in several of these. */
#include "engine_cuda.h"

struct cuda_device engine_device(const struct engine *e)
{
	return (struct cuda_device){ &e->driver, e->world_rank, e->ordinal };
}

int engine_check(const struct engine *e, int error, const char *what)
{
	return cuda_report(e->world_rank, e->ordinal, (cudaError_t)error, what);
}

int engine_check_driver(const struct engine *e, CUresult error, const char *what)
{
	return cuda_report_driver(engine_device(e), error, what);
}

int engine_make_stream(const struct engine *e, int priority, cudaStream_t *out)
{
	return engine_check(e, cudaStreamCreateWithPriority(out, cudaStreamNonBlocking, priority),
			    "making a stream");
}

int engine_make_event(const struct engine *e, cudaEvent_t *out)
{
	return engine_check(e, cudaEventCreateWithFlags(out, cudaEventDisableTiming), "making an event");
}

size_t engine_enough_window(int ranks)
{
	return ((size_t)ranks + 1) << 20;
}

int engine_layout_fits(const struct codelet_layout *l)
{
	const uint64_t least_slots =
	    (uint64_t)CODELET_MAX_BLOCKS * (CODELET_SECOND + 1) * LAUNCH_SLOT_DEPTH * CODELET_LINE;
	return l->lines_bytes && l->words_bytes && l->slots_bytes >= least_slots &&
	       l->pair_rings >= CODELET_CHANNEL_RINGS;
}
