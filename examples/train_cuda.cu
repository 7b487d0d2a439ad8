/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A GPU computes: kernels of its own, queued on one stream; the communication goes to a second one, whose work
 * comes first where both want the GPU. Events order the two; the host waits for nothing in between.
 */
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

#include "train.h"
#include "train_data.h"
#include "train_gemm.cuh"

enum { THREADS = 256, MOST_BLOCKS = 1024, COLUMNS = 32 };

struct cuda {
	struct compute base;
	int rank, bfloat16;
	cudaStream_t computing, communication;
	cudaEvent_t computed, communicated;
	double *partial; /* MOST_BLOCKS: sums of blocks */
	int status;
};

/* ---- Kernels ------------------------------------------------------------------------------------------- */

__device__ static size_t first_element(void)
{
	return (size_t)blockIdx.x * blockDim.x + threadIdx.x;
}

__device__ static size_t all_threads(void)
{
	return (size_t)gridDim.x * blockDim.x;
}

__global__ void make_uniform(float *out, size_t count, uint32_t seed, float scale)
{
	for (size_t i = first_element(); i < count; i += all_threads())
		out[i] = scale * train_number(seed, i);
}

__global__ void make_samples(float *in, float *target, size_t first, size_t count, int width)
{
	for (size_t i = first_element(); i < count; i += all_threads()) {
		in[i] = train_input(first + i / width, (int)(i % width));
		target[i] = train_target(first + i / width, (int)(i % width));
	}
}

__global__ void add_biases(float *out, const float *biases, size_t count, int width, int is_last)
{
	for (size_t i = first_element(); i < count; i += all_threads()) {
		float sum = out[i] + biases[i % width];
		out[i] = is_last ? sum : tanhf(sum);
	}
}

/* The gradient before tanh from the one after it, y being what tanh gave. */
__global__ void before_tanh(float *gradient, const float *y, size_t count)
{
	for (size_t i = first_element(); i < count; i += all_threads())
		gradient[i] *= 1 - y[i] * y[i];
}

/* Thread 0's return value is the sum over the block, always in the same order. */
__device__ static double block_sum(double mine)
{
	__shared__ double all[THREADS];
	all[threadIdx.x] = mine;
	for (int half = THREADS / 2; half; half /= 2) {
		__syncthreads();
		if ((int)threadIdx.x < half)
			all[threadIdx.x] += all[threadIdx.x + half];
	}
	return all[0];
}

__global__ void make_delta(const float *out, const float *target, float *delta, double *partial, size_t count, int rows)
{
	double sum = 0;
	for (size_t i = first_element(); i < count; i += all_threads()) {
		float error = out[i] - target[i];
		sum += (double)error * error;
		delta[i] = error / rows;
	}
	sum = block_sum(sum);
	if (threadIdx.x == 0)
		partial[blockIdx.x] = sum;
}

/* One block. */
__global__ void make_loss(const double *partial, int blocks, float *loss, size_t count)
{
	double sum = 0;
	for (int i = threadIdx.x; i < blocks; i += THREADS)
		sum += partial[i];
	sum = block_sum(sum);
	if (threadIdx.x == 0)
		*loss = (float)(sum / count);
}

/* The sum of each column: COLUMNS of them a block, COLUMNS threads to each. */
__global__ void sum_columns(const float *matrix, float *sums, int rows, int width)
{
	__shared__ float all[COLUMNS][COLUMNS + 1];
	int column = blockIdx.x * COLUMNS + threadIdx.x;
	float sum = 0;
	for (int row = threadIdx.y; row < rows; row += COLUMNS)
		sum += matrix[(size_t)row * width + column];
	all[threadIdx.y][threadIdx.x] = sum;
	__syncthreads();
	if (threadIdx.y > 0)
		return;
	for (int i = 1; i < COLUMNS; i++)
		sum += all[i][threadIdx.x];
	sums[column] = sum;
}

__global__ void take_step(float *parameters, float *velocity, const float *gradient, size_t count, float rate,
			  float momentum)
{
	for (size_t i = first_element(); i < count; i += all_threads()) {
		velocity[i] = momentum * velocity[i] + gradient[i];
		parameters[i] -= rate * velocity[i];
	}
}

/* A kernel that is loaded when it is first launched waits for those that run: all are loaded at the beginning. */
static const void *const kernels[] = {
	(const void *)make_uniform,
	(const void *)make_samples,
	(const void *)add_biases,
	(const void *)before_tanh,
	(const void *)make_delta,
	(const void *)make_loss,
	(const void *)sum_columns,
	(const void *)take_step,
	(const void *)gemm<gemm_float32, false, true>,
	(const void *)gemm<gemm_float32, true, true>,
	(const void *)gemm<gemm_float32, false, false>,
	(const void *)gemm<gemm_bfloat16, false, true>,
	(const void *)gemm<gemm_bfloat16, true, true>,
	(const void *)gemm<gemm_bfloat16, false, false>,
};

/* ---- Errors and order ---------------------------------------------------------------------------------- */

static struct cuda *cuda_of(struct compute *compute)
{
	return (struct cuda *)compute;
}

/* Says and keeps the first error; returns whether there is none. */
static int good(struct cuda *cuda, const char *what, cudaError_t error)
{
	if (error == cudaSuccess)
		return 1;
	if (!cuda->status)
		fprintf(stderr, "train: rank %d: %s: expected success, got %s (%s)%s\n", cuda->rank, what,
			cudaGetErrorName(error), cudaGetErrorString(error),
			error == cudaErrorMemoryAllocation ? "; try a smaller network or batch" : "");
	cuda->status = CORALE_EDEVICE;
	return 0;
}

static void launched(struct cuda *cuda, const char *what)
{
	good(cuda, what, cudaGetLastError());
}

static unsigned blocks_for(size_t count)
{
	size_t blocks = (count + THREADS - 1) / THREADS;
	return blocks < MOST_BLOCKS ? (unsigned)blocks : (unsigned)MOST_BLOCKS;
}

static void cuda_hand_over(struct compute *compute)
{
	struct cuda *cuda = cuda_of(compute);
	good(cuda, "cudaEventRecord", cudaEventRecord(cuda->computed, cuda->computing));
	good(cuda, "cudaStreamWaitEvent", cudaStreamWaitEvent(cuda->communication, cuda->computed, 0));
}

static void cuda_take_back(struct compute *compute)
{
	struct cuda *cuda = cuda_of(compute);
	good(cuda, "cudaEventRecord", cudaEventRecord(cuda->communicated, cuda->communication));
	good(cuda, "cudaStreamWaitEvent", cudaStreamWaitEvent(cuda->computing, cuda->communicated, 0));
}

static int cuda_finish(struct compute *compute)
{
	struct cuda *cuda = cuda_of(compute);
	good(cuda, "computing", cudaStreamSynchronize(cuda->computing));
	good(cuda, "communication", cudaStreamSynchronize(cuda->communication));
	return cuda->status;
}

/* ---- Memory -------------------------------------------------------------------------------------------- */

static void *cuda_alloc(struct compute *compute, size_t bytes)
{
	struct cuda *cuda = cuda_of(compute);
	void *memory = NULL;
	if (!good(cuda, "cudaMalloc", cudaMalloc(&memory, bytes)))
		return NULL;
	good(cuda, "cudaMemsetAsync", cudaMemsetAsync(memory, 0, bytes, cuda->computing));
	return memory;
}

static void cuda_free(struct compute *compute, void *memory)
{
	good(cuda_of(compute), "cudaFree", cudaFree(memory));
}

static void cuda_copy(struct compute *compute, void *to, const void *from, size_t bytes)
{
	struct cuda *cuda = cuda_of(compute);
	cuda_finish(compute);
	good(cuda, "cudaMemcpyAsync", cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, cuda->computing));
	good(cuda, "copying", cudaStreamSynchronize(cuda->computing));
}

/* ---- Layers -------------------------------------------------------------------------------------------- */

/* out = A x B, (down x width) = (down x depth) (depth x width), see gemm. */
template <bool A_BY_DEPTH, bool B_BY_DEPTH>
static void multiply(struct cuda *cuda, float *out, const float *a, const float *b, int down, int width, int depth)
{
	dim3 grid(width / GEMM_TILE, down / GEMM_TILE);
	if (cuda->bfloat16)
		gemm<gemm_bfloat16, A_BY_DEPTH, B_BY_DEPTH>
			<<<grid, GEMM_THREADS, 0, cuda->computing>>>(out, a, b, width, depth);
	else
		gemm<gemm_float32, A_BY_DEPTH, B_BY_DEPTH>
			<<<grid, GEMM_THREADS, 0, cuda->computing>>>(out, a, b, width, depth);
	launched(cuda, "a matrix product");
}

static void cuda_uniform(struct compute *compute, float *out, size_t count, uint32_t seed, float scale)
{
	struct cuda *cuda = cuda_of(compute);
	make_uniform<<<blocks_for(count), THREADS, 0, cuda->computing>>>(out, count, seed, scale);
	launched(cuda, "make_uniform");
}

static void cuda_samples(struct compute *compute, float *in, float *target, size_t first, int rows, int width)
{
	struct cuda *cuda = cuda_of(compute);
	size_t count = (size_t)rows * width;
	make_samples<<<blocks_for(count), THREADS, 0, cuda->computing>>>(in, target, first, count, width);
	launched(cuda, "make_samples");
}

static void cuda_forward(struct compute *compute, const float *in, const float *layer, float *out, int rows, int width,
			 int is_last)
{
	struct cuda *cuda = cuda_of(compute);
	size_t count = (size_t)rows * width;
	multiply<false, true>(cuda, out, in, layer, rows, width, width);
	add_biases<<<blocks_for(count), THREADS, 0, cuda->computing>>>(out, layer + (size_t)width * width, count, width,
								       is_last);
	launched(cuda, "add_biases");
}

static void cuda_loss(struct compute *compute, const float *out, const float *target, float *delta, float *loss, int rows,
		      int width)
{
	struct cuda *cuda = cuda_of(compute);
	size_t count = (size_t)rows * width;
	unsigned blocks = blocks_for(count);
	make_delta<<<blocks, THREADS, 0, cuda->computing>>>(out, target, delta, cuda->partial, count, rows);
	make_loss<<<1, THREADS, 0, cuda->computing>>>(cuda->partial, (int)blocks, loss, count);
	launched(cuda, "make_loss");
}

static void cuda_layer_gradient(struct compute *compute, const float *in, const float *delta, float *gradient, int rows,
				int width)
{
	struct cuda *cuda = cuda_of(compute);
	dim3 threads(COLUMNS, COLUMNS);
	multiply<true, true>(cuda, gradient, in, delta, width, width, rows);
	sum_columns<<<width / COLUMNS, threads, 0, cuda->computing>>>(delta, gradient + (size_t)width * width, rows, width);
	launched(cuda, "sum_columns");
}

static void cuda_input_gradient(struct compute *compute, const float *delta, const float *layer, const float *in,
				float *below, int rows, int width)
{
	struct cuda *cuda = cuda_of(compute);
	size_t count = (size_t)rows * width;
	multiply<false, false>(cuda, below, delta, layer, rows, width, width);
	before_tanh<<<blocks_for(count), THREADS, 0, cuda->computing>>>(below, in, count);
	launched(cuda, "before_tanh");
}

static void cuda_update(struct compute *compute, float *parameters, float *velocity, const float *gradient, size_t count,
			float rate, float momentum)
{
	struct cuda *cuda = cuda_of(compute);
	take_step<<<blocks_for(count), THREADS, 0, cuda->computing>>>(parameters, velocity, gradient, count, rate,
								      momentum);
	launched(cuda, "take_step");
}

/* ---- Opening ------------------------------------------------------------------------------------------- */

static void cuda_close(struct compute *compute)
{
	struct cuda *cuda = cuda_of(compute);
	cuda_finish(compute);
	cudaFree(cuda->partial);
	cudaEventDestroy(cuda->computed);
	cudaEventDestroy(cuda->communicated);
	cudaStreamDestroy(cuda->communication);
	cudaStreamDestroy(cuda->computing);
	free(cuda);
}

/* Ranks of a node take its GPUs in turn. */
static int choose_device(struct cuda *cuda, int local_rank)
{
	int devices = 0;
	if (!good(cuda, "cudaGetDeviceCount", cudaGetDeviceCount(&devices)))
		return 0;
	return good(cuda, "cudaSetDevice", devices ? cudaSetDevice(local_rank % devices) : cudaErrorNoDevice);
}

static int load_kernels(struct cuda *cuda)
{
	struct cudaFuncAttributes attributes;
	for (const void *kernel : kernels)
		if (!good(cuda, "loading kernels", cudaFuncGetAttributes(&attributes, kernel)))
			return 0;
	return 1;
}

static int open_streams(struct cuda *cuda)
{
	int least = 0, greatest = 0;
	return good(cuda, "cudaDeviceGetStreamPriorityRange", cudaDeviceGetStreamPriorityRange(&least, &greatest)) &&
	       good(cuda, "cudaStreamCreate",
		    cudaStreamCreateWithPriority(&cuda->computing, cudaStreamNonBlocking, least)) &&
	       good(cuda, "cudaStreamCreate",
		    cudaStreamCreateWithPriority(&cuda->communication, cudaStreamNonBlocking, greatest)) &&
	       good(cuda, "cudaEventCreate", cudaEventCreateWithFlags(&cuda->computed, cudaEventDisableTiming)) &&
	       good(cuda, "cudaEventCreate", cudaEventCreateWithFlags(&cuda->communicated, cudaEventDisableTiming)) &&
	       good(cuda, "cudaMalloc", cudaMalloc((void **)&cuda->partial, MOST_BLOCKS * sizeof(*cuda->partial)));
}

static uint64_t cuda_device_number(struct compute *compute)
{
	struct cuda *cuda = cuda_of(compute);
	cudaDeviceProp prop;
	uint64_t number = 14695981039346656037u; /* FNV-1a */
	int device = 0;
	if (!good(cuda, "cudaGetDevice", cudaGetDevice(&device)) ||
	    !good(cuda, "cudaGetDeviceProperties", cudaGetDeviceProperties(&prop, device)))
		return 0;
	for (char byte : prop.uuid.bytes)
		number = (number ^ (unsigned char)byte) * 1099511628211u;
	return number;
}

/* On failure the program ends, so that nothing is undone. */
static struct compute *cuda_open(int rank, int local_rank, int bfloat16)
{
	struct cuda *cuda = (struct cuda *)calloc(1, sizeof(*cuda));
	if (!cuda) {
		fprintf(stderr, "train: rank %d: no memory\n", rank);
		return NULL;
	}
	cuda->base.ops = compute_cuda();
	cuda->rank = rank;
	cuda->bfloat16 = bfloat16;
	if (!choose_device(cuda, local_rank) || !load_kernels(cuda) || !open_streams(cuda))
		return NULL;
	cuda->base.stream = cuda->communication;
	return &cuda->base;
}

/* In the order of the struct: C++17 has no designated initialisers. */
static const struct compute_ops cuda_ops = {
	"cuda",
	CORALE_DEVICE_CUDA,
	8,         /* layers */
	4096,      /* width */
	8192,      /* batch */
	25 << 20,  /* bucket_bytes */
	GEMM_TILE, /* multiple */
	1,         /* has_bfloat16 */
	cuda_open,
	cuda_close,
	cuda_device_number,
	cuda_alloc,
	cuda_free,
	cuda_copy,
	cuda_uniform,
	cuda_samples,
	cuda_forward,
	cuda_loss,
	cuda_layer_gradient,
	cuda_input_gradient,
	cuda_update,
	cuda_hand_over,
	cuda_take_back,
	cuda_finish,
};

const struct compute_ops *compute_cuda(void)
{
	return &cuda_ops;
}
