/* How all fused kernels are loaded and started. */
#ifndef LAUNCH_CUH
#define LAUNCH_CUH

#include <cuda_runtime.h>

#include "codelets.h"

static inline int load(const void *kernel)
{
	cudaFuncAttributes attributes;
	return (int)cudaFuncGetAttributes(&attributes, kernel);
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
