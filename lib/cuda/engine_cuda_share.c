/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of the user that peers map: by file descriptors, or, as memory of cudaMalloc has none, by handles of the runtime's
 * inter-process calls. The driver counts how often an allocation is opened, so regions of one allocation and of several
 * communicators need not know each other.
 */
#include "engine_cuda.h"

#include <stdlib.h>
#include <string.h>

#include "corale.h"
#include "base/log.h"

/* What a rank sends its peers about its memory. */
struct share_handle {
	cudaIpcMemHandle_t allocation;
	uint64_t allocation_bytes; /* of what a descriptor stands for; 0: the handle above does */
	uint64_t offset, bytes; /* of the buffer in it */
};

_Static_assert(sizeof(struct share_handle) <= ENGINE_HANDLE_BYTES, "a handle has room for the CUDA engine's");

static int refuse(const struct engine *e, const char *what, const void *buffer, size_t bytes, const char *why)
{
	log_line(LOG_INFO, e->world_rank,
		 "the %zu bytes at %p can't be mapped by peers and are used like any others: %s: %s", bytes,
		 buffer, what, why);
	return CORALE_ENOTSUP;
}

/* The allocation that holds a buffer. */
static CUresult allocation_of(const struct engine *e, const void *buffer, struct engine_region *out)
{
	CUdeviceptr at = (CUdeviceptr)(uintptr_t)buffer;
	CUresult error = e->driver.address_range(&out->allocation, &out->allocation_bytes, at);
	if (error == CUDA_SUCCESS)
		error = e->driver.pointer_attribute(&out->buffer_id, CU_POINTER_ATTRIBUTE_BUFFER_ID, at);
	return error;
}

int engine_share(struct engine *e, const void *buffer, size_t bytes, unsigned char out[ENGINE_HANDLE_BYTES],
		 int *fd)
{
	struct cudaPointerAttributes attributes;
	struct engine_region found;
	struct share_handle handle;
	memset(&handle, 0, sizeof(handle));
	*fd = -1;
	if (!bytes)
		return CORALE_ENOTSUP;
	if (e->machine.host_window)
		return refuse(e, "what it is", buffer, bytes, "this rank's peers reach no memory of its GPU");
	cudaError_t error = cudaPointerGetAttributes(&attributes, buffer);
	if (error != cudaSuccess || attributes.type != cudaMemoryTypeDevice ||
	    attributes.device != e->ordinal) {
		cudaGetLastError(); /* ours, not the user's */
		return refuse(e, "what it is", buffer, bytes, "it is not memory of this rank's GPU");
	}
	if (allocation_of(e, buffer, &found) != CUDA_SUCCESS)
		return refuse(e, "its allocation", buffer, bytes, "the driver knows none");
	handle.offset = (uint64_t)((CUdeviceptr)(uintptr_t)buffer - found.allocation);
	handle.bytes = bytes;
	if (bytes > found.allocation_bytes - handle.offset)
		return refuse(e, "its allocation", buffer, bytes, "it ends before the buffer");
	if (engine_export(e, found.allocation, fd))
		handle.allocation_bytes = found.allocation_bytes;
	else
		error = cudaIpcGetMemHandle(&handle.allocation, (void *)(uintptr_t)found.allocation);
	if (error != cudaSuccess) {
		cudaGetLastError();
		return refuse(
		    e, "exporting it (memory of cudaMalloc and cuMemCreate with file descriptors can be)",
		    buffer, bytes, cudaGetErrorString(error));
	}
	memcpy(out, &handle, sizeof(handle));
	return 0;
}

/* ---- Regions --------------------------------------------------------------------------------------------- */

static int free_region(const struct engine *e)
{
	int i = 0;
	while (i < ENGINE_MAX_REGIONS && e->regions[i].begin)
		i++;
	return i;
}

static void close_opened(const struct engine *e, const struct engine_opened *o)
{
	if (o->bytes)
		cuda_memory_free(engine_device(e), o->base, o->bytes);
	else if (o->base && cudaIpcCloseMemHandle(o->base) != cudaSuccess)
		cudaGetLastError(); /* its owner's process has ended */
}

/* Unmapping does not wait for kernels that store there; used: there may be some. */
static void close_region(struct engine *e, struct engine_region *r, int used)
{
	if (used)
		engine_wait_own(e);
	pthread_mutex_lock(&e->opened_lock);
	for (int p = 0; r->opened && p < e->ranks; p++)
		close_opened(e, &r->opened[p]);
	free(r->opened);
	free(r->peers);
	memset(r, 0, sizeof(*r));
	pthread_mutex_unlock(&e->opened_lock);
}

/* Where a peer's buffer lies in its allocation is what the peer says: what is stored there must stay in what is mapped here. */
static int check_bounds(const struct engine *e, int rank, const struct share_handle *h, size_t mapped)
{
	if (h->offset <= mapped && h->bytes <= mapped - h->offset)
		return 0;
	return log_error(
	    CORALE_EPEER, e->world_rank,
	    "rank %d says that its registered buffer is %llu bytes at byte %llu of an allocation; "
	    "expected them within its %zu bytes: start all ranks with the same library, and look for "
	    "stray stores in that process",
	    rank, (unsigned long long)h->bytes, (unsigned long long)h->offset, mapped);
}

/* A handle of the runtime's says nothing of the allocation's size; the driver knows it. */
static int check_opened(const struct engine *e, int rank, const struct share_handle *h, void *opened)
{
	CUdeviceptr base = 0, at = (CUdeviceptr)(uintptr_t)opened;
	size_t bytes = 0;
	int ret = engine_check_driver(e, e->driver.address_range(&base, &bytes, at),
				      "asking for a peer's allocation");
	return ret ? ret : check_bounds(e, rank, h, bytes - (size_t)(at - base));
}

static int open_handle(const struct engine *e, int rank, const struct share_handle *h, int fd,
		       struct engine_opened *out)
{
	if (h->allocation_bytes) {
		int ret = check_bounds(e, rank, h, h->allocation_bytes);
		if (!ret)
			ret = engine_import(e, fd, h->allocation_bytes, &out->base);
		out->bytes = ret ? 0 : h->allocation_bytes;
		return ret;
	}
	cudaError_t error = cudaIpcOpenMemHandle(&out->base, h->allocation, cudaIpcMemLazyEnablePeerAccess);
	if (error == cudaSuccess)
		return check_opened(e, rank, h, out->base);
	cudaGetLastError();
	out->base = NULL;
	log_line(LOG_INFO, e->world_rank,
		 "memory of rank %d can't be mapped here and is used like any other: %s", rank,
		 cudaGetErrorString(error));
	return CORALE_ENOTSUP;
}

static int open_peers(const struct engine *e, struct engine_region *r, const unsigned char *handles,
		      size_t stride, const int *fds)
{
	for (int p = 0; p < e->ranks; p++) {
		struct share_handle handle;
		memcpy(&handle, handles + (size_t)p * stride, sizeof(handle));
		r->bytes = handle.bytes < r->bytes ? (size_t)handle.bytes : r->bytes;
		r->exported &= handle.allocation_bytes != 0;
		r->peers[p] = r->begin;
		if (p == e->rank)
			continue;
		int ret = open_handle(e, p, &handle, fds ? fds[p] : -1, &r->opened[p]);
		if (ret)
			return ret;
		r->peers[p] = (unsigned char *)r->opened[p].base + handle.offset;
	}
	return 0;
}

/* The regions' addresses lie behind each other, one row of all ranks a region. */
static int put_addresses(struct engine *e, int region)
{
	size_t row = (size_t)e->ranks * sizeof(*e->gpu_peers);
	int ret = engine_make_streams(e);
	if (ret)
		return ret;
	struct engine_region *r = &e->regions[region];
	r->gpu_peers = e->gpu_peers + (size_t)region * (size_t)e->ranks;
	return engine_put(e, r->gpu_peers, r->peers, row);
}

static int attach(struct engine *e, const unsigned char *handles, size_t stride, const int *fds, void *buffer,
		  int region)
{
	struct engine_region *r = &e->regions[region];
	int ret = 0;
	*r = (struct engine_region){ .begin = buffer,
				     .bytes = SIZE_MAX,
				     .exported = 1,
				     .peers = calloc((size_t)e->ranks, sizeof(*r->peers)),
				     .opened = calloc((size_t)e->ranks, sizeof(*r->opened)) };
	if (!r->peers || !r->opened)
		ret = log_error(CORALE_ENOMEM, e->world_rank, "no memory for the addresses of %d peers",
				e->ranks);
	if (!ret)
		ret = engine_check_driver(e, allocation_of(e, buffer, r), "asking for an allocation");
	if (!ret)
		ret = open_peers(e, r, handles, stride, fds);
	return ret ? ret : put_addresses(e, region);
}

int engine_attach(struct engine *e, const unsigned char *handles, size_t stride, const int *fds, void *buffer,
		  int *region)
{
	const int i = free_region(e);
	if (i == ENGINE_MAX_REGIONS) {
		log_line(LOG_INFO, e->world_rank,
			 "peers map %d pieces of memory already; this one is used like any other", i);
		return CORALE_ENOTSUP;
	}
	pthread_mutex_lock(&e->opened_lock);
	const int ret = attach(e, handles, stride, fds, buffer, i);
	e->nregions = ret || i < e->nregions ? e->nregions : i + 1;
	pthread_mutex_unlock(&e->opened_lock);
	if (ret)
		close_region(e, &e->regions[i], 0);
	else
		*region = i;
	return ret;
}

void engine_detach(struct engine *e, int region, int used)
{
	close_region(e, &e->regions[region], used);
	pthread_mutex_lock(&e->opened_lock);
	while (e->nregions && !e->regions[e->nregions - 1].begin)
		e->nregions--;
	pthread_mutex_unlock(&e->opened_lock);
}

static int forget(const struct engine *e, struct engine_opened *o)
{
	int ret = 0;
	if (e->captured && o->bytes)
		ret = engine_sink(e, o->base, o->bytes);
	else
		close_opened(e, o);
	memset(o, 0, sizeof(*o));
	return ret;
}

int engine_forget_rank(struct engine *e, int rank)
{
	int ret = 0;
	pthread_mutex_lock(&e->opened_lock);
	for (int i = 0; i < e->nregions; i++) {
		struct engine_region *r = &e->regions[i];
		int one = r->opened && i != e->scratch_region ? forget(e, &r->opened[rank]) : 0;
		ret = ret ? ret : one;
	}
	pthread_mutex_unlock(&e->opened_lock);
	return ret;
}

void engine_detach_all(struct engine *e)
{
	for (int i = 0; i < e->nregions; i++)
		if (e->regions[i].begin)
			close_region(e, &e->regions[i], 1);
	e->nregions = 0;
	engine_mfree(e, e->gpu_peers, engine_peers_bytes(e));
	e->gpu_peers = NULL;
}

/* Of several regions that hold the buffer the lowest: the same on all ranks, as regions are. */
uint64_t engine_find(const struct engine *e, const void *buffer, size_t bytes)
{
	for (int i = 0; i < e->nregions; i++) {
		const struct engine_region *r = &e->regions[i];
		uintptr_t offset = (uintptr_t)buffer - (uintptr_t)r->begin;
		if (r->begin && offset < r->bytes && bytes <= r->bytes - offset)
			return (uint64_t)(i + 1) << ENGINE_TARGET_SHIFT | offset;
	}
	return 0;
}

int engine_is_exported(const struct engine *e, uint64_t target)
{
	return engine_region_of(e, target)->exported;
}

int engine_verify(const struct engine *e, uint64_t target)
{
	const struct engine_region *r = engine_region_of(e, target);
	struct engine_region now;
	memset(&now, 0, sizeof(now));
	if (allocation_of(e, r->begin, &now) == CUDA_SUCCESS && now.allocation == r->allocation &&
	    now.allocation_bytes == r->allocation_bytes && now.buffer_id == r->buffer_id)
		return 0;
	return log_error(
	    CORALE_EINVAL, e->world_rank,
	    "registration %d (%zu bytes at %p) was freed or replaced while it was registered: expected "
	    "allocation %llu of %zu bytes at %p, got %llu of %zu bytes at %p; call corale_mem_deregister "
	    "before "
	    "the memory is freed",
	    (int)(r - e->regions), r->bytes, (void *)r->begin, r->buffer_id, r->allocation_bytes,
	    (void *)(uintptr_t)r->allocation, now.buffer_id, now.allocation_bytes,
	    (void *)(uintptr_t)now.allocation);
}
