/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What programs that run behind the MPI door use of fake_device.h, on real GPUs: loaded in front of them in libfake_device.so's place (TEST_DEVICE, test/gpus/cuda.sh).
 * Device 0 is the rank's own GPU, which is current behind the first call here; device 1 the one behind it.
 * Threads call it while kernels of the others wait for other ranks. So no call waits for what a GPU does beside: cudaMalloc, cudaFree and cudaMemcpy may, hence
 * memory comes from one allocation a device, and copies have a stream of their own.
 */
#include <cuda_runtime.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "fake_device.h"

enum { ALIGNMENT = 256, DEVICE_BYTES = 256 << 20 };

struct block {
	size_t at, bytes;
	struct block *next; /* at rising offsets */
};

static struct {
	pthread_mutex_t lock;
	char *memory[FAKE_DEVICES]; /* NULL: not used yet */
	struct block *blocks[FAKE_DEVICES];
	cudaStream_t stream; /* of device 0 */
} devices = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void expect(cudaError_t error, const char *what)
{
	if (error == cudaSuccess)
		return;
	fprintf(stderr, "cuda device: %s: %s\n", what, cudaGetErrorString(error));
	abort();
}

static int local_rank(void)
{
	const char *const names[] = { "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMI_LOCAL_RANK" };
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (getenv(names[i]))
			return atoi(getenv(names[i]));
	return 0;
}

static void use(int ordinal)
{
	int gpus;
	expect(cudaGetDeviceCount(&gpus), "cudaGetDeviceCount");
	expect(cudaSetDevice((local_rank() + ordinal) % gpus), "cudaSetDevice");
}

/* Device 0 is current behind it. */
static void open_device(int ordinal)
{
	if (!devices.memory[ordinal]) {
		use(ordinal);
		expect(cudaMalloc((void **)&devices.memory[ordinal], DEVICE_BYTES), "cudaMalloc");
	}
	use(0);
	if (!devices.stream)
		expect(cudaStreamCreateWithFlags(&devices.stream, cudaStreamNonBlocking),
		       "cudaStreamCreateWithFlags");
}

/* The first gap that has room. */
static struct block **find_gap(int ordinal, size_t bytes, size_t *at)
{
	struct block **link = &devices.blocks[ordinal];
	for (*at = 0; *link && (*link)->at < *at + bytes; link = &(*link)->next)
		*at = (*link)->at + (*link)->bytes;
	return link;
}

void *fake_device_alloc(int ordinal, size_t bytes)
{
	struct block *block = malloc(sizeof *block);
	char *memory = NULL;
	const size_t room = (bytes / ALIGNMENT + 1) * ALIGNMENT;
	if (!block)
		return NULL;
	pthread_mutex_lock(&devices.lock);
	open_device(ordinal);
	struct block **link = find_gap(ordinal, room, &block->at);
	if (block->at + room <= DEVICE_BYTES) {
		block->bytes = room;
		block->next = *link;
		*link = block;
		memory = devices.memory[ordinal] + block->at;
		block = NULL;
	}
	pthread_mutex_unlock(&devices.lock);
	free(block);
	return memory;
}

void fake_device_free(void *memory)
{
	int is_found = !memory;
	pthread_mutex_lock(&devices.lock);
	for (int i = 0; i < FAKE_DEVICES && !is_found; i++) {
		struct block **link = &devices.blocks[i], *block;
		while (*link && devices.memory[i] + (*link)->at != memory)
			link = &(*link)->next;
		block = *link;
		is_found = block != NULL;
		if (is_found)
			*link = block->next;
		free(block);
	}
	pthread_mutex_unlock(&devices.lock);
	if (!is_found) {
		fprintf(stderr, "cuda device: %p is freed, but was not allocated\n", memory);
		abort();
	}
}

int fake_device_ordinal(const void *p)
{
	for (int i = 0; i < FAKE_DEVICES; i++)
		if (devices.memory[i] && (size_t)((const char *)p - devices.memory[i]) < DEVICE_BYTES)
			return i;
	return -1;
}

/* Not known: of all blocks together. */
size_t fake_device_mapped(void)
{
	return 0;
}

/* Also from one GPU to another. */
void fake_device_copy(void *to, const void *from, size_t bytes)
{
	pthread_mutex_lock(&devices.lock);
	open_device(0);
	const cudaStream_t stream = devices.stream;
	pthread_mutex_unlock(&devices.lock);
	expect(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "cudaMemcpyAsync");
	expect(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}
