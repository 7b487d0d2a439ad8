/* SPDX-License-Identifier: BSD-3-Clause */
/* What the cases of cuda_faults share: complaints, checks of codes, communicators, calls that must be right. */
#include "cuda_faults.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GOOD_COUNT = 1000 };

void faults_complain(struct faults_rank *r, const char *format, ...)
{
	char text[700];
	va_list args;
	if (r->faults++ >= 4)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	printf("FAULT %s: rank %d: %s\n", r->name, r->rank, text);
	fflush(stdout);
}

int faults_cuda(struct faults_rank *r, cudaError_t error, const char *what)
{
	if (error == cudaSuccess)
		return 1;
	faults_complain(r, "%s: %s", what, cudaGetErrorString(error));
	return 0;
}

int faults_is(struct faults_rank *r, int got, int expected, const char *what)
{
	if (got == expected)
		return 1;
	faults_complain(r, "%s: got \"%s\", expected \"%s\"; last error: %.300s", what, corale_strerror(got),
			corale_strerror(expected), r->comm ? corale_comm_last_error(r->comm) : "");
	return 0;
}

corale_comm *faults_comm(struct faults_rank *r, struct cuda_group *group, double timeout_s)
{
	corale_bootstrap bootstrap = { group->rank, group->size, group, cuda_group_allgather };
	corale_config config;
	corale_comm *comm = NULL;
	corale_config_init(&config);
	config.device = CORALE_DEVICE_CUDA;
	config.timeout_seconds = timeout_s;
	int ret = corale_comm_create(&bootstrap, &config, &comm);
	if (ret)
		faults_complain(r, "corale_comm_create: %s", corale_strerror(ret));
	return ret ? NULL : comm;
}

int faults_over_nodes(int ranks)
{
	const char *size = getenv("CORALE_NODE_SIZE");
	return size && atoi(size) > 0 && atoi(size) < ranks;
}

int faults_reduce(struct faults_rank *r, size_t count)
{
	return corale_all_reduce(r->send, r->recv, count, CORALE_INT32, CORALE_SUM, r->comm, r->stream);
}

void faults_good_reduce(struct faults_rank *r, corale_comm *comm, int size, int contribution)
{
	int32_t values[GOOD_COUNT];
	for (int i = 0; i < GOOD_COUNT; i++)
		values[i] = i + contribution;
	faults_cuda(r, cudaMemcpyAsync(r->send, values, sizeof(values), cudaMemcpyDefault, r->stream),
		    "copying to the GPU");
	int ret = corale_all_reduce(r->send, r->recv, GOOD_COUNT, CORALE_INT32, CORALE_SUM, comm, r->stream);
	if (!faults_is(r, ret, 0, "an all_reduce that should work"))
		return;
	faults_is(r, faults_wait(r, FAULTS_STUCK_S), 0, "waiting for an all_reduce that should work");
	faults_is(r, corale_comm_async_error(comm), 0, "after an all_reduce that should work");
	memset(values, 0xa5, sizeof(values));
	faults_cuda(r, cudaMemcpyAsync(values, r->recv, sizeof(values), cudaMemcpyDefault, r->stream),
		    "copying from the GPU");
	faults_wait(r, FAULTS_STUCK_S);
	for (int i = 0; i < GOOD_COUNT; i++)
		if (values[i] != i * size + size * (size - 1) / 2) {
			faults_complain(r, "all_reduce, element %d: got %d, expected %d", i, values[i],
					i * size + size * (size - 1) / 2);
			return;
		}
}

void faults_first_large(struct faults_rank *r)
{
	size_t count = FAULTS_BUFFER / sizeof(int32_t) / (size_t)r->size;
	int ret = corale_all_to_all(r->send, r->recv, count, CORALE_INT32, r->comm, r->stream);
	if (faults_is(r, ret, 0, "the first large call"))
		faults_is(r, faults_wait(r, FAULTS_STUCK_S), 0, "waiting for the first large call");
}

int faults_wait(struct faults_rank *r, double limit_s)
{
	double end = clock_s() + limit_s;
	cudaError_t error;
	while ((error = cudaStreamQuery(r->stream)) == cudaErrorNotReady)
		if (clock_s() > end)
			return CORALE_INPROGRESS;
	return faults_cuda(r, error, "cudaStreamQuery") ? 0 : CORALE_EDEVICE;
}

int faults_outcome(struct faults_rank *r, double limit_s)
{
	int ret = faults_wait(r, limit_s);
	if (!ret)
		ret = corale_comm_async_error(r->comm);
	if (ret)
		return ret;
	ret = corale_barrier(r->comm, r->stream);
	if (!ret)
		ret = faults_wait(r, limit_s);
	return ret ? ret : corale_comm_async_error(r->comm);
}

void faults_expect(struct faults_rank *r, int code, double begin, double limit_s)
{
	int got = faults_outcome(r, FAULTS_STUCK_S);
	double seconds = clock_s() - begin;
	if (got == CORALE_INPROGRESS) {
		faults_complain(r, "the stream is not idle after %d s; expected \"%s\"", FAULTS_STUCK_S,
				corale_strerror(code));
		corale_comm_abort(r->comm);
		if (faults_wait(r, 2))
			faults_complain(r, "nor is it 2 s after corale_comm_abort");
		return;
	}
	faults_is(r, got, code, "what the communicator says");
	if (seconds > limit_s)
		faults_complain(r, "this took %.2f s, expected at most %.2f", seconds, limit_s);
}

void faults_expect_words(struct faults_rank *r, const struct faults_case *c)
{
	const char *line = corale_comm_last_error(r->comm);
	for (int i = 0; i < 2; i++)
		if (c->words[i] && !strstr(line, c->words[i]))
			faults_complain(r, "the error line does not say \"%s\": %.400s", c->words[i], line);
}

void faults_recover(struct faults_rank *r)
{
	double begin = clock_s();
	if (r->comm && corale_comm_async_error(r->comm) && faults_reduce(r, 1) == 0)
		faults_complain(r, "a communicator that has failed takes a call");
	corale_comm_destroy(r->comm);
	r->comm = NULL;
	if (clock_s() - begin > FAULTS_SOON_S)
		faults_complain(r, "corale_comm_destroy took %.2f s", clock_s() - begin);
	faults_cuda(r, cudaGetLastError(), "CUDA after the communicator");
	corale_comm *comm = faults_comm(r, &r->fresh, FAULTS_STUCK_S);
	if (comm)
		faults_good_reduce(r, comm, r->fresh.size, r->fresh.rank);
	corale_comm_destroy(comm);
}
