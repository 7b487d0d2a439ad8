/* SPDX-License-Identifier: BSD-3-Clause */
/* GPUs. All but the first three functions run where a context is there, as memory of a GPU was seen. */
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

#include "base/log.h"
#include "cuda/cuda_driver.h"
#include "corale.h"
#include "door.h"
#include "memory.h"

static struct cuda_driver driver;
static int is_loaded;

static int check(cudaError_t error, const char *what)
{
	if (error == cudaSuccess)
		return 0;
	return log_error(error == cudaErrorMemoryAllocation ? CORALE_ENOMEM : CORALE_EDEVICE, pmpi.rank,
			 "%s: %s (%s)", what, cudaGetErrorName(error), cudaGetErrorString(error));
}

/* Of an error that the door handles itself: the program's cudaGetLastError does not see it. */
static int has_failed(cudaError_t error)
{
	if (error != cudaSuccess)
		cudaGetLastError();
	return error != cudaSuccess;
}

static int is_there(void)
{
	char why_not[256];
	is_loaded = cuda_load_driver(&driver, why_not, sizeof why_not);
	if (!is_loaded)
		log_line(LOG_INFO, pmpi.rank, "the MPI door takes no GPU memory: %s", why_not);
	return is_loaded && cuda_count() > 0;
}

/*
 * ---- Contexts. Copies and kernels run in the context that the memory is in, as no other one reaches it. It is the primary one of its GPU in programs of the
 * runtime; others make contexts of their own (cuCtxCreate, or OpenMP as GCC builds it).
 */

static _Atomic(CUcontext) primaries[PMPI_DEVICES]; /* NULL: not asked yet, or not there */
static struct {
	pthread_mutex_t lock;
	int n;
	struct own {
		CUcontext context;
		unsigned long long id; /* a handle may come again when its context is gone */
	} of[PMPI_NO_ORDINAL - PMPI_DEVICES];
} others = { .lock = PTHREAD_MUTEX_INITIALIZER };
static _Atomic int seen; /* a GPU of which memory was seen: it has a context */

/* NULL: none, logged. It stays as long as the process. */
static CUcontext make_primary(int device)
{
	CUcontext context = primaries[device];
	const CUresult error = context ? CUDA_SUCCESS : driver.retain_primary(&context, device);
	if (error != CUDA_SUCCESS) {
		log_error(CORALE_EDEVICE, pmpi.rank,
			  "GPU %d has no primary context: cuDevicePrimaryCtxRetain failed with error %d",
			  device, (int)error);
		return NULL;
	}
	return primaries[device] = context;
}

static int is_primary(CUcontext context, int device)
{
	unsigned flags;
	int is_there = 1;
	if (!primaries[device])
		driver.primary_state(device, &flags, &is_there);
	return is_there && make_primary(device) == context;
}

static int find_other(CUcontext context)
{
	unsigned long long id = 0;
	int at = 0;
	driver.context_id(context, &id);
	pthread_mutex_lock(&others.lock);
	while (at < others.n && (others.of[at].context != context || others.of[at].id != id))
		at++;
	if (at == others.n && PMPI_DEVICES + at < PMPI_NO_ORDINAL)
		others.of[others.n++] = (struct own){ context, id };
	pthread_mutex_unlock(&others.lock);
	return PMPI_DEVICES + at;
}

/* context: NULL for memory that is in none, as cuMemCreate's and cudaMallocAsync's, and which all contexts of its GPU reach. */
static int ordinal_of(CUcontext context, int device)
{
	if (device >= PMPI_DEVICES)
		return PMPI_NO_ORDINAL;
	seen = device;
	return !context || is_primary(context, device) ? device : find_other(context);
}

static int ordinal(const void *p)
{
	corale_memory memory;
	CUcontext context = NULL;
	if (corale_memory_kind(p, &memory) || memory.kind != CORALE_MEMORY_DEVICE)
		return -1;
	if (driver.pointer_attribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, (CUdeviceptr)p) != CUDA_SUCCESS)
		context = NULL;
	return ordinal_of(context, memory.device);
}

static int in_use(void)
{
	CUcontext context = NULL;
	int current;
	if (!is_loaded || driver.current_context(&context) != CUDA_SUCCESS || !context)
		return -1;
	return cudaGetDevice(&current) == cudaSuccess ? ordinal_of(context, current) : -1;
}

static void *reach(const void *p)
{
	return (void *)p;
}

/* *before: 1 if leave has to pop the context. cudaSetDevice would leave the primary one current in the place of the program's. */
static int enter(int wanted, int *before)
{
	CUcontext now = NULL, context = wanted < PMPI_DEVICES ? make_primary(wanted)
							      : others.of[wanted - PMPI_DEVICES].context;
	*before = 0;
	if (!context)
		return CORALE_EDEVICE;
	if (driver.current_context(&now) == CUDA_SUCCESS && now == context)
		return 0;
	const CUresult error = driver.push_context(context);
	if (error != CUDA_SUCCESS)
		return log_error(CORALE_EDEVICE, pmpi.rank,
				 "the context of a buffer can't be made the current one: cuCtxPushCurrent "
				 "failed with error %d",
				 (int)error);
	*before = 1;
	return 0;
}

static void leave(int before)
{
	CUcontext ours;
	if (before)
		driver.pop_context(&ours);
}

/* In a primary context: memory that is pinned in another one goes with it, and the pool would keep its address. */
static int pin(size_t bytes, void **memory)
{
	int before;
	int ret = enter(seen, &before);
	if (ret)
		return ret;
	ret = check(cudaHostAlloc(memory, bytes, cudaHostAllocPortable), "pinning host memory");
	leave(before);
	return ret;
}

static void unpin(void *memory)
{
	int before;
	if (enter(seen, &before))
		return;
	cudaFreeHost(memory);
	leave(before);
}

static int pin_mapped(void *memory, size_t bytes)
{
	int before;
	const int ret = enter(seen, &before);
	if (ret)
		return ret;
	const cudaError_t error = cudaHostRegister(memory, bytes, cudaHostRegisterPortable);
	if (has_failed(error))
		log_line(LOG_INFO, pmpi.rank,
			 "%zu bytes of shared memory for messages can't be registered with GPUs: %s; raise "
			 "the limit of locked memory (ulimit -l)",
			 bytes, cudaGetErrorString(error));
	leave(before);
	return error == cudaSuccess ? 0 : CORALE_ENOMEM;
}

static int alloc_memory(size_t bytes, void **memory)
{
	return has_failed(cudaMalloc(memory, bytes));
}

static void free_memory(void *memory)
{
	cudaFree(memory);
}

static int stream_create(void **stream)
{
	return check(cudaStreamCreateWithFlags((cudaStream_t *)stream, cudaStreamNonBlocking),
		     "making a stream");
}

static void stream_destroy(void *stream)
{
	cudaStreamDestroy(stream);
}

static int copy(void *to, const void *from, size_t bytes, void *stream)
{
	return check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "copying a buffer");
}

static int copy_rows(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
		     size_t rows, void *stream)
{
	return check(
	    cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, rows, cudaMemcpyDefault, stream),
	    "copying rows of a buffer");
}

static int copy_pieces(const struct piece *pieces, size_t n, void *stream)
{
	const struct pieces_args args = { pieces, n, n < PIECES_WARPS ? PIECES_WARPS / n : 1 };
	return check((cudaError_t)codelets_copy_pieces(&args, stream), "copying parts of a buffer");
}

static int query(void *stream)
{
	const cudaError_t error =
	    (cudaError_t)driver.stream_query(stream); /* the program's cudaGetLastError sees nothing of it */
	if (error == cudaErrorNotReady)
		return 0;
	const int ret = check(error, "waiting for a copy");
	return ret ? ret : 1;
}

/* ---- Memory for other processes: allocations of cudaMalloc. The driver takes microseconds for a handle, so the last ones are kept. */

enum { MOST_EXPORTED = 64 };
static struct exported {
	uint64_t id; /* of the allocation; 0: none */
	int is_capable;
	cudaIpcMemHandle_t handle;
} exported[MOST_EXPORTED];

static int get_handle(const void *p, struct exported *e)
{
	int before;
	driver.pointer_attribute(&e->is_capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
				 (CUdeviceptr)p);
	if (!e->is_capable)
		return 0;
	if (enter(ordinal(p), &before))
		return 0;
	e->is_capable = !has_failed(cudaIpcGetMemHandle(&e->handle, (void *)(uintptr_t)p));
	leave(before);
	return e->is_capable;
}

static uint64_t allocation(const void *p)
{
	unsigned long long id = 0;
	const CUresult error = driver.pointer_attribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, (CUdeviceptr)p);
	return error == CUDA_SUCCESS ? id : 0;
}

/* With the lock. 1: it has no handle. */
static int find_handle(const void *p, uint64_t id, unsigned char *handle)
{
	struct exported *e = &exported[id % MOST_EXPORTED];
	if (e->id != id) {
		*e = (struct exported){ .id = id };
		get_handle(p, e);
	}
	memcpy(handle, &e->handle, sizeof e->handle);
	return !e->is_capable;
}

static int export_memory(const void *p, size_t bytes, struct pmpi_exported *out)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	CUdeviceptr base;
	size_t size;
	_Static_assert(sizeof(cudaIpcMemHandle_t) <= sizeof out->handle, "a handle has room");
	*out = (struct pmpi_exported){ .id = allocation(p) };
	if (!out->id || driver.address_range(&base, &size, (CUdeviceptr)p) != CUDA_SUCCESS ||
	    (CUdeviceptr)p + bytes > base + size)
		return 1;
	out->at = (CUdeviceptr)p - base;
	pthread_mutex_lock(&lock);
	const int has_none = find_handle(p, out->id, out->handle);
	pthread_mutex_unlock(&lock);
	return has_none;
}

static int map_memory(const struct pmpi_exported *memory, void **allocation)
{
	cudaIpcMemHandle_t handle;
	memcpy(&handle, memory->handle, sizeof handle);
	const cudaError_t error = cudaIpcOpenMemHandle(allocation, handle, cudaIpcMemLazyEnablePeerAccess);
	if (!has_failed(error))
		return 0;
	log_line(LOG_INFO, pmpi.rank, "the memory of another rank's message can't be mapped: %s",
		 cudaGetErrorString(error));
	return 1;
}

static void unmap_memory(void *allocation)
{
	cudaIpcCloseMemHandle(allocation);
}

static const struct pmpi_device gpu = { .corale_device = CORALE_DEVICE_CUDA,
					.is_there = is_there,
					.ordinal = ordinal,
					.in_use = in_use,
					.reach = reach,
					.enter = enter,
					.leave = leave,
					.pin = pin,
					.unpin = unpin,
					.pin_mapped = pin_mapped,
					.alloc = alloc_memory,
					.free = free_memory,
					.stream_create = stream_create,
					.stream_destroy = stream_destroy,
					.copy = copy,
					.copy_rows = copy_rows,
					.copy_pieces = copy_pieces,
					.query = query,
					.export_memory = export_memory,
					.allocation = allocation,
					.map = map_memory,
					.unmap = unmap_memory };

const struct pmpi_device *const pmpi_device_gpu = &gpu;
