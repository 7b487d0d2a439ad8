/* SPDX-License-Identifier: BSD-3-Clause */
/* Very many calls of 8 bytes, each result checked. */
#include "cuda_stress.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_delay.h"

enum {
	MOST_DELAY_NS = 10000,
	TINY_SYNC = 10000, /* calls between two looks at the communicator */
	ROWS = 1024, /* calls of a burst */
	GRAPH_ROWS = 256,
	FOUND = 6,
	CHAIN = 200,
	CHAIN_COUNT = 777,
	THREADS = 2,
	THREAD_CALLS = 2000,
	THREAD_COUNT = 1000
};

static uint32_t random_delay(struct stress *s)
{
	return (uint32_t)(cuda_world_random(&s->own) % MOST_DELAY_NS);
}

static int delay(struct stress *s, cudaStream_t stream)
{
	return cuda_world_good(&s->world, cuda_delay(random_delay(s), stream), "the delay kernel")
		   ? 0
		   : CORALE_EDEVICE;
}

/* A memset of the default stream may still be on its way when it returns; the streams of calls do not wait for it. */
static int allocate(struct stress *s, void *pointer, size_t bytes)
{
	return cuda_world_good(&s->world, cudaMalloc(pointer, bytes), "cudaMalloc") &&
		       cuda_world_good(&s->world, cudaMemset(*(void **)pointer, 0, bytes), "cudaMemset") &&
		       cuda_world_good(&s->world, cudaStreamSynchronize(NULL), "cudaStreamSynchronize")
		   ? 0
		   : CORALE_ENOMEM;
}

static int tiny_reduce(struct stress *s, const uint32_t *send, uint32_t *recv, int words, cudaStream_t stream)
{
	corale_comm *comm = s->benches[0].comm;
	int ret = corale_all_reduce(send, recv, (size_t)words, CORALE_UINT32, CORALE_SUM, comm, stream);
	cuda_world_ok(&s->world, ret, comm, "a tiny all_reduce");
	return ret;
}

/* ---- Between kernels ---- */

static int tiny_call(struct stress *s, uint32_t call, uint32_t *words, uint32_t *found, cudaStream_t stream)
{
	uint32_t *recv = call % 2 ? words : words + 2; /* in place every other time */
	cuda_tiny_fill(words, call, s->world.rank, stream);
	int ret = tiny_reduce(s, words, recv, 2, stream);
	cuda_tiny_check(recv, call, s->world.size, found, stream);
	return ret ? ret : delay(s, stream);
}

static uint32_t expected_word(const struct stress *s, uint32_t call, int word)
{
	uint32_t sum = 0;
	for (int rank = 0; rank < s->world.size; rank++)
		sum += cuda_tiny_word(call, rank, word);
	return sum;
}

/* found[5] must be the sum of all results: a kernel that checks nothing would not have it. */
static void judge_tiny(struct stress *s, const uint32_t *found, uint32_t calls)
{
	uint32_t sum = 0;
	for (uint32_t call = 0; call < calls; call++)
		sum += expected_word(s, call, 0) + expected_word(s, call, 1);
	if (found[0])
		cuda_world_fault(&s->world, "%u wrong; the first: call %u, word %u: got 0x%x, expected 0x%x",
				 found[0], found[1] - 1, found[2], found[3], found[4]);
	if (found[5] != sum)
		cuda_world_fault(&s->world, "sum of all results of %u calls: got 0x%x, expected 0x%x", calls,
				 found[5], sum);
}

void stress_tiny(struct stress *s)
{
	uint32_t *words = NULL, *found = NULL, host[FOUND] = { 0 }, call = 0;
	cudaStream_t stream = s->streams[0];
	s->broken = allocate(s, &words, 4 * sizeof(*words)) || allocate(s, &found, sizeof(host));
	while (call < (uint32_t)s->calls && !stress_over(s)) {
		for (int i = 0; i < TINY_SYNC && call < (uint32_t)s->calls && !s->broken; i++)
			s->broken = tiny_call(s, call++, words, found, stream);
		int ret = cuda_world_drain(&s->world, s->benches[0].comm, stream, "tiny calls");
		s->broken = s->broken ? s->broken : ret;
	}
	s->world.cases = call;
	if (!s->broken) {
		cudaMemcpy(host, found, sizeof(host), cudaMemcpyDeviceToHost);
		judge_tiny(s, host, call);
	}
	cudaFree(words);
	cudaFree(found);
}

/* ---- Without anything in between ---- */

struct burst {
	int rows, words; /* words: of a row */
	uint32_t *host, *send, *recv; /* host: page-locked */
	cudaGraphExec_t exec; /* or NULL */
};

static size_t burst_bytes(const struct burst *b)
{
	return (size_t)b->rows * (size_t)b->words * sizeof(uint32_t);
}

static int open_burst(struct stress *s, struct burst *b, int rows)
{
	memset(b, 0, sizeof(*b));
	b->rows = rows;
	b->words = s->words;
	const size_t bytes = burst_bytes(b);
	return !cuda_world_good(&s->world, cudaMallocHost((void **)&b->host, bytes), "cudaMallocHost") ||
	       allocate(s, &b->send, bytes) || allocate(s, &b->recv, bytes);
}

static void close_burst(struct burst *b)
{
	if (b->exec)
		cudaGraphExecDestroy(b->exec);
	cudaFree(b->send);
	cudaFree(b->recv);
	cudaFreeHost(b->host);
}

static int issue_rows(struct stress *s, const struct burst *b, cudaStream_t stream)
{
	int ret = 0;
	for (int row = 0; row < b->rows && !ret; row++) {
		ret = tiny_reduce(s, b->send + b->words * row, b->recv + b->words * row, b->words, stream);
		if (!ret && cuda_world_random(&s->own) % 3)
			ret = delay(s, stream);
	}
	return ret;
}

/* One round: new inputs, all rows, and the check. call: number of the first row. */
static int run_burst(struct stress *s, const struct burst *b, uint32_t call, cudaStream_t stream)
{
	const size_t bytes = burst_bytes(b);
	int ret;
	for (int i = 0; i < b->words * b->rows; i++)
		b->host[i] = cuda_tiny_word(call + (uint32_t)(i / b->words), s->world.rank, i % b->words);
	cudaMemcpyAsync(b->send, b->host, bytes, cudaMemcpyHostToDevice, stream);
	cudaMemsetAsync(b->recv, 0xa5, bytes, stream);
	if (b->exec)
		ret = cuda_world_good(&s->world, cudaGraphLaunch(b->exec, stream), "cudaGraphLaunch")
			  ? 0
			  : CORALE_EDEVICE;
	else
		ret = issue_rows(s, b, stream);
	int drained = cuda_world_drain(&s->world, s->benches[0].comm, stream, "a burst of tiny calls");
	if (ret || drained)
		return ret ? ret : drained;
	cudaMemcpy(b->host, b->recv, bytes, cudaMemcpyDeviceToHost);
	for (int i = 0; i < b->words * b->rows; i++) {
		uint32_t expected = expected_word(s, call + (uint32_t)(i / b->words), i % b->words);
		if (b->host[i] != expected)
			cuda_world_fault(&s->world, "call %u, row %d, word %d: got 0x%x, expected 0x%x", call,
					 i / b->words, i % b->words, b->host[i], expected);
	}
	return 0;
}

static int capture_burst(struct stress *s, struct burst *b, cudaStream_t stream)
{
	cudaGraph_t graph = NULL;
	int ret = !cuda_world_good(
	    &s->world, cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capturing");
	if (ret)
		return CORALE_EDEVICE;
	ret = issue_rows(s, b, stream);
	if (!cuda_world_good(&s->world, cudaStreamEndCapture(stream, &graph), "capturing") ||
	    !cuda_world_good(&s->world, cudaGraphInstantiate(&b->exec, graph, 0), "cudaGraphInstantiate"))
		ret = CORALE_EDEVICE;
	if (graph)
		cudaGraphDestroy(graph);
	return ret;
}

static void run_bursts(struct stress *s, int rows, int captured)
{
	struct burst b;
	long call = 0;
	s->broken = open_burst(s, &b, rows);
	if (!s->broken && captured)
		s->broken = capture_burst(s, &b, s->streams[1]);
	while (call < s->calls && !stress_over(s)) {
		for (int i = 0; i < STRESS_AGREE && !s->broken; i++, call += rows)
			s->broken = run_burst(s, &b, (uint32_t)call, s->streams[1]);
	}
	s->world.cases = call;
	close_burst(&b);
}

void stress_burst(struct stress *s)
{
	run_bursts(s, ROWS, 0);
}

void stress_replayed(struct stress *s)
{
	run_bursts(s, GRAPH_ROWS, 1);
}

/* ---- Chains ---- */

/* What a rank's elements are multiplied by before the sum: the factors add up to an odd number, by which no element ever
 * becomes 0 modulo 2^32. */
static uint32_t factor_of(const struct stress *s, int rank)
{
	return rank == 0 && s->world.size % 2 == 0 ? 2 : 1;
}

static uint32_t first_link(const struct stress *s, int i)
{
	uint32_t sum = 0;
	for (int rank = 0; rank < s->world.size; rank++)
		sum += factor_of(s, rank) * (uint32_t)(i * 31 + rank);
	return sum;
}

static uint32_t all_factors(const struct stress *s, int links)
{
	uint32_t each = 0, all = 1;
	for (int rank = 0; rank < s->world.size; rank++)
		each += factor_of(s, rank);
	for (int k = 0; k < links; k++)
		all *= each;
	return all;
}

static int check_chain(struct stress *s, const uint32_t *data)
{
	uint32_t host[CHAIN_COUNT], factor = all_factors(s, CHAIN - 1);
	cudaMemcpy(host, data, sizeof(host), cudaMemcpyDeviceToHost);
	for (int i = 0; i < CHAIN_COUNT; i++)
		if (host[i] != first_link(s, i) * factor)
			cuda_world_fault(&s->world,
					 "after %d calls in a chain, element %d: got %u, expected %u", CHAIN,
					 i, host[i], first_link(s, i) * factor);
	s->world.cases += CHAIN;
	return 0;
}

static int run_chain(struct stress *s, corale_op op, uint32_t *data, cudaEvent_t event)
{
	uint32_t host[CHAIN_COUNT];
	cudaStream_t stream = s->streams[0], next;
	for (int i = 0; i < CHAIN_COUNT; i++)
		host[i] = (uint32_t)(i * 31 + s->world.rank);
	cudaMemcpyAsync(data, host, sizeof(host), cudaMemcpyHostToDevice, stream);
	for (int k = 0; k < CHAIN; k++, stream = next) {
		int ret =
		    corale_all_reduce(data, data, CHAIN_COUNT, CORALE_UINT32, op, s->benches[0].comm, stream);
		if (!cuda_world_ok(&s->world, ret, s->benches[0].comm, "a link of a chain"))
			return ret;
		if (cuda_world_random(&s->own) % 4 == 0)
			delay(s, stream);
		next = s->streams[cuda_world_random(&s->state) % STRESS_STREAMS];
		cudaEventRecord(event, stream);
		cudaStreamWaitEvent(next, event, 0);
	}
	int ret = cuda_world_drain(&s->world, s->benches[0].comm, stream, "a chain of calls");
	return ret ? ret : check_chain(s, data);
}

void stress_chain(struct stress *s)
{
	uint32_t *data = NULL, factor = factor_of(s, s->world.rank);
	cudaEvent_t event = NULL;
	corale_op op = CORALE_SUM;
	s->broken =
	    allocate(s, &data, CHAIN_COUNT * sizeof(*data)) ||
	    !cuda_world_good(&s->world, cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "an event");
	if (!s->broken)
		s->broken = corale_op_create_premul_sum(&factor, CORALE_UINT32, s->benches[0].comm, &op);
	cuda_world_ok(&s->world, s->broken, s->benches[0].comm, "making a premultiplied sum");
	while (!stress_over(s))
		for (int i = 0; i < STRESS_AGREE && !s->broken; i++)
			s->broken = run_chain(s, op, data, event);
	cudaEventDestroy(event);
	cudaFree(data);
}

/* ---- Threads ---- */

struct worker {
	pthread_t thread;
	corale_comm *comm;
	cudaStream_t stream;
	int gpu, rank, size, calls, code;
	int32_t *data;
	char fault[200];
};

static int work_once(struct worker *w, int call)
{
	int32_t host[THREAD_COUNT];
	for (int i = 0; i < THREAD_COUNT; i++)
		host[i] = i * call + w->rank;
	cudaMemcpyAsync(w->data, host, sizeof(host), cudaMemcpyHostToDevice, w->stream);
	int ret =
	    corale_all_reduce(w->data, w->data, THREAD_COUNT, CORALE_INT32, CORALE_SUM, w->comm, w->stream);
	if (!ret)
		ret = cuda_world_wait(w->stream, CUDA_WORLD_WAIT_S);
	if (!ret)
		ret = corale_comm_async_error(w->comm);
	if (ret)
		return ret;
	cudaMemcpyAsync(host, w->data, sizeof(host), cudaMemcpyDeviceToHost, w->stream);
	cudaStreamSynchronize(w->stream);
	for (int i = 0; i < THREAD_COUNT && !w->fault[0]; i++)
		if (host[i] != w->size * i * call + w->size * (w->size - 1) / 2)
			snprintf(w->fault, sizeof(w->fault), "call %d, element %d: got %d, expected %d", call,
				 i, host[i], w->size * i * call + w->size * (w->size - 1) / 2);
	return 0;
}

static void *work(void *arg)
{
	struct worker *w = arg;
	cudaSetDevice(w->gpu);
	for (w->calls = 0; w->calls < THREAD_CALLS && !w->code; w->calls++)
		w->code = work_once(w, w->calls);
	return NULL;
}

void stress_threads(struct stress *s)
{
	struct worker workers[THREADS];
	memset(workers, 0, sizeof(workers));
	for (int i = 0; i < THREADS; i++) {
		struct worker *w = &workers[i];
		*w = (struct worker){ .comm = s->benches[i].comm,
				      .stream = s->streams[i],
				      .gpu = s->world.gpu,
				      .rank = s->world.rank,
				      .size = s->world.size };
		s->broken |= allocate(s, &w->data, THREAD_COUNT * sizeof(int32_t));
	}
	for (int i = 0; i < THREADS && !s->broken; i++)
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
			abort();
	for (int i = 0; i < THREADS; i++) {
		struct worker *w = &workers[i];
		if (!s->broken)
			pthread_join(w->thread, NULL);
		cuda_world_ok(&s->world, w->code, w->comm, "a thread's all_reduce");
		if (w->fault[0])
			cuda_world_fault(&s->world, "thread %d: %s", i, w->fault);
		s->world.cases += w->calls;
		cudaFree(w->data);
	}
}
