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

static void name_batch(const struct cuda_batch *batch, char *text, size_t bytes)
{
	static const char *const ways[] = { "", "graph: ", "plan: " };
	int length = snprintf(text, bytes, "%s", ways[batch->way]);
	if (batch->n > 1)
		length += snprintf(text + length, bytes - (size_t)length, "%d calls%s, the last: ", batch->n,
				   batch->grouped ? " in a group" : "");
	cuda_case_name(&batch->cases[batch->n - 1], text + length, bytes - (size_t)length);
}

static int issue(struct cuda_bench *bench, const struct cuda_batch *batch, struct cuda_run *runs)
{
	int ret = 0;
	if (batch->grouped)
		ret = corale_group_begin();
	for (int i = 0; !ret && i < batch->n; i++)
		ret = cuda_run_issue(bench, &runs[i], batch->stream);
	if (batch->grouped) {
		int end = corale_group_end();
		ret = ret ? ret : end;
	}
	return ret;
}

static int capture(struct cuda_bench *bench, const struct cuda_batch *batch, struct cuda_run *runs,
		   cudaGraphExec_t *exec)
{
	cudaGraph_t graph = NULL;
	if (!cuda_world_good(
		bench->world,
		cudaStreamBeginCapture(batch->stream, (enum cudaStreamCaptureMode)batch->capture_mode),
		"cudaStreamBeginCapture"))
		return CORALE_EDEVICE;
	int ret = issue(bench, batch, runs);
	if (!cuda_world_good(bench->world, cudaStreamEndCapture(batch->stream, &graph),
			     "cudaStreamEndCapture"))
		ret = ret ? ret : CORALE_EDEVICE;
	if (!ret &&
	    !cuda_world_good(bench->world, cudaGraphInstantiate(exec, graph, 0), "cudaGraphInstantiate"))
		ret = CORALE_EDEVICE;
	if (graph)
		cudaGraphDestroy(graph);
	return ret;
}

static int start(struct cuda_bench *bench, const struct cuda_batch *batch, struct cuda_run *runs,
		 cudaGraphExec_t exec)
{
	if (!exec)
		return issue(bench, batch, runs);
	return cuda_world_good(bench->world, cudaGraphLaunch(exec, batch->stream), "cudaGraphLaunch")
		   ? 0
		   : CORALE_EDEVICE;
}

/* New inputs, the calls, and the checks. */
static int turn(struct cuda_bench *bench, const struct cuda_batch *batch, struct cuda_run *runs,
		cudaGraphExec_t exec, int number, const char *name)
{
	for (int i = 0; i < batch->n; i++)
		if (cuda_run_fill(bench, &runs[i], number))
			return CORALE_EDEVICE;
	int ret = start(bench, batch, runs, exec);
	if (ret)
		cuda_world_ok(bench->world, ret, bench->comm, name);
	int drained = cuda_world_drain(bench->world, bench->comm, batch->stream, name);
	if (ret || drained)
		return ret ? ret : drained;
	for (int i = 0; i < batch->n; i++)
		cuda_run_check(bench, &runs[i]);
	return 0;
}

static int run_turns(struct cuda_bench *bench, const struct cuda_batch *batch, struct cuda_run *runs,
		     const char *name)
{
	int turns = batch->way == CUDA_WAY_GRAPH ? REPLAYS : batch->way == CUDA_WAY_PLAN ? PLAN_RUNS : 1;
	cudaGraphExec_t exec = NULL;
	int ret = 0;
	if (batch->way == CUDA_WAY_GRAPH)
		ret = capture(bench, batch, runs, &exec);
	if (ret)
		cuda_world_ok(bench->world, ret, bench->comm, name);
	for (int i = 0; !ret && i < turns; i++)
		ret = turn(bench, batch, runs, exec, i, name);
	if (exec)
		cudaGraphExecDestroy(exec);
	return ret;
}

int cuda_batch_run(struct cuda_bench *bench, const struct cuda_batch *batch)
{
	struct cuda_run runs[CUDA_BATCH_MOST];
	char name[360];
	int ret = 0, opened = 0;
	name_batch(batch, name, sizeof(name));
	cuda_world_doing(bench->world, name);
	while (!ret && opened < batch->n) {
		ret = cuda_run_open(bench, &batch->cases[opened], batch->way == CUDA_WAY_PLAN, &runs[opened]);
		opened += !ret;
	}
	if (!ret)
		ret = run_turns(bench, batch, runs, name);
	while (opened > 0)
		cuda_run_close(bench, &runs[--opened]);
	for (int kind = 0; kind < CUDA_MEMORY_KINDS; kind++)
		bench->arenas[kind].used = 0;
	bench->world->cases += batch->n;
	if (ret)
		corale_comm_abort(bench->comm); /* nobody waits for this rank's next call */
	return ret;
}
