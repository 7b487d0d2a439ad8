/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Large matrix products beside the calls: bf16 8192^3 by cuBLAS, which is opened at run time through the few of its
 * functions that are declared here, on a stream of the lowest priority.
 */
#include <dlfcn.h>

#include <stdlib.h>
#include <string.h>

#include "perf.h"
#include "perf_cuda.h"

enum { SIDE = 8192, RANDOM_ELEMENTS = 1 << 20, NOT_COUNTED = 2 };
enum { CUBLAS_BF16 = 14, CUBLAS_COMPUTE_FLOAT = 68, CUBLAS_DEFAULT = -1 };

struct perf_product {
	void *handle;
	cudaStream_t stream;
	void *matrices[3];
	int queued; /* products since the last start */
	cudaEvent_t running, counted, end; /* after the first, after NOT_COUNTED, after the last */

	int (*create)(void **handle);
	int (*destroy)(void *handle);
	int (*set_stream)(void *handle, cudaStream_t stream);
	int (*set_sm_count_target)(void *handle, int sms);
	int (*gemm)(void *handle, int transpose_a, int transpose_b, int m, int n, int k, const void *alpha,
		    const void *a, int a_type, int lda, const void *b, int b_type, int ldb, const void *beta,
		    void *c, int c_type, int ldc, int compute_type, int algorithm);
};

static const struct {
	const char *name;
	size_t offset;
} symbols[] = {
	{ "cublasCreate_v2", offsetof(struct perf_product, create) },
	{ "cublasDestroy_v2", offsetof(struct perf_product, destroy) },
	{ "cublasSetStream_v2", offsetof(struct perf_product, set_stream) },
	{ "cublasSetSmCountTarget", offsetof(struct perf_product, set_sm_count_target) },
	{ "cublasGemmEx", offsetof(struct perf_product, gemm) },
};

static void refuse(const struct perf_job *job, const char *what, const char *why)
{
	fprintf(stderr, "rank %d: --beside gemm: %s: %s (--cublas gives cuBLAS's path)\n", job->rank, what,
		why);
	MPI_Abort(job->mpi, 1);
}

static void must(const struct perf_job *job, int status, const char *what)
{
	char text[32];
	snprintf(text, sizeof(text), "cuBLAS status %d", status);
	if (status)
		refuse(job, what, text);
}

/* cuBLAS does not find the library that it is built upon in its own folder. */
static void open_beneath(const char *path)
{
	static const char *const names[] = { "libcublasLt.so.13", "libcublasLt.so.12" };
	const char *slash = strrchr(path, '/');
	char beneath[4096];
	for (size_t i = 0; slash && i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(beneath, sizeof(beneath), "%.*s/%s", (int)(slash - path), path, names[i]);
		if (strstr(path, names[i] + strlen("libcublasLt")))
			dlopen(beneath, RTLD_NOW | RTLD_LOCAL);
	}
}

static void *open_library(const struct perf_job *job)
{
	static const char *const usual[] = { "libcublas.so.13", "libcublas.so.12",
					     "/usr/local/cuda/lib64/libcublas.so.13",
					     "/usr/local/cuda/lib64/libcublas.so.12" };
	const char *const *names = job->options->cublas ? &job->options->cublas : usual;
	size_t n = job->options->cublas ? 1 : sizeof(usual) / sizeof(usual[0]);
	void *library = NULL;
	for (size_t i = 0; !library && i < n; i++) {
		open_beneath(names[i]);
		library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	}
	if (!library)
		refuse(job, "cuBLAS cannot be opened", dlerror());
	return library;
}

static void load(const struct perf_job *job, struct perf_product *product)
{
	void *library = open_library(job);
	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		void *symbol = dlsym(library, symbols[i].name);
		if (!symbol)
			refuse(job, "cuBLAS lacks a function", symbols[i].name);
		memcpy((char *)product + symbols[i].offset, &symbol, sizeof(symbol));
	}
}

/* Random numbers, for a product of zeros takes less power and runs faster. The first elements, then copies of them. */
static void fill(const struct perf_job *job, unsigned char *matrix)
{
	struct reference ref = { CORALE_BFLOAT16, CORALE_SUM, job->size, REFERENCE_RANDOM, 1 };
	size_t bytes = RANDOM_ELEMENTS * 2, all = (size_t)SIDE * SIDE * 2;
	void *stage = job->device->allocate_stage(bytes);
	reference_fill(&ref, job->rank, 0, RANDOM_ELEMENTS, stage);
	for (size_t at = 0; at < all; at += bytes)
		job->device->copy(job, matrix + at, stage, bytes);
	job->device->release_stage(stage);
}

static void multiply(const struct perf_job *job)
{
	struct perf_product *p = job->product;
	const float one = 1, zero = 0;
	must(job,
	     p->gemm(p->handle, 0, 0, SIDE, SIDE, SIDE, &one, p->matrices[0], CUBLAS_BF16, SIDE,
		     p->matrices[1], CUBLAS_BF16, SIDE, &zero, p->matrices[2], CUBLAS_BF16, SIDE,
		     CUBLAS_COMPUTE_FLOAT, CUBLAS_DEFAULT),
	     "cublasGemmEx");
}

void perf_product_open(struct perf_job *job)
{
	struct perf_product *p = calloc(1, sizeof(*p));
	cudaEvent_t *events[] = { &p->running, &p->counted, &p->end };
	int least, greatest;
	if (!p)
		perf_die("--beside gemm", CORALE_ENOMEM);
	job->product = p;
	load(job, p);
	for (int i = 0; i < 3; i++) {
		p->matrices[i] = job->device->allocate((size_t)SIDE * SIDE * 2);
		perf_cuda_must(cudaEventCreate(events[i]), "cudaEventCreate");
		fill(job, p->matrices[i]);
	}
	perf_cuda_must(cudaDeviceGetStreamPriorityRange(&least, &greatest),
		       "cudaDeviceGetStreamPriorityRange");
	perf_cuda_must(cudaStreamCreateWithPriority(&p->stream, cudaStreamNonBlocking, least),
		       "cudaStreamCreateWithPriority");
	must(job, p->create(&p->handle), "cublasCreate");
	must(job, p->set_stream(p->handle, p->stream), "cublasSetStream");
	if (job->options->beside_sms)
		must(job, p->set_sm_count_target(p->handle, job->options->beside_sms),
		     "cublasSetSmCountTarget");
	perf_product_start(job, 10); /* loads its kernels */
	perf_product_end(job);
}

void perf_product_close(struct perf_job *job)
{
	struct perf_product *p = job->product;
	if (!p)
		return;
	p->destroy(p->handle);
	perf_cuda_must(cudaStreamDestroy(p->stream), "cudaStreamDestroy");
	for (int i = 0; i < 3; i++)
		job->device->release(p->matrices[i], (size_t)SIDE * SIDE * 2);
	free(p);
	job->product = NULL;
}

void perf_product_start(const struct perf_job *job, int n)
{
	struct perf_product *p = job->product;
	p->queued = n;
	for (int i = 0; i < n; i++) {
		multiply(job);
		if (i == 0)
			perf_cuda_must(cudaEventRecord(p->running, p->stream), "cudaEventRecord");
		if (i + 1 == NOT_COUNTED)
			perf_cuda_must(cudaEventRecord(p->counted, p->stream), "cudaEventRecord");
	}
	perf_cuda_must(cudaEventRecord(p->end, p->stream), "cudaEventRecord");
	perf_cuda_must(cudaEventSynchronize(p->running), "a matrix product");
}

int perf_product_runs(const struct perf_job *job)
{
	cudaError_t error = cudaEventQuery(job->product->end);
	if (error != cudaErrorNotReady)
		perf_cuda_must(error, "a matrix product");
	return error == cudaErrorNotReady;
}

double perf_product_end(const struct perf_job *job)
{
	struct perf_product *p = job->product;
	float ms;
	perf_cuda_must(cudaEventSynchronize(p->end), "a matrix product");
	perf_cuda_must(cudaEventElapsedTime(&ms, p->counted, p->end), "cudaEventElapsedTime");
	return ms * 1e3 / (p->queued - NOT_COUNTED);
}
