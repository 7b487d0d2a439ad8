/* Errors of the runtime and the driver, as the engine's files report them. */
#include "engine_cuda.h"

struct cuda_place engine_place(const struct engine *e)
{
	return (struct cuda_place){ &e->driver, e->world_rank, e->ordinal };
}

int engine_check(const struct engine *e, int error, const char *what)
{
	return cuda_report(e->world_rank, e->ordinal, (cudaError_t)error, what);
}

int engine_check_driver(const struct engine *e, CUresult error, const char *what)
{
	return cuda_report_driver(engine_place(e), error, what);
}
