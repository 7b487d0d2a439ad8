/*
 * The CUDA engine's memory: the driver's functions, windows that peers map, and the conversion of errors.
 */
#include "device_cuda.h"

#include <string.h>

#include "corale.h"
#include "log.h"

int cuda_check(const struct device *device, cudaError_t error, const char *what)
{
	if (error == cudaSuccess)
		return 0;
	return log_error(error == cudaErrorMemoryAllocation ? CORALE_ENOMEM : CORALE_EDEVICE, device->rank,
			 "CUDA: %s failed on GPU %d: %s", what, device->ordinal, cudaGetErrorString(error));
}

int cuda_check_driver(const struct device *device, CUresult error, const char *what)
{
	const char *name = "unknown error";
	if (error == CUDA_SUCCESS)
		return 0;
	device->driver.error_name(error, &name);
	return log_error(error == CUDA_ERROR_OUT_OF_MEMORY ? CORALE_ENOMEM : CORALE_EDEVICE, device->rank,
			 "CUDA: %s failed on GPU %d: %s", what, device->ordinal, name);
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
	       find("cuMemAddressReserve", 10020, &d->reserve) &&
	       find("cuMemAddressFree", 10020, &d->unreserve) && find("cuMemMap", 10020, &d->map) &&
	       find("cuMemUnmap", 10020, &d->unmap) && find("cuMemSetAccess", 10020, &d->set_access) &&
	       find("cuCtxGetCurrent", 4000, &d->current_context) &&
	       find("cuCtxPushCurrent", 4000, &d->push_context) &&
	       find("cuCtxPopCurrent", 4000, &d->pop_context) &&
	       find("cuStreamBatchMemOp", 11070, &d->batch) &&
	       find("cuStreamGetCaptureInfo", 11030, &d->capture_info) &&
	       find("cuMemGetAddressRange", 3020, &d->address_range) &&
	       find("cuPointerGetAttribute", 4000, &d->pointer_attribute);
}

/* ---- Windows ------------------------------------------------------------------------------------------- */

static CUmemAllocationProp window_prop(const struct device *d)
{
	CUmemAllocationProp prop;
	memset(&prop, 0, sizeof(prop));
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.location.id = d->ordinal;
	return prop;
}

/* Reserves addresses for w->handle and maps it there, for this GPU; on failure the handle is released. */
static int map_window(struct device *d, struct cuda_window *w, size_t bytes)
{
	CUmemAccessDesc access = { .location = window_prop(d).location,
				   .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	int result = cuda_check_driver(d, d->driver.reserve(&w->base, bytes, 0, 0, 0), "reserving addresses");
	if (result)
		goto release;
	result = cuda_check_driver(d, d->driver.map(w->base, bytes, 0, w->handle, 0), "mapping a window");
	if (result)
		goto unreserve;
	result = cuda_check_driver(d, d->driver.set_access(w->base, bytes, &access, 1),
				   "getting access to a window");
	if (result)
		goto unmap;
	w->bytes = bytes;
	return 0;
unmap:
	d->driver.unmap(w->base, bytes);
unreserve:
	d->driver.unreserve(w->base, bytes);
release:
	d->driver.release(w->handle);
	return result;
}

void cuda_unmap_window(struct device *d, struct cuda_window *w)
{
	if (!w->bytes)
		return;
	d->driver.unmap(w->base, w->bytes);
	d->driver.unreserve(w->base, w->bytes);
	d->driver.release(w->handle);
	w->bytes = 0;
}

/* Bytes of a window in the memory it is made of; equal on equal GPUs. */
static int window_bytes(const struct device *d, size_t *bytes)
{
	CUmemAllocationProp prop = window_prop(d);
	size_t unit = 0;
	CUresult error = d->driver.granularity(&unit, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
	if (error != CUDA_SUCCESS)
		return cuda_check_driver(d, error, "asking for the granularity of memory");
	*bytes = plan_div_up(d->layout.bytes, unit) * unit;
	return 0;
}

int cuda_make_window(struct device *d)
{
	CUmemAllocationProp prop = window_prop(d);
	struct cuda_window *w = &d->windows[d->me];
	size_t bytes = 0;
	int result = window_bytes(d, &bytes);
	if (!result)
		result =
		    cuda_check_driver(d, d->driver.create(&w->handle, bytes, &prop, 0), "making a window");
	if (!result)
		result = map_window(d, w, bytes);
	if (!result)
		result =
		    cuda_check(d, cudaMemset((void *)w->base, 0, d->layout.payload), "clearing a window");
	d->bytes += w->bytes;
	return result;
}

int cuda_window_fd(struct device *d, int *fd)
{
	int out = -1;
	int result = cuda_check_driver(d,
				       d->driver.export_handle(&out, d->windows[d->me].handle,
							       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
				       "exporting a window");
	if (!result)
		*fd = out;
	return result;
}

int cuda_connect(struct device *d, const int *fds)
{
	size_t bytes = 0;
	int result = window_bytes(d, &bytes);
	for (int i = 0; !result && i < d->layout.peers; i++) {
		if (i == d->me)
			continue;
		struct cuda_window *w = &d->windows[i];
		result = cuda_check_driver(d,
					   d->driver.import_handle(&w->handle, (void *)(uintptr_t)fds[i],
								   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
					   "importing a peer's window");
		if (!result)
			result = map_window(d, w, bytes);
	}
	return result;
}
