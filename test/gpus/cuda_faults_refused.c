/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls that all ranks refuse start nothing and end nothing, groups end their communicators; ordinary host memory that a failed call was to receive into is as it was. */
#define _GNU_SOURCE
#include "cuda_faults.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { COUNT = 4, PATTERN = 0x5a, SHARED = 4 << 20 };
#define LATER_S 0.3 /* a rank that waits looks for differences after 0.1 s */

static void begin_capture(struct faults_rank *r, cudaStream_t stream)
{
	faults_cuda(r, cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
		    "cudaStreamBeginCapture");
}

/* The capture is whole, and no call is part of it. */
static void end_capture(struct faults_rank *r, cudaStream_t stream)
{
	cudaGraph_t graph = NULL;
	size_t nodes = 0;
	if (!faults_cuda(r, cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture"))
		return;
	faults_cuda(r, cudaGraphGetNodes(graph, NULL, &nodes), "cudaGraphGetNodes");
	if (nodes)
		faults_complain(r, "the graph has %zu nodes of calls that were refused", nodes);
	cudaGraphDestroy(graph);
}

static int reduce_on(struct faults_rank *r, void *send, void *recv, cudaStream_t stream)
{
	return corale_all_reduce(send, recv, COUNT, CORALE_INT32, CORALE_SUM, r->comm, stream);
}

/* ---- What all ranks do together behind a refused call, one of them later ------------------------------------ */

static void refuse_then_come_late(struct faults_rank *r)
{
	int32_t host[COUNT] = { 0 };
	begin_capture(r, r->stream);
	faults_is(r, reduce_on(r, host, host, r->stream), CORALE_ENOTSUP, "host memory in a capture");
	end_capture(r, r->stream);
	cuda_group_meet(&r->world);
	if (r->rank == r->size - 1)
		clock_sleep_s(LATER_S);
}

static void then_memory(struct faults_rank *r, int registers)
{
	void *made = NULL;
	refuse_then_come_late(r);
	int ret = registers ? corale_mem_register(r->comm, r->recv, FAULTS_BUFFER, &made)
			    : corale_mem_alloc(r->comm, SHARED, &made);
	if (faults_is(r, ret, 0, "memory behind a refused call"))
		faults_is(r,
			  registers ? corale_mem_deregister(r->comm, made) : corale_mem_free(r->comm, made),
			  0, "giving it up");
}

static void then_split(struct faults_rank *r)
{
	corale_comm *child = NULL;
	refuse_then_come_late(r);
	faults_is(r, corale_comm_split(r->comm, 0, r->rank, &child), 0, "corale_comm_split");
	corale_comm_destroy(child);
}

/* ---- Groups -------------------------------------------------------------------------------------------------- */

/* The second call is refused: the first one is not captured. */
static void group_in_capture(struct faults_rank *r)
{
	int32_t host[COUNT] = { 0 };
	begin_capture(r, r->stream);
	corale_group_begin();
	reduce_on(r, r->send, r->recv, r->stream);
	reduce_on(r, host, host, r->stream);
	faults_is(r, corale_group_end(), CORALE_ENOTSUP, "a group with host memory in a capture");
	end_capture(r, r->stream);
}

/* The second call's stream takes none: the first one does not run. */
static void group_on_bad_stream(struct faults_rank *r)
{
	int32_t got = 0;
	cudaStream_t bad = NULL;
	cudaGraph_t graph = NULL;
	faults_cuda(r, cudaStreamCreateWithFlags(&bad, cudaStreamNonBlocking), "a stream");
	faults_cuda(r, cudaMemsetAsync(r->recv, PATTERN, sizeof got, r->stream), "cudaMemsetAsync");
	faults_cuda(r, cudaStreamSynchronize(r->stream), "cudaStreamSynchronize");
	begin_capture(r, bad);
	cudaStreamSynchronize(bad); /* not allowed */
	corale_group_begin();
	reduce_on(r, r->send, r->recv, r->stream);
	reduce_on(r, r->send, r->recv, bad);
	faults_is(r, corale_group_end(), CORALE_ENOTSUP, "a group with a capture that was invalidated");
	cudaStreamEndCapture(bad, &graph);
	cudaGetLastError();
	faults_cuda(r, cudaMemcpyAsync(&got, r->recv, sizeof got, cudaMemcpyDefault, r->stream),
		    "copying out");
	faults_wait(r, FAULTS_STUCK_S);
	if (got != 0x01010101 * PATTERN)
		faults_complain(r, "a call of a group that was refused has run: 0x%08x", (unsigned)got);
	cudaStreamDestroy(bad);
}

static int exchange(struct faults_rank *r, cudaStream_t out, cudaStream_t in)
{
	corale_group_begin();
	corale_send(r->send, COUNT, CORALE_INT32, (r->rank + 1) % r->size, r->comm, out);
	corale_recv(r->recv, COUNT, CORALE_INT32, (r->rank + r->size - 1) % r->size, r->comm, in);
	return corale_group_end();
}

/* Each rank's group in another way. */
static void group_half_captured(struct faults_rank *r)
{
	cudaStream_t eager = NULL;
	faults_cuda(r, cudaStreamCreateWithFlags(&eager, cudaStreamNonBlocking), "a stream");
	begin_capture(r, r->stream);
	if (r->rank % 2) {
		faults_is(r, exchange(r, eager, r->stream), CORALE_ENOTSUP,
			  "an eager send, a captured receive");
	} else {
		corale_group_begin();
		reduce_on(r, r->send, r->recv, eager);
		reduce_on(r, r->send, r->recv, r->stream);
		faults_is(r, corale_group_end(), CORALE_ENOTSUP, "an eager collective, a captured one");
	}
	end_capture(r, r->stream);
	cudaStreamDestroy(eager);
}

/* ---- Ordinary host memory --------------------------------------------------------------------------------------- */

/* The last rank's call is another one; into a group of messages the others send less than it expects. */
static int mismatch(struct faults_rank *r, void *host, size_t count, int in_pairs)
{
	const size_t mine = count + (r->rank == r->size - 1);
	if (!in_pairs)
		return corale_all_reduce(r->send, host, mine, CORALE_INT32, CORALE_SUM, r->comm, r->stream);
	corale_group_begin();
	corale_send(r->send, count, CORALE_INT32, (r->rank + 1) % r->size, r->comm, r->stream);
	corale_recv(host, count + 1, CORALE_INT32, (r->rank + r->size - 1) % r->size, r->comm, r->stream);
	return corale_group_end();
}

static void plain_mismatch(struct faults_rank *r, size_t count, int in_pairs)
{
	const size_t bytes = (count + 1) * sizeof(int32_t);
	size_t wrong = 0;
	unsigned char *host = malloc(bytes);
	if (!host)
		return faults_complain(r, "no memory");
	memset(host, PATTERN, bytes);
	int ret = mismatch(r, host, count, in_pairs);
	if (ret != CORALE_ECOMM) /* which a rank gets that comes when the others know */
		faults_is(r, ret, CORALE_EMISMATCH, "calls that differ, into host memory");
	for (size_t i = 0; i < bytes; i++)
		wrong += host[i] != PATTERN;
	if (wrong)
		faults_complain(r, "calls that differ have changed %zu bytes of host memory", wrong);
	free(host);
	cuda_group_meet(&r->world);
}

static void reduce_host(struct faults_rank *r, int32_t *host)
{
	for (int i = 0; i < COUNT; i++)
		host[i] = r->rank + i;
	faults_is(r, reduce_on(r, host, host, r->stream), 0, "host memory where memory of the GPU was");
	for (int i = 0; i < COUNT; i++)
		if (host[i] != r->size * i + r->size * (r->size - 1) / 2)
			faults_complain(r, "element %d is %d", i, (int)host[i]);
	begin_capture(r, r->stream);
	faults_is(r, reduce_on(r, host, host, r->stream), CORALE_ENOTSUP, "the same in a capture");
	end_capture(r, r->stream);
}

/* Memory of the GPU that calls have used is freed, and ordinary memory mapped at its address. */
static void address_reused(struct faults_rank *r)
{
	void *memory = NULL;
	if (!faults_is(r, corale_mem_alloc(r->comm, SHARED, &memory), 0, "corale_mem_alloc"))
		return;
	faults_is(r, reduce_on(r, memory, memory, r->stream), 0, "a call on memory of the GPU");
	faults_wait(r, FAULTS_STUCK_S);
	faults_is(r, corale_mem_free(r->comm, memory), 0, "corale_mem_free");
	void *host = mmap(memory, SHARED, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (cuda_group_largest(&r->world, host != memory)) { /* the driver may keep addresses */
		printf("NOTE %s: rank %d: the address was not to be had: nothing was tested\n", r->name,
		       r->rank);
	} else {
		reduce_host(r, host);
	}
	if (host != MAP_FAILED)
		munmap(host, SHARED);
}

static int is_group(const struct faults_case *c)
{
	return c->kind == FAULTS_GROUP_IN_CAPTURE || c->kind == FAULTS_GROUP_ON_BAD_STREAM ||
	       c->kind == FAULTS_GROUP_HALF_CAPTURED;
}

void faults_refused(struct faults_rank *r, const struct faults_case *c)
{
	if (c->kind == FAULTS_THEN_ALLOC || c->kind == FAULTS_THEN_REGISTER)
		then_memory(r, c->kind == FAULTS_THEN_REGISTER);
	else if (c->kind == FAULTS_THEN_SPLIT)
		then_split(r);
	else if (c->kind == FAULTS_GROUP_IN_CAPTURE)
		group_in_capture(r);
	else if (c->kind == FAULTS_GROUP_ON_BAD_STREAM)
		group_on_bad_stream(r);
	else if (c->kind == FAULTS_GROUP_HALF_CAPTURED)
		group_half_captured(r);
	else if (c->kind == FAULTS_ADDRESS_REUSED)
		address_reused(r);
	else
		plain_mismatch(r, c->count, c->kind == FAULTS_PLAIN_MISMATCH_PAIR);
	cuda_group_meet(&r->world);
	if (is_group(c))
		faults_is(r, faults_reduce(r, COUNT), CORALE_ECOMM, "a call behind a group that was refused");
	else if (c->kind != FAULTS_PLAIN_MISMATCH && c->kind != FAULTS_PLAIN_MISMATCH_PAIR)
		faults_good_reduce(r, r->comm, r->size, r->rank);
	faults_recover(r);
}
