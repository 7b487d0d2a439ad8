/* SPDX-License-Identifier: BSD-3-Clause */
/* Stands in for kernels/launch.cuh. Kernels whose blocks may have any number of threads run with LAUNCH_MOST_THREADS. */
#ifndef LAUNCH_CUH
#define LAUNCH_CUH

#include "kernels/codelets.h"
#include "gpu.h"

#ifndef LAUNCH_MOST_THREADS
#define LAUNCH_MOST_THREADS 1024
#endif

enum { SHARED_PERCENT = 25, LITTLE_SHARED_PERCENT = 14 };

static inline int load(const void *kernel, int shared_percent = SHARED_PERCENT)
{
	return 0;
}

static inline int load_lean(const void *kernel)
{
	return 0;
}

template <class Table> static inline int load_all(const Table &kernels)
{
	return 0;
}

template <class Args> static void launch_run(const void *kernel, const void *args)
{
	((void (*)(Args))kernel)(*(const Args *)args);
}

template <class Args> static void launch_run_behind(const void *kernel, const void *args)
{
	gpu_previous_kernel();
	launch_run<Args>(kernel, args);
}

template <class Args>
static inline int launch_behind(const void *kernel, struct grid grid, int shared, const Args *args,
				void *stream)
{
	gpu_launch(launch_run_behind<Args>, kernel, args, sizeof(*args), (unsigned)grid.blocks,
		   (unsigned)grid.threads, LAUNCH_MOST_THREADS, stream);
	return 0;
}

template <class Args>
static inline int launch(const void *kernel, struct grid grid, const Args *args, void *stream)
{
	gpu_launch(launch_run<Args>, kernel, args, sizeof(*args), (unsigned)grid.blocks,
		   (unsigned)grid.threads, LAUNCH_MOST_THREADS, stream);
	return 0;
}

#endif
