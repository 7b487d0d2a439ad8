/* SPDX-License-Identifier: BSD-3-Clause */
/* Gives the cases device, managed, pinned, registered and virtual memory, piece by piece. */
#include "cuda_memory.h"

#include <cuda.h>
#include <cudaTypedefs.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* Looked up at run time: the driver's library is not linked. */
struct vmm_driver {
	PFN_cuMemGetAllocationGranularity_v10020 granularity;
	PFN_cuMemCreate_v10020 create;
	PFN_cuMemRelease_v10020 release;
	PFN_cuMemAddressReserve_v10020 reserve;
	PFN_cuMemAddressFree_v10020 unreserve;
	PFN_cuMemMap_v10020 map;
	PFN_cuMemUnmap_v10020 unmap;
	PFN_cuMemSetAccess_v10020 set_access;
};

const char *cuda_memory_name(enum cuda_memory_kind kind)
{
	static const char *const names[] = { "device", "async",   "vmm",       "pinned",
					     "host",   "library", "registered" };
	return names[kind];
}

int cuda_memory_on_host(enum cuda_memory_kind kind)
{
	return kind == CUDA_MEMORY_PINNED || kind == CUDA_MEMORY_HOST;
}

/* These have one version only, so that their plain names are it. */
static int look_up(const char *name, void *function)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW); /* open already, by the runtime */
	void *found = driver ? dlsym(driver, name) : NULL;
	memcpy(function, &found, sizeof(found));
	return found ? 0 : -1;
}

static int load_driver(struct vmm_driver *driver)
{
	return look_up("cuMemGetAllocationGranularity", &driver->granularity) |
	       look_up("cuMemCreate", &driver->create) | look_up("cuMemRelease", &driver->release) |
	       look_up("cuMemAddressReserve", &driver->reserve) |
	       look_up("cuMemAddressFree", &driver->unreserve) | look_up("cuMemMap", &driver->map) |
	       look_up("cuMemUnmap", &driver->unmap) | look_up("cuMemSetAccess", &driver->set_access);
}

/* Physical pieces next to each other in one range of addresses: buffers may cross from one to the other. */
static int open_vmm(struct cuda_world *world, struct cuda_arena *arena)
{
	struct vmm_driver driver;
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED };
	CUmemAccessDesc access = { .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUdeviceptr base = 0;
	size_t grain = 1;
	int bad = load_driver(&driver);
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.location.id = world->gpu;
	access.location = prop.location;
	bad = bad || driver.granularity(&grain, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
	arena->piece_bytes = (arena->bytes / CUDA_MEMORY_VMM_PIECES + grain - 1) / grain * grain;
	arena->bytes = arena->piece_bytes * CUDA_MEMORY_VMM_PIECES;
	bad = bad || driver.reserve(&base, arena->bytes, 0, 0, 0);
	for (int i = 0; !bad && i < CUDA_MEMORY_VMM_PIECES; i++) {
		CUmemGenericAllocationHandle piece;
		bad = driver.create(&piece, arena->piece_bytes, &prop, 0) ||
		      driver.map(base + (size_t)i * arena->piece_bytes, arena->piece_bytes, 0, piece, 0);
		arena->pieces[i] = piece;
	}
	bad = bad || driver.set_access(base, arena->bytes, &access, 1);
	arena->base = (unsigned char *)(uintptr_t)base; /* what a failure left ends with the process */
	return bad ? -1 : 0;
}

static void close_vmm(struct cuda_arena *arena)
{
	struct vmm_driver driver;
	CUdeviceptr base = (CUdeviceptr)(uintptr_t)arena->base;
	if (load_driver(&driver))
		return;
	driver.unmap(base, arena->bytes);
	for (int i = 0; i < CUDA_MEMORY_VMM_PIECES; i++)
		driver.release(arena->pieces[i]);
	driver.unreserve(base, arena->bytes);
}

static int open_kind(struct cuda_world *world, struct cuda_arena *arena)
{
	void **base = (void **)&arena->base;
	switch (arena->kind) {
	case CUDA_MEMORY_ASYNC:
		return cudaMallocAsync(base, arena->bytes, NULL) != cudaSuccess ||
		       cudaStreamSynchronize(NULL) != cudaSuccess;
	case CUDA_MEMORY_VMM:
		return open_vmm(world, arena);
	case CUDA_MEMORY_PINNED:
		return cudaMallocHost(base, arena->bytes) != cudaSuccess;
	case CUDA_MEMORY_HOST:
		arena->base = malloc(arena->bytes);
		return !arena->base;
	case CUDA_MEMORY_LIBRARY:
		return corale_mem_alloc(arena->comm, arena->bytes, base);
	default:
		return cudaMalloc(base, arena->bytes) != cudaSuccess;
	}
}

int cuda_arena_open(struct cuda_world *world, struct cuda_arena *arena, enum cuda_memory_kind kind,
		    corale_comm *comm, size_t bytes)
{
	*arena = (struct cuda_arena){ .kind = kind, .comm = comm, .bytes = bytes };
	int ret = open_kind(world, arena);
	if (!ret && kind == CUDA_MEMORY_REGISTERED)
		ret = corale_mem_register(comm, arena->base, arena->bytes, &arena->handle);
	if (!ret)
		return 0;
	cuda_world_fault(world, "cannot get %zu bytes of %s memory: %d, %s", bytes, cuda_memory_name(kind),
			 ret, corale_comm_last_error(comm));
	arena->bytes = 0;
	return -1;
}

void cuda_arena_close(struct cuda_world *world, struct cuda_arena *arena)
{
	if (!arena->bytes)
		return;
	if (arena->kind == CUDA_MEMORY_VMM)
		close_vmm(arena);
	else if (arena->kind == CUDA_MEMORY_PINNED)
		cuda_world_good(world, cudaFreeHost(arena->base), "cudaFreeHost");
	else if (arena->kind == CUDA_MEMORY_HOST)
		free(arena->base);
	else if (arena->kind == CUDA_MEMORY_ASYNC)
		cuda_world_good(world, cudaFreeAsync(arena->base, NULL), "cudaFreeAsync");
	else if (arena->kind == CUDA_MEMORY_LIBRARY)
		cuda_world_ok(world, corale_mem_free(arena->comm, arena->base), arena->comm,
			      "corale_mem_free");
	else if (arena->kind == CUDA_MEMORY_REGISTERED)
		cuda_world_ok(world, corale_mem_deregister(arena->comm, arena->handle), arena->comm,
			      "corale_mem_deregister");
	if (arena->kind == CUDA_MEMORY_DEVICE || arena->kind == CUDA_MEMORY_REGISTERED)
		cuda_world_good(world, cudaFree(arena->base), "cudaFree");
	arena->bytes = 0;
}

unsigned char *cuda_arena_take(struct cuda_arena *arena, size_t bytes)
{
	size_t at = (arena->used + CUDA_MEMORY_ALIGNMENT - 1) / CUDA_MEMORY_ALIGNMENT * CUDA_MEMORY_ALIGNMENT;
	if (at > arena->bytes || bytes > arena->bytes - at)
		return NULL;
	arena->used = at + bytes;
	return arena->base + at;
}
