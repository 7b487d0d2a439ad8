/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of this GPU that travels between processes as a file descriptor. Copy engines store into it faster than into what the
 * runtime's inter-process calls map (docs/lab/gpus.md).
 */

#include "engine_cuda.h"
#include "base/descriptor.h"

int engine_alloc(struct engine *e, size_t bytes, void **out)
{
	return cuda_memory_alloc(engine_device(e), 0, &bytes, out);
}

void engine_free(struct engine *e, void *memory, int used)
{
	CUdeviceptr at = (CUdeviceptr)(uintptr_t)memory, base;
	size_t bytes;
	if (!memory)
		return;
	if (used)
		engine_wait_own(e);
	if (!engine_check_driver(e, e->driver.address_range(&base, &bytes, at), "asking for an allocation"))
		cuda_memory_free(engine_device(e), memory, bytes);
}

int engine_export(const struct engine *e, CUdeviceptr allocation, int *fd)
{
	CUmemGenericAllocationHandle handle;
	unsigned long long old = 0;
	int out = -1;
	/* Memory of cudaMalloc has no descriptor: asking for one is an error that tools report. */
	if (e->driver.pointer_attribute(&old, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, allocation) ==
		CUDA_SUCCESS &&
	    old)
		return 0;
	if (e->driver.retain(&handle, (void *)(uintptr_t)allocation) != CUDA_SUCCESS)
		return 0;
	CUresult error = e->driver.export_handle(&out, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	e->driver.release(handle);
	if (error != CUDA_SUCCESS)
		return 0;
	*fd = descriptor_adopt(
	    out); /* closed by exec: a program that a rank starts holds no memory of the GPU */
	return 1;
}

int engine_import(const struct engine *e, int fd, size_t bytes, void **out)
{
	CUmemGenericAllocationHandle handle;
	int ret = cuda_memory_import(engine_device(e), fd, &handle);
	return ret ? ret : cuda_memory_place(engine_device(e), handle, bytes, out);
}

/* Maps one unit of memory again and again over addresses that were unmapped. */
static int fill_addresses(const struct engine *e, CUdeviceptr at, size_t bytes, size_t unit)
{
	CUmemGenericAllocationHandle sink;
	int ret = cuda_memory_make(engine_device(e), unit, 0, &sink);
	if (ret)
		return ret;
	for (size_t done = 0; !ret && done < bytes; done += unit)
		ret = cuda_memory_map(engine_device(e), at + done, bytes - done < unit ? bytes - done : unit,
				      sink);
	e->driver.release(sink); /* the mappings keep it */
	return ret;
}

int engine_sink(const struct engine *e, void *mapped, size_t bytes)
{
	CUdeviceptr at = (CUdeviceptr)(uintptr_t)mapped;
	size_t unit = 1;
	int ret = cuda_memory_unit(engine_device(e), &unit);
	if (!ret)
		ret = engine_check_driver(e, e->driver.unmap(at, bytes), "unmapping a peer's memory");
	return ret ? ret : fill_addresses(e, at, bytes, unit);
}
