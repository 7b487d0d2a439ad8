/*
 * How a CUDA device comes up and goes down.
 */
#include "device_cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "corale.h"
#include "base/log.h"

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

/* ---- Coming up ----------------------------------------------------------------------------------------- */

/* Copies the map and peer_of into one array, for the host; its copy on the GPU has the same layout. */
static int copy_map(struct device *d, const struct device_params *p)
{
	const struct plan_map *map = p->map;
	size_t ranks = (size_t)map->ranks, nodes = (size_t)map->nodes + 1;
	d->nints = 4 * ranks + nodes;
	d->ints = malloc(d->nints * sizeof(int));
	if (!d->ints)
		return log_error(CORALE_ENOMEM, d->rank, "no memory for the map of %d ranks", map->ranks);
	memcpy(d->ints, map->node_of, ranks * sizeof(int));
	memcpy(d->ints + ranks, map->local_of, ranks * sizeof(int));
	memcpy(d->ints + 2 * ranks, map->member, ranks * sizeof(int));
	memcpy(d->ints + 3 * ranks, p->peer_of, ranks * sizeof(int));
	memcpy(d->ints + 4 * ranks, map->node_first, nodes * sizeof(int));
	d->map = *map;
	d->peer_of = d->ints + 3 * ranks;
	return 0;
}

struct plan_map cuda_map_at(const struct device *d, const int *ints)
{
	struct plan_map map = d->map;
	size_t ranks = (size_t)map.ranks;
	map.node_of = ints;
	map.local_of = ints + ranks;
	map.member = ints + 2 * ranks;
	map.node_first = ints + 4 * ranks;
	return map;
}

static int alloc_cleared(struct device *d, size_t bytes, void **out)
{
	int result = cuda_check(d, cudaMalloc(out, bytes), "allocating memory");
	if (!result)
		result = cuda_check(d, cudaMemset(*out, 0, bytes), "clearing memory");
	d->bytes += result ? 0 : bytes;
	return result;
}

static int make_memory(struct device *d)
{
	size_t lanes = kernels_lane(&d->layout, d->layout.peers, 0, 0) * sizeof(uint64_t);
	int result = alloc_cleared(d, d->nints * sizeof(int), (void **)&d->device_ints);
	if (!result)
		result = cuda_check(
		    d, cudaMemcpy(d->device_ints, d->ints, d->nints * sizeof(int), cudaMemcpyHostToDevice),
		    "copying the map");
	if (!result)
		result = alloc_cleared(d, lanes, (void **)&d->counters.sent);
	if (!result)
		result = alloc_cleared(d, lanes, (void **)&d->counters.received);
	if (!result)
		result =
		    alloc_cleared(d, kernels_progress(&d->layout, PLAN_MAX_PROGRAMS, 0, 0) * sizeof(uint64_t),
				  (void **)&d->progress);
	if (!result)
		result = cuda_check(
		    d, cudaHostAlloc((void **)&d->failure, sizeof(*d->failure), cudaHostAllocMapped),
		    "allocating host memory");
	if (!result)
		result =
		    cuda_check(d, cudaHostAlloc((void **)&d->abort, sizeof(*d->abort), cudaHostAllocMapped),
			       "allocating host memory");
	if (result)
		return result;
	memset(d->failure, 0, sizeof(*d->failure));
	*d->abort = 0;
	d->copy_counters.sent = calloc(1, lanes);
	d->copy_counters.received = calloc(1, lanes);
	if (!d->copy_counters.sent || !d->copy_counters.received)
		return log_error(CORALE_ENOMEM, d->rank, "no memory for %zu bytes of counters", 2 * lanes);
	return 0;
}

static int make_streams(struct device *d)
{
	int result = cuda_check(d, cudaStreamCreateWithFlags(&d->release_stream, cudaStreamNonBlocking),
				"making a stream");
	if (!result)
		result = cuda_check(d, cudaEventCreateWithFlags(&d->begin, cudaEventDisableTiming),
				    "making an event");
	for (int i = 0; !result && i < CUDA_COPY_STREAMS; i++) {
		result = cuda_check(d, cudaStreamCreateWithFlags(&d->copy_streams[i], cudaStreamNonBlocking),
				    "making a stream");
		if (!result)
			result = cuda_check(d, cudaEventCreateWithFlags(&d->ends[i], cudaEventDisableTiming),
					    "making an event");
	}
	return result;
}

int cuda_open(const struct device_params *p, struct device **out)
{
	if (p->peers > KERNELS_MAX_PEERS)
		return log_error(CORALE_ENOTSUP, p->rank, "%d GPUs on a host: at most %d", p->peers,
				 KERNELS_MAX_PEERS);
	struct device *d = calloc(1, sizeof(*d));
	if (!d)
		return log_error(CORALE_ENOMEM, p->rank, "no memory for a device");
	d->rank = p->rank;
	d->ordinal = p->ordinal;
	d->timeout_s = p->timeout_s;
	d->me = p->peer_of[p->rank];
	kernels_layout_init(&d->layout, p->peers, p->channels, p->slots, p->slot_bytes);
	int result = cuda_need_driver(&d->driver, p->rank);
	if (!result)
		result =
		    cuda_check(d, d->ordinal < 0 ? cudaGetDevice(&d->ordinal) : cudaSetDevice(d->ordinal),
			       "choosing it");
	if (!result)
		result = cuda_check(d, cudaFree(NULL), "starting it");
	if (!result)
		result = cuda_check(
		    d, cudaDeviceGetAttribute(&d->most_blocks, cudaDevAttrMultiProcessorCount, d->ordinal),
		    "counting its processors");
	if (!result)
		result = copy_map(d, p);
	if (!result)
		result = cuda_check(d, (cudaError_t)kernels_load(), "loading the kernels");
	if (!result)
		result = make_streams(d);
	if (!result)
		result = make_memory(d);
	if (!result)
		result = cuda_make_window(d);
	if (!result)
		result = cuda_check(d, cudaDeviceSynchronize(), "coming up");
	if (result)
		cuda_close(d);
	else
		*out = d;
	return result;
}

/* ---- Going down ---------------------------------------------------------------------------------------- */

/* 1 if nothing is queued any more. */
static int idle(const struct device *d)
{
	int busy = 0;
	for (int i = 0; i < CUDA_COPY_STREAMS; i++)
		busy |= d->copy_streams[i] && cudaStreamQuery(d->copy_streams[i]) == cudaErrorNotReady;
	return !busy && cudaStreamQuery(cudaStreamLegacy) != cudaErrorNotReady;
}

/* Ends what is still queued; 1 if that worked within some seconds. */
static int drain(struct device *d)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	for (int ms = 0; ms < CUDA_DRAIN_MS; ms++) {
		if (idle(d))
			return 1;
		cuda_abort(d); /* again and again: peers may have written since */
		nanosleep(&pause, NULL);
	}
	return 0;
}

void cuda_close(struct device *d)
{
	if (d->abort && !drain(d)) { /* freeing would wait for ever */
		log_line(LOG_WARN, d->rank, "GPU %d does not finish its work: its memory stays allocated",
			 d->ordinal);
		return;
	}
	for (int i = 0; i < KERNELS_MAX_PEERS; i++)
		cuda_unmap_window(d, &d->windows[i]);
	for (int i = 0; i < d->nretired; i++)
		cudaFree(d->retired[i]);
	cudaFree(d->scratch);
	cudaFree(d->device_ints);
	cudaFree(d->counters.sent);
	cudaFree(d->counters.received);
	cudaFree(d->progress);
	cudaFreeHost(d->failure);
	cudaFreeHost(d->abort);
	if (d->begin)
		cudaEventDestroy(d->begin);
	for (int i = 0; i < CUDA_COPY_STREAMS; i++) {
		if (d->ends[i])
			cudaEventDestroy(d->ends[i]);
		if (d->copy_streams[i])
			cudaStreamDestroy(d->copy_streams[i]);
	}
	if (d->release_stream)
		cudaStreamDestroy(d->release_stream);
	free(d->copy_counters.sent);
	free(d->copy_counters.received);
	free(d->awaited);
	free(d->ints);
	free(d);
}
