/* SPDX-License-Identifier: BSD-3-Clause */
/* Unusual but legal use, and mistakes that must be refused without harm: the communicator goes on working. */
#include "cuda_faults.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "cuda_delay.h"

enum { DELAY_NS = 20000000, REPEATS = 3 };

static cudaStream_t new_stream(struct faults_rank *r)
{
	cudaStream_t stream = NULL;
	faults_cuda(r, cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
	return stream;
}

static void begin_capture(struct faults_rank *r)
{
	faults_cuda(r, cudaStreamBeginCapture(r->stream, cudaStreamCaptureModeThreadLocal),
		    "cudaStreamBeginCapture");
}

static void end_capture(struct faults_rank *r)
{
	cudaGraph_t graph = NULL;
	faults_cuda(r, cudaStreamEndCapture(r->stream, &graph), "cudaStreamEndCapture");
	if (graph)
		cudaGraphDestroy(graph);
}

/* A send whose data comes late on one stream, a receive whose result is read on another: both wait for the group, and it for them. */
static void on_two_streams(struct faults_rank *r, const struct faults_case *c)
{
	cudaStream_t other = new_stream(r);
	int next = (r->rank + 1) % r->size, previous = (r->rank + r->size - 1) % r->size;
	size_t bytes = c->count * sizeof(int32_t);
	unsigned char ends[2];
	for (int i = 0; i < REPEATS; i++) {
		faults_cuda(r, cudaMemsetAsync(r->recv, 0xee, bytes, other), "cudaMemsetAsync");
		faults_cuda(r, cuda_delay(DELAY_NS, i % 2 ? other : r->stream), "a delay");
		faults_cuda(r, cudaMemsetAsync(r->send, 16 * i + r->rank, bytes, r->stream),
			    "cudaMemsetAsync");
		corale_group_begin();
		corale_send(r->send, c->count, CORALE_INT32, next, r->comm, r->stream);
		corale_recv(r->recv, c->count, CORALE_INT32, previous, r->comm, other);
		faults_is(r, corale_group_end(), 0, "a group on two streams");
		faults_cuda(r, cudaMemcpyAsync(&ends[0], r->recv, 1, cudaMemcpyDefault, other),
			    "copying out");
		faults_cuda(
		    r, cudaMemcpyAsync(&ends[1], (char *)r->recv + bytes - 1, 1, cudaMemcpyDefault, other),
		    "copying out");
		faults_cuda(r, cudaStreamSynchronize(other), "waiting for the receive's stream");
		if (ends[0] != 16 * i + previous || ends[1] != ends[0])
			faults_complain(r, "received %d and %d, expected %d", ends[0], ends[1],
					16 * i + previous);
	}
	faults_cuda(r, cudaStreamSynchronize(r->stream), "waiting for the send's stream");
	cudaStreamDestroy(other);
}

/* Host memory in a captured call is refused, by all ranks; then all make the call with memory of the GPU. */
static void plain_in_capture(struct faults_rank *r)
{
	int32_t host[4] = { 0 };
	begin_capture(r);
	faults_is(r, corale_all_reduce(host, host, 4, CORALE_INT32, CORALE_SUM, r->comm, r->stream),
		  CORALE_ENOTSUP, "host memory in a captured call");
	end_capture(r);
	if (!strstr(corale_comm_last_error(r->comm), "host memory"))
		faults_complain(r, "the error is not told: %s", corale_comm_last_error(r->comm));
}

/* The last call's stream is captured by now: a call on another one does not touch it. */
static void captured_since(struct faults_rank *r)
{
	enum cudaStreamCaptureMode relaxed = cudaStreamCaptureModeRelaxed;
	cudaStream_t other = new_stream(r);
	faults_is(r, faults_reduce(r, 4), 0, "an eager call");
	begin_capture(r);
	faults_is(r, corale_all_reduce(r->send, r->recv, 4, CORALE_INT32, CORALE_SUM, r->comm, other), 0,
		  "a call behind one whose stream is captured since");
	cudaThreadExchangeStreamCaptureMode(&relaxed); /* else waiting ends the capture */
	faults_cuda(r, cudaStreamSynchronize(other), "waiting for it beside the capture");
	cudaThreadExchangeStreamCaptureMode(&relaxed);
	end_capture(r);
	cudaStreamDestroy(other);
}

/* A call that ends late, on a stream that is destroyed at once. */
static void call_then_destroy(struct faults_rank *r, cudaStream_t stream)
{
	faults_cuda(r, cuda_delay(DELAY_NS, stream), "a delay");
	faults_cuda(r, cudaMemsetAsync(r->send, r->rank ? 0 : 1, sizeof(int32_t), stream), "cudaMemsetAsync");
	faults_is(r, corale_all_reduce(r->send, r->recv, 1, CORALE_INT32, CORALE_SUM, r->comm, stream), 0,
		  "a call that ends late");
	faults_cuda(r, cudaStreamDestroy(stream), "cudaStreamDestroy");
}

/* In place of what the call before has received: nothing else orders the two. */
static void call_behind(struct faults_rank *r, cudaStream_t stream)
{
	int32_t got = 0;
	faults_is(r, corale_broadcast(r->recv, r->recv, 1, CORALE_INT32, 0, r->comm, stream), 0,
		  "a call behind one on a stream that is gone");
	faults_cuda(r, cudaMemcpyAsync(&got, r->recv, sizeof got, cudaMemcpyDefault, stream), "copying out");
	faults_cuda(r, cudaStreamSynchronize(stream), "waiting for the call");
	if (got != 0x01010101)
		faults_complain(r, "the call did not wait for the one before: 0x%08x", (unsigned)got);
}

/* A stream is destroyed between two calls; the next one is another one that lives, or a new one, which may get its handle. */
static void destroyed(struct faults_rank *r, int reused)
{
	for (int i = 0; i < REPEATS; i++) {
		faults_cuda(r, cudaMemsetAsync(r->recv, 0xee, sizeof(int32_t), r->stream), "cudaMemsetAsync");
		faults_cuda(r, cudaStreamSynchronize(r->stream), "cudaStreamSynchronize");
		call_then_destroy(r, new_stream(r));
		cudaStream_t next = reused ? new_stream(r) : r->stream;
		call_behind(r, next);
		if (reused)
			cudaStreamDestroy(next);
	}
}

/* What a thread of its own does on its cudaStreamPerThread. */
static void in_thread(struct faults_rank *r, void *(*body)(void *))
{
	pthread_t thread;
	if (pthread_create(&thread, NULL, body, r))
		faults_complain(r, "no thread");
	else
		pthread_join(thread, NULL);
}

static void use_gpu(const struct faults_rank *r)
{
	int gpus = 1;
	if (cudaGetDeviceCount(&gpus) == cudaSuccess && gpus)
		cudaSetDevice(r->rank % gpus);
}

static void *first_call(void *arg)
{
	struct faults_rank *r = arg;
	use_gpu(r);
	faults_cuda(r, cuda_delay(DELAY_NS, cudaStreamPerThread), "a delay");
	faults_cuda(r, cudaMemsetAsync(r->send, r->rank ? 0 : 1, sizeof(int32_t), cudaStreamPerThread),
		    "cudaMemsetAsync");
	faults_is(
	    r, corale_all_reduce(r->send, r->recv, 1, CORALE_INT32, CORALE_SUM, r->comm, cudaStreamPerThread),
	    0, "a call on the thread's stream");
	return NULL;
}

static void *second_call(void *arg)
{
	struct faults_rank *r = arg;
	use_gpu(r);
	call_behind(r, cudaStreamPerThread);
	return NULL;
}

/* cudaStreamPerThread is another stream in another thread, also where the first one has ended and the second has its pthread_t. */
static void per_thread(struct faults_rank *r, int ends)
{
	for (int i = 0; i < REPEATS; i++) {
		faults_cuda(r, cudaMemsetAsync(r->recv, 0xee, sizeof(int32_t), r->stream), "cudaMemsetAsync");
		faults_cuda(r, cudaStreamSynchronize(r->stream), "cudaStreamSynchronize");
		if (ends)
			in_thread(r, first_call);
		else
			first_call(r);
		in_thread(r, second_call);
	}
}

/* Eager on one stream, captured on a second, eager on a third: the third comes after the first. */
static void around_capture(struct faults_rank *r)
{
	cudaStream_t first = new_stream(r), third = new_stream(r);
	int32_t got = 0;
	faults_cuda(r, cuda_delay(DELAY_NS, first), "a delay");
	faults_cuda(r, cudaMemsetAsync(r->send, r->rank ? 0 : 1, sizeof got, first), "cudaMemsetAsync");
	faults_is(r, corale_all_reduce(r->send, r->recv, 1, CORALE_INT32, CORALE_SUM, r->comm, first), 0,
		  "an eager call");
	begin_capture(r);
	faults_is(r, faults_reduce(r, 4), 0, "a captured call");
	end_capture(r);
	faults_is(r, corale_broadcast(r->recv, r->recv, 1, CORALE_INT32, 0, r->comm, third), 0,
		  "an eager call");
	faults_cuda(r, cudaMemcpyAsync(&got, r->recv, sizeof got, cudaMemcpyDefault, third), "copying out");
	faults_cuda(r, cudaStreamSynchronize(third), "waiting for the third stream");
	if (got != 0x01010101)
		faults_complain(r, "the third stream did not wait for the first: 0x%08x", (unsigned)got);
	cudaStreamDestroy(first);
	cudaStreamDestroy(third);
}

/* Calls, registrations and the end while another GPU is current, where there is one. */
static void other_gpu_current(struct faults_rank *r)
{
	int gpus = 0, mine = 0;
	void *memory = NULL;
	faults_cuda(r, cudaGetDeviceCount(&gpus), "cudaGetDeviceCount");
	faults_cuda(r, cudaGetDevice(&mine), "cudaGetDevice");
	faults_cuda(r, cudaSetDevice((mine + 1) % gpus), "cudaSetDevice");
	faults_good_reduce(r, r->comm, r->size, r->rank);
	faults_is(r, corale_mem_alloc(r->comm, 1 << 20, &memory), 0, "corale_mem_alloc");
	if (memory)
		faults_is(r, corale_mem_free(r->comm, memory), 0, "corale_mem_free");
	faults_is(r, faults_reduce(r, 20 << 20), 0, "a large call");
	corale_comm_destroy(r->comm);
	r->comm = NULL;
	int now = -1;
	faults_cuda(r, cudaGetDevice(&now), "cudaGetDevice");
	if (now != (mine + 1) % gpus)
		faults_complain(r, "the current GPU has changed from %d to %d", (mine + 1) % gpus, now);
	faults_cuda(r, cudaSetDevice(mine), "cudaSetDevice");
}

/* Splits while another GPU is current: the child is on the parent's. */
static void split_elsewhere(struct faults_rank *r)
{
	int gpus = 0, mine = 0;
	corale_comm *child = NULL;
	faults_cuda(r, cudaGetDeviceCount(&gpus), "cudaGetDeviceCount");
	faults_cuda(r, cudaGetDevice(&mine), "cudaGetDevice");
	faults_cuda(r, cudaSetDevice((mine + 1) % gpus), "cudaSetDevice");
	faults_is(r, corale_comm_split(r->comm, 0, r->rank, &child), 0, "corale_comm_split");
	if (child)
		faults_good_reduce(r, child, r->size, r->rank);
	corale_comm_destroy(child);
	faults_cuda(r, cudaSetDevice(mine), "cudaSetDevice");
}

/* One rank's buffer is on another GPU, where there is one: both directions are copied. */
static void buffer_elsewhere(struct faults_rank *r)
{
	int gpus = 0, mine = 0;
	int32_t values[4] = { r->rank, r->rank, r->rank, r->rank };
	void *elsewhere = NULL, *buffer = r->recv;
	faults_cuda(r, cudaGetDeviceCount(&gpus), "cudaGetDeviceCount");
	faults_cuda(r, cudaGetDevice(&mine), "cudaGetDevice");
	if (gpus > 1 && r->rank == 0) {
		faults_cuda(r, cudaSetDevice((mine + 1) % gpus), "cudaSetDevice");
		faults_cuda(r, cudaMalloc(&elsewhere, sizeof values), "cudaMalloc");
		faults_cuda(r, cudaSetDevice(mine), "cudaSetDevice");
		buffer = elsewhere;
	}
	faults_cuda(r, cudaMemcpy(buffer, values, sizeof values, cudaMemcpyDefault), "cudaMemcpy");
	faults_is(r, corale_all_reduce(buffer, buffer, 4, CORALE_INT32, CORALE_SUM, r->comm, r->stream), 0,
		  "a buffer of another GPU");
	faults_cuda(r, cudaStreamSynchronize(r->stream), "cudaStreamSynchronize");
	faults_cuda(r, cudaMemcpy(values, buffer, sizeof values, cudaMemcpyDefault), "cudaMemcpy");
	if (values[3] != r->size * (r->size - 1) / 2)
		faults_complain(r, "with a buffer on another GPU the sum is %d", values[3]);
	cudaFree(elsewhere);
}

/* Ranks that give up different registrations; a receive from oneself that nobody sends, in a group, which ends the communicator. */
static void refused_arguments(struct faults_rank *r)
{
	void *handles[2] = { NULL, NULL };
	faults_is(r, corale_mem_register(r->comm, r->send, FAULTS_BUFFER, &handles[0]), 0, "registration");
	faults_is(r, corale_mem_register(r->comm, r->recv, FAULTS_BUFFER, &handles[1]), 0, "registration");
	faults_is(r, corale_mem_deregister(r->comm, handles[r->rank == 0]), CORALE_EINVAL,
		  "ranks that give up different registrations");
	for (int i = 0; i < 2; i++)
		faults_is(r, corale_mem_deregister(r->comm, handles[i]), 0, "deregistration");
	faults_good_reduce(r, r->comm, r->size, r->rank);
	cuda_group_meet(&r->world);
	corale_group_begin();
	corale_recv(r->recv, 4, CORALE_INT32, r->rank, r->comm, r->stream);
	faults_is(r, corale_group_end(), CORALE_EINVAL, "a receive from oneself without a send");
}

/* A call that has waited for its end in vain says so itself: nothing was received into ordinary memory. */
static void plain_in_vain(struct faults_rank *r)
{
	int32_t host[4] = { 0 };
	if (r->rank == 0)
		faults_is(r, corale_all_reduce(host, host, 4, CORALE_INT32, CORALE_SUM, r->comm, r->stream),
			  CORALE_ETIMEDOUT, "host memory, and nobody comes");
	cuda_group_largest(&r->world, 0);
}

void faults_use(struct faults_rank *r, const struct faults_case *c)
{
	if (c->kind == FAULTS_TWO_STREAMS)
		on_two_streams(r, c);
	else if (c->kind == FAULTS_PLAIN_IN_CAPTURE)
		plain_in_capture(r);
	else if (c->kind == FAULTS_CAPTURED_SINCE)
		captured_since(r);
	else if (c->kind == FAULTS_STREAM_DESTROYED || c->kind == FAULTS_HANDLE_REUSED)
		destroyed(r, c->kind == FAULTS_HANDLE_REUSED);
	else if (c->kind == FAULTS_PER_THREAD || c->kind == FAULTS_PER_ENDED_THREAD)
		per_thread(r, c->kind == FAULTS_PER_ENDED_THREAD);
	else if (c->kind == FAULTS_AROUND_CAPTURE)
		around_capture(r);
	else if (c->kind == FAULTS_ARGUMENTS)
		refused_arguments(r);
	else if (c->kind == FAULTS_SPLIT)
		split_elsewhere(r);
	else if (c->kind == FAULTS_BUFFER_ELSEWHERE)
		buffer_elsewhere(r);
	else if (c->kind == FAULTS_PLAIN_IN_VAIN)
		plain_in_vain(r);
	else
		other_gpu_current(r);
	if (r->comm && c->kind != FAULTS_PLAIN_IN_VAIN && c->kind != FAULTS_ARGUMENTS)
		faults_good_reduce(r, r->comm, r->size, r->rank);
	faults_recover(r);
}
