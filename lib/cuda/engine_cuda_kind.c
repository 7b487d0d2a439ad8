/* SPDX-License-Identifier: BSD-3-Clause */
/* The kind of memory at an address, for programs, before and beside all communicators: makes no CUDA context, and loads no driver. */
#include <dlfcn.h>
#include <string.h>

#include "engine_cuda.h"
#include "base/log.h"

/* Its version in the driver has one name and no other since CUDA 7.0. */
typedef CUresult ask_function(unsigned n, CUpointer_attribute *attributes, void **values, CUdeviceptr at);

/* The driver's function, if the driver is in this process: else no memory can be CUDA's. */
static ask_function *find_driver(void)
{
	static ask_function *_Atomic found;
	ask_function *ask = found;
	void *driver = ask ? NULL : dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	if (!driver)
		return ask;
	void *function = dlsym(driver, "cuPointerGetAttributes");
	memcpy(&ask, &function, sizeof ask);
	if (!ask)
		dlclose(driver);
	return found = ask; /* the driver stays loaded */
}

static int kind_of(unsigned type, unsigned is_managed)
{
	if (is_managed)
		return CORALE_MEMORY_MANAGED;
	return type == CU_MEMORYTYPE_DEVICE ? CORALE_MEMORY_DEVICE
	       : type                       ? CORALE_MEMORY_PINNED
					    : CORALE_MEMORY_HOST;
}

int engine_memory_kind(const void *memory, corale_memory *out)
{
	unsigned type = 0, is_managed = 0;
	int ordinal = -1;
	CUpointer_attribute asked[] = { CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
					CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL };
	void *answers[] = { &type, &is_managed, &ordinal };
	ask_function *ask = find_driver();
	const CUresult error = ask ? ask(3, asked, answers, (CUdeviceptr)(uintptr_t)memory) : CUDA_SUCCESS;
	if (error == CUDA_ERROR_NOT_INITIALIZED || error == CUDA_ERROR_DEINITIALIZED ||
	    error == CUDA_ERROR_INVALID_CONTEXT)
		type = is_managed = 0; /* there is no context yet, or none any more */
	else if (error != CUDA_SUCCESS)
		return log_error(CORALE_EDEVICE, -1,
				 "corale_memory_kind: the CUDA driver does not say what memory is at %p: "
				 "cuPointerGetAttributes failed with error %d",
				 memory, (int)error);
	*out = (corale_memory){ .kind = kind_of(type, is_managed) };
	out->device = out->kind == CORALE_MEMORY_HOST ? -1 : ordinal;
	return 0;
}
