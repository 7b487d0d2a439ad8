/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffers on a rank's GPU, calls on a stream of it. */
#include <stdio.h>
#include <stdlib.h>

#include "perf.h"
#include "perf_cuda.h"

enum { CHECK_MAX = 512 << 20, POISON = 0xa5 };

void perf_cuda_must(cudaError_t error, const char *what)
{
	int rank;
	if (error == cudaSuccess)
		return;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	fprintf(stderr, "rank %d: %s: %s\n", rank, what, cudaGetErrorString(error));
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static cudaStream_t stream_of(const struct perf_job *job)
{
	return job->stream;
}

static int choose_gpu(struct perf_job *job, char *why_not, size_t bytes)
{
	struct cudaDeviceProp about;
	int count = 0, mine;
	cudaError_t error = cudaGetDeviceCount(&count);
	if (error != cudaSuccess || !count) {
		snprintf(why_not, bytes, "no GPU is visible: %s", cudaGetErrorString(error));
		return -1;
	}
	mine = job->local_rank % count;
	if ((error = cudaSetDevice(mine)) != cudaSuccess ||
	    (error = cudaGetDeviceProperties(&about, mine)) != cudaSuccess) {
		snprintf(why_not, bytes, "GPU %d of %d cannot be used: %s", mine, count,
			 cudaGetErrorString(error));
		return -1;
	}
	snprintf(job->gpu, sizeof(job->gpu), "%.90s", about.name);
	if (job->local_rank == count)
		printf("# %d ranks share %d GPUs: their times are not those of a rank a GPU\n",
		       job->local_size, count);
	return 0;
}

static int open_cuda(struct perf_job *job, char *why_not, size_t bytes)
{
	int least, greatest;
	cudaStream_t stream;
	if (choose_gpu(job, why_not, bytes))
		return -1;
	perf_cuda_must(cudaDeviceGetStreamPriorityRange(&least, &greatest),
		       "cudaDeviceGetStreamPriorityRange");
	perf_cuda_must(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking,
						    job->options->priority ? greatest : least),
		       "cudaStreamCreateWithPriority");
	job->stream = stream;
	return 0;
}

static void close_cuda(struct perf_job *job)
{
	perf_cuda_must(cudaStreamDestroy(stream_of(job)), "cudaStreamDestroy");
	job->stream = NULL;
}

static void *allocate(size_t bytes)
{
	char what[64];
	void *buf = NULL;
	snprintf(what, sizeof(what), "cudaMalloc of %zu bytes", bytes);
	perf_cuda_must(cudaMalloc(&buf, bytes), what);
	return buf;
}

static void release(void *buf, size_t bytes)
{
	(void)bytes;
	perf_cuda_must(cudaFree(buf), "cudaFree");
}

static void *allocate_stage(size_t bytes)
{
	void *stage = NULL;
	perf_cuda_must(cudaMallocHost(&stage, bytes), "cudaMallocHost");
	return stage;
}

static void release_stage(void *stage)
{
	perf_cuda_must(cudaFreeHost(stage), "cudaFreeHost");
}

static void poison(const struct perf_job *job, void *to, size_t bytes)
{
	perf_cuda_must(cudaMemsetAsync(to, POISON, bytes, stream_of(job)), "cudaMemsetAsync");
	perf_cuda_must(cudaStreamSynchronize(stream_of(job)), "cudaMemsetAsync");
}

static void copy(const struct perf_job *job, void *to, const void *from, size_t bytes)
{
	perf_cuda_must(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_of(job)),
		       "cudaMemcpyAsync");
	perf_cuda_must(cudaStreamSynchronize(stream_of(job)), "cudaMemcpyAsync");
}

static int complete(const struct perf_job *job)
{
	cudaError_t error = cudaStreamSynchronize(stream_of(job));
	int ret = job->comm ? corale_comm_async_error(job->comm) : 0;
	if (!ret)
		perf_cuda_must(error, "cudaStreamSynchronize");
	return ret;
}

/* ---- Graphs ------------------------------------------------------------------------ */

static int make_calls(const struct perf_way *way, int calls)
{
	int ret = 0;
	for (int i = 0; !ret && i < calls; i++)
		ret = way->run(&way->call);
	return ret;
}

static void *capture(const struct perf_way *way, int calls)
{
	cudaStream_t stream = stream_of(way->call.job);
	cudaGraph_t graph = NULL;
	cudaGraphExec_t ready = NULL;
	perf_cuda_must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
		       "cudaStreamBeginCapture");
	int ret = make_calls(way, calls);
	cudaError_t error = cudaStreamEndCapture(stream, &graph);
	if (ret || error != cudaSuccess || !graph) {
		fprintf(stderr, "rank %d: %s cannot be captured: code %d, %s\n", way->call.job->rank,
			way->name, ret, cudaGetErrorString(error));
		cudaGetLastError(); /* so that it is not met again */
		return NULL;
	}
	perf_cuda_must(cudaGraphInstantiate(&ready, graph, 0), "cudaGraphInstantiate");
	perf_cuda_must(cudaGraphDestroy(graph), "cudaGraphDestroy");
	perf_cuda_must(cudaGraphUpload(ready, stream), "cudaGraphUpload");
	perf_cuda_must(cudaStreamSynchronize(stream), "cudaGraphUpload");
	return ready;
}

static void replay(const struct perf_job *job, void *graph)
{
	perf_cuda_must(cudaGraphLaunch(graph, stream_of(job)), "cudaGraphLaunch");
}

static void drop(void *graph)
{
	perf_cuda_must(cudaGraphExecDestroy(graph), "cudaGraphExecDestroy");
}

const struct perf_device perf_cuda = { .name = "cuda",
				       .check_max = CHECK_MAX,
				       .open = open_cuda,
				       .close = close_cuda,
				       .allocate = allocate,
				       .release = release,
				       .allocate_stage = allocate_stage,
				       .release_stage = release_stage,
				       .poison = poison,
				       .copy = copy,
				       .complete = complete,
				       .capture = capture,
				       .replay = replay,
				       .drop = drop };
