/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs cases together: in a group, one behind the other, or replayed from a graph. */
#include "cuda_batch.h"

#include <stdio.h>
#include <string.h>

enum { REPLAYS = 3, PLAN_RUNS = 2 };

int cuda_batch_streams(struct cuda_world *world, cudaStream_t *streams)
{
	streams[0] = NULL;
	return cuda_world_good(world, cudaStreamCreate(&streams[1]), "cudaStreamCreate") &&
		       cuda_world_good(world, cudaStreamCreateWithFlags(&streams[2], cudaStreamNonBlocking),
				       "cudaStreamCreateWithFlags")
		   ? 0
		   : -1;
}

static void name_batch(struct cuda_batch *batch)
{
	static const char *const ways[] = { "", "graph: ", "plan: " };
	size_t bytes = sizeof(batch->name),
	       length = (size_t)snprintf(batch->name, bytes, "%s", ways[batch->way]);
	if (batch->n > 1)
		length +=
		    (size_t)snprintf(batch->name + length, bytes - length, "%d calls%s, the last: ", batch->n,
				     batch->grouped ? " in a group" : "");
	cuda_case_name(&batch->cases[batch->n - 1], batch->name + length, bytes - length);
}

static int issue(struct cuda_batch *batch)
{
	int ret = 0;
	if (batch->grouped)
		ret = corale_group_begin();
	for (int i = 0; !ret && i < batch->n; i++)
		ret = cuda_run_issue(batch->bench, &batch->runs[i], batch->stream);
	if (batch->grouped) {
		int end = corale_group_end();
		ret = ret ? ret : end;
	}
	if (ret)
		cuda_world_ok(batch->bench->world, ret, batch->bench->comm, batch->name);
	return ret;
}

static int capture(struct cuda_batch *batch)
{
	struct cuda_world *world = batch->bench->world;
	cudaGraph_t graph = NULL;
	if (!cuda_world_good(
		world, cudaStreamBeginCapture(batch->stream, (enum cudaStreamCaptureMode)batch->capture_mode),
		"cudaStreamBeginCapture"))
		return CORALE_EDEVICE;
	int ret = issue(batch);
	if (!cuda_world_good(world, cudaStreamEndCapture(batch->stream, &graph), "cudaStreamEndCapture"))
		ret = ret ? ret : CORALE_EDEVICE;
	if (!ret &&
	    !cuda_world_good(world, cudaGraphInstantiate(&batch->exec, graph, 0), "cudaGraphInstantiate"))
		ret = CORALE_EDEVICE;
	if (graph)
		cudaGraphDestroy(graph);
	return ret;
}

int cuda_batch_open(struct cuda_bench *bench, struct cuda_batch *batch)
{
	int ret = 0;
	batch->bench = bench;
	batch->opened = batch->turns = 0;
	batch->exec = NULL;
	name_batch(batch);
	cuda_world_doing(bench->world, batch->name);
	while (!ret && batch->opened < batch->n) {
		int i = batch->opened;
		ret = cuda_run_open(bench, &batch->cases[i], batch->way == CUDA_WAY_PLAN, &batch->runs[i]);
		batch->opened += !ret;
	}
	if (!ret && batch->way == CUDA_WAY_GRAPH)
		ret = capture(batch);
	if (ret)
		cuda_batch_close(batch);
	return ret;
}

int cuda_batch_fill(struct cuda_batch *batch)
{
	for (int i = 0; i < batch->n; i++)
		if (cuda_run_fill(batch->bench, &batch->runs[i], batch->turns))
			return CORALE_EDEVICE;
	batch->turns++;
	return 0;
}

int cuda_batch_start(struct cuda_batch *batch)
{
	struct cuda_world *world = batch->bench->world;
	cuda_world_doing(world, batch->name);
	world->cases += batch->n;
	if (!batch->exec)
		return issue(batch);
	return cuda_world_good(world, cudaGraphLaunch(batch->exec, batch->stream), "cudaGraphLaunch")
		   ? 0
		   : CORALE_EDEVICE;
}

int cuda_batch_finish(struct cuda_batch *batch)
{
	struct cuda_bench *bench = batch->bench;
	int ret = cuda_world_drain(bench->world, bench->comm, batch->stream, batch->name);
	for (int i = 0; !ret && i < batch->n; i++)
		cuda_run_check(bench, &batch->runs[i]);
	return ret;
}

void cuda_batch_close(struct cuda_batch *batch)
{
	if (batch->exec)
		cudaGraphExecDestroy(batch->exec);
	batch->exec = NULL;
	while (batch->opened > 0)
		cuda_run_close(batch->bench, &batch->runs[--batch->opened]);
}

int cuda_batch_run(struct cuda_bench *bench, struct cuda_batch *batch)
{
	int turns = batch->way == CUDA_WAY_GRAPH ? REPLAYS : batch->way == CUDA_WAY_PLAN ? PLAN_RUNS : 1;
	int ret = cuda_batch_open(bench, batch);
	for (int i = 0; !ret && i < turns; i++) {
		ret = cuda_batch_fill(batch);
		ret = ret ? ret : cuda_batch_start(batch);
		int finished = cuda_batch_finish(batch);
		ret = ret ? ret : finished;
	}
	cuda_batch_close(batch);
	cuda_bench_reset(bench);
	if (ret)
		corale_comm_abort(bench->comm);
	return ret;
}

static enum cuda_memory_kind draw_kind(uint64_t number, unsigned int kinds)
{
	do
		number++;
	while (!(kinds & 1u << number % CUDA_MEMORY_KINDS));
	return (enum cuda_memory_kind)(number % CUDA_MEMORY_KINDS);
}

static void draw(const struct cuda_world *world, uint64_t *state, size_t largest, unsigned int kinds,
		 struct cuda_case *c)
{
	uint64_t scale = (uint64_t)1 << cuda_world_random(state) % 25;
	memset(c, 0, sizeof(*c));
	c->call = (int)(cuda_world_random(state) % CUDA_CASE_CALLS);
	if (cuda_world_random(state) % 3 == 0)
		c->call = CORALE_ALL_REDUCE;
	c->type = (corale_type)(cuda_world_random(state) % CORALE_NUM_TYPES);
	if (c->call == CORALE_ALL_REDUCE || c->call == CORALE_REDUCE_SCATTER || c->call == CORALE_REDUCE) {
		c->op = (corale_op)(cuda_world_random(state) % (CORALE_NUM_OPS + 1));
		c->data = (enum reference_data)(cuda_world_random(state) % 3);
	}
	c->count = cuda_world_random(state) % ((scale < largest ? scale : largest) + 1);
	c->root = (int)(cuda_world_random(state) % CUDA_POOL_MOST_RANKS);
	c->in_place = (int)(cuda_world_random(state) % 2);
	c->misaligned = (int)(cuda_world_random(state) % 2);
	c->seed = cuda_world_random(state);
	if (c->call == CORALE_BARRIER)
		*c = (struct cuda_case){ .call = CORALE_BARRIER, .seed = c->seed };
	uint64_t number = cuda_world_random(state);
	if (number % 4 == 0) { /* sometimes the ranks differ, but never in what peers map */
		number = cuda_world_hash(number, (uint64_t)world->rank);
		kinds &= ~(1u << CUDA_MEMORY_LIBRARY | 1u << CUDA_MEMORY_REGISTERED);
	}
	c->send_kind = draw_kind(number >> 8, kinds);
	c->recv_kind = draw_kind(number >> 24, kinds);
}

struct cuda_case cuda_case_draw(const struct cuda_world *world, uint64_t *state, size_t largest,
				unsigned int kinds, size_t room)
{
	struct cuda_case c;
	do
		draw(world, state, largest, kinds, &c);
	while (!cuda_case_possible(&c, world->size, room));
	return c;
}
