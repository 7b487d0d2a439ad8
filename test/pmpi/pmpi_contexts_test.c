/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The MPI door in programs that make CUDA contexts of their own (pmpi_glue/memory_cuda.c), by a driver that the test makes up: what the door does with memory it
 * does in the context of that memory, the thread's context is afterwards what it was, and no primary context is made for memory of another one.
 */
#include <cuda_runtime_api.h>

#include "test/helpers/unit.h"
#include "corale.h"
#include "door.h"
#include "kernels/pieces.h"

enum { GPUS = 2, MOST = 8 };

struct emulated_context {
	int device, is_primary;
	unsigned long long id;
};

static struct emulated_context primary[GPUS] = { { 0, 1, 1 }, { 1, 1, 2 } }, own = { 0, 0, 3 };
static struct {
	CUcontext stack[MOST];
	int n, is_active[GPUS], refuses, handles;
	CUcontext worked_in; /* that the last call of the runtime used */
} driver;

struct pmpi_state pmpi;

static CUcontext current(void)
{
	return driver.n ? driver.stack[driver.n - 1] : NULL;
}

/* ---- The driver */

static CUresult current_context(CUcontext *context)
{
	*context = current();
	return CUDA_SUCCESS;
}

static CUresult push_context(CUcontext context)
{
	if (driver.refuses)
		return CUDA_ERROR_INVALID_CONTEXT;
	assert_true(driver.n < MOST);
	driver.stack[driver.n++] = context;
	return CUDA_SUCCESS;
}

static CUresult pop_context(CUcontext *context)
{
	assert_true(driver.n > 0);
	*context = driver.stack[--driver.n];
	return CUDA_SUCCESS;
}

static CUresult context_id(CUcontext context, unsigned long long *id)
{
	*id = context->id;
	return CUDA_SUCCESS;
}

static CUresult primary_state(CUdevice device, unsigned *flags, int *is_active)
{
	*flags = 0;
	*is_active = driver.is_active[device];
	return CUDA_SUCCESS;
}

static CUresult retain_primary(CUcontext *context, CUdevice device)
{
	driver.is_active[device] = 1;
	*context = &primary[device];
	return CUDA_SUCCESS;
}

/* An address is that of its allocation's record. */
struct allocation {
	int device;
	CUcontext context;
	unsigned long long id; /* 0: it can't be shared with other processes */
	char bytes[100]; /* of device memory */
};
static const struct allocation *exportable; /* whose bytes addresses of them are told from allocations by */

static const struct allocation *allocation_of(CUdeviceptr at)
{
	const CUdeviceptr bytes = exportable ? (CUdeviceptr)exportable->bytes : 0;
	return exportable && at >= bytes && at < bytes + sizeof exportable->bytes ? exportable
										  : (const void *)at;
}

static CUresult pointer_attribute(void *value, int attribute, CUdeviceptr at)
{
	const struct allocation *found = allocation_of(at);
	if (attribute == CU_POINTER_ATTRIBUTE_CONTEXT)
		*(CUcontext *)value = found->context;
	else if (attribute == CU_POINTER_ATTRIBUTE_BUFFER_ID)
		*(unsigned long long *)value = found->id;
	else
		*(int *)value = found->id != 0;
	return CUDA_SUCCESS;
}

static CUresult address_range(CUdeviceptr *base, size_t *size, CUdeviceptr at)
{
	*base = (CUdeviceptr)allocation_of(at)->bytes;
	*size = sizeof exportable->bytes;
	return CUDA_SUCCESS;
}

int cuda_load_driver(struct cuda_driver *out, char *why_not, size_t bytes)
{
	*out = (struct cuda_driver){ .current_context = current_context,
				     .push_context = push_context,
				     .pop_context = pop_context,
				     .context_id = context_id,
				     .primary_state = primary_state,
				     .retain_primary = retain_primary,
				     .address_range = address_range,
				     .pointer_attribute = pointer_attribute };
	return 1;
}

int cuda_count(void)
{
	return GPUS;
}

int corale_memory_kind(const void *p, corale_memory *out)
{
	*out =
	    (corale_memory){ .kind = CORALE_MEMORY_DEVICE, .device = allocation_of((CUdeviceptr)p)->device };
	return 0;
}

/* ---- The runtime: a call of a thread without a context would make one */

static cudaError_t work(void)
{
	assert_non_null(current());
	driver.worked_in = current();
	return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
	*device = current()->device;
	return work();
}

cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned flags)
{
	assert_int_equal(flags, cudaHostAllocPortable);
	*memory = &driver;
	return work();
}

cudaError_t cudaFreeHost(void *memory)
{
	assert_ptr_equal(memory, &driver);
	return work();
}

/* Memory for messages, which no case here has. */

cudaError_t cudaHostRegister(void *memory, size_t bytes, unsigned flags)
{
	return cudaErrorNotSupported;
}

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
	return cudaErrorMemoryAllocation;
}

cudaError_t cudaFree(void *memory)
{
	return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
	return work();
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
	return work();
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, cudaStream_t stream)
{
	return work();
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
			      size_t rows, int kind, cudaStream_t stream)
{
	(void)to, (void)to_pitch, (void)from, (void)from_pitch, (void)width, (void)rows, (void)kind,
	    (void)stream;
	return work();
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *memory)
{
	memset(handle, ++driver.handles, sizeof *handle);
	return work();
}

cudaError_t cudaIpcOpenMemHandle(void **memory, cudaIpcMemHandle_t handle, unsigned flags)
{
	*memory = &driver;
	return work();
}

cudaError_t cudaIpcCloseMemHandle(void *memory)
{
	assert_ptr_equal(memory, &driver);
	return work();
}

cudaError_t cudaGetLastError(void)
{
	return cudaSuccess;
}

const char *cudaGetErrorName(cudaError_t error)
{
	return "error";
}

const char *cudaGetErrorString(cudaError_t error)
{
	return "error";
}

int codelets_copy_pieces(const struct pieces_args *args, void *stream)
{
	return work();
}

/* ---- Cases */

static const struct pmpi_device *open_device(CUcontext now)
{
	memset(&driver, 0, sizeof driver);
	if (now)
		driver.stack[driver.n++] = now;
	assert_true(pmpi_device_gpu->is_there());
	return pmpi_device_gpu;
}

/* A copy of memory in a thread whose context is `now`. */
static int copy(CUcontext now, const struct allocation *memory)
{
	const struct pmpi_device *device = open_device(now);
	char host;
	int before;
	for (int i = 0; i < GPUS; i++)
		driver.is_active[i] = now == &primary[i] || memory->context == &primary[i];
	const int ordinal = device->ordinal(memory);
	assert_int_equal(device->enter(ordinal, &before), 0);
	assert_int_equal(device->copy(&host, memory, 1, NULL), 0);
	device->leave(before);
	assert_ptr_equal(current(), now);
	assert_int_equal(driver.n, now != NULL);
	return ordinal;
}

UNIT_TEST(test_own_context)
{
	const struct allocation memory = { .device = 0, .context = &own };
	const int ordinal = copy(&own, &memory);
	assert_true(ordinal >= PMPI_DEVICES && ordinal < PMPI_NO_ORDINAL);
	assert_ptr_equal(driver.worked_in, &own);
	assert_false(driver.is_active[0]);
	assert_int_equal(copy(NULL, &memory), ordinal);
	assert_ptr_equal(driver.worked_in, &own);
	assert_int_equal(copy(&primary[0], &memory), ordinal);
	assert_ptr_equal(driver.worked_in, &own);
	driver.stack[0] = &own;
	assert_int_equal(pmpi_device_gpu->in_use(), ordinal);
}

/* Of 10 bytes at an offset; the handle's first byte, which counts handles. -1: it is not exported. */
static int export_at(const struct allocation *memory, size_t at, size_t bytes)
{
	struct pmpi_exported exported;
	const int before = driver.n;
	exportable = memory;
	const int ret = pmpi_device_gpu->export_memory(memory->bytes + at, bytes, &exported);
	exportable = NULL;
	assert_int_equal(driver.n, before);
	if (ret)
		return -1;
	assert_int_equal(exported.at, at);
	assert_int_equal(exported.id, memory->id);
	return exported.handle[0];
}

/* A handle is asked for once an allocation, in the context of the memory; a later allocation at the address has its own. */
UNIT_TEST(test_export)
{
	struct allocation memory = { 0, &primary[0], 7, "" };
	open_device(NULL);
	driver.is_active[0] = 1;
	assert_int_equal(export_at(&memory, 20, 10), 1);
	assert_ptr_equal(driver.worked_in, &primary[0]);
	assert_int_equal(export_at(&memory, 0, 100), 1);
	assert_int_equal(export_at(&memory, 95, 10), -1);
	memory.id = 7 + 64;
	assert_int_equal(export_at(&memory, 20, 10), 2);
	memory.id = 0;
	assert_int_equal(export_at(&memory, 20, 10), -1);
	assert_int_equal(driver.n, 0);
}

UNIT_TEST(test_primary_context)
{
	const struct allocation memory = { .device = 1, .context = &primary[1] }, pool = { .device = 1 };
	assert_int_equal(copy(&own, &memory), 1);
	assert_ptr_equal(driver.worked_in, &primary[1]);
	assert_int_equal(copy(&primary[0], &memory), 1);
	assert_int_equal(copy(NULL, &memory), 1);
	assert_int_equal(copy(&primary[1], &pool), 1);
	assert_ptr_equal(driver.worked_in, &primary[1]);
}

/* Pinned memory outlives contexts of the program. */
UNIT_TEST(test_pinned)
{
	const struct allocation memory = { .device = 1, .context = &primary[1] };
	void *pinned;
	copy(&own, &memory);
	assert_int_equal(pmpi_device_gpu->pin(1, &pinned), 0);
	assert_ptr_equal(driver.worked_in, &primary[1]);
	driver.n = 0;
	pmpi_device_gpu->unpin(pinned);
	assert_ptr_equal(driver.worked_in, &primary[1]);
	assert_int_equal(driver.n, 0);
}

UNIT_TEST(test_refused)
{
	const struct allocation memory = { .device = 0, .context = &own };
	const struct pmpi_device *device = open_device(NULL);
	int before;
	driver.refuses = 1;
	assert_int_equal(device->enter(device->ordinal(&memory), &before), CORALE_EDEVICE);
	assert_int_equal(driver.n, 0);
}

/* A context at the address of one that is gone is another one; there is room for so many. */
UNIT_TEST(test_many)
{
	struct emulated_context again = { .id = 100 };
	const struct allocation memory = { .device = 0, .context = &again };
	const struct pmpi_device *device = open_device(NULL);
	const int first = device->ordinal(&memory);
	assert_int_equal(device->ordinal(&memory), first);
	for (int i = 1; first + i < PMPI_NO_ORDINAL; i++) {
		again.id++;
		assert_int_equal(device->ordinal(&memory), first + i);
	}
	again.id++;
	assert_int_equal(device->ordinal(&memory), PMPI_NO_ORDINAL);
}
