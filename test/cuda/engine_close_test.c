/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of a GPU engine, by a driver that the test makes up: it waits for the engine's own launches, and for nothing else. What a real driver does only when
 * no kernel runs on the GPU, of the program neither (cudaFree, cudaFreeHost, cudaHostUnregister, cudaDeviceSynchronize), fails the test while the program's
 * kernels run, unless the engine can't tell its own end.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test/helpers/clock.h"
#include "test/helpers/unit.h"
#include "test/helpers/fake_driver.h"
#include "cuda/engine_cuda.h"
#include "base/log.h"

enum { RANKS = 2, PROCESSORS = 132 };

static _Atomic int whole_waits; /* for all work of the GPU */

/* ---- The driver ------------------------------------------------------------------------------------------------ */

/* No memory is exported. */
int engine_board_fd(struct engine *e)
{
	return -1;
}

int engine_attach_exports(struct engine *e, const int *fds, int stride)
{
	return CORALE_ENOTSUP;
}

void engine_close_exports(struct engine *e)
{
}

void exporter_note_capture(struct exporter *exporter)
{
}

static CUresult address_range(CUdeviceptr *base, size_t *bytes, CUdeviceptr at)
{
	*base = at;
	*bytes = FAKE_UNIT;
	return CUDA_SUCCESS;
}

static CUresult pointer_attribute(void *value, int attribute, CUdeviceptr at)
{
	*(unsigned long long *)value = at;
	return CUDA_SUCCESS;
}

static CUresult device_attribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
	*value = 0;
	return CUDA_SUCCESS;
}

int cuda_need_driver(struct cuda_driver *driver, int rank)
{
	*driver = (struct cuda_driver){ .current_context = fake_current_context,
					.push_context = fake_push_context,
					.pop_context = fake_pop_context,
					.reserve = fake_reserve,
					.unreserve = fake_unreserve,
					.unmap = fake_unmap,
					.release = fake_release,
					.address_range = address_range,
					.pointer_attribute = pointer_attribute,
					.device_attribute = device_attribute };
	return 0;
}

int cuda_memory_export(struct cuda_device device, CUmemGenericAllocationHandle handle, int *fd)
{
	return CORALE_ENOTSUP;
}

int codelets_probe(const struct probe_args *args, int senders, void *stream)
{
	return cudaErrorInvalidKernelImage;
}

/* ---- The runtime ----------------------------------------------------------------------------------------------- */

static cudaError_t wait_for_all(void)
{
	whole_waits++;
	return cudaSuccess;
}

cudaError_t cudaFree(void *memory)
{
	free(memory);
	return wait_for_all();
}

cudaError_t cudaFreeHost(void *memory)
{
	free(memory);
	return wait_for_all();
}

cudaError_t cudaDeviceSynchronize(void)
{
	return wait_for_all();
}

/* A capture ends where a thread in the default mode allocates. */
static int is_capturing;

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
	assert_true(!is_capturing || fake_capture_mode == cudaStreamCaptureModeRelaxed);
	*memory = calloc(1, bytes);
	return cudaSuccess;
}

/* The pool's blocks, which it keeps. */
static _Atomic(void *) pinned[16];
static _Atomic unsigned pinned_blocks;

cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned flags)
{
	const cudaError_t error = cudaMalloc(memory, bytes);
	pinned[pinned_blocks++ % 16] = *memory;
	return error;
}

static int is_pinned(const void *memory)
{
	for (int i = 0; i < 16; i++)
		if (pinned[i] == memory)
			return 1;
	return 0;
}

/* Host memory that is registered: in bytes, and where. */
static size_t registered, most_registered = ~(size_t)0;

cudaError_t cudaHostRegister(void *memory, size_t bytes, unsigned flags)
{
	if (registered + bytes > most_registered)
		return cudaErrorMemoryAllocation;
	registered += bytes;
	return cudaSuccess;
}

static size_t part_bytes; /* of what is unregistered */

cudaError_t cudaHostUnregister(void *memory)
{
	registered -= part_bytes;
	return wait_for_all();
}

cudaError_t cudaHostGetDevicePointer(void **gpu, void *host, unsigned flags)
{
	*gpu = host;
	return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *memory)
{
	*attributes =
	    (struct cudaPointerAttributes){ is_pinned(memory) ? cudaMemoryTypeHost : cudaMemoryTypeDevice,
					    0 };
	return cudaSuccess;
}

/* Copies between GPUs that never end, or not at the first so many looks; of which a byte is lost; which the driver refuses. */
static int copies_hang, copies_lie, copies_fail;

/* The copy engine: beside "kernels", which count. */
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, cudaStream_t on)
{
	if (copies_fail)
		return cudaErrorNotSupported;
	if (bytes == sizeof(uint64_t))
		*(uint64_t *)to = __atomic_load_n((const uint64_t *)from, __ATOMIC_ACQUIRE);
	else
		memcpy(to, from, bytes);
	if (copies_lie && bytes > sizeof(uint64_t))
		((unsigned char *)to)[bytes / 2] ^= 1;
	return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
	*device = 0;
	return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
	*prop = (struct cudaDeviceProp){ .name = "a GPU", .multiProcessorCount = PROCESSORS };
	return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *id, int bytes, int device)
{
	*id = 0;
	return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *lowest, int *highest)
{
	*lowest = *highest = 0;
	return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority)
{
	static void *volatile newest; /* no leak where a copy hangs */
	*stream = newest = malloc(1);
	return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
	free(stream);
	return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
	return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
	const int is_late = copies_hang != 0;
	copies_hang -= copies_hang > 0;
	return is_late ? cudaErrorNotReady : cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
	*event = malloc(1);
	return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
	free(event);
	return cudaSuccess;
}

/* Of the copies of a communicator of one rank. */
static _Atomic int copies_run;

cudaError_t cudaEventQuery(cudaEvent_t event)
{
	return copies_run ? cudaErrorNotReady : cudaSuccess;
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *memory)
{
	return cudaErrorNotReady;
}

cudaError_t cudaIpcOpenMemHandle(void **memory, cudaIpcMemHandle_t handle, unsigned flags)
{
	return cudaErrorNotReady;
}

cudaError_t cudaIpcCloseMemHandle(void *memory)
{
	return cudaSuccess;
}

/* ---- Cases ----------------------------------------------------------------------------------------------------- */

static int load(void)
{
	return 0;
}

static struct engine *open_engine(int ranks, int world_ranks)
{
	const struct engine_params params = { .ranks = ranks,
					      .most_ranks = ranks,
					      .least_ranks = ranks,
					      .world_ranks = world_ranks,
					      .window_bytes = 8 << 20,
					      .memory_cap = 8 << 20,
					      .nodes = world_ranks / ranks,
					      .pinned_bytes = 4 << 20 };
	struct engine *e = NULL;
	const int fds[RANKS * ENGINE_FDS] = { -1, -1, FAKE_FD, -1 };
	assert_int_equal(engine_open(&params, load, &e), 0);
	assert_int_equal(engine_connect(e, fds, 0), 0);
	return e;
}

struct ending {
	pthread_t thread;
	struct engine *engine;
	_Atomic int ended;
};

static void *end_engine(void *arg)
{
	struct ending *ending = arg;
	engine_close(ending->engine);
	ending->ended = 1;
	return NULL;
}

static void start_end(struct ending *ending, struct engine *e)
{
	*ending = (struct ending){ .engine = e };
	assert_int_equal(pthread_create(&ending->thread, NULL, end_engine, ending), 0);
	clock_sleep_ms(20);
}

/* Communicators of one rank, of a node, and of two nodes: their kernels have ended, those of the program run. */
UNIT_TEST(test_idle)
{
	const int shapes[][2] = { { 1, 1 }, { RANKS, RANKS }, { RANKS, 2 * RANKS } };
	for (int i = 0; i < 3; i++) {
		struct engine *e = open_engine(shapes[i][0], shapes[i][1]);
		engine_count(e, 24);
		e->state->done = e->counted;
		engine_close(e);
		assert_int_equal(whole_waits, 0);
		assert_int_equal(fake_open_now, 0);
	}
}

UNIT_TEST(test_waits_for_its_own)
{
	struct engine *e = open_engine(RANKS, RANKS);
	struct ending ending;
	uint64_t *done = &e->state->done;
	engine_count(e, 24);
	__atomic_store_n(done, 23, __ATOMIC_RELEASE);
	start_end(&ending, e);
	assert_int_equal(ending.ended, 0);
	__atomic_store_n(done, 24, __ATOMIC_RELEASE);
	pthread_join(ending.thread, NULL);
	assert_int_equal(whole_waits, 0);
	assert_int_equal(fake_open_now, 0);
}

UNIT_TEST(test_waits_for_its_copies)
{
	struct ending ending;
	copies_run = 1;
	start_end(&ending, open_engine(1, 1));
	assert_int_equal(ending.ended, 0);
	copies_run = 0;
	pthread_join(ending.thread, NULL);
	assert_int_equal(whole_waits, 0);
}

/* Memory that calls have used is given up so, too. */
UNIT_TEST(test_memory)
{
	struct engine *e = open_engine(RANKS, RANKS);
	void *memory;
	assert_int_equal(engine_alloc(e, FAKE_UNIT, &memory), 0);
	engine_count(e, 1);
	e->state->done = e->counted;
	engine_free(e, memory, 1);
	engine_close(e);
	assert_int_equal(whole_waits, 0);
	assert_int_equal(fake_open_now, 0);
}

/* Kernels that fail count nothing, nor does a launch that has failed. */
UNIT_TEST(test_failed)
{
	for (int i = 0; i < 3; i++) {
		struct engine *e = open_engine(RANKS, RANKS);
		engine_count(e, 1);
		if (i == 0)
			e->failure->code = CORALE_ETIMEDOUT;
		else if (i == 1)
			engine_stop(e, CORALE_EABORTED);
		else
			e->lost_count = 1;
		engine_close(e);
		assert_int_equal(atomic_exchange(&whole_waits, 0), 1);
		assert_int_equal(fake_open_now, 0);
	}
}

/* Replays count nothing; the memory stays, as a graph may name it. */
UNIT_TEST(test_captured)
{
	static struct engine *kept; /* for its graph: no leak */
	kept = open_engine(RANKS, RANKS);
	is_capturing = 1;
	engine_note_capture(kept);
	is_capturing = 0;
	assert_int_equal(fake_capture_mode, cudaStreamCaptureModeGlobal);
	engine_close(kept);
	assert_int_equal(kept->captured, 1);
	assert_int_equal(atomic_exchange(&whole_waits, 0), 1);
}

/* ---- Windows in host memory ------------------------------------------------------------------------------------ */

static struct engine *open_host(int rank, int fds[ENGINE_FDS])
{
	const struct engine_params params = { .rank = rank,
					      .ranks = RANKS,
					      .most_ranks = RANKS,
					      .least_ranks = RANKS,
					      .world_ranks = RANKS,
					      .window_bytes = 8 << 20,
					      .host_window = 1,
					      .memory_cap = 64 << 20,
					      .nodes = 1 };
	struct engine *e = NULL;
	assert_int_equal(engine_open(&params, load, &e), 0);
	assert_int_equal(engine_window_fds(e, 0, fds), 0);
	assert_int_equal(fds[ENGINE_BOARD_FD], -1);
	return e;
}

static unsigned char *window_at(const struct engine *e, int rank)
{
	return (unsigned char *)e->base + (size_t)rank * e->stride;
}

/* Two ranks see what the other one stores, at one stride; the memory is unregistered when no engine is left, as that waits for the GPU. */
UNIT_TEST(test_host_windows)
{
	const int open_before = fake_open_now;
	struct engine *e[RANKS], *other = open_engine(1, 1);
	size_t pool;
	int fds[RANKS * ENGINE_FDS];
	for (int r = 0; r < RANKS; r++)
		e[r] = open_host(r, fds + r * ENGINE_FDS);
	for (int r = 0; r < RANKS; r++)
		assert_int_equal(engine_connect(e[r], fds, 0), 0);
	part_bytes = e[0]->stride;
	pool = registered % part_bytes; /* words of engines, which stay */
	assert_int_equal(registered - pool, RANKS * RANKS * part_bytes);
	for (int r = 0; r < RANKS; r++) {
		assert_int_equal(window_at(e[r], 1 - r)[e[r]->layout.words], 0xff);
		assert_int_equal(window_at(e[r], 1 - r)[e[r]->layout.slots], 0);
		window_at(e[r], 1 - r)[e[r]->layout.slots] = (unsigned char)(r + 1);
	}
	for (int r = 0; r < RANKS; r++)
		assert_int_equal(window_at(e[r], r)[e[r]->layout.slots], 2 - r);
	engine_abort(e[0], CORALE_EABORTED); /* without the GPU */
	assert_int_equal(*(uint64_t *)(void *)window_at(e[1], 1),
			 (uint64_t)1 << 32 | (uint32_t)-CORALE_EABORTED);
	for (int r = 0; r < RANKS; r++) {
		e[r]->state->done = e[r]->counted;
		close(fds[r * ENGINE_FDS]);
		engine_close(e[r]);
	}
	assert_int_equal(whole_waits, 0);
	assert_int_equal(registered - pool, RANKS * RANKS * part_bytes);
	engine_close(other);
	assert_int_equal(registered, pool);
	assert_int_equal(atomic_exchange(&whole_waits, 0), RANKS * RANKS);
	assert_int_equal(fake_open_now, open_before);
}

/* A peer that passes on less than a window, or memory that it may take away. */
UNIT_TEST(test_host_windows_of_peers)
{
	const int open_before = fake_open_now;
	int fds[RANKS * ENGINE_FDS];
	struct engine *e = open_host(0, fds);
	part_bytes = e->stride;
	fds[ENGINE_FDS] = memfd_create("short", MFD_ALLOW_SEALING);
	assert_int_equal(engine_connect(e, fds, 0), CORALE_EPEER);
	assert_int_equal(ftruncate(fds[ENGINE_FDS], (off_t)e->stride), 0);
	assert_int_equal(engine_connect(e, fds, 0), CORALE_EPEER);
	close(fds[0]);
	close(fds[ENGINE_FDS]);
	engine_close(e);
	registered += part_bytes; /* the peer's part was not */
	assert_int_equal(fake_open_now, open_before);
	whole_waits = 0;
}

static int try_both(struct engine *e[RANKS], unsigned char wrong[RANKS][RANKS], double timeout_s)
{
	int ret = 0;
	memset(wrong, 0, RANKS * RANKS);
	for (int reads = 0; !ret && reads < 2; reads++)
		for (int r = 0; !ret && r < RANKS; r++)
			ret = engine_try_peers(e[r], 77, timeout_s, reads ? wrong[r] : NULL);
	return ret;
}

static int host_window_works(size_t bytes, const char *expected)
{
	char why[ENGINE_WHY_BYTES] = "";
	const int works = engine_host_window_works(RANKS, bytes, why, sizeof why);
	assert_non_null(strstr(why, works ? "" : expected));
	return works;
}

/* What can't be registered is told before it is needed: how much, and the limit. */
UNIT_TEST(test_host_window_limit)
{
	const size_t mib = 1 << 20;
	char why[ENGINE_WHY_BYTES];
	size_t pool = registered;
	most_registered = pool + 6 * mib;
	assert_int_equal(host_window_works(4 * mib, "8388608 bytes of host memory can't be registered"), 0);
	assert_int_equal(host_window_works(4 * mib, "limit of locked memory: "), 0);
	assert_int_equal(host_window_works(mib / 16, "windows of 65536 bytes of host memory"), 0);
	part_bytes = 6 * mib;
	assert_int_equal(host_window_works(3 * mib, ""), 1);
	assert_int_equal(registered, pool); /* no engine lives */
	most_registered = ~(size_t)0;
	struct engine *e = open_engine(1, 1);
	pool = registered;
	part_bytes = 8 * mib;
	whole_waits = 0;
	assert_int_equal(host_window_works(4 * mib, ""), 1);
	assert_int_equal(whole_waits, 0); /* beside engines nothing waits */
	assert_int_equal(host_window_works(3 * mib, ""), 1); /* known */
	assert_int_equal(registered - pool, 8 * mib);
	part_bytes = 11 * 8 * mib;
	assert_int_equal(engine_host_window_works(11, 8 * mib, why, sizeof why), 1);
	assert_int_equal(engine_host_window_works(12, 8 * mib, why, sizeof why), 0);
	assert_non_null(strstr(why, "too small for 12 ranks; give at least 13631488"));
	part_bytes = 0; /* several are registered */
	engine_close(e);
	whole_waits = 0;
}

/* What peers store in each other's windows: it arrives, or does not; copies that don't end leave all as it is. */
UNIT_TEST(test_peers)
{
	static struct engine *e[RANKS]; /* no leak */
	unsigned char wrong[RANKS][RANKS];
	int fds[RANKS * ENGINE_FDS];
	for (int r = 0; r < RANKS; r++)
		e[r] = open_host(r, fds + r * ENGINE_FDS);
	for (int r = 0; r < RANKS; r++)
		assert_int_equal(engine_connect(e[r], fds, 0), 0);
	assert_int_equal(try_both(e, wrong, 10), 0);
	assert_int_equal(wrong[0][1] + wrong[1][0], 0);
	window_at(e[0], 1)[e[0]->layout.slots + 100] ^= 1; /* after it was stored */
	assert_int_equal(engine_try_peers(e[0], 77, 10, wrong[0]), 0);
	assert_int_equal(wrong[0][1], 1);
	assert_int_equal(engine_try_peers(e[1], 77, 10, wrong[1]), 0);
	assert_int_equal(wrong[1][0], 1);
	copies_lie = 1;
	assert_int_equal(try_both(e, wrong, 10), 0);
	assert_int_equal(wrong[0][1] + wrong[1][0], 2);
	copies_lie = 0;
	copies_fail = 1;
	assert_int_equal(try_both(e, wrong, 10), 0);
	assert_int_equal(wrong[0][1] + wrong[1][0], 2);
	copies_fail = 0;
	copies_hang = 3;
	assert_int_equal(try_both(e, wrong, -1), 0); /* no deadline */
	assert_int_equal(wrong[0][1] + wrong[1][0], 0);
	copies_hang = -1;
	assert_int_equal(engine_try_peers(e[1], 77, 0.01, NULL), CORALE_ETIMEDOUT);
	copies_hang = 0;
	for (int r = 0; r < RANKS; r++)
		close(fds[r * ENGINE_FDS]);
	part_bytes = e[0]->stride;
	e[0]->state->done = e[0]->counted;
	engine_close(e[0]);
	whole_waits = 0;
	engine_close(e[1]); /* frees nothing */
	assert_int_equal(e[1]->mapped[1], 1);
	assert_int_equal(whole_waits, 0);
}
