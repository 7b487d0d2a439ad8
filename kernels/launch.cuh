/* How all fused kernels are loaded and started. */
#ifndef LAUNCH_CUH
#define LAUNCH_CUH

#include <cuda_runtime.h>

#include "codelets.h"

/*
 * Loaded, so that no later launch waits for it. An SM divides its memory between cache and shared memory anew only when no block is
 * on it, so that blocks with shared memory, or many small ones, cannot begin beside a waiting block of ours for which all is
 * cache: ours ask for the other end, where every kernel finds room.
 */
static inline int load(const void *kernel)
{
	cudaFuncAttributes attributes;
	int error = (int)cudaFuncGetAttributes(&attributes, kernel);
	return error ? error : (int)cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
							 cudaSharedmemCarveoutMaxShared);
}

/* With programmatic launch: the kernel may be brought up while its predecessor on the stream still runs, and waits for its end
 * first thing. */
static inline int launch(const void *kernel, codelet_shape shape, const void *args, void *stream)
{
	cudaLaunchAttribute attribute;
	attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
	attribute.val.programmaticStreamSerializationAllowed = 1;
	cudaLaunchConfig_t config = {};
	config.gridDim = dim3((unsigned)shape.blocks);
	config.blockDim = dim3((unsigned)shape.threads);
	config.stream = (cudaStream_t)stream;
	config.attrs = &attribute;
	config.numAttrs = 1;
	void *arguments[] = { (void *)args };
	return (int)cudaLaunchKernelExC(&config, kernel, arguments);
}

/* Without it, as a copy does: behind copies. */
static inline int launch_behind(const void *kernel, codelet_shape shape, const void *args, void *stream)
{
	void *arguments[] = { (void *)args };
	return (int)cudaLaunchKernel(kernel, dim3((unsigned)shape.blocks), dim3((unsigned)shape.threads), arguments, 0,
				     (cudaStream_t)stream);
}

#endif
