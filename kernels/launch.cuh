/* SPDX-License-Identifier: BSD-3-Clause */
/* How all fused kernels are loaded and started. */
#ifndef LAUNCH_CUH
#define LAUNCH_CUH

#include <cuda_runtime.h>

#include "codelets.h"

enum { SHARED_PERCENT = 25, LITTLE_SHARED_PERCENT = 14 };

/* Loaded, so that no later launch waits for it. On a GPU that launches a kernel beside its predecessor, code that was compiled for older
 * ones alone would not wait for that one's end. */
static inline int load_lean(const void *kernel)
{
	cudaFuncAttributes attributes = {};
	cudaError_t error = cudaFuncGetAttributes(&attributes, kernel);
	const bool too_old = attributes.binaryVersion >= 90 && attributes.ptxVersion < 90;
	return error == cudaSuccess && too_old ? (int)cudaErrorNoKernelImageForDevice : (int)error;
}

/*
 * The same for kernels with large blocks. An SM divides its memory between cache and shared memory anew only when no block is on
 * it: beside a waiting block for which all is cache not even a kernel of one thread begins, because it would have room for many
 * such blocks. A quarter lets them begin. All of it would let every kernel begin, but spilled registers and loads under way need
 * cache: reduce_scatter of 2 GPUs, 32 MB, took 99 us instead of 83. Where a kernel has hardly any
 * shared memory itself a quarter leaves less cache: a block of bulk_p2p reads 18 GB/s over NVLink, with an eighth, as with none, 36 (H200).
 */
static inline int load(const void *kernel, int shared_percent = SHARED_PERCENT)
{
	int error = load_lean(kernel);
	return error ? error : (int)cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, shared_percent);
}

/* The kernels of a table. */
template <class Table> static inline int load_all(const Table &kernels)
{
	int error = 0;
	for (const auto kernel : kernels)
		error = error ? error : load((const void *)kernel);
	return error;
}

/*
 * With programmatic launch: the kernel may be brought up while its predecessor on the stream still runs, and waits for its end
 * first thing. Not behind codelets_follow: where the program destroyed the stream right after the call, such calls hung (H100, driver
 * 580.159; without programmatic launch they do not). In the remote domain: else fences of kernels that compute beside it wait for its stores over a link, and its fences for theirs (CUDA C
 * Programming Guide, "Memory Synchronization Domains"). args begin with codelet_args.
 */
static inline int launch(const void *kernel, struct grid grid, const void *args, void *stream)
{
	cudaLaunchAttribute attributes[2];
	attributes[0].id = cudaLaunchAttributeMemSyncDomain;
	attributes[0].val.memSyncDomain = cudaLaunchMemSyncDomainRemote;
	attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
	attributes[1].val.programmaticStreamSerializationAllowed = 1;
	cudaLaunchConfig_t config = {};
	config.gridDim = dim3((unsigned)grid.blocks);
	config.blockDim = dim3((unsigned)grid.threads);
	config.stream = (cudaStream_t)stream;
	config.attrs = attributes;
	config.numAttrs = ((const codelet_args *)args)->follows ? 1 : 2;
	void *arguments[] = { (void *)args };
	return (int)cudaLaunchKernelExC(&config, kernel, arguments);
}

/* Without it, as a copy does: behind copies. shared: bytes a block. */
static inline int launch_behind(const void *kernel, struct grid grid, int shared, const void *args, void *stream)
{
	void *arguments[] = { (void *)args };
	return (int)cudaLaunchKernel(kernel, dim3((unsigned)grid.blocks), dim3((unsigned)grid.threads), arguments, (size_t)shared,
				     (cudaStream_t)stream);
}

#endif
