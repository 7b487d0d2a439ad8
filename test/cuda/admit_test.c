/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which calls the CUDA engine takes (lib/cuda/engine_cuda_admit.c), and what becomes of ordinary host memory in them
 * (lib/cuda/engine_cuda_stage.c), by a driver and a runtime that the test makes up: what is refused touches nothing, and a call that fails
 * leaves ordinary memory as it was.
 */
#include <pthread.h>

#include "test/helpers/unit.h"
#include "cuda/engine_cuda.h"
#include "base/log.h"
#include "base/wait.h"

enum { RANKS = 2, COUNT = 4, BYTES = COUNT * (int)sizeof(int32_t), GPU = 3 };

/* Of another GPU. */
enum {
	OTHER_SEND = ENGINE_PLAIN_SEND | ENGINE_PLAIN_SEND << ENGINE_OTHER_GPU,
	OTHER_RECV = ENGINE_PLAIN_RECV | ENGINE_PLAIN_RECV << ENGINE_OTHER_GPU
};

static cudaStream_t const stream = (cudaStream_t)0x100;

static CUcontext const own_context = (CUcontext)0x200, other_context = (CUcontext)0x300;

/* ---- The driver and the runtime ----------------------------------------------------------------------------- */

static struct {
	CUresult error;
	CUstreamCaptureStatus status;
	cuuint64_t id;
} capture;
static unsigned long long thread_id; /* of cudaStreamPerThread */
static struct {
	const void *at; /* the only memory that CUDA knows */
	unsigned type, is_managed;
	int ordinal, is_out_of_reach;
	CUcontext context;
} known;
static int enqueued, allocated, kept,
    waited; /* on any stream; pieces of memory of streams, of graphs; for a stream */

static CUresult capture_info(CUstream of, CUstreamCaptureStatus *status, cuuint64_t *id, void *graph,
			     void *dependencies, void *n)
{
	*status = capture.status;
	*id = capture.id;
	return capture.error;
}

static int64_t done_at; /* what is enqueued */

static CUresult stream_query(CUstream on)
{
	return wait_now_ns() < done_at ? (CUresult)cudaErrorNotReady : CUDA_SUCCESS;
}

static CUresult stream_id(CUstream of, unsigned long long *id)
{
	if (capture.status !=
	    CU_STREAM_CAPTURE_STATUS_NONE) /* as the driver does, which also ends the capture */
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	*id = of == cudaStreamPerThread ? thread_id : (uintptr_t)of;
	return CUDA_SUCCESS;
}

static CUresult pointer_attributes(unsigned n, CUpointer_attribute *attributes, void **values, CUdeviceptr at)
{
	const int is_known = (const void *)at == known.at;
	for (unsigned i = 0; i < n; i++) {
		if (attributes[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
			*(unsigned *)values[i] = is_known ? known.type : 0;
		else if (attributes[i] == CU_POINTER_ATTRIBUTE_IS_MANAGED)
			*(unsigned *)values[i] = is_known ? known.is_managed : 0;
		else if (attributes[i] == CU_POINTER_ATTRIBUTE_CONTEXT)
			*(CUcontext *)values[i] = is_known ? known.context : NULL;
		else
			*(int *)values[i] = is_known ? known.ordinal : -2;
	}
	return CUDA_SUCCESS;
}

/* Of another context's memory. */
static CUresult pointer_attribute(void *value, int attribute, CUdeviceptr at)
{
	assert_int_equal(attribute, CU_POINTER_ATTRIBUTE_DEVICE_POINTER);
	*(CUdeviceptr *)value = at;
	return known.is_out_of_reach ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}

cudaError_t cudaMallocAsync(void **memory, size_t bytes, cudaStream_t on)
{
	*memory = malloc(bytes);
	assert_non_null(*memory);
	memset(*memory, 0xee, bytes); /* of whoever had it before */
	allocated++;
	return cudaSuccess;
}

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
	kept++;
	*memory = malloc(bytes);
	return *memory ? cudaSuccess : 2;
}

cudaError_t cudaFreeAsync(void *memory, cudaStream_t on)
{
	free(memory);
	allocated--;
	return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, cudaStream_t on)
{
	memcpy(to, from, bytes);
	return cudaSuccess;
}

/* The failure of a kernel shows when its stream is done. */
static int32_t fails_with;
static struct codelet_failure failure;

cudaError_t cudaStreamSynchronize(cudaStream_t on)
{
	failure.code = fails_with;
	waited++;
	return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
	return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t on)
{
	enqueued++;
	return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t on, cudaEvent_t event, unsigned flags)
{
	enqueued++;
	return cudaSuccess;
}

/* ---- The rest of the engine --------------------------------------------------------------------------------- */

void engine_note_capture(struct engine *e)
{
	e->captured = 1;
}

int engine_check(const struct engine *e, int error, const char *what)
{
	return error ? log_error(CORALE_EDEVICE, e->rank, "%s: error %d", what, error) : 0;
}

int engine_check_driver(const struct engine *e, CUresult error, const char *what)
{
	return engine_check(e, error, what);
}

int codelets_follow(const struct codelet_follow *f, void *on)
{
	enqueued++;
	return 0;
}

static struct engine open_engine(void)
{
	static struct codelet_state state;
	static struct stage_room staged;
	memset(&capture, 0, sizeof capture);
	memset(&known, 0, sizeof known);
	memset(&failure, 0, sizeof failure);
	enqueued = allocated = kept = waited = fails_with = 0;
	return (struct engine){ .driver = { .capture_info = capture_info,
					    .stream_id = stream_id,
					    .stream_query = stream_query,
					    .pointer_attribute = pointer_attribute,
					    .pointer_attributes = pointer_attributes },
				.context = own_context,
				.ranks = RANKS,
				.world_ranks = RANKS,
				.ordinal = GPU,
				.state = &state,
				.staged = &staged,
				.failure = &failure };
}

/* ---- What is admitted --------------------------------------------------------------------------------------- */

static struct call reduction(const void *send, void *recv)
{
	return (struct call){ .record = { .coll = CORALE_ALL_REDUCE,
					  .type = CORALE_INT32,
					  .op = CORALE_SUM,
					  .count = COUNT },
			      .send = send,
			      .recv = recv };
}

static int admit(struct engine *e, const void *send, void *recv, struct admission *out)
{
	const struct call call = reduction(send, recv);
	const int ret = engine_admit(e, &call, stream, out);
	assert_int_equal(enqueued, 0);
	return ret;
}

UNIT_TEST(test_memory)
{
	struct engine e = open_engine();
	struct admission got;
	char plain[BYTES], gpu[BYTES];
	known.at = gpu;
	known.type = CU_MEMORYTYPE_DEVICE;
	known.ordinal = GPU;
	assert_int_equal(admit(&e, gpu, gpu, &got), 0);
	assert_int_equal(got.plain, 0);
	assert_int_equal(admit(&e, gpu, plain, &got), 0);
	assert_int_equal(got.plain, ENGINE_PLAIN_RECV);
	assert_int_equal(admit(&e, plain, gpu, &got), 0);
	assert_int_equal(got.plain, ENGINE_PLAIN_SEND);
	known.ordinal = GPU + 1;
	assert_int_equal(admit(&e, plain, gpu, &got), 0);
	assert_int_equal(got.plain, ENGINE_PLAIN_SEND | OTHER_RECV);
	assert_int_equal(admit(&e, gpu, gpu, &got), 0);
	assert_int_equal(got.plain, OTHER_SEND | OTHER_RECV);
	known.is_managed = 1;
	assert_int_equal(admit(&e, gpu, gpu, &got), 0);
	assert_int_equal(got.plain, 0);
}

/* Memory of the engine's GPU that was allocated in another context. */
UNIT_TEST(test_other_context)
{
	struct engine e = open_engine();
	struct admission got;
	char gpu[BYTES], plain[BYTES];
	struct call call = reduction(plain, plain);
	known.at = gpu;
	known.type = CU_MEMORYTYPE_DEVICE;
	known.ordinal = GPU;
	known.context = own_context;
	known.is_out_of_reach = 1; /* not asked */
	assert_int_equal(admit(&e, gpu, gpu, &got), 0);
	known.context = other_context;
	assert_int_equal(admit(&e, plain, gpu, &got), CORALE_EINVAL);
	assert_non_null(strstr(log_last_error(), "another CUDA context"));
	assert_int_equal(admit(&e, gpu, plain, &got), CORALE_EINVAL);
	call.scalar_at = gpu;
	assert_int_equal(engine_admit(&e, &call, stream, &got), CORALE_EINVAL);
	known.is_managed = 1;
	assert_int_equal(admit(&e, gpu, plain, &got), 0);
	known.is_managed = known.is_out_of_reach = 0;
	assert_int_equal(admit(&e, gpu, plain, &got), 0);
	known.is_out_of_reach = 1;
	known.ordinal = GPU + 1; /* it is copied, whatever its context */
	assert_int_equal(admit(&e, gpu, plain, &got), 0);
}

/* A scalar that a kernel will read. */
UNIT_TEST(test_scalar)
{
	struct engine e = open_engine();
	struct admission got;
	int32_t plain = 2, gpu = 3;
	struct call call = reduction(&gpu, &gpu);
	known.at = &gpu;
	known.type = CU_MEMORYTYPE_DEVICE;
	known.ordinal = GPU;
	call.scalar_at = &gpu;
	assert_int_equal(engine_admit(&e, &call, stream, &got), 0);
	assert_int_equal(got.plain, 0);
	known.ordinal = GPU + 1;
	assert_int_equal(engine_admit(&e, &call, stream, &got), CORALE_EINVAL);
	assert_non_null(strstr(log_last_error(), "another GPU"));
	known.ordinal = GPU;
	call.scalar_at = &plain;
	assert_int_equal(engine_admit(&e, &call, stream, &got), CORALE_EINVAL);
	assert_non_null(strstr(log_last_error(), "corale_op_create_premul_sum"));
	call.record.count = 0; /* nothing is read */
	assert_int_equal(engine_admit(&e, &call, stream, &got), 0);
	assert_int_equal(enqueued, 0);
}

/* GPU memory was freed, and ordinary memory is at its address. */
UNIT_TEST(test_address_reused)
{
	struct engine e = open_engine();
	struct admission got;
	char memory[BYTES];
	known.at = memory;
	known.type = CU_MEMORYTYPE_DEVICE;
	known.ordinal = GPU;
	assert_int_equal(admit(&e, memory, memory, &got), 0);
	assert_int_equal(got.plain, 0);
	known.at = NULL;
	assert_int_equal(admit(&e, memory, memory, &got), 0);
	assert_int_equal(got.plain, ENGINE_PLAIN_SEND | ENGINE_PLAIN_RECV);
}

UNIT_TEST(test_captures)
{
	struct engine e = open_engine();
	struct admission got;
	char plain[BYTES];
	capture.status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
	capture.id = 7;
	assert_int_equal(admit(&e, NULL, NULL, &got), 0);
	assert_int_equal(got.capture, 7);
	assert_int_equal(admit(&e, plain, plain, &got), CORALE_ENOTSUP);
	assert_non_null(strstr(log_last_error(), "host memory"));
	capture.status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
	assert_int_equal(admit(&e, NULL, NULL, &got), CORALE_ENOTSUP);
	assert_non_null(strstr(log_last_error(), "invalidated"));
	capture.error = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	assert_int_equal(admit(&e, NULL, NULL, &got), CORALE_ENOTSUP);
	assert_non_null(strstr(log_last_error(), "default stream"));
}

static void *order_in_capture(void *e)
{
	return (void *)(intptr_t)engine_order(e, cudaStreamPerThread, 7);
}

/* Threads may have one pthread_t by turns, but not one stream. */
UNIT_TEST(test_stream_per_thread)
{
	struct engine e = open_engine();
	const struct call call = reduction(NULL, NULL);
	struct admission got;
	capture.status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
	capture.id = 7;
	assert_int_equal(engine_order(&e, cudaStreamPerThread, 7), 0);
	assert_int_equal(engine_admit(&e, &call, cudaStreamPerThread, &got), 0);
	assert_int_equal(engine_admit(&e, &call, stream, &got), 0);
	pthread_t other;
	void *ret;
	assert_int_equal(pthread_create(&other, NULL, order_in_capture, &e), 0);
	assert_int_equal(pthread_join(other, &ret), 0);
	assert_null(ret);
	enqueued = 0;
	assert_int_equal(engine_admit(&e, &call, cudaStreamPerThread, &got), CORALE_ENOTSUP);
	assert_int_equal(engine_admit(&e, &call, stream, &got), CORALE_ENOTSUP);
	assert_non_null(strstr(log_last_error(), "cudaStreamPerThread"));
	assert_int_equal(enqueued, 0);
	capture.id = 8;
	assert_int_equal(engine_admit(&e, &call, stream, &got), 0);
}

/* Eager calls: each thread's own comes behind the other's. */
UNIT_TEST(test_order_of_threads)
{
	struct engine e = open_engine();
	e.counted = 1;
	thread_id = 1;
	assert_int_equal(engine_order(&e, cudaStreamPerThread, 0), 0);
	enqueued = 0;
	assert_int_equal(engine_order(&e, cudaStreamPerThread, 0), 0);
	assert_int_equal(enqueued, 0);
	thread_id = 2;
	assert_int_equal(engine_order(&e, cudaStreamPerThread, 0), 0);
	assert_int_equal(enqueued, 1);
}

/* ---- Ordinary host memory ----------------------------------------------------------------------------------- */

static const int32_t before[COUNT] = { 1, 2, 3, 4 }, result[COUNT] = { 5, 6, 7, 8 };

/* With a kernel that writes its result, whether it fails or not. */
static int run_staged(struct engine *e, const struct call *given)
{
	struct stage s;
	struct call copied = *given, *call = &copied;
	const int ret = given->record.coll == CORALE_RECV
			    ? engine_stage_messages(&s, e, given, 1, stream, &call)
			    : engine_stage_call(&s, e, call, stream);
	if (!ret)
		memcpy(call->recv, result, BYTES);
	return engine_stage_end(&s, ret);
}

static void expect(int ret, int code, const int32_t *memory)
{
	assert_int_equal(ret, code);
	assert_memory_equal(memory, code ? before : result, BYTES);
	assert_int_equal(allocated, 0);
	assert_int_equal(waited, 1);
	waited = failure.code = 0;
}

static void try_code(int code)
{
	struct engine e = open_engine();
	const size_t counts[RANKS] = { COUNT, 0 }, displs[RANKS] = { 0 };
	int32_t memory[COUNT], other[COUNT] = { 0 };
	struct call call = reduction(other, memory);
	fails_with = code;
	call.admission.plain = ENGINE_PLAIN_SEND | ENGINE_PLAIN_RECV;
	memcpy(memory, before, BYTES);
	expect(run_staged(&e, &call), code, memory);
	call.send = memory; /* in place */
	memcpy(memory, before, BYTES);
	expect(run_staged(&e, &call), code, memory);
	call = (struct call){ .admission.plain = ENGINE_PLAIN_RECV,
			      .record = { .coll = CORALE_ALL_TO_ALL_V, .type = CORALE_INT32 },
			      .recv = memory,
			      .send_counts = counts,
			      .send_displs = displs,
			      .recv_counts = counts,
			      .recv_displs = displs };
	memcpy(memory, before, BYTES);
	expect(run_staged(&e, &call), code, memory);
	const struct call m = {
		.admission.plain = ENGINE_PLAIN_RECV,
		.record = { .coll = CORALE_RECV, .type = CORALE_INT32, .count = COUNT, .root = 1 },
		.recv = memory
	};
	memcpy(memory, before, BYTES);
	expect(run_staged(&e, &m), code, memory);
}

UNIT_TEST(test_staged)
{
	try_code(0);
}

UNIT_TEST(test_staged_fails)
{
	try_code(CORALE_EMISMATCH);
	try_code(CORALE_ETIMEDOUT);
}

/* What another GPU receives is copied by the stream, which nobody waits for. */
UNIT_TEST(test_other_gpu)
{
	struct engine e = open_engine();
	int32_t memory[COUNT], other[COUNT] = { 0 };
	struct call call = reduction(other, memory);
	call.admission.plain = OTHER_SEND | OTHER_RECV;
	assert_int_equal(run_staged(&e, &call), 0);
	assert_memory_equal(memory, result, BYTES);
	memset(memory, 0, BYTES);
	call.send = memory; /* in place */
	assert_int_equal(run_staged(&e, &call), 0);
	assert_memory_equal(memory, result, BYTES);
	assert_int_equal(waited, 0);
	call.admission.plain = OTHER_SEND | ENGINE_PLAIN_RECV;
	expect(run_staged(&e, &call), 0, memory);
}

static void count_call(void *calls)
{
	++*(int *)calls;
}

/* The program's progress function is called until the stream is done. */
UNIT_TEST(test_progress)
{
	struct engine e = open_engine();
	int32_t memory[COUNT];
	int calls = 0;
	struct call call = reduction(memory, memory);
	call.admission.plain = ENGINE_PLAIN_SEND | ENGINE_PLAIN_RECV;
	e.world_ranks = RANKS;
	done_at = wait_now_ns() + 5000000;
	corale_set_progress(count_call, &calls);
	assert_int_equal(run_staged(&e, &call), 0);
	assert_true(wait_now_ns() >= done_at);
	assert_in_range(calls, 1, 5000000 / 20000); /* a busy machine may not let the thread run more often */
	corale_set_progress(NULL, NULL);
	assert_int_equal(allocated, 0);
}

/* ---- In place ------------------------------------------------------------------------------------------------ */

static int copy_and_launch(struct engine *e, struct call call,
			   void (*launch)(const int32_t *send, int32_t *recv, int ranks))
{
	struct stage s;
	const int ret = engine_copy_call(&s, e, &call, stream);
	if (!ret)
		launch(call.send, call.recv, e->world_ranks);
	return engine_stage_end(&s, ret);
}

/* As a kernel that receives before it sends. */
static void launch_swap(const int32_t *send, int32_t *recv, int ranks)
{
	for (int i = 0; i < ranks; i++)
		recv[i] = send[ranks - 1 - i];
}

static void try_in_place(struct engine *e, size_t count, uint64_t captured)
{
	int32_t memory[2 * RANKS] = { 1, 2, 3, 4 };
	const struct call call = {
		.record = { .coll = CORALE_ALL_TO_ALL, .type = CORALE_INT32, .count = count },
		.send = memory,
		.recv = memory,
		.admission.capture = captured
	};
	assert_int_equal(copy_and_launch(e, call, launch_swap), 0);
	assert_int_equal(memory[0], RANKS);
	assert_int_equal(memory[RANKS - 1], 1);
	assert_int_equal(allocated, 0);
}

static void launch_twice(const int32_t *sent, int32_t *got, int ranks)
{
	assert_ptr_not_equal(sent, got);
	got[1] = sent[3];
	got[3] = sent[1];
}

/* With counts and displacements: what lies between blocks is left alone. */
UNIT_TEST(test_in_place_v)
{
	struct engine e = open_engine();
	const size_t counts[RANKS] = { 1, 1 }, displs[RANKS] = { 3, 1 };
	int32_t memory[5] = { 10, 11, 12, 13, 14 };
	const int32_t expected[5] = { 10, 13, 12, 11, 14 };
	const struct call call = { .record = { .coll = CORALE_ALL_TO_ALL_V, .type = CORALE_INT32 },
				   .send = memory,
				   .recv = memory,
				   .send_counts = counts,
				   .send_displs = displs,
				   .recv_counts = counts,
				   .recv_displs = displs };
	e.world_ranks = RANKS;
	assert_int_equal(copy_and_launch(&e, call, launch_twice), 0);
	assert_memory_equal(memory, expected, sizeof expected);
	assert_int_equal(allocated, 0);
}

/* Memory for a copy is the stream's, but what a graph names stays; one for all captured calls of up to its size. */
UNIT_TEST(test_in_place)
{
	struct engine e = open_engine();
	e.world_ranks = RANKS;
	try_in_place(&e, 1, 0);
	assert_int_equal(kept, 0);
	try_in_place(&e, 1, 7);
	void *first = e.graph_copy;
	try_in_place(&e, 1, 8);
	assert_int_equal(kept, 1);
	try_in_place(&e, 2, 8);
	assert_int_equal(kept, 2);
	free(first);
	free(e.graph_copy);
}
