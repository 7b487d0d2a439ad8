/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls that differ, aborts, ranks that do not come, and ranks that die. */
#include "cuda_faults.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEATH_MS = 100, DEATH_OVER_NODES_MS = 1000, FAR_COUNT = 20 << 20, BEHIND = 5, SETTLE_MS = 300 };

/* ---- Calls that differ ---- */

/* The call of a rank; odd is 1 on the one that differs. */
static int differing_call(struct faults_rank *r, const struct faults_case *c, int odd)
{
	size_t n = c->count, part = n / (size_t)r->size + 1;
	void *s = r->send, *d = r->recv;
	corale_type type = c->kind == FAULTS_TYPE && odd ? CORALE_FLOAT32 : CORALE_INT32;
	corale_op op = c->kind == FAULTS_OP && odd ? CORALE_MAX : CORALE_SUM;
	if (c->kind == FAULTS_COUNT)
		n += (size_t)odd;
	if (c->kind == FAULTS_COUNT_FAR && odd)
		n = FAR_COUNT;
	if (c->kind == FAULTS_ROOT)
		return corale_broadcast(s, d, n, type, odd, r->comm, r->stream);
	if (c->kind == FAULTS_COLLECTIVE && odd)
		return corale_all_gather(s, d, part, type, r->comm, r->stream);
	if (c->kind == FAULTS_BARRIER && odd)
		return corale_barrier(r->comm, r->stream);
	return corale_all_reduce(s, d, n, type, op, r->comm, r->stream);
}

/* Two calls, in the other order on one rank. */
static int calls_in_order(struct faults_rank *r, const struct faults_case *c, int odd)
{
	int ret = 0;
	for (int i = 0; i < 2; i++) {
		int first = i == odd, code;
		code =
		    first ? faults_reduce(r, c->count)
			  : corale_broadcast(r->send, r->recv, c->count, CORALE_INT32, 0, r->comm, r->stream);
		ret = ret ? ret : code; /* the second may be refused already */
	}
	return ret;
}

static cudaGraphExec_t capture(struct faults_rank *r, int number, size_t count)
{
	cudaGraph_t graph = NULL;
	cudaGraphExec_t exec = NULL;
	faults_cuda(r, cudaStreamBeginCapture(r->stream, cudaStreamCaptureModeThreadLocal),
		    "cudaStreamBeginCapture");
	int ret = number == 0
		      ? faults_reduce(r, count)
		      : corale_broadcast(r->send, r->recv, count, CORALE_INT32, 0, r->comm, r->stream);
	faults_is(r, ret, 0, "a captured call");
	if (faults_cuda(r, cudaStreamEndCapture(r->stream, &graph), "cudaStreamEndCapture"))
		faults_cuda(r, cudaGraphInstantiate(&exec, graph, 0), "cudaGraphInstantiate");
	if (graph)
		cudaGraphDestroy(graph);
	return exec;
}

/* Two graphs, replayed in the other order on one rank. */
static int graphs_in_order(struct faults_rank *r, const struct faults_case *c, int odd)
{
	cudaGraphExec_t execs[2] = { capture(r, 0, c->count), capture(r, 1, c->count) };
	for (int i = 0; i < 2; i++)
		if (execs[i != odd ? 1 : 0])
			faults_cuda(r, cudaGraphLaunch(execs[i != odd ? 1 : 0], r->stream),
				    "cudaGraphLaunch");
	for (int i = 0; i < 2; i++)
		if (execs[i])
			cudaGraphExecDestroy(execs[i]);
	return 0;
}

void faults_mismatch(struct faults_rank *r, const struct faults_case *c)
{
	int odd = r->rank == r->size - 1, ret;
	double begin = clock_s();
	if (c->kind == FAULTS_ORDER)
		ret = calls_in_order(r, c, odd);
	else if (c->kind == FAULTS_GRAPHS)
		ret = graphs_in_order(r, c, odd);
	else
		ret = differing_call(r, c, odd);
	if (ret)
		faults_is(r, ret == CORALE_ECOMM ? CORALE_EMISMATCH : ret, CORALE_EMISMATCH, "the call");
	faults_expect(r, CORALE_EMISMATCH, begin, FAULTS_SOON_S);
	faults_expect_words(r, c);
	faults_recover(r);
}

/* One edge of all_to_all_v, or one message: only its two ends must see the mismatch, but nobody may hang. */
void faults_pair(struct faults_rank *r, const struct faults_case *c)
{
	size_t send_counts[CUDA_CHILDREN_MOST], recv_counts[CUDA_CHILDREN_MOST], displs[CUDA_CHILDREN_MOST];
	int last = r->size - 1, ret;
	double begin = clock_s();
	for (int i = 0; i < r->size; i++) {
		send_counts[i] = recv_counts[i] = c->count / (size_t)r->size + 1;
		displs[i] = (size_t)i * (send_counts[i] + 1);
	}
	send_counts[0] += r->rank == last && c->kind != FAULTS_MESSAGE_TYPE; /* that rank 0 does not expect */
	if (c->kind == FAULTS_EDGE) {
		ret = corale_all_to_all_v(r->send, send_counts, displs, r->recv, recv_counts, displs,
					  CORALE_INT32, r->comm, r->stream);
	} else {
		int next = (r->rank + 1) % r->size, previous = (r->rank + last) % r->size;
		corale_group_begin();
		corale_type type =
		    next == 0 && c->kind == FAULTS_MESSAGE_TYPE ? CORALE_FLOAT32 : CORALE_INT32;
		corale_send(r->send, send_counts[next], type, next, r->comm, r->stream);
		corale_recv(r->recv, recv_counts[previous], CORALE_INT32, previous, r->comm, r->stream);
		ret = corale_group_end();
	}
	faults_is(r, ret, 0, "the call");
	if (r->rank == 0 || r->rank == last) {
		faults_expect(r, CORALE_EMISMATCH, begin, FAULTS_SOON_S);
		if (r->rank == 0)
			faults_expect_words(r, c);
	} else if (faults_outcome(r, FAULTS_STUCK_S) == CORALE_INPROGRESS) {
		faults_complain(r, "the stream is not idle after %d s", FAULTS_STUCK_S);
	}
	faults_recover(r);
}

/* ---- Aborts ---- */

static void *abort_from_thread(void *comm)
{
	corale_comm_abort(comm);
	return NULL;
}

static void abort_comm(struct faults_rank *r, const struct faults_case *c)
{
	pthread_t thread;
	double begin = clock_s();
	if (c->kind == FAULTS_BY_THREAD && !pthread_create(&thread, NULL, abort_from_thread, r->comm))
		pthread_join(thread, NULL);
	else
		faults_is(r, corale_comm_abort(r->comm), 0, "corale_comm_abort");
	corale_comm_abort(r->comm); /* once more changes nothing */
	if (clock_s() - begin > 0.5)
		faults_complain(r, "corale_comm_abort took %.2f s", clock_s() - begin);
}

void faults_abort(struct faults_rank *r, const struct faults_case *c)
{
	int last = r->size - 1, aborter = c->kind == FAULTS_BY_ABSENT ? last : 0;
	if (r->rank != last && c->kind != FAULTS_IDLE)
		faults_is(r, faults_reduce(r, c->count), 0, "the call that waits");
	cuda_group_meet(&r->world);
	clock_sleep_s(SETTLE_MS / 1000.);
	if (r->rank != last && c->kind != FAULTS_IDLE && cudaStreamQuery(r->stream) != cudaErrorNotReady)
		faults_complain(r, "a call has ended that the last rank has not made");
	cuda_group_meet(&r->world);
	if (r->rank == aborter)
		abort_comm(r, c);
	cuda_group_meet(&r->world);
	faults_expect(r, CORALE_EABORTED, clock_s(), FAULTS_SOON_S);
	faults_recover(r);
}

/* ---- Ranks that do not come ---- */

static int start(struct faults_rank *r, const struct faults_case *c)
{
	size_t part = c->count / (size_t)r->size + 1;
	int ret;
	switch (c->kind) {
	case FAULTS_ALL_GATHER:
		return corale_all_gather(r->send, r->recv, part, CORALE_INT32, r->comm, r->stream);
	case FAULTS_BROADCAST: /* from the one that does not come */
		return corale_broadcast(r->send, r->recv, c->count, CORALE_INT32, r->size - 1, r->comm,
					r->stream);
	case FAULTS_EXCHANGE:
		corale_group_begin();
		for (int i = 0; i < r->size; i++) {
			size_t at = (size_t)i * part * sizeof(int32_t);
			corale_send((char *)r->send + at, part, CORALE_INT32, i, r->comm, r->stream);
			corale_recv((char *)r->recv + at, part, CORALE_INT32, i, r->comm, r->stream);
		}
		ret = corale_group_end();
		return ret;
	case FAULTS_WAIT:
		return corale_barrier(r->comm, r->stream);
	default:
		return faults_reduce(r, c->count);
	}
}

static void replay(struct faults_rank *r, const struct faults_case *c, int comes)
{
	cudaGraphExec_t exec = capture(r, 0, c->count);
	if (exec && comes)
		faults_cuda(r, cudaGraphLaunch(exec, r->stream), "cudaGraphLaunch");
	if (exec)
		cudaGraphExecDestroy(exec);
}

/* The deadline passes on the others, who name the call that waits and not the one behind it; whoever comes after it gets an error, too. */
void faults_absent(struct faults_rank *r, const struct faults_case *c)
{
	int comes = r->rank != r->size - 1;
	double begin = clock_s();
	if (c->kind == FAULTS_REPLAY)
		replay(r, c, comes);
	else if (comes) {
		int ret = start(r, c);
		if (ret != CORALE_ETIMEDOUT || !c->cold) /* the first large call may wait on the host */
			faults_is(r, ret, 0, "the call that waits");
	}
	if (comes) {
		if (!c->cold)
			faults_is(
			    r,
			    corale_broadcast(r->send, r->recv, BEHIND, CORALE_INT32, 0, r->comm, r->stream),
			    0, "a call behind it");
		faults_expect(r, CORALE_ETIMEDOUT, begin, FAULTS_TIMEOUT_S + FAULTS_SOON_S);
		faults_expect_words(r, c);
		if (clock_s() - begin < FAULTS_TIMEOUT_S - 0.5)
			faults_complain(r, "this took %.2f s only, expected %d", clock_s() - begin,
					FAULTS_TIMEOUT_S);
	}
	cuda_group_meet(&r->world);
	begin = clock_s();
	if (!comes && start(r, c) == 0) {
		int code = faults_outcome(r, FAULTS_STUCK_S);
		if (!code || code == CORALE_INPROGRESS)
			faults_complain(r, "a call after the others' deadline: %s", corale_strerror(code));
		if (clock_s() - begin > FAULTS_TIMEOUT_S + FAULTS_SOON_S)
			faults_complain(r, "it took %.2f s to learn of the others' deadline",
					clock_s() - begin);
	}
	cuda_group_meet(&r->world);
	faults_recover(r);
}

/* ---- Ranks that die ---- */

static void died_at(struct faults_rank *r)
{
	atomic_store(&r->world.children->moment_us, (long long)(1e6 * clock_s()));
}

static void *kill_soon(void *arg)
{
	clock_sleep_s(0.5);
	died_at(arg);
	kill(getpid(), SIGKILL);
	return arg;
}

static void die(struct faults_rank *r, const struct faults_case *c)
{
	pthread_t thread;
	if (c->kind == FAULTS_KILLED_BUSY) {
		pthread_create(&thread, NULL, kill_soon, r);
		for (;;)
			if (start(r, c) || faults_wait(r, FAULTS_STUCK_S))
				clock_sleep_s(0.001);
	}
	void *memory = NULL;
	if (c->kind == FAULTS_KILLED_LARGE && cudaMalloc(&memory, (size_t)64 << 30) == cudaSuccess)
		cudaMemset(memory, 1, (size_t)64 << 30);
	cudaDeviceSynchronize();
	clock_sleep_s(0.5);
	died_at(r);
	if (c->kind == FAULTS_EXITED)
		_exit(0);
	if (c->kind == FAULTS_LEFT) {
		corale_comm_destroy(r->comm);
		clock_sleep_s(FAULTS_TIMEOUT_S + FAULTS_SOON_S);
		_exit(0);
	}
	kill(getpid(), SIGKILL);
}

/* Calls until the communicator fails. */
static void call_on(struct faults_rank *r, const struct faults_case *c)
{
	double end = clock_s() + FAULTS_STUCK_S;
	while (!start(r, c) && !faults_wait(r, FAULTS_STUCK_S) && !corale_comm_async_error(r->comm))
		if (clock_s() > end) {
			faults_complain(r, "calls go on without a rank that is dead");
			return;
		}
}

/* The last rank dies; the others get an error, and go on without it. */
void faults_death(struct faults_rank *r, const struct faults_case *c)
{
	if (r->rank == r->size - 1)
		die(r, c);
	double begin = clock_s();
	call_on(r, c);
	int code = faults_outcome(r, FAULTS_STUCK_S);
	double seconds = clock_s() - 1e-6 * (double)atomic_load(&r->world.children->moment_us);
	const char *line = corale_comm_last_error(r->comm);
	if (c->kind == FAULTS_LEFT) { /* which is no death, but nobody can make the call */
		if (code != CORALE_EPEER && code != CORALE_ETIMEDOUT)
			faults_is(r, code, CORALE_EPEER, "what the communicator says");
		if (clock_s() - begin > 0.5 + FAULTS_TIMEOUT_S + FAULTS_SOON_S)
			faults_complain(r, "this took %.2f s", clock_s() - begin);
	} else {
		faults_is(r, code, CORALE_EPEER, "what the communicator says");
		const int over_nodes = faults_over_nodes(r->size);
		if (!strstr(line, "(process "))
			faults_complain(r, "the error line does not name the process: %.400s", line);
		if (seconds > (over_nodes ? DEATH_OVER_NODES_MS : DEATH_MS) / 1000.)
			faults_complain(r, "the death was told after %.0f ms", 1000 * seconds);
		printf("# %s: rank %d was told after %.0f ms\n", r->name, r->rank, 1000 * seconds);
	}
	r->fresh.size = r->size - 1;
	if (r->fresh.size)
		faults_recover(r);
}
