/* SPDX-License-Identifier: BSD-3-Clause */
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "corale.h"
#include "cuda_driver.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "nvml.h"

int cuda_report(int rank, int ordinal, cudaError_t error, const char *what)
{
	if (error == cudaSuccess)
		return 0;
	return log_error(error == cudaErrorMemoryAllocation ? CORALE_ENOMEM : CORALE_EDEVICE, rank,
			 "CUDA: %s failed on GPU %d: %s", what, ordinal, cudaGetErrorString(error));
}

int cuda_report_driver(struct cuda_device p, CUresult error, const char *what)
{
	const char *name = "unknown error";
	if (error == CUDA_SUCCESS)
		return 0;
	p.driver->error_name(error, &name);
	return log_error(error == CUDA_ERROR_OUT_OF_MEMORY ? CORALE_ENOMEM : CORALE_EDEVICE, p.rank,
			 "CUDA: %s failed on GPU %d: %s", what, p.ordinal, name);
}

/* ---- The driver ---------------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	int version;
	size_t at; /* in struct cuda_driver */
} functions[] = {
#define CUDA_ENTRY(member, name, version) { #name, version, offsetof(struct cuda_driver, member) },
	CUDA_FUNCTIONS(CUDA_ENTRY)
#undef CUDA_ENTRY
};

/*
 * The oldest driver for this build. Drivers of CUDA 12.1 are the first that take more than 4,096 bytes of a kernel's
 * arguments (struct codelet_p2p). The runtime of CUDA 13 takes no driver of CUDA 12.
 */
#if CUDART_VERSION < 13000
enum { LEAST_DRIVER = 12010 };
static const char least_driver[] = "CUDA 12.1 (driver 530)";
#else
enum { LEAST_DRIVER = 13000 };
static const char least_driver[] = "CUDA 13.0 (driver 580)";
#endif

static int is_new_enough(char *why_not, size_t bytes)
{
	int version = 0;
	cudaError_t error = cudaDriverGetVersion(&version);
	if (error != cudaSuccess)
		snprintf(why_not, bytes, "%s", cudaGetErrorString(error));
	else if (!version)
		snprintf(why_not, bytes, "no CUDA driver is installed");
	else if (version < LEAST_DRIVER)
		snprintf(why_not, bytes, "the driver is one of CUDA %d.%d: this build needs %s or newer",
			 version / 1000, version % 1000 / 10, least_driver);
	else
		return 1;
	return 0;
}

/*
 * The driver's own look-up by version. The runtime's has one name in CUDA 12.1 to 12.4 and another one from 12.5 on,
 * and under the older name it gives functions as of the toolkit's version, whatever their declaration here.
 */
static PFN_cuGetProcAddress_v12000 find_look_up(void)
{
	PFN_cuGetProcAddress_v12000 look_up = NULL;
	void *library = dlopen("libcuda.so.1", RTLD_NOW); /* open already, by the runtime; it stays so */
	void *function = library ? dlsym(library, "cuGetProcAddress_v2") : NULL;
	memcpy(&look_up, &function, sizeof(function));
	return look_up;
}

int cuda_load_driver(struct cuda_driver *d, char *why_not, size_t bytes)
{
	if (!is_new_enough(why_not, bytes))
		return 0;
	PFN_cuGetProcAddress_v12000 look_up = find_look_up();
	if (!look_up) {
		snprintf(why_not, bytes, "the driver's libcuda.so.1 has no cuGetProcAddress_v2");
		return 0;
	}
	for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++) {
		void *function = NULL;
		CUdriverProcAddressQueryResult found;
		if (look_up(functions[i].name, &function, functions[i].version, CU_GET_PROC_ADDRESS_DEFAULT,
			    &found) != CUDA_SUCCESS ||
		    found != CU_GET_PROC_ADDRESS_SUCCESS) {
			snprintf(why_not, bytes, "the driver has no %s", functions[i].name);
			return 0;
		}
		memcpy((char *)d + functions[i].at, &function, sizeof(function));
	}
	return 1;
}

int cuda_need_driver(struct cuda_driver *d, int rank)
{
	char why_not[160];
	if (cuda_load_driver(d, why_not, sizeof(why_not)))
		return 0;
	return log_error(CORALE_EDEVICE, rank, "CUDA: %s", why_not);
}

int cuda_available(char *why_not, size_t bytes)
{
	struct cuda_driver driver;
	int count = 0;
	if (!cuda_load_driver(&driver, why_not, bytes))
		return 0;
	cudaError_t error = cudaGetDeviceCount(&count);
	if (error != cudaSuccess || !count)
		snprintf(why_not, bytes, "%s", error ? cudaGetErrorString(error) : "no GPU is visible");
	return error == cudaSuccess && count;
}

int cuda_count(void)
{
	int count = 0;
	return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

int cuda_gpu(int i, struct engine_gpu *out)
{
	struct cudaDeviceProp prop;
	if (cudaGetDeviceProperties(&prop, i) != cudaSuccess ||
	    cudaDeviceGetPCIBusId(out->pci, sizeof out->pci, i) != cudaSuccess)
		return CORALE_EDEVICE;
	snprintf(out->name, sizeof out->name, "%s", prop.name);
	out->bytes = prop.totalGlobalMem;
	return 0;
}

enum engine_link cuda_link(int from, int to)
{
	int access = 0, atomics = 0;
	cudaDeviceGetP2PAttribute(&access, cudaDevP2PAttrAccessSupported, from, to);
	cudaDeviceGetP2PAttribute(&atomics, cudaDevP2PAttrNativeAtomicSupported, from, to);
	return !access ? ENGINE_NO_LINK : atomics ? ENGINE_NVLINK : ENGINE_PEER;
}

void cuda_links(int n, enum engine_link *out)
{
	struct nvml nvml;
	nvml_open(&nvml);
	for (int i = 0; i < n * n; i++) {
		char from[ENGINE_PCI_BYTES] = "", to[ENGINE_PCI_BYTES] = "";
		cudaDeviceGetPCIBusId(from, sizeof(from), i / n);
		cudaDeviceGetPCIBusId(to, sizeof(to), i % n);
		out[i] = i / n == i % n ? ENGINE_NVLINK : nvml_link(&nvml, from, to, cuda_link(i / n, i % n));
	}
	nvml_close(&nvml);
}

void cuda_versions(int *driver, int *runtime)
{
	if (cudaDriverGetVersion(driver) != cudaSuccess)
		*driver = 0;
	if (cudaRuntimeGetVersion(runtime) != cudaSuccess)
		*runtime = 0;
}

/* ---- Memory -------------------------------------------------------------------------------------------- */

static CUmemAllocationProp prop_of(struct cuda_device p)
{
	CUmemAllocationProp prop;
	memset(&prop, 0, sizeof(prop));
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.location.id = p.ordinal;
	return prop;
}

int cuda_memory_unit(struct cuda_device p, size_t *unit)
{
	CUmemAllocationProp prop = prop_of(p);
	return cuda_report_driver(p, p.driver->granularity(unit, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
				  "asking for the granularity of memory");
}

int cuda_memory_make(struct cuda_device p, size_t bytes, int for_adapters,
		     CUmemGenericAllocationHandle *handle)
{
	CUmemAllocationProp prop = prop_of(p);
	int capable = 0;
	if (for_adapters)
		p.driver->device_attribute(
		    &capable, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, p.ordinal);
	prop.allocFlags.gpuDirectRDMACapable = (unsigned char)(capable != 0);
	return cuda_report_driver(p, p.driver->create(handle, bytes, &prop, 0),
				  for_adapters ? "making memory that network adapters can reach"
					       : "making memory that peers can map");
}

int cuda_memory_map(struct cuda_device p, CUdeviceptr at, size_t bytes, CUmemGenericAllocationHandle handle)
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

int cuda_memory_place(struct cuda_device p, CUmemGenericAllocationHandle handle, size_t bytes, void **out)
{
	CUdeviceptr at = 0;
	int ret =
	    cuda_report_driver(p, p.driver->reserve(&at, bytes, 0, 0, 0), "reserving addresses for memory");
	if (!ret && (ret = cuda_memory_map(p, at, bytes, handle)))
		p.driver->unreserve(at, bytes);
	p.driver->release(handle);
	if (!ret)
		*out = (void *)(uintptr_t)at;
	return ret;
}

int cuda_memory_alloc(struct cuda_device p, int for_adapters, size_t *bytes, void **out)
{
	CUmemGenericAllocationHandle handle;
	size_t unit = 1;
	int ret = cuda_memory_unit(p, &unit);
	*bytes = plan_round(*bytes, unit);
	ret = ret ? ret : cuda_memory_make(p, *bytes, for_adapters, &handle);
	return ret ? ret : cuda_memory_place(p, handle, *bytes, out);
}

void cuda_memory_free(struct cuda_device p, void *memory, size_t bytes)
{
	CUdeviceptr at = (CUdeviceptr)(uintptr_t)memory;
	if (!cuda_report_driver(p, p.driver->unmap(at, bytes), "unmapping memory"))
		cuda_report_driver(p, p.driver->unreserve(at, bytes), "giving addresses back");
}

int cuda_memory_export(struct cuda_device p, CUmemGenericAllocationHandle handle, int *fd)
{
	int out = -1;
	int ret = cuda_report_driver(
	    p, p.driver->export_handle(&out, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
	    "exporting memory");
	if (ret)
		return ret;
	*fd = descriptor_adopt(out);
	return 0;
}

int cuda_memory_import(struct cuda_device p, int fd, CUmemGenericAllocationHandle *handle)
{
	return cuda_report_driver(
	    p,
	    p.driver->import_handle(handle, (void *)(uintptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
	    "importing a peer's memory");
}
