/* SPDX-License-Identifier: BSD-3-Clause */
/* A late peer: what the others may do while their kernels wait for it. */
#include "cuda_faults.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_delay.h"
#include "test/helpers/op_sets.h"

enum { LATE_MS = 1500, PROMPT_MS = 700, BEFORE_MS = 50, BLOCK = 1 << 20, COPY = 4 << 20, STREAMS = 4 };

/* The step must not have waited for the collective that spins. */
static void prompt(struct faults_rank *r, double *since, const char *step)
{
	double now = clock_s(), ms = 1000 * (now - *since);
	if (ms > PROMPT_MS)
		faults_complain(r, "%s took %.0f ms beside a waiting collective", step, ms);
	*since = clock_s();
}

static void drain(struct faults_rank *r, cudaStream_t stream, double *since, const char *step)
{
	double end = *since + FAULTS_STUCK_S;
	while (cudaStreamQuery(stream) == cudaErrorNotReady && clock_s() < end)
		;
	prompt(r, since, step);
}

/*
 * A small kernel on each of some other streams, without shared memory and with much of it, when the call has begun to wait for
 * long. A GPU has few queues that all streams share (CUDA_DEVICE_MAX_CONNECTIONS): a stream that shares one with a call of several
 * kernels waits with them, so one of these may. A call that leaves no room on the GPU, or divides the memory of its SMs in a way
 * that others can't use, stops them. The last one that ran is left in streams[0].
 */
static void other_kernels(struct faults_rank *r, cudaStream_t streams[STREAMS], double *since)
{
	int ended = 0;
	clock_sleep_s(BEFORE_MS / 1000.);
	for (int i = 0; i < STREAMS; i++)
		faults_cuda(r, i % 2 ? cuda_delay_wide(1000, streams[i]) : cuda_delay(1000, streams[i]),
			    "launching a kernel");
	while (ended < STREAMS - 1 && clock_s() < *since + FAULTS_STUCK_S) {
		ended = 0;
		for (int i = 0; i < STREAMS; i++)
			ended += cudaStreamQuery(streams[i]) == cudaSuccess;
	}
	prompt(r, since, "small kernels of other streams");
	for (int i = 1; i < STREAMS; i++) {
		cudaStream_t other = streams[i];
		if (cudaStreamQuery(other) != cudaSuccess)
			continue;
		streams[i] = streams[0];
		streams[0] = other;
	}
}

/* Memory, streams, events, graphs, copies and kernels, all on other streams. */
static void other_work(struct faults_rank *r)
{
	double since = clock_s();
	cudaStream_t stream = NULL, streams[STREAMS] = { NULL };
	cudaEvent_t event = NULL;
	cudaGraph_t graph = NULL;
	cudaGraphExec_t exec = NULL;
	void *plain = NULL, *pooled = NULL, *pinned = NULL, *host = malloc(COPY);
	for (int i = 0; i < STREAMS; i++)
		faults_cuda(r, cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking),
			    "cudaStreamCreate");
	prompt(r, &since, "cudaStreamCreate");
	other_kernels(r, streams, &since);
	stream = streams[0];
	faults_cuda(r, cudaMalloc(&plain, COPY), "cudaMalloc");
	prompt(r, &since, "cudaMalloc");
	faults_cuda(r, cudaMallocAsync(&pooled, COPY, stream), "cudaMallocAsync");
	prompt(r, &since, "cudaMallocAsync");
	faults_cuda(r, cudaHostAlloc(&pinned, COPY, 0), "cudaHostAlloc");
	prompt(r, &since, "cudaHostAlloc");
	faults_cuda(r, cudaHostRegister(host, COPY, 0), "cudaHostRegister");
	prompt(r, &since, "cudaHostRegister");
	faults_cuda(r, cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
	faults_cuda(r, cudaMemcpyAsync(plain, pinned, COPY, cudaMemcpyDefault, stream), "cudaMemcpyAsync");
	faults_cuda(r, cudaEventRecord(event, stream), "cudaEventRecord");
	drain(r, stream, &since, "a copy from the host");
	faults_cuda(r, cudaMemcpyAsync(host, plain, COPY, cudaMemcpyDefault, stream), "cudaMemcpyAsync");
	drain(r, stream, &since, "a copy to the host");
	faults_cuda(r, cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capturing");
	faults_cuda(r, cuda_delay(1000, stream), "capturing a kernel");
	faults_cuda(r, cudaStreamEndCapture(stream, &graph), "capturing");
	faults_cuda(r, cudaGraphInstantiate(&exec, graph, 0), "cudaGraphInstantiate");
	prompt(r, &since, "making a graph");
	faults_cuda(r, cudaGraphLaunch(exec, stream), "cudaGraphLaunch");
	drain(r, stream, &since, "a graph of another stream");
	faults_cuda(r, cudaFreeAsync(pooled, stream), "cudaFreeAsync");
	drain(r, stream, &since, "cudaFreeAsync");
	cudaGraphExecDestroy(exec);
	cudaGraphDestroy(graph);
	cudaEventDestroy(event);
	for (int i = 0; i < STREAMS; i++)
		cudaStreamDestroy(streams[i]);
	prompt(r, &since, "destroying streams");
	faults_cuda(r, cudaHostUnregister(host), "cudaHostUnregister"); /* from here on waiting is right */
	faults_cuda(r, cudaFreeHost(pinned), "cudaFreeHost");
	faults_cuda(r, cudaFree(plain), "cudaFree");
	free(host);
}

/* Every kind of call for the first time: nothing may have to be loaded or freed first. */
static int first_calls(struct faults_rank *r, int timed)
{
	double since = clock_s();
	char *s = r->send, *d = r->recv;
	size_t n = (size_t)r->size;
	int ret = 0;
	for (size_t count = 3; count < FAULTS_BUFFER / 8 && !ret; count *= 100) {
		for (int type = 0; !ret && type < CORALE_NUM_TYPES; type++)
			ret = corale_all_reduce(s, d, count, (corale_type)type,
						op_of_type((corale_type)type, 0), r->comm, r->stream);
		if (!ret)
			ret = corale_reduce_scatter(s, d, count / n, CORALE_BFLOAT16, CORALE_AVG, r->comm,
						    r->stream);
		if (!ret)
			ret = corale_all_gather(s, d, count / n, CORALE_INT8, r->comm, r->stream);
		if (!ret)
			ret = corale_broadcast(s, d, count, CORALE_INT64, 0, r->comm, r->stream);
		if (!ret)
			ret = corale_all_to_all(s, d, count / n, CORALE_FLOAT32, r->comm, r->stream);
		if (!ret)
			ret = corale_barrier(r->comm, r->stream);
		corale_group_begin();
		corale_send(s, count, CORALE_FLOAT32, (r->rank + 1) % r->size, r->comm, r->stream);
		corale_recv(d, count, CORALE_FLOAT32, (r->rank + r->size - 1) % r->size, r->comm, r->stream);
		if (corale_group_end())
			faults_complain(r, "a group of %zu elements failed", count);
		if (timed)
			prompt(r, &since, "making calls");
	}
	return ret;
}

static int captured_call(struct faults_rank *r, int timed)
{
	double since = clock_s();
	cudaStream_t stream;
	cudaGraph_t graph = NULL;
	cudaGraphExec_t exec = NULL;
	faults_cuda(r, cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
	faults_cuda(r, cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capturing");
	int ret = corale_all_reduce(r->send, r->recv, 100003, CORALE_FLOAT16, CORALE_SUM, r->comm, stream);
	faults_cuda(r, cudaStreamEndCapture(stream, &graph), "capturing");
	if (graph)
		faults_cuda(r, cudaGraphInstantiate(&exec, graph, 0), "cudaGraphInstantiate");
	if (timed)
		prompt(r, &since, "capturing a call");
	if (exec) /* behind the call that waits */
		faults_cuda(r, cudaGraphLaunch(exec, r->stream), "cudaGraphLaunch");
	faults_is(r, faults_wait(r, FAULTS_STUCK_S), 0, "the replay");
	if (exec)
		cudaGraphExecDestroy(exec);
	if (graph)
		cudaGraphDestroy(graph);
	cudaStreamDestroy(stream);
	return ret;
}

/* Another communicator comes up while the call waits for the last rank, which calls when all have looked. */
static void create(struct faults_rank *r, const struct faults_case *c)
{
	int late = r->rank == r->size - 1;
	if (!late)
		faults_is(r, faults_reduce(r, c->count), 0, "the call that waits");
	double since = clock_s();
	corale_comm *second = faults_comm(r, &r->fresh, FAULTS_STUCK_S);
	if (clock_s() - since > FAULTS_TIMEOUT_S)
		faults_complain(r, "a communicator took %.1f s beside a waiting collective",
				clock_s() - since);
	if (!late && cudaStreamQuery(r->stream) != cudaErrorNotReady)
		faults_complain(r, "the call has ended that waits for the last rank");
	cuda_group_meet(&r->world);
	if (late)
		faults_is(r, faults_reduce(r, c->count), 0, "the late call");
	faults_is(r, faults_wait(r, FAULTS_STUCK_S), 0, "waiting for the late rank");
	faults_is(r, corale_comm_async_error(r->comm), 0, "after the late rank came");
	if (second)
		faults_good_reduce(r, second, r->size, r->rank);
	corale_comm_destroy(second);
}

/* Frees memory while the collective waits: this takes until the late rank comes, but not for ever. */
static void free_memory(struct faults_rank *r)
{
	void *block = NULL;
	faults_cuda(r, cudaMalloc(&block, BLOCK), "cudaMalloc");
	faults_cuda(r, cudaFree(block), "cudaFree");
	faults_cuda(r, cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

void faults_late(struct faults_rank *r, const struct faults_case *c)
{
	int late = r->rank == r->size - 1, ret = 0;
	faults_cuda(r, cuda_delay_load(), "loading a kernel");
	cuda_group_meet(&r->world);
	if (c->kind == FAULTS_CREATE) {
		create(r, c);
		faults_recover(r);
		return;
	}
	if (late)
		clock_sleep_s(LATE_MS / 1000.);
	faults_is(r, faults_reduce(r, c->count), 0, "the call that waits");
	switch (c->kind) {
	case FAULTS_OTHER_WORK:
		other_work(r);
		break;
	case FAULTS_FIRST_CALLS:
		ret = first_calls(r, !late);
		break;
	case FAULTS_CAPTURE:
		ret = captured_call(r, !late);
		break;
	case FAULTS_FREE:
		free_memory(r);
		break;
	default:
		break;
	}
	faults_is(r, ret, 0, "calls behind one that waits");
	faults_is(r, faults_wait(r, FAULTS_STUCK_S), 0, "waiting for the late rank");
	faults_is(r, corale_comm_async_error(r->comm), 0, "after the late rank came");
	faults_good_reduce(r, r->comm, r->size, r->rank);
	faults_recover(r);
}
