/* What the files of the CUDA engine share: a device, and the driver's functions that the runtime does not offer. */
#ifndef DEVICE_CUDA_H
#define DEVICE_CUDA_H

#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

#include "device.h"
#include "kernels/kernels.h"

enum { CUDA_MAX_RETIRED = 64, CUDA_DRAIN_MS = 5000, CUDA_RELEASE_MS = 20, CUDA_COPY_STREAMS = 2 };

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
	PFN_cuStreamBatchMemOp_v11070 batch;
	PFN_cuStreamGetCaptureInfo_v11030 capture_info;
	PFN_cuMemGetAddressRange_v3020 address_range;
	PFN_cuPointerGetAttribute_v4000 pointer_attribute;
	PFN_cuDeviceGet_v2000 device;
	PFN_cuDeviceGetUuid_v11040 device_uuid;
};

/* For whom the driver is asked. */
struct cuda_place {
	const struct cuda_driver *driver;
	int rank, ordinal;
};

/* A window as mapped here. */
struct cuda_window {
	CUmemGenericAllocationHandle handle;
	CUdeviceptr base;
	size_t bytes; /* 0: none */
};

/* A word that a copy stream may be waiting for, and the value that lets it go on. */
struct cuda_awaited {
	CUdeviceptr word;
	uint64_t value;
};

struct device {
	struct cuda_driver driver;
	int rank, me, ordinal, channels; /* me: number of my window */
	double timeout_s;
	struct plan_map map; /* arrays of ints below, on the host */
	int *ints; /* the map's arrays, then peer_of */
	int *device_ints; /* the same on the GPU */
	size_t nints;
	const int *peer_of; /* in ints */
	struct kernels_layout layout;
	struct cuda_window windows[KERNELS_MAX_PEERS];
	struct kernels_counters counters; /* of the programs that run on SMs; on the GPU */
	uint64_t *progress; /* of teams of blocks; on the GPU */
	uint64_t calls;
	int most_blocks; /* that are resident at a time for sure */
	struct kernels_counters copy_counters; /* of those that copy engines run; on the host */
	struct kernels_failure *failure; /* in host memory, written by kernels */
	uint32_t *abort; /* in host memory, read by kernels */
	unsigned char *scratch;
	size_t scratch_bytes, bytes; /* bytes: GPU memory held */
	void *retired[CUDA_MAX_RETIRED]; /* smaller scratch of earlier calls */
	int nretired;
	cudaStream_t copy_streams[CUDA_COPY_STREAMS], release_stream;
	cudaEvent_t begin, ends[CUDA_COPY_STREAMS];
	int64_t released_ms; /* when the copy streams' waits were last let go, 0: never */
	struct cuda_awaited *awaited; /* of the last call */
	size_t nawaited, max_awaited;
};

/* Errors of runtime and driver as CORALE_EDEVICE, logged with what was tried; 0 passes through. */
int cuda_check(const struct device *device, cudaError_t error, const char *what);
int cuda_check_driver(const struct device *device, CUresult error, const char *what);

/* ---- device_cuda.c ----------------------------------------------------------------- */

int cuda_abort(struct device *device);

/* ---- device_cuda_open.c ------------------------------------------------------------ */

int cuda_available(char *why_not, size_t bytes);
int cuda_count(void);
int cuda_open(const struct device_params *params, struct device **out);
void cuda_close(struct device *device);
/* The map, with arrays at ints (device->ints or device->device_ints). */
struct plan_map cuda_map_at(const struct device *device, const int *ints);

/* ---- device_cuda_driver.c ---------------------------------------------------------- */

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
int cuda_memory_map(struct cuda_place place, CUdeviceptr at, size_t bytes,
		    CUmemGenericAllocationHandle handle);
int cuda_memory_export(struct cuda_place place, CUmemGenericAllocationHandle handle, int *fd);
int cuda_memory_import(struct cuda_place place, int fd, CUmemGenericAllocationHandle *handle);

/* ---- device_cuda_window.c -------------------------------------------------------- */

int cuda_make_window(struct device *device);
void cuda_unmap_window(struct device *device, struct cuda_window *window);
int cuda_window_fd(struct device *device, int *fd);
int cuda_connect(struct device *device, const int *fds);

/* ---- device_cuda_copy.c ---------------------------------------------------------- */

/* Enqueues a program on a copy stream, walking it ahead of time. The list of awaited words grows. */
int cuda_issue_copies(struct device *device, const struct plan *plan, const struct plan_env *env,
		      const struct device_binding *binding, int program, cudaStream_t stream);
/* Writes all that copy streams may be waiting for, so that they drain; tells the peers first. */
int cuda_release_copies(struct device *device);

#endif
