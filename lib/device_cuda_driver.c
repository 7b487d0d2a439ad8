/*
 * What both engines of GPUs need of the driver: its functions, the conversion of errors, and memory that peers map by file
 * descriptors.
 */
#include <string.h>

#include "corale.h"
#include "device_cuda.h"
#include "log.h"

int cuda_report(int rank, int ordinal, cudaError_t error, const char *what)
{
	if (error == cudaSuccess)
		return 0;
	return log_error(error == cudaErrorMemoryAllocation ? CORALE_ENOMEM : CORALE_EDEVICE, rank,
			 "CUDA: %s failed on GPU %d: %s", what, ordinal, cudaGetErrorString(error));
}

int cuda_report_driver(struct cuda_place p, CUresult error, const char *what)
{
	const char *name = "unknown error";
	if (error == CUDA_SUCCESS)
		return 0;
	p.driver->error_name(error, &name);
	return log_error(error == CUDA_ERROR_OUT_OF_MEMORY ? CORALE_ENOMEM : CORALE_EDEVICE, p.rank,
			 "CUDA: %s failed on GPU %d: %s", what, p.ordinal, name);
}

/* ---- The driver ---------------------------------------------------------------------------------------- */

static int find(const char *name, int version, void *out)
{
	enum cudaDriverEntryPointQueryResult found;
	void *function = NULL;
	cudaError_t error =
	    cudaGetDriverEntryPointByVersion(name, &function, (unsigned)version, cudaEnableDefault, &found);
	if (error != cudaSuccess || found != cudaDriverEntryPointSuccess)
		return 0;
	memcpy(out, &function, sizeof(function));
	return 1;
}

int cuda_load_driver(struct cuda_driver *d)
{
	return find("cuGetErrorName", 6000, &d->error_name) &&
	       find("cuMemGetAllocationGranularity", 10020, &d->granularity) &&
	       find("cuMemCreate", 10020, &d->create) && find("cuMemRelease", 10020, &d->release) &&
	       find("cuMemExportToShareableHandle", 10020, &d->export_handle) &&
	       find("cuMemImportFromShareableHandle", 10020, &d->import_handle) &&
	       find("cuMemRetainAllocationHandle", 11000, &d->retain) &&
	       find("cuMemAddressReserve", 10020, &d->reserve) &&
	       find("cuMemAddressFree", 10020, &d->unreserve) && find("cuMemMap", 10020, &d->map) &&
	       find("cuMemUnmap", 10020, &d->unmap) && find("cuMemSetAccess", 10020, &d->set_access) &&
	       find("cuCtxGetCurrent", 4000, &d->current_context) &&
	       find("cuCtxPushCurrent", 4000, &d->push_context) &&
	       find("cuCtxPopCurrent", 4000, &d->pop_context) &&
	       find("cuStreamBatchMemOp", 11070, &d->batch) &&
	       find("cuStreamGetCaptureInfo", 11030, &d->capture_info) &&
	       find("cuMemGetAddressRange", 3020, &d->address_range) &&
	       find("cuPointerGetAttribute", 4000, &d->pointer_attribute) &&
	       find("cuDeviceGet", 2000, &d->device) && find("cuDeviceGetUuid", 11040, &d->device_uuid);
}

/* ---- Memory -------------------------------------------------------------------------------------------- */

static CUmemAllocationProp prop_of(struct cuda_place p)
{
	CUmemAllocationProp prop;
	memset(&prop, 0, sizeof(prop));
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.location.id = p.ordinal;
	return prop;
}

int cuda_memory_unit(struct cuda_place p, size_t *unit)
{
	CUmemAllocationProp prop = prop_of(p);
	return cuda_report_driver(p, p.driver->granularity(unit, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
				  "asking for the granularity of memory");
}

int cuda_memory_make(struct cuda_place p, size_t bytes, CUmemGenericAllocationHandle *handle)
{
	CUmemAllocationProp prop = prop_of(p);
	return cuda_report_driver(p, p.driver->create(handle, bytes, &prop, 0),
				  "making memory that peers can map");
}

int cuda_memory_map(struct cuda_place p, CUdeviceptr at, size_t bytes, CUmemGenericAllocationHandle handle)
{
	CUmemAccessDesc access = { .location = prop_of(p).location,
				   .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	int ret = cuda_report_driver(p, p.driver->map(at, bytes, 0, handle, 0), "mapping memory");
	if (ret)
		return ret;
	ret = cuda_report_driver(p, p.driver->set_access(at, bytes, &access, 1),
				 "getting access to mapped memory");
	if (ret)
		p.driver->unmap(at, bytes);
	return ret;
}

int cuda_memory_export(struct cuda_place p, CUmemGenericAllocationHandle handle, int *fd)
{
	int out = -1;
	int ret = cuda_report_driver(
	    p, p.driver->export_handle(&out, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
	    "exporting memory");
	if (!ret)
		*fd = out;
	return ret;
}

int cuda_memory_import(struct cuda_place p, int fd, CUmemGenericAllocationHandle *handle)
{
	return cuda_report_driver(
	    p,
	    p.driver->import_handle(handle, (void *)(uintptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
	    "importing a peer's memory");
}
