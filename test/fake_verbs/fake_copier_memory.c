/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of a real GPU in the process that copies: made, imported from a rank's descriptor, mapped. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_copier.h"

void copier_check(int error, const char *what)
{
	if (!error)
		return;
	fprintf(stderr, "fake_copier: %s: CUDA error %d\n", what, error);
	exit(1);
}

/* Of the driver, which no program links to. */
static void *driver(const char *name)
{
	static void *library;
	void *found = NULL;
	if (!library)
		library = dlopen("libcuda.so.1", RTLD_NOW);
	if (library)
		found = dlsym(library, name);
	if (!found) {
		fprintf(stderr, "fake_copier: the driver has no %s\n", name);
		exit(1);
	}
	return found;
}

#define CALL(function, ...) ((__typeof__(&(function)))driver(#function))(__VA_ARGS__)

/* Other GPUs copy from and to it, too, where they can. */
static void give_access(CUdeviceptr at, size_t bytes, int device)
{
	int count = 0;
	copier_check(cudaGetDeviceCount(&count), "counting GPUs");
	for (int i = 0; i < count; i++) {
		const CUmemAccessDesc access = { .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = i },
						 .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
		int reaches = i == device;
		if (!reaches && cudaDeviceCanAccessPeer(&reaches, i, device) != cudaSuccess)
			reaches = 0;
		if (reaches)
			copier_check(CALL(cuMemSetAccess, at, bytes, &access, 1), "getting access to memory");
	}
}

static void map(CUmemGenericAllocationHandle handle, int device, size_t bytes, struct copier_memory *out)
{
	copier_check(CALL(cuMemAddressReserve, &out->at, bytes, 0, 0, 0), "reserving addresses");
	copier_check(CALL(cuMemMap, out->at, bytes, 0, handle, 0), "mapping memory");
	give_access(out->at, bytes, device);
	CALL(cuMemRelease, handle);
	out->bytes = bytes;
	out->device = device;
}

void copier_memory_make(int device, size_t bytes, struct copier_memory *out)
{
	const CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
					   .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
					   .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE,
							 .id = device } };
	size_t unit;
	CUmemGenericAllocationHandle handle;
	copier_check(CALL(cuMemGetAllocationGranularity, &unit, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
		     "asking for the granularity of memory");
	bytes = (bytes + unit - 1) / unit * unit;
	copier_check(CALL(cuMemCreate, &handle, bytes, &prop, 0), "making memory");
	map(handle, device, bytes, out);
}

int copier_memory_import(int descriptor, int device, size_t bytes, struct copier_memory *out)
{
	CUmemGenericAllocationHandle handle;
	if (CALL(cuMemImportFromShareableHandle, &handle, (void *)(uintptr_t)descriptor,
		 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
		return 0;
	map(handle, device, bytes, out);
	return 1;
}

void copier_memory_unmap(const struct copier_memory *memory)
{
	CALL(cuMemUnmap, memory->at, memory->bytes);
	CALL(cuMemAddressFree, memory->at, memory->bytes);
}
