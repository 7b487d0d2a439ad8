/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of GPUs that peers map (lib/cuda/engine_cuda_share.c, lib/cuda/engine_cuda_memory.c), by a driver that the test makes up: what a peer
 * says of its buffer must lie in what is mapped, else the memory is not used and everything is closed again; descriptors close on exec.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "test/helpers/unit.h"
#include "test/helpers/fake_driver.h"
#include "cuda/engine_cuda.h"
#include "base/log.h"

enum { RANKS = 2, ALLOCATION = 1 << 16 };

/* As lib/cuda/engine_cuda_share.c lays it out. */
struct handle {
	cudaIpcMemHandle_t allocation;
	uint64_t allocation_bytes, offset, bytes;
};

static unsigned char mine[ALLOCATION], theirs[ALLOCATION];

/* ---- The driver, and the rest of the engine ---- */

static CUresult address_range(CUdeviceptr *base, size_t *bytes, CUdeviceptr at)
{
	*base = (CUdeviceptr)(at - (uintptr_t)mine < ALLOCATION ? mine : theirs);
	*bytes = ALLOCATION;
	return CUDA_SUCCESS;
}

static CUresult pointer_attribute(void *value, int attribute, CUdeviceptr at)
{
	*(unsigned long long *)value = attribute == CU_POINTER_ATTRIBUTE_BUFFER_ID;
	return CUDA_SUCCESS;
}

static CUresult retain(CUmemGenericAllocationHandle *handle, void *memory)
{
	*handle = 1;
	return CUDA_SUCCESS;
}

/* As a driver may that leaves it to the caller to close descriptors on exec. */
static CUresult export_handle(void *out, CUmemGenericAllocationHandle handle, int kind, uint64_t flags)
{
	int *fd = out;
	*fd = open("/dev/null", O_RDONLY);
	return *fd < 0;
}

static const struct cuda_driver driver = { .address_range = address_range,
					   .pointer_attribute = pointer_attribute,
					   .retain = retain,
					   .release = fake_release,
					   .export_handle = export_handle };

cudaError_t cudaIpcOpenMemHandle(void **memory, cudaIpcMemHandle_t handle, unsigned flags)
{
	*memory = fake_last_placed = theirs;
	fake_open_now++;
	return cudaSuccess;
}

cudaError_t cudaIpcCloseMemHandle(void *memory)
{
	assert_ptr_equal(memory, theirs);
	fake_open_now--;
	return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *memory)
{
	*attributes = (struct cudaPointerAttributes){ cudaMemoryTypeDevice, 0 };
	return cudaSuccess;
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *memory)
{
	return cudaSuccess;
}

void engine_mfree(struct engine *e, void *memory, size_t bytes)
{
}

struct cuda_device engine_device(const struct engine *e)
{
	return (struct cuda_device){ &e->driver, e->rank, e->ordinal };
}

int engine_check_driver(const struct engine *e, CUresult error, const char *what)
{
	return error ? log_error(CORALE_EDEVICE, e->rank, "%s: error %d", what, error) : 0;
}

int engine_make_streams(struct engine *e)
{
	return 0;
}

int engine_put(struct engine *e, void *to, const void *from, size_t bytes)
{
	memcpy(to, from, bytes);
	return 0;
}

int engine_wait_own(struct engine *e)
{
	return 0;
}

/* ---- Cases ---- */

/* Attaches a buffer whose peer says so; the result, with what it left put away. */
static int attach(uint64_t allocation_bytes, uint64_t offset, uint64_t bytes)
{
	static unsigned char *table[ENGINE_MAX_REGIONS * RANKS];
	struct engine e = {
		.driver = driver, .ranks = RANKS, .gpu_peers = table, .scratch_region = ENGINE_MAX_REGIONS
	};
	struct handle handles[RANKS] = {
		{ .allocation_bytes = allocation_bytes, .bytes = 1024 },
		{ .allocation_bytes = allocation_bytes, .offset = offset, .bytes = bytes }
	};
	unsigned char raw[RANKS][ENGINE_HANDLE_BYTES];
	const int fds[RANKS] = { -1, FAKE_FD };
	int region = -1;
	for (int r = 0; r < RANKS; r++)
		memcpy(raw[r], &handles[r], sizeof(handles[r]));
	int ret = engine_attach(&e, raw[0], sizeof(raw[0]), fds, mine, &region);
	if (!ret) {
		assert_int_equal(fake_open_now, 1);
		assert_ptr_equal(e.regions[region].peers[1], fake_last_placed + offset);
		engine_detach(&e, region, 0);
	}
	assert_int_equal(fake_open_now, 0);
	return ret;
}

static void expect_refusal(uint64_t allocation_bytes, uint64_t offset, uint64_t bytes)
{
	assert_int_equal(attach(allocation_bytes, offset, bytes), CORALE_EPEER);
	assert_non_null(strstr(log_last_error(), "rank 1"));
	assert_non_null(strstr(log_last_error(), "65536"));
}

static void try_all(uint64_t allocation_bytes)
{
	assert_int_equal(attach(allocation_bytes, 0, ALLOCATION), 0);
	assert_int_equal(attach(allocation_bytes, ALLOCATION - 1024, 1024), 0);
	expect_refusal(allocation_bytes, ALLOCATION - 1024, 1025);
	expect_refusal(allocation_bytes, ALLOCATION + 1, 0);
	expect_refusal(allocation_bytes, 0, ALLOCATION + 1);
	expect_refusal(allocation_bytes, 64, UINT64_MAX - 32);
	expect_refusal(allocation_bytes, (uint64_t)0 - 4096, 8192);
}

UNIT_TEST(test_descriptors)
{
	try_all(ALLOCATION);
}

UNIT_TEST(test_handles_of_the_runtime)
{
	try_all(0);
}

UNIT_TEST(test_close_on_exec)
{
	struct engine e = { .driver = driver, .ranks = RANKS };
	unsigned char raw[ENGINE_HANDLE_BYTES];
	int fd = -1;
	assert_int_equal(engine_share(&e, mine, 1024, raw, &fd), 0);
	assert_true(fd >= 0);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	close(fd);
}

/* A peer has given its memory up, while this rank gives up a region: each mapping is closed once. */
static void *forget_peer(void *arg)
{
	engine_forget_rank(arg, 1);
	return NULL;
}

UNIT_TEST(test_two_threads)
{
	static unsigned char *table[ENGINE_MAX_REGIONS * RANKS];
	struct engine e = {
		.driver = driver, .ranks = RANKS, .gpu_peers = table, .scratch_region = ENGINE_MAX_REGIONS
	};
	struct handle handles[RANKS] = { { .allocation_bytes = ALLOCATION, .bytes = 1024 },
					 { .allocation_bytes = ALLOCATION, .bytes = 1024 } };
	unsigned char raw[RANKS][ENGINE_HANDLE_BYTES];
	const int fds[RANKS] = { -1, FAKE_FD };
	int region = -1;
	pthread_mutex_init(&e.opened_lock, NULL);
	for (int r = 0; r < RANKS; r++)
		memcpy(raw[r], &handles[r], sizeof(handles[r]));
	for (int round = 0; round < 500; round++) {
		pthread_t thread;
		assert_int_equal(engine_attach(&e, raw[0], sizeof(raw[0]), fds, mine, &region), 0);
		assert_int_equal(pthread_create(&thread, NULL, forget_peer, &e), 0);
		if (round % 2)
			sched_yield();
		engine_detach(&e, region, 0);
		pthread_join(thread, NULL);
		assert_int_equal(fake_open_now, 0);
	}
	pthread_mutex_destroy(&e.opened_lock);
}
