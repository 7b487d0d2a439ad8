/* SPDX-License-Identifier: BSD-3-Clause */
/* Captures of the program's, which Corale must leave whole, and calls that a capture forbids. */
#include "cuda_faults.h"

#include <pthread.h>
#include <string.h>

#include "cuda_delay.h"

enum { HELD_MS = 300, CREATED = 3 };

/* A capture in global mode, held by another thread while this one does something. */
struct holder {
	struct faults_rank *r;
	pthread_t thread;
	int gpu;
	atomic_int begun, release, broken;
};

static void *hold(void *arg)
{
	struct holder *h = arg;
	cudaStream_t stream;
	cudaGraph_t graph = NULL;
	cudaSetDevice(h->gpu);
	cudaStreamCreate(&stream);
	cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
	cuda_delay(1000, stream);
	atomic_store(&h->begun, 1);
	while (!atomic_load(&h->release))
		clock_sleep_s(0.001);
	atomic_store(&h->broken, cuda_delay(1000, stream) != cudaSuccess ||
				     cudaStreamEndCapture(stream, &graph) != cudaSuccess || !graph);
	if (graph)
		cudaGraphDestroy(graph);
	cudaStreamDestroy(stream);
	return NULL;
}

static void begin_hold(struct holder *h, struct faults_rank *r)
{
	memset(h, 0, sizeof(*h));
	h->r = r;
	faults_cuda(r, cudaGetDevice(&h->gpu), "cudaGetDevice");
	pthread_create(&h->thread, NULL, hold, h);
	while (!atomic_load(&h->begun))
		clock_sleep_s(0.001);
}

static void end_hold(struct holder *h)
{
	atomic_store(&h->release, 1);
	pthread_join(h->thread, NULL);
	if (atomic_load(&h->broken))
		faults_complain(h->r, "a capture of another thread was invalidated");
}

/* Communicators come and go, and memory with them, beside a capture. */
static void create_beside(struct faults_rank *r)
{
	struct holder h;
	begin_hold(&h, r);
	for (int i = 0; i < CREATED; i++) {
		void *memory = NULL;
		corale_comm *comm = faults_comm(r, &r->fresh, FAULTS_STUCK_S);
		if (!comm)
			break;
		faults_is(r, corale_mem_alloc(comm, 4 << 20, &memory), 0, "corale_mem_alloc");
		int ret =
		    corale_all_reduce(r->send, r->recv, 1000, CORALE_INT32, CORALE_SUM, comm, r->stream);
		faults_is(r, ret, 0, "a call beside a capture");
		if (memory)
			faults_is(r, corale_mem_free(comm, memory), 0, "corale_mem_free");
		corale_comm_destroy(comm);
	}
	end_hold(&h);
}

/* The calls in flight are complete when destroy returns. */
static void destroy_beside(struct faults_rank *r, const struct faults_case *c)
{
	struct holder h;
	faults_cuda(r, cudaMemsetAsync(r->recv, 0xee, 4, r->stream), "cudaMemsetAsync");
	faults_cuda(r, cuda_delay(HELD_MS * 1000000u, r->stream), "a delay");
	begin_hold(&h, r);
	faults_is(r, faults_reduce(r, c->count), 0, "a call in flight");
	corale_comm_destroy(r->comm);
	r->comm = NULL;
	end_hold(&h); /* no stream may be asked before */
	if (cudaStreamQuery(r->stream) != cudaSuccess)
		faults_complain(r, "a call was still in flight when corale_comm_destroy had returned");
}

/* The last call was on the default stream; now a blocking stream is captured, so nothing may touch the default stream: a call on another one
 * does not. */
static void implicit(struct faults_rank *r)
{
	cudaStream_t blocking;
	cudaGraph_t graph = NULL;
	faults_is(r, corale_all_reduce(r->send, r->recv, 4, CORALE_INT32, CORALE_SUM, r->comm, NULL), 0,
		  "a call on the default stream");
	faults_cuda(r, cudaStreamSynchronize(NULL), "cudaStreamSynchronize");
	faults_cuda(r, cudaStreamCreate(&blocking), "cudaStreamCreate");
	cuda_group_meet(&r->world);
	faults_cuda(r, cudaStreamBeginCapture(blocking, cudaStreamCaptureModeThreadLocal), "capturing");
	faults_is(r, corale_all_reduce(r->send, r->recv, 4, CORALE_INT32, CORALE_SUM, r->comm, NULL),
		  CORALE_ENOTSUP, "a call on the default stream beside a capture");
	faults_is(r, faults_reduce(r, 4), 0, "a call behind one on the default stream");
	faults_cuda(r, cuda_delay(1000, blocking), "a captured kernel");
	faults_cuda(r, cudaStreamEndCapture(blocking, &graph), "the end of the capture");
	if (graph)
		cudaGraphDestroy(graph);
	cuda_group_meet(&r->world);
	cudaStreamDestroy(blocking);
}

/* A capture that the program itself has spoilt. */
static void invalidated(struct faults_rank *r)
{
	cudaGraph_t graph = NULL;
	faults_cuda(r, cudaStreamBeginCapture(r->stream, cudaStreamCaptureModeThreadLocal), "capturing");
	cudaStreamSynchronize(r->stream); /* not allowed */
	faults_is(r, faults_reduce(r, 4), CORALE_ENOTSUP, "a call in a capture that was invalidated");
	cudaStreamEndCapture(r->stream, &graph);
	cudaGetLastError();
	cuda_group_meet(&r->world);
}

void faults_capture(struct faults_rank *r, const struct faults_case *c)
{
	faults_cuda(r, cuda_delay_load(), "loading a kernel");
	if (c->kind == FAULTS_OPENED)
		create_beside(r);
	else if (c->kind == FAULTS_DESTROYED)
		destroy_beside(r, c);
	else if (c->kind == FAULTS_IMPLICIT)
		implicit(r);
	else
		invalidated(r);
	if (r->comm)
		faults_good_reduce(r, r->comm, r->size, r->rank);
	cuda_group_meet(&r->world);
	faults_recover(r);
}
