/* SPDX-License-Identifier: BSD-3-Clause */
/* Random calls at once: on several streams, of two communicators, and in graphs. */
#include "cuda_stress.h"

#include <stdlib.h>
#include <string.h>

#include "cuda_delay.h"

enum {
	CONCURRENT = 4, /* batches in flight */
	USUAL_COUNT = 20000,
	RARE_COUNT = 2000000,
	GRAPHS = 4,
	GRAPH_CALLS = 2,
	ROUNDS = 20 /* of replays, until graphs are captured anew */
};

static const unsigned int mix_kinds =
    1u << CUDA_MEMORY_DEVICE | 1u << CUDA_MEMORY_LIBRARY | 1u << CUDA_MEMORY_REGISTERED;

static uint64_t draw(struct stress *s, uint64_t n)
{
	return cuda_world_random(&s->state) % n;
}

static void draw_batch(struct stress *s, struct cuda_batch *batch, int n, size_t room)
{
	size_t largest = draw(s, 20) ? USUAL_COUNT : RARE_COUNT;
	memset(batch, 0, sizeof(*batch));
	batch->n = n;
	batch->grouped = draw(s, 3) == 0;
	batch->capture_mode = (int)cudaStreamCaptureModeThreadLocal;
	batch->stream = s->streams[draw(s, STRESS_STREAMS)];
	for (int i = 0; i < n; i++)
		batch->cases[i] = cuda_case_draw(&s->world, &s->state, largest, mix_kinds, room / (size_t)n);
}

static void keep(struct stress *s, int ret)
{
	s->broken = s->broken ? s->broken : ret;
}

/* Batches that are in flight together; each is open and has its stream. All inputs first: then nothing but the calls. */
static void run_together(struct stress *s, struct cuda_batch **batches, int n)
{
	int started = 0;
	for (int i = 0; i < n && !s->broken; i++)
		keep(s, cuda_batch_fill(batches[i]));
	for (; started < n && !s->broken; started++) {
		if (cuda_world_random(&s->own) % 4 == 0)
			cuda_delay((uint32_t)(cuda_world_random(&s->own) % 50000), batches[started]->stream);
		keep(s, cuda_batch_start(batches[started]));
	}
	for (int i = 0; i < started && !s->broken; i++)
		keep(s, cuda_batch_finish(batches[i]));
}

/* Random calls; batch i on bench i % benches. */
static void run_mixed(struct stress *s, struct cuda_batch *batches, int benches)
{
	struct cuda_batch *list[CONCURRENT];
	int open = 0;
	for (; open < CONCURRENT && !s->broken; open += !s->broken) {
		struct cuda_batch *batch = list[open] = &batches[open];
		draw_batch(s, batch, 1 + (int)draw(s, 3), STRESS_ARENA / CONCURRENT);
		if (benches > 1) /* communicators that share a stream would wait for each other */
			batch->stream = s->streams[open % benches];
		keep(s, cuda_batch_open(&s->benches[open % benches], batch));
	}
	run_together(s, list, s->broken ? 0 : open);
	while (open > 0)
		cuda_batch_close(&batches[--open]);
	for (int i = 0; i < benches; i++)
		cuda_bench_reset(&s->benches[i]);
}

static int open_memory(struct stress *s, int benches)
{
	for (int i = 0; i < benches; i++)
		if (cuda_bench_memory(&s->benches[i], mix_kinds, STRESS_ARENA))
			return -1;
	return 0;
}

static struct cuda_batch *allocate_batches(struct stress *s, int n)
{
	struct cuda_batch *batches = calloc((size_t)n, sizeof(*batches));
	s->broken = !batches;
	return batches;
}

static void run_rounds(struct stress *s, int benches)
{
	struct cuda_batch *batches = allocate_batches(s, CONCURRENT);
	if (open_memory(s, benches))
		s->broken = CORALE_ENOMEM;
	while (!stress_over(s))
		for (int round = 0; round < STRESS_AGREE && !s->broken; round++)
			run_mixed(s, batches, benches);
	free(batches);
}

void stress_mix(struct stress *s)
{
	run_rounds(s, 1);
}

void stress_two(struct stress *s)
{
	run_rounds(s, 2);
}

/* ---- Graphs ---- */

/*
 * Some of the graphs in some order, and an eager batch among them, all on one stream without a pause; and beside them,
 * on another stream, a batch of the other communicator. The same on all ranks.
 */
static void replay_some(struct stress *s, struct cuda_batch *graphs, struct cuda_batch *eager)
{
	struct cuda_batch *list[GRAPHS + 2], *swap;
	cudaStream_t stream = s->streams[draw(s, STRESS_STREAMS)],
		     beside = s->streams[stream == s->streams[0]];
	int open = 0, n = 1 + (int)draw(s, GRAPHS);
	for (; open < 2 && !s->broken; open += !s->broken) {
		draw_batch(s, &eager[open], 1 + (int)draw(s, 3), STRESS_ARENA / 4);
		eager[open].stream = open ? beside : stream;
		keep(s, cuda_batch_open(&s->benches[open], &eager[open]));
	}
	for (int i = 0; i < GRAPHS; i++) {
		list[i] = &graphs[i];
		graphs[i].stream = stream; /* not only where it was captured */
	}
	for (int i = 0; i < GRAPHS; i++) {
		int k = i + (int)draw(s, (uint64_t)(GRAPHS - i));
		swap = list[i];
		list[i] = list[k];
		list[k] = swap;
	}
	for (int i = 0; i < 2; i++, n++) { /* the eager ones anywhere in between */
		int k = (int)draw(s, (uint64_t)n + 1);
		memmove(&list[k + 1], &list[k], (size_t)(n - k) * sizeof(*list));
		list[k] = &eager[i];
	}
	run_together(s, list, s->broken ? 0 : n);
	while (open > 0)
		cuda_batch_close(&eager[--open]);
	for (int i = 0; i < 2; i++)
		cuda_bench_reset(&s->benches[i]);
}

static int open_graphs(struct stress *s, struct cuda_batch *graphs)
{
	int open = 0;
	for (; open < GRAPHS && !s->broken; open += !s->broken) {
		draw_batch(s, &graphs[open], 1 + (int)draw(s, GRAPH_CALLS), STRESS_ARENA / 2 / GRAPHS);
		graphs[open].way = CUDA_WAY_GRAPH;
		keep(s, cuda_batch_open(&s->benches[0], &graphs[open]));
	}
	return open;
}

void stress_graphs(struct stress *s)
{
	struct cuda_batch *graphs = allocate_batches(s, GRAPHS + 2);
	if (open_memory(s, 2))
		s->broken = CORALE_ENOMEM;
	while (!stress_over(s)) {
		int open = open_graphs(s, graphs);
		cuda_bench_keep(&s->benches[0]);
		for (int round = 0; round < ROUNDS && !s->broken; round++)
			replay_some(s, graphs, &graphs[GRAPHS]);
		while (open > 0)
			cuda_batch_close(&graphs[--open]);
		cuda_bench_forget(&s->benches[0]);
	}
	free(graphs);
}

/* A replay after its communicator's end: an error or nothing, but no hang, and the GPU works on. */
static void replay_dead(struct stress *s, struct cuda_batch *graph, int everywhere)
{
	if (!everywhere && s->world.rank != 0)
		return;
	cudaError_t error = cudaGraphLaunch(graph->exec, graph->stream);
	double begin = clock_s();
	int ret = error == cudaSuccess ? cuda_world_wait(graph->stream, CUDA_WORLD_WAIT_S) : 0;
	double seconds = clock_s() - begin;
	if (ret)
		cuda_world_fault(&s->world, "replaying a graph whose communicator is gone: %s: %s",
				 ret == CORALE_ETIMEDOUT ? "the stream hangs" : "CUDA error",
				 cudaGetErrorString(cudaGetLastError()));
	else if (seconds > 1)
		cuda_world_fault(&s->world, "replaying a graph whose communicator is gone took %.1f s",
				 seconds);
	cudaGetLastError(); /* a refused launch is right */
}

static void make_graph(struct stress *s, int kind, struct cuda_batch *graph)
{
	static const size_t counts[] = { 2, 30000, 4000000 };
	static const int calls[] = { CORALE_ALL_REDUCE, CORALE_ALL_GATHER, CORALE_ALL_TO_ALL };
	memset(graph, 0, sizeof(*graph));
	graph->n = 1;
	graph->way = CUDA_WAY_GRAPH;
	graph->stream = s->streams[kind % STRESS_STREAMS];
	graph->capture_mode = (int)cudaStreamCaptureModeThreadLocal;
	graph->cases[0] = (struct cuda_case){ .call = calls[kind / 3 % 3],
					      .type = CORALE_FLOAT32,
					      .count = counts[kind % 3] / (kind >= 3 ? 4 : 1),
					      .seed = draw(s, UINT64_MAX) };
	keep(s, cuda_batch_open(&s->benches[0], graph));
}

/* A communicator of its own for the graph, in the place of the bench's. */
static void outlive_once(struct stress *s, int kind, struct cuda_batch *graph)
{
	struct cuda_bench *bench = &s->benches[0];
	corale_comm *usual = bench->comm, *brief = cuda_world_comm(&s->world, 5);
	keep(s, brief ? 0 : CORALE_ECOMM);
	bench->comm = brief;
	if (!s->broken)
		make_graph(s, kind, graph);
	for (int i = 0; i < 2 && !s->broken; i++) {
		keep(s, cuda_batch_fill(graph));
		keep(s, cuda_batch_start(graph));
		keep(s, cuda_batch_finish(graph));
	}
	corale_comm_destroy(brief);
	bench->comm = usual;
	if (cuda_world_largest(s->broken != 0) == 0) {
		replay_dead(s, graph, kind % 2);
		replay_dead(s, graph, 1);
	}
	cuda_batch_close(graph);
	cuda_bench_reset(bench);
}

void stress_outlived(struct stress *s)
{
	struct cuda_batch *batches = allocate_batches(s, 2), *after = batches + 1;
	if (cuda_bench_memory(&s->benches[0], 1u << CUDA_MEMORY_DEVICE, STRESS_ARENA))
		s->broken = CORALE_ENOMEM;
	for (int kind = 0; kind < 9 && !cuda_world_largest(s->broken != 0); kind++) {
		outlive_once(s, kind, batches);
		draw_batch(s, after, 1, STRESS_ARENA);
		after->cases[0].send_kind = after->cases[0].recv_kind = CUDA_MEMORY_DEVICE;
		if (!s->broken)
			keep(s, cuda_batch_run(&s->benches[0], after));
	}
	free(batches);
}
