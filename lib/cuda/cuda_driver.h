/* The driver's functions that the runtime does not offer, errors as CORALE_E*, and memory that peers map by file descriptors. */
#ifndef CUDA_DRIVER_H
#define CUDA_DRIVER_H

#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

#include "engine.h"

/* Looked up at run time, so that a program starts where there is no driver. */
struct cuda_driver {
	PFN_cuGetErrorName_v6000 error_name;
	PFN_cuMemGetAllocationGranularity_v10020 granularity;
	PFN_cuMemCreate_v10020 create;
	PFN_cuMemRelease_v10020 release;
	PFN_cuMemExportToShareableHandle_v10020 export_handle;
	PFN_cuMemImportFromShareableHandle_v10020 import_handle;
	PFN_cuMemRetainAllocationHandle_v11000 retain;
	PFN_cuMemAddressReserve_v10020 reserve;
	PFN_cuMemAddressFree_v10020 unreserve;
	PFN_cuMemMap_v10020 map;
	PFN_cuMemUnmap_v10020 unmap;
	PFN_cuMemSetAccess_v10020 set_access;
	PFN_cuCtxGetCurrent_v4000 current_context;
	PFN_cuCtxPushCurrent_v4000 push_context;
	PFN_cuCtxPopCurrent_v4000 pop_context;
	PFN_cuStreamGetCaptureInfo_v11030 capture_info;
	PFN_cuStreamGetId_v12000 stream_id;
	PFN_cuMemGetAddressRange_v3020 address_range;
	PFN_cuPointerGetAttribute_v4000 pointer_attribute;
	PFN_cuPointerGetAttributes_v7000 pointer_attributes;
	PFN_cuDeviceGet_v2000 device;
	PFN_cuDeviceGetUuid_v11040 device_uuid;
	PFN_cuDeviceGetAttribute_v2000 device_attribute;
};

/* For whom the driver is asked. */
struct cuda_place {
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
int cuda_report_driver(struct cuda_place place, CUresult error, const char *what);
/* Memory of a GPU that other processes map: CORALE_E*, logged. */
int cuda_memory_unit(struct cuda_place place, size_t *unit); /* of its size and of its addresses */
int cuda_memory_make(struct cuda_place place, size_t bytes, CUmemGenericAllocationHandle *handle);
/* The same for network adapters, too (gpuDirectRDMACapable), where the driver can. */
int cuda_memory_make_for_adapters(struct cuda_place place, size_t bytes,
				  CUmemGenericAllocationHandle *handle);
int cuda_memory_map(struct cuda_place place, CUdeviceptr at, size_t bytes,
		    CUmemGenericAllocationHandle handle);
int cuda_memory_export(struct cuda_place place, CUmemGenericAllocationHandle handle, int *fd);
int cuda_memory_import(struct cuda_place place, int fd, CUmemGenericAllocationHandle *handle);

#endif
