/* SPDX-License-Identifier: BSD-3-Clause */
/* How the CUDA engine of a communicator comes up and goes down. */
#include "engine_cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "nvml.h"

/* ---- Windows -------------------------------------------------------------------------------------------- */

/* Maps handles[rank] at its place, for this GPU; on failure the handle is released. */
static int map_window(struct engine *e, int rank)
{
	CUdeviceptr at = e->base + (size_t)rank * e->stride;
	int ret = cuda_memory_map(engine_device(e), at, e->stride, e->handles[rank]);
	if (ret)
		e->driver.release(e->handles[rank]);
	e->mapped[rank] = !ret;
	return ret;
}

static int reserve(struct engine *e)
{
	size_t unit = 0;
	int ret = cuda_memory_unit(engine_device(e), &unit);
	if (ret)
		return ret;
	size_t stride = plan_round(e->layout.bytes, unit);
	if (stride > UINT32_MAX) /* kernels' offsets have 32 bits */
		return log_error(CORALE_EINVAL, e->world_rank,
				 "CORALE_GPU_WINDOW: %zu bytes take %zu of a GPU: give less", e->layout.bytes,
				 stride);
	ret = engine_check_driver(e, e->driver.reserve(&e->base, stride * (size_t)e->ranks, unit, 0, 0),
				  "reserving addresses");
	e->stride = ret ? 0 : stride;
	return ret;
}

static int make_window(struct engine *e)
{
	int ret = reserve(e);
	ret = ret ? ret : cuda_memory_make(engine_device(e), e->stride, 0, &e->handles[e->rank]);
	ret = ret ? ret : map_window(e, e->rank);
	if (ret)
		return ret;
	void *window = (void *)(e->base + (size_t)e->rank * e->stride);
	e->bytes += e->stride;
	ret = engine_fill(e, window, 0, e->layout.bytes);
	if (!ret) /* words are empty where all bits are ones */
		ret =
		    engine_fill(e, (char *)window + e->layout.words, 0xff, e->layout.lines - e->layout.words);
	return ret;
}

int engine_window_fds(struct engine *e, int zero_copy, int fds[ENGINE_FDS])
{
	if (e->machine.host_window) {
		fds[ENGINE_BOARD_FD] = -1;
		fds[ENGINE_WINDOW_FD] = e->host_fd;
		e->host_fd = -1;
		return 0;
	}
	fds[ENGINE_BOARD_FD] = zero_copy ? engine_board_fd(e) : -1;
	return cuda_memory_export(engine_device(e), e->handles[e->rank], &fds[ENGINE_WINDOW_FD]);
}

int engine_connect(struct engine *e, const int *fds, int zero_copy)
{
	int ret = zero_copy ? engine_attach_exports(e, fds + ENGINE_BOARD_FD, ENGINE_FDS) : 0;
	for (int r = 0; !ret && r < e->ranks; r++) {
		if (r == e->rank)
			continue;
		if (e->machine.host_window) {
			ret = engine_host_map(e, r, fds[r * ENGINE_FDS + ENGINE_WINDOW_FD]);
			continue;
		}
		ret = cuda_memory_import(engine_device(e), fds[r * ENGINE_FDS + ENGINE_WINDOW_FD],
					 &e->handles[r]);
		ret = ret ? ret : map_window(e, r);
	}
	return ret;
}

/* ---- State ---------------------------------------------------------------------------------------------- */

static int make_state(struct engine *e, double timeout_s)
{
	const size_t bytes = codelet_state_bytes(&e->layout);
	int ret = engine_malloc(e, bytes, (void **)&e->state);
	struct codelet_state *first = calloc(1, bytes);
	if (!ret && !first)
		ret = log_error(CORALE_ENOMEM, e->world_rank, "no memory for an engine's state");
	if (!ret) {
		first->failure = e->failure;
		first->host_abort = e->abort;
		first->hold = e->hold;
		first->waits = e->waits;
		*e->hold = (uint32_t)e->holds;
		first->timeout_ns = (uint64_t)(timeout_s * 1e9);
		ret = engine_put(e, e->state, first, bytes);
	}
	free(first);
	return ret;
}

/* One of 32 processors is left to others, whatever waits here: a kernel may need more of one than there is beside a waiting block. */
static void limit_blocks(struct engine *e, int processors, int given)
{
	int most = processors - processors / 32;
	e->gpu.processors = processors;
	e->machine.max_blocks = most < CODELET_MAX_BLOCKS ? most : CODELET_MAX_BLOCKS;
	e->machine.resident = 2 * e->machine.max_blocks;
	if (given && given < e->machine.max_blocks)
		e->machine.max_blocks = given;
	if (given && given < e->machine.resident)
		e->machine.resident = given;
}

void engine_share_machine(struct engine *e, int max_blocks, const struct rates *rates, int words_only,
			  int forced)
{
	e->machine.forced = forced;
	e->machine.words_only = words_only;
	e->machine.rates = rates;
	e->machine.max_blocks = max_blocks < e->machine.max_blocks ? max_blocks : e->machine.max_blocks;
	e->machine.resident = 2 * max_blocks < e->machine.resident ? 2 * max_blocks : e->machine.resident;
}

static int check_layout(const struct engine *e, size_t window_bytes)
{
	if (e->ranks > CODELET_MAX_RANKS)
		return log_error(CORALE_ENOTSUP, e->world_rank,
				 "%d ranks in a CUDA communicator: at most %d in this version", e->ranks,
				 CODELET_MAX_RANKS);
	if (e->ranks > 1 && !engine_layout_fits(&e->layout))
		return log_error(CORALE_EINVAL, e->world_rank,
				 "a window of %zu bytes (%s, within the communicator's memory "
				 "cap) is too small for %d ranks: give at least %zu",
				 window_bytes,
				 e->machine.host_window ? "CORALE_HOST_WINDOW" : "CORALE_GPU_WINDOW",
				 e->ranks, engine_enough_window(e->ranks));
	return 0;
}

static int find_gpu(struct engine *e, int max_blocks)
{
	struct cudaDeviceProp prop;
	int ret = engine_check(e, cudaGetDevice(&e->ordinal), "asking for the current GPU");
	if (!ret)
		ret = engine_check(e, cudaGetDeviceProperties(&prop, e->ordinal), "asking for properties");
	if (!ret)
		ret = engine_check(e, cudaDeviceGetPCIBusId(e->gpu.id.pci, sizeof(e->gpu.id.pci), e->ordinal),
				   "asking for a GPU's place on the bus");
	if (ret)
		return ret;
	memcpy(e->gpu.id.uuid, prop.uuid.bytes, sizeof(e->gpu.id.uuid));
	snprintf(e->gpu.name, sizeof(e->gpu.name), "%.*s", ENGINE_NAME_BYTES - 1, prop.name);
	e->machine.rates = rates_of_gpu(e->gpu.name);
	limit_blocks(e, prop.multiProcessorCount, max_blocks);
	return 0;
}

static int open_host_window(struct engine *e)
{
	struct nvml nvml = { 0 };
	nvml_open(&nvml);
	e->gpu.bus_gbs = nvml_bus_gbs(&nvml, e->gpu.id.pci);
	nvml_close(&nvml);
	return engine_host_make(e);
}

/* The windows of all ranks, and room for the addresses of all regions (engine_cuda_share.c). */
static int open_window(struct engine *e)
{
	int ret = engine_malloc(e, engine_peers_bytes(e), (void **)&e->gpu_peers);
	return ret ? ret : e->machine.host_window ? open_host_window(e) : make_window(e);
}

static int open_parts(struct engine *e, const struct engine_params *p, int (*load)(void))
{
	const size_t window_bytes = p->window_bytes < p->memory_cap ? p->window_bytes : p->memory_cap;
	codelet_layout_init(&e->layout, p->most_ranks, window_bytes); /* equal on all nodes, as plans are */
	int ret = e->handles && e->mapped && e->p2p && e->staged && e->jobs
		      ? 0
		      : log_error(CORALE_ENOMEM, p->world_rank, "no memory for an engine");
	ret = ret ? ret : cuda_need_driver(&e->driver, p->world_rank);
	ret = ret ? ret : find_gpu(e, p->max_blocks);
	ret = ret ? ret : engine_check(e, load(), "loading the kernels");
	ret = ret ? ret : check_layout(e, window_bytes);
	ret = ret ? ret : engine_make_event(e, &e->order);
	ret = ret || p->world_ranks > 1 ? ret : engine_make_event(e, &e->copied);
	ret = ret ? ret : engine_control_open(e);
	ret = ret ? ret : make_state(e, p->timeout_s);
	ret = ret ? ret : engine_open_lists(e);
	ret = ret || p->world_ranks == 1 ? ret : open_window(e);
	return ret ? ret : engine_open_remote(e, p);
}

int engine_open(const struct engine_params *p, int (*load)(void), struct engine **out)
{
	struct engine *e = calloc(1, sizeof(*e));
	if (!e)
		return log_error(CORALE_ENOMEM, p->world_rank, "no memory for an engine");
	pthread_mutex_init(&e->opened_lock, NULL);
	e->rank = p->rank;
	e->ranks = p->ranks;
	e->world_rank = p->world_rank;
	e->world_ranks = p->world_ranks;
	e->memory_cap = p->memory_cap;
	e->holds = p->holds != 0;
	e->edges_at_once = (CODELET_MAX_MESSAGES - 1) / 2; /* and a copy */
	e->scratch_region = ENGINE_MAX_REGIONS; /* none */
	e->machine.host_window = p->host_window;
	e->host_fd = -1;
	engine_host_count(1);
	e->handles = calloc((size_t)p->ranks, sizeof(*e->handles));
	e->mapped = calloc((size_t)p->ranks, 1);
	e->p2p = calloc(1, sizeof(*e->p2p));
	e->staged = calloc(1, sizeof(*e->staged));
	e->jobs = calloc(ENGINE_COPY_JOBS, sizeof(*e->jobs));
	const int ret = open_parts(e, p, load);
	if (ret) {
		engine_close(e);
		return ret;
	}
	engine_make_args(e);
	*out = e;
	return 0;
}

/*
 * A graph that outlives its communicator finds its memory in place, and a kernel that ends at once. Everything else goes when the engine's own work
 * has ended, by nothing that waits for work of others: memory is unmapped, or goes to the pool.
 */
void engine_close(struct engine *e)
{
	if (e->hangs)
		return;
	engine_release(e);
	engine_wait_own(e); /* kernels end at their deadlines at the latest */
	if (e->captured) {
		engine_host_count(-1);
		engine_end_kernels(e, CORALE_ECOMM);
		for (int r = 0; r < e->ranks; r++)
			if (r != e->rank)
				engine_forget_rank(e, r);
		return;
	}
	engine_close_exports(e);
	engine_detach_all(e);
	engine_free_streams(e);
	engine_free(e, e->scratch, 1);
	if (e->machine.host_window)
		engine_host_give(e);
	if (e->host_fd >= 0)
		close(e->host_fd);
	for (int r = 0; e->mapped && r < e->ranks; r++) {
		if (!e->mapped[r])
			continue;
		e->driver.unmap(e->base + (size_t)r * e->stride, e->stride);
		e->driver.release(e->handles[r]);
	}
	if (e->stride)
		e->driver.unreserve(e->base, e->stride * (size_t)e->ranks);
	if (e->order)
		cudaEventDestroy(e->order);
	if (e->copied)
		cudaEventDestroy(e->copied);
	engine_close_lists(e);
	engine_close_remote(e);
	engine_mfree(e, e->state, codelet_state_bytes(&e->layout));
	engine_control_close(e);
	free(e->handles);
	free(e->mapped);
	free(e->p2p);
	free(e->staged);
	free(e->jobs);
	pthread_mutex_destroy(&e->opened_lock);
	free(e);
	engine_host_count(-1);
}
