/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What makes a call come after the calls before it on other streams. Their kernels count in GPU memory what has ended (codelet_args.counted), so
 * nothing of their streams is needed, which may have been destroyed: neither an event nor a query.
 */
#include <cuda_runtime.h>

#include "call.cuh"
#include "launch.cuh"

/* Each wait of the awaited kernels has its deadline; here there is none. */
__global__ __launch_bounds__(32) void follow(const __grid_constant__ codelet_follow f)
{
	const codelet_args &a = f.args;
	if (threadIdx.x)
		return;
	auto ready = [&] { return sync_load_acquire(&a.state->done) >= f.until; };
	if (wait_until<one_thread, false>(a, call_epoch(a), false, ready, [] { return -1; }))
		sync_settle();
}

int codelets_follow(const codelet_follow *args, void *stream)
{
	return launch_behind((const void *)follow, { 1, 32 }, 0, args, stream);
}

int codelets_load_order(void)
{
	return load_lean((const void *)follow);
}
