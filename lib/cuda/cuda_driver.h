/* SPDX-License-Identifier: BSD-3-Clause */
/* The driver's functions that the runtime does not offer, errors as CORALE_E*, and memory that peers map by file descriptors. */
#ifndef CUDA_DRIVER_H
#define CUDA_DRIVER_H

#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

#include "engine.h"

/* The functions: member, name, and the version of CUDA that its arguments are as of. */
#define CUDA_FUNCTIONS(F)                                                                                    \
	F(error_name, cuGetErrorName, 6000)                                                                  \
	F(granularity, cuMemGetAllocationGranularity, 10020)                                                 \
	F(create, cuMemCreate, 10020)                                                                        \
	F(release, cuMemRelease, 10020)                                                                      \
	F(export_handle, cuMemExportToShareableHandle, 10020)                                                \
	F(import_handle, cuMemImportFromShareableHandle, 10020)                                              \
	F(retain, cuMemRetainAllocationHandle, 11000)                                                        \
	F(reserve, cuMemAddressReserve, 10020)                                                               \
	F(unreserve, cuMemAddressFree, 10020)                                                                \
	F(map, cuMemMap, 10020)                                                                              \
	F(unmap, cuMemUnmap, 10020)                                                                          \
	F(set_access, cuMemSetAccess, 10020)                                                                 \
	F(current_context, cuCtxGetCurrent, 4000)                                                            \
	F(push_context, cuCtxPushCurrent, 4000)                                                              \
	F(pop_context, cuCtxPopCurrent, 4000)                                                                \
	F(context_id, cuCtxGetId, 12000)                                                                     \
	F(enable_peer, cuCtxEnablePeerAccess, 4000)                                                          \
	F(primary_state, cuDevicePrimaryCtxGetState, 7000)                                                   \
	F(retain_primary, cuDevicePrimaryCtxRetain, 7000)                                                    \
	F(capture_info, cuStreamGetCaptureInfo, 11030)                                                       \
	F(stream_id, cuStreamGetId, 12000)                                                                   \
	F(stream_query, cuStreamQuery, 2000)                                                                 \
	F(address_range, cuMemGetAddressRange, 3020)                                                         \
	F(pointer_attribute, cuPointerGetAttribute, 4000)                                                    \
	F(pointer_attributes, cuPointerGetAttributes, 7000)                                                  \
	F(device, cuDeviceGet, 2000)                                                                         \
	F(device_uuid, cuDeviceGetUuid, 11040)                                                               \
	F(device_attribute, cuDeviceGetAttribute, 2000)

/* Looked up at run time, so that a program starts where there is no driver. */
struct cuda_driver {
#define CUDA_MEMBER(member, name, version) PFN_##name##_v##version member;
	CUDA_FUNCTIONS(CUDA_MEMBER)
#undef CUDA_MEMBER
};

/* A rank's GPU, with the driver's functions. */
struct cuda_device {
	const struct cuda_driver *driver;
	int rank, ordinal;
};

/* 1 if there is a GPU; else 0, and why_not says in a sentence why. How many this process sees. */
int cuda_available(char *why_not, size_t bytes);
int cuda_count(void);
/* As engine.h says. */
int cuda_gpu(int i, struct engine_gpu *out);
void cuda_links(int n, enum engine_link *out);
void cuda_versions(int *driver, int *runtime);

/* What CUDA says of two GPUs that this process sees. Links with atomic operations are NVLink. */
enum engine_link cuda_link(int from, int to);

/* 0 if the driver is missing, too old or lacks a function; why_not then says so. */
int cuda_load_driver(struct cuda_driver *driver, char *why_not, size_t bytes);
/* The same for what cannot do without: CORALE_EDEVICE, logged. */
int cuda_need_driver(struct cuda_driver *driver, int rank);
/* An error as CORALE_E*, logged with what was tried; 0 passes through. */
int cuda_report(int rank, int ordinal, cudaError_t error, const char *what);
int cuda_report_driver(struct cuda_device device, CUresult error, const char *what);
/* Memory of a GPU that other processes map: CORALE_E*, logged. */
int cuda_memory_unit(struct cuda_device device, size_t *unit); /* of its size and of its addresses */
/* for_adapters: network adapters reach it too (gpuDirectRDMACapable), where the driver can. */
int cuda_memory_make(struct cuda_device device, size_t bytes, int for_adapters,
		     CUmemGenericAllocationHandle *handle);
int cuda_memory_map(struct cuda_device device, CUdeviceptr at, size_t bytes,
		    CUmemGenericAllocationHandle handle);
/* At addresses of its own. The mapping keeps the memory: the handle is given back, whether or not this succeeds. */
int cuda_memory_place(struct cuda_device device, CUmemGenericAllocationHandle handle, size_t bytes,
		      void **out);
/* Memory in whole units (*bytes), placed. Giving it back does not wait for kernels that use it, as cudaFree would. */
int cuda_memory_alloc(struct cuda_device device, int for_adapters, size_t *bytes, void **out);
void cuda_memory_free(struct cuda_device device, void *memory, size_t bytes);
int cuda_memory_export(struct cuda_device device, CUmemGenericAllocationHandle handle, int *fd);
int cuda_memory_import(struct cuda_device device, int fd, CUmemGenericAllocationHandle *handle);

#endif
