/* SPDX-License-Identifier: BSD-3-Clause */
/* What lib/cuda/engine_cuda.h needs of CUDA's driver, where there is none. */
#ifndef EMULATED_CUDA_H
#define EMULATED_CUDA_H

#include <stddef.h>
#include <stdint.h>

typedef uintptr_t CUdeviceptr;
typedef uint64_t CUmemGenericAllocationHandle;
typedef int CUresult, CUdevice, CUpointer_attribute;
typedef struct emulated_context *CUcontext;
typedef struct emulated_stream *CUstream;
typedef struct emulated_event *CUevent;
typedef unsigned long long cuuint64_t;
typedef enum {
	CU_STREAM_CAPTURE_STATUS_NONE,
	CU_STREAM_CAPTURE_STATUS_ACTIVE,
	CU_STREAM_CAPTURE_STATUS_INVALIDATED
} CUstreamCaptureStatus;

enum {
	CUDA_SUCCESS = 0,
	CUDA_ERROR_NOT_INITIALIZED = 3,
	CUDA_ERROR_DEINITIALIZED = 4,
	CUDA_ERROR_INVALID_CONTEXT = 201,
	CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED = 704,
	CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906,
	CU_MEMORYTYPE_DEVICE = 2,
	CU_POINTER_ATTRIBUTE_CONTEXT = 1,
	CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
	CU_POINTER_ATTRIBUTE_DEVICE_POINTER = 3,
	CU_POINTER_ATTRIBUTE_BUFFER_ID = 7,
	CU_POINTER_ATTRIBUTE_IS_MANAGED = 8,
	CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,
	CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE = 10,
	CU_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11,
	CU_POINTER_ATTRIBUTE_RANGE_SIZE = 12,
	CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES = 14,
	CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE = 15,
	CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 1,
	CU_MEM_LOCATION_TYPE_DEVICE = 1,
	CU_MEM_ACCESS_FLAGS_PROT_READ = 1,
	CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3
};
typedef struct {
	struct {
		int type, id;
	} location;
	int flags;
} CUmemAccessDesc;
typedef enum {
	CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
	CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES = 100,
	CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED = 116
} CUdevice_attribute;

/* In place of lib/cuda/cuda_driver.h: what lib/cuda/engine_cuda_memory.c and lib/cuda/engine_cuda_share.c need, which share_test has,
 * lib/cuda/engine_cuda_admit.c, which admit_test has, pmpi_glue/memory_cuda.c, which pmpi_contexts_test has, the life of an engine, which engine_close_test has,
 * and exports, which exporter_test has. */
#define CUDA_DRIVER_H
struct cuda_driver {
	CUresult (*current_context)(CUcontext *context);
	CUresult (*push_context)(CUcontext context);
	CUresult (*pop_context)(CUcontext *context);
	CUresult (*context_id)(CUcontext context, unsigned long long *id);
	CUresult (*enable_peer)(CUcontext context, unsigned flags);
	CUresult (*primary_state)(CUdevice device, unsigned *flags, int *is_active);
	CUresult (*retain_primary)(CUcontext *context, CUdevice device);
	CUresult (*device_attribute)(int *value, CUdevice_attribute attribute, CUdevice device);
	CUresult (*capture_info)(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, void *graph,
				 void *dependencies, void *n);
	CUresult (*stream_id)(CUstream stream, unsigned long long *id);
	CUresult (*stream_query)(CUstream stream);
	CUresult (*address_range)(CUdeviceptr *base, size_t *bytes, CUdeviceptr at);
	CUresult (*pointer_attribute)(void *value, int attribute, CUdeviceptr at);
	CUresult (*pointer_attributes)(unsigned n, CUpointer_attribute *attributes, void **values,
				       CUdeviceptr at);
	CUresult (*reserve)(CUdeviceptr *at, size_t bytes, size_t align, CUdeviceptr wanted, uint64_t flags);
	CUresult (*unreserve)(CUdeviceptr at, size_t bytes);
	CUresult (*map)(CUdeviceptr at, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
			uint64_t flags);
	CUresult (*unmap)(CUdeviceptr at, size_t bytes);
	CUresult (*set_access)(CUdeviceptr at, size_t bytes, const CUmemAccessDesc *access, size_t n);
	CUresult (*import_handle)(CUmemGenericAllocationHandle *handle, void *from, int kind);
	CUresult (*retain)(CUmemGenericAllocationHandle *handle, void *memory);
	CUresult (*release)(CUmemGenericAllocationHandle handle);
	CUresult (*export_handle)(void *out, CUmemGenericAllocationHandle handle, int kind, uint64_t flags);
};

struct cuda_device {
	const struct cuda_driver *driver;
	int rank, ordinal;
};

int cuda_load_driver(struct cuda_driver *driver, char *why_not, size_t bytes);
int cuda_count(void);
int cuda_need_driver(struct cuda_driver *driver, int rank);
int cuda_report(int rank, int device, int error, const char *what);
int cuda_report_driver(struct cuda_device device, CUresult error, const char *what);
int cuda_memory_export(struct cuda_device device, CUmemGenericAllocationHandle handle, int *fd);
int cuda_memory_unit(struct cuda_device device, size_t *unit);
int cuda_memory_make(struct cuda_device device, size_t bytes, int for_adapters,
		     CUmemGenericAllocationHandle *handle);
int cuda_memory_map(struct cuda_device device, CUdeviceptr at, size_t bytes,
		    CUmemGenericAllocationHandle handle);
int cuda_memory_place(struct cuda_device device, CUmemGenericAllocationHandle handle, size_t bytes,
		      void **out);
int cuda_memory_alloc(struct cuda_device device, int for_adapters, size_t *bytes, void **out);
void cuda_memory_free(struct cuda_device device, void *memory, size_t bytes);
int cuda_memory_import(struct cuda_device device, int fd, CUmemGenericAllocationHandle *handle);

#endif
