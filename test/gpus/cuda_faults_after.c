/* SPDX-License-Identifier: BSD-3-Clause */
/* After a failure: nothing is silent, no later kernel folds, no peer writes into the caller's memory, and memory can be freed. */
#include "cuda_faults.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda_delay.h"

enum {
	SEEN_MS = 150,
	LATE_S = 2,
	PART = 64 << 20,
	OUTLIVED = 64 << 20,
	OUTLIVES = 4,
	PATTERN = 0x11,
	AT_ONCE_MS = 100,
	SMALL_COUNT = 4,
	RACES = 20
};
#define RACE_TIMEOUT_S 0.3

static void fill(struct faults_rank *r, void *memory, int byte, size_t bytes)
{
	faults_cuda(r, cudaMemsetAsync(memory, byte, bytes, r->stream), "cudaMemsetAsync");
	faults_cuda(r, cudaStreamSynchronize(r->stream), "cudaStreamSynchronize");
}

/* The number of bytes that are not what they were filled with. */
static size_t changed(struct faults_rank *r, const void *memory, int byte, size_t bytes)
{
	unsigned char *host = malloc(bytes);
	size_t wrong = 0;
	if (!host || !faults_cuda(r, cudaMemcpyAsync(host, memory, bytes, cudaMemcpyDefault, r->stream),
				  "copying out"))
		return bytes;
	faults_cuda(r, cudaStreamSynchronize(r->stream), "cudaStreamSynchronize");
	for (size_t i = 0; i < bytes; i++)
		wrong += host[i] != byte;
	free(host);
	return wrong;
}

/* ---- Nothing is silent -------------------------------------------------------------------------------------- */

/* Nobody asks the communicator: its line is there all the same. */
static void unasked(struct faults_rank *r, const struct faults_case *c)
{
	size_t count = c->count + (r->rank == r->size - 1);
	int ret = faults_reduce(r, count);
	faults_is(r, ret == CORALE_ECOMM ? 0 : ret, 0, "the call");
	faults_wait(r, FAULTS_STUCK_S);
	clock_sleep_s(SEEN_MS / 1000.);
	faults_expect_words(r, c);
	cuda_group_meet(&r->world);
}

static cudaGraphExec_t capture_reduce(struct faults_rank *r, size_t count)
{
	cudaGraph_t graph = NULL;
	cudaGraphExec_t exec = NULL;
	faults_cuda(r, cudaStreamBeginCapture(r->stream, cudaStreamCaptureModeThreadLocal),
		    "cudaStreamBeginCapture");
	faults_is(r, faults_reduce(r, count), 0, "a captured call");
	if (faults_cuda(r, cudaStreamEndCapture(r->stream, &graph), "cudaStreamEndCapture"))
		faults_cuda(r, cudaGraphInstantiate(&exec, graph, 0), "cudaGraphInstantiate");
	if (graph)
		cudaGraphDestroy(graph);
	return exec;
}

/* Graphs that all ranks hold are replayed after a failure: they end at once and leave the receive buffers as they are. */
static void replayed(struct faults_rank *r, const struct faults_case *c)
{
	cudaGraphExec_t exec = capture_reduce(r, c->count);
	faults_cuda(r, cudaGraphLaunch(exec, r->stream), "cudaGraphLaunch");
	faults_wait(r, FAULTS_STUCK_S);
	cuda_group_meet(&r->world);
	faults_reduce(r, SMALL_COUNT + (size_t)(r->rank == 0)); /* a mismatch */
	faults_wait(r, FAULTS_STUCK_S);
	cuda_group_meet(&r->world);
	fill(r, r->recv, PATTERN, c->count * sizeof(int32_t));
	cuda_group_meet(&r->world);
	double begin = clock_s();
	faults_cuda(r, cudaGraphLaunch(exec, r->stream), "a replay after a failure");
	faults_is(r, faults_wait(r, FAULTS_STUCK_S), 0, "waiting for a replay after a failure");
	double ms = 1000 * (clock_s() - begin);
	if (ms > AT_ONCE_MS)
		faults_complain(r, "a replay after a failure took %.0f ms", ms);
	size_t wrong = changed(r, r->recv, PATTERN, c->count * sizeof(int32_t));
	if (wrong)
		faults_complain(r, "a replay after a failure has changed %zu bytes", wrong);
	cudaGraphExecDestroy(exec);
}

/* ---- Memory of a rank that has given up --------------------------------------------------------------------- */

static int call_into(struct faults_rank *r, int coll, void *memory, corale_comm *comm)
{
	size_t n = PART / sizeof(int32_t) / (size_t)r->size;
	if (coll == CORALE_BROADCAST) /* the late rank is the root */
		return corale_broadcast(r->send, memory, n * (size_t)r->size, CORALE_INT32, r->size - 1, comm,
					r->stream);
	if (coll == CORALE_ALL_TO_ALL)
		return corale_all_to_all(r->send, memory, n, CORALE_INT32, comm, r->stream);
	return corale_all_gather(r->send, memory, n, CORALE_INT32, comm, r->stream);
}

/* Memory that all ranks map: of cudaMalloc, registered, or of corale_mem_alloc. */
static void *shared_memory(struct faults_rank *r, int allocated, void **handle)
{
	void *memory = NULL;
	*handle = NULL;
	if (allocated)
		faults_is(r, corale_mem_alloc(r->comm, PART, &memory), 0, "corale_mem_alloc");
	else if (faults_cuda(r, cudaMalloc(&memory, PART), "cudaMalloc"))
		faults_is(r, corale_mem_register(r->comm, memory, PART, handle), 0, "corale_mem_register");
	return memory;
}

/* Rank 0's call times out; it gives up, by destroying or deregistering, and fills its memory, into which the late calls and replays of the
 * others must write nothing. */
static void given_up_by(struct faults_rank *r, int coll, int allocated, int deregisters, int replays)
{
	void *handle, *memory = shared_memory(r, allocated, &handle);
	cudaGraph_t graph = NULL;
	cudaGraphExec_t exec = NULL;
	if (replays) {
		faults_cuda(r, cudaStreamBeginCapture(r->stream, cudaStreamCaptureModeThreadLocal),
			    "capturing");
		faults_is(r, call_into(r, coll, memory, r->comm), 0, "a captured call");
		if (faults_cuda(r, cudaStreamEndCapture(r->stream, &graph), "capturing"))
			faults_cuda(r, cudaGraphInstantiate(&exec, graph, 0), "cudaGraphInstantiate");
		faults_cuda(r, cudaGraphLaunch(exec, r->stream), "cudaGraphLaunch");
		faults_wait(r, FAULTS_STUCK_S);
	}
	cuda_group_meet(&r->world);
	if (r->rank == 0) {
		int ret = call_into(r, coll, memory, r->comm);
		faults_is(r, ret == CORALE_ETIMEDOUT ? 0 : ret, 0, "the call that waits");
		faults_wait(r, FAULTS_STUCK_S);
		double begin = clock_s();
		if (deregisters && allocated)
			corale_mem_free(r->comm, memory);
		else if (deregisters)
			corale_mem_deregister(r->comm, handle);
		else
			corale_comm_destroy(r->comm);
		if (clock_s() - begin > 1)
			faults_complain(r, "giving up took %.1f s", clock_s() - begin);
		if (!(deregisters && allocated)) {
			fill(r, memory, PATTERN, PART);
			clock_sleep_s(LATE_S + 2.5);
			size_t wrong = changed(r, memory, PATTERN, PART);
			if (wrong)
				faults_complain(
				    r, "%zu bytes of memory that was given up were written by others", wrong);
		} else {
			clock_sleep_s(LATE_S + 2.5);
		}
		if (!deregisters)
			r->comm = NULL;
	} else {
		clock_sleep_s(FAULTS_TIMEOUT_S + LATE_S);
		if (exec)
			faults_cuda(r, cudaGraphLaunch(exec, r->stream), "a late replay");
		else
			call_into(r, coll, memory, r->comm);
		faults_wait(r, FAULTS_STUCK_S);
	}
	cuda_group_meet(&r->world);
	if (exec)
		cudaGraphExecDestroy(exec);
	if (graph)
		cudaGraphDestroy(graph);
	if (!allocated)
		cudaFree(memory);
}

/* ---- Memory that outlives its communicator ------------------------------------------------------------------- */

/* A communicator whose memory is freed after it. Bytes of the GPU that are free then. */
static size_t outlive(struct faults_rank *r)
{
	void *memory = NULL;
	size_t left = 0, total;
	corale_comm *comm = faults_comm(r, &r->fresh, FAULTS_STUCK_S);
	if (!comm)
		return 0;
	faults_is(r, corale_mem_alloc(comm, OUTLIVED, &memory), 0, "corale_mem_alloc");
	corale_comm_destroy(comm);
	if (memory)
		fill(r, memory, PATTERN, OUTLIVED); /* still the caller's */
	faults_is(r, corale_mem_free(comm, memory), 0, "freeing memory that outlives its communicator");
	faults_is(r, corale_mem_free(comm, memory), CORALE_EINVAL, "freeing it twice");
	cuda_group_meet(&r->world); /* no peer maps it any more */
	faults_cuda(r, cudaMemGetInfo(&left, &total), "cudaMemGetInfo");
	cuda_group_meet(&r->world); /* a rank on this GPU allocates no more before */
	return left;
}

static void outlived(struct faults_rank *r)
{
	size_t first = outlive(r), last = 0;
	for (int i = 0; i < OUTLIVES; i++)
		last = outlive(r);
	if (last + OUTLIVES * (size_t)OUTLIVED / 2 < first)
		faults_complain(r, "%zu bytes less are free after %d communicators", first - last, OUTLIVES);
}

/* ---- A rank that fails alone --------------------------------------------------------------------------------- */

/* Rank 0's kernel waits; the last rank fails on its host, or loses its GPU, and says so at its next call or poll. */
static void fails_alone(struct faults_rank *r, const struct faults_case *c, int loses)
{
	const size_t too_much = (size_t)1 << 46;
	int last = r->size - 1;
	if (r->rank != last)
		faults_is(r, faults_reduce(r, c->count), 0, "the call that waits");
	cuda_group_meet(&r->world);
	double begin = clock_s();
	if (r->rank == last && loses) {
		uint32_t *nowhere = (uint32_t *)(uintptr_t)0x10000; /* the kernel faults */
		cuda_tiny_fill(nowhere, 1, 0, r->stream);
		cudaStreamSynchronize(r->stream);
		begin = clock_s();
		faults_is(r, corale_comm_async_error(r->comm), CORALE_EDEVICE, "a lost context");
	} else if (r->rank == last) {
		static char host[64];
		int ret =
		    corale_all_reduce(host, host, too_much, CORALE_INT8, CORALE_SUM, r->comm, r->stream);
		if (!ret || ret == CORALE_EINVAL)
			faults_complain(r, "a call of %zu bytes of host memory: %s", too_much,
					corale_strerror(ret));
	} else {
		int got = CORALE_INPROGRESS;
		while ((got = cudaStreamQuery(r->stream) == cudaErrorNotReady) &&
		       clock_s() < begin + FAULTS_STUCK_S)
			;
		double seconds = clock_s() - begin;
		if (seconds > FAULTS_TIMEOUT_S - 1)
			faults_complain(r, "the failure of another rank was told after %.2f s", seconds);
		if (!corale_comm_async_error(r->comm))
			faults_complain(r, "the failure of another rank is not told");
	}
}

/* Rank 0 gives up just when the others' stores begin, or are under way: once it has destroyed, its memory is its own. */
static void raced(struct faults_rank *r, int aborts)
{
	for (int i = 0; i < RACES && !r->faults; i++) {
		void *handle, *memory;
		corale_comm *comm = faults_comm(r, &r->fresh, aborts ? FAULTS_TIMEOUT_S : RACE_TIMEOUT_S),
			    *kept = r->comm;
		if (!comm)
			return;
		r->comm = comm;
		memory = shared_memory(r, i % 2, &handle);
		cuda_group_meet(&r->world);
		if (r->rank && !aborts)
			clock_sleep_s(RACE_TIMEOUT_S + 1e-3 * (i - RACES / 2));
		call_into(r, CORALE_ALL_GATHER, memory, comm);
		if (aborts)
			clock_sleep_s(1e-5 * i);
		if (r->rank == 0 && aborts)
			corale_comm_abort(comm);
		faults_wait(r, FAULTS_STUCK_S);
		if (r->rank == 0) {
			corale_comm_destroy(comm);
			fill(r, memory, PATTERN, PART);
			clock_sleep_s(0.1);
			size_t wrong = changed(r, memory, PATTERN, PART);
			if (wrong)
				faults_complain(r,
						"round %d: %zu bytes were written after corale_comm_destroy",
						i, wrong);
		}
		cuda_group_meet(&r->world);
		if (r->rank)
			corale_comm_destroy(comm);
		if (i % 2)
			faults_is(r, corale_mem_free(comm, memory), 0, "corale_mem_free after destroy");
		else
			cudaFree(memory);
		r->comm = kept;
	}
}

/* The last rank's GPU is lost to it, so its process ends. */
static void lost(struct faults_rank *r, const struct faults_case *c)
{
	fails_alone(r, c, 1);
	if (r->rank == r->size - 1) {
		corale_comm_destroy(r->comm);
		atomic_fetch_add(&r->world.children->faults, r->faults);
		_exit(0);
	}
	r->fresh.size = r->size - 1;
	faults_recover(r);
}

static void give_up(struct faults_rank *r, const struct faults_case *c)
{
	static const struct {
		int coll, allocated, deregisters, replays;
	} ways[] = {
		[FAULTS_GATHER] = { CORALE_ALL_GATHER, 0, 0, 0 },
		[FAULTS_ALL_TO_ALL] = { CORALE_ALL_TO_ALL, 0, 0, 0 },
		[FAULTS_FROM_LATE_ROOT] = { CORALE_BROADCAST, 0, 0, 0 },
		[FAULTS_ALLOCATED] = { CORALE_ALL_GATHER, 1, 0, 0 },
		[FAULTS_DEREGISTERED] = { CORALE_ALL_GATHER, 0, 1, 0 },
		[FAULTS_FREED] = { CORALE_ALL_GATHER, 1, 1, 0 },
		[FAULTS_REPLAYED_LATE] = { CORALE_ALL_GATHER, 0, 0, 1 },
		[FAULTS_REPLAYED_ALLOCATED] = { CORALE_ALL_GATHER, 1, 0, 1 },
	};
	given_up_by(r, ways[c->kind].coll, ways[c->kind].allocated, ways[c->kind].deregisters,
		    ways[c->kind].replays);
}

void faults_after(struct faults_rank *r, const struct faults_case *c)
{
	if (c->kind == FAULTS_LOST) {
		lost(r, c);
		return;
	}
	switch (c->kind) {
	case FAULTS_UNASKED:
		unasked(r, c);
		break;
	case FAULTS_REPLAYED:
		replayed(r, c);
		break;
	case FAULTS_RACED_LATE:
	case FAULTS_RACED_ABORT:
		raced(r, c->kind == FAULTS_RACED_ABORT);
		break;
	case FAULTS_OUTLIVED:
		outlived(r);
		break;
	case FAULTS_ALONE:
		fails_alone(r, c, 0);
		break;
	default:
		give_up(r, c);
	}
	cuda_group_meet(&r->world);
	faults_recover(r);
}
