/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The way of a call from the public function to the first look at what its messages have done, on hosts, or to the launch, on a GPU: which functions are
 * entered, and how deep. The engine of GPUs is test/helpers/fake_engine.c; the NCCL door's communicator is filled in here. Built and started by test/call/call_path.sh, with -O0 -finstrument-functions. Prints a line for each function, in order: the
 * call's name, the greatest depth at which the function was entered, and its address.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "call_path.h"
#include "cuda/engine.h"
#include "test/helpers/fake_engine.h"
#include "host/host_fast.h"
#include "nccl_glue/door.h"
#include "test/helpers/team.h"

enum { RANKS = 2, COUNT = 64, WARM_CALLS = 3, MOST_FUNCTIONS = 400 };

/* The first functions that look whether messages have come: of the fast path, and of a plan's run. */
#define FIRST_POLL_FAST ((void *)host_fast_run)
#define FIRST_POLL ((void *)host_channel_progress)
/* The functions that launch. */
#define LAUNCH ((void *)engine_cuda.run)
#define LAUNCH_OF_MESSAGES ((void *)engine_cuda.run_messages)

/* ---- What the compiler calls at each entry and exit ------------------------------------------------------- */

struct entered {
	const void *function;
	int depth; /* the greatest; 1: the public function */
};

static _Thread_local struct trace {
	int is_on, depth, n;
	struct entered entered[MOST_FUNCTIONS];
} trace;

UNTRACED void __cyg_profile_func_enter(void *function, void *caller);
UNTRACED void __cyg_profile_func_exit(void *function, void *caller);

static UNTRACED int was_entered(const void *function, int depth)
{
	for (int i = 0; i < trace.n; i++)
		if (trace.entered[i].function == function) {
			if (trace.entered[i].depth < depth)
				trace.entered[i].depth = depth;
			return 1;
		}
	return 0;
}

void __cyg_profile_func_enter(void *function, void *caller)
{
	if (!trace.is_on)
		return;
	trace.depth++;
	if (!was_entered(function, trace.depth) && trace.n < MOST_FUNCTIONS)
		trace.entered[trace.n++] = (struct entered){ function, trace.depth };
	trace.is_on = function != FIRST_POLL_FAST && function != FIRST_POLL && function != LAUNCH &&
		      function != LAUNCH_OF_MESSAGES;
}

void __cyg_profile_func_exit(void *function, void *caller)
{
	trace.depth -= trace.is_on;
}

static UNTRACED void begin_trace(void)
{
	trace.n = trace.depth = 0;
	trace.is_on = 1;
}

static UNTRACED void end_trace(struct team_member *m, const char *name)
{
	if (trace.is_on)
		team_fault(m, "%s: nothing polled, nothing launched", name);
	trace.is_on = 0;
	for (int i = 0; i < trace.n; i++)
		printf("%s %d %p\n", name, trace.entered[i].depth, trace.entered[i].function);
}

/* ---- Calls ------------------------------------------------------------------------------------------------- */

struct caller {
	corale_comm *comm;
	corale_plan *plan;
	ncclComm_t door; /* NULL: Corale's own interface */
	struct fake_stream *stream; /* NULL: on hosts */
	int rank;
	float send[COUNT], recv[COUNT];
};

static UNTRACED int all_reduce(struct caller *c)
{
	return corale_all_reduce(c->send, c->recv, COUNT, CORALE_FLOAT32, CORALE_SUM, c->comm, c->stream);
}

static UNTRACED int run_plan(struct caller *c)
{
	return corale_plan_run(c->plan, c->send, c->recv, c->stream);
}

static UNTRACED int group(struct caller *c)
{
	corale_group_begin();
	int ret = corale_send(c->send, COUNT, CORALE_FLOAT32, 1 - c->rank, c->comm, c->stream);
	ret = ret ? ret : corale_recv(c->recv, COUNT, CORALE_FLOAT32, 1 - c->rank, c->comm, c->stream);
	const int end = corale_group_end();
	return ret ? ret : end;
}

static UNTRACED int nccl_all_reduce(struct caller *c)
{
	return ncclAllReduce(c->send, c->recv, COUNT, ncclFloat32, ncclSum, c->door, (cudaStream_t)c->stream);
}

static UNTRACED int mpi_all_reduce(struct caller *c)
{
	return call_path_mpi(
	    &(struct call_path_mpi){ c->send, c->recv, COUNT, c->rank, RANKS, c->comm, c->stream });
}

static void trace_call(struct team_member *m, struct caller *c, const char *name,
		       int (*call)(struct caller *c))
{
	for (int i = 0; i <= WARM_CALLS; i++) {
		const int is_traced = i == WARM_CALLS && !m->rank;
		team_barrier(m);
		if (is_traced)
			begin_trace();
		const int ret = call(c);
		if (is_traced)
			end_trace(m, name);
		team_expect(m, ret, 0, name);
	}
}

static void trace_calls(struct team_member *m, struct fake_stream *stream, const char *const names[3])
{
	struct caller c = { .comm = m->comm, .stream = stream, .rank = m->rank };
	const int ret =
	    corale_plan_create(CORALE_ALL_REDUCE, COUNT, CORALE_FLOAT32, CORALE_SUM, 0, m->comm, &c.plan);
	team_expect(m, ret, 0, "corale_plan_create");
	trace_call(m, &c, names[0], all_reduce);
	trace_call(m, &c, names[1], run_plan);
	trace_call(m, &c, names[2], group);
	corale_plan_destroy(c.plan);
}

static void on_hosts(struct team_member *m)
{
	trace_calls(m, NULL,
		    (const char *const[]){ "all_reduce", "persistent_plan", "group_of_send_and_recv" });
}

static void on_gpus(struct team_member *m)
{
	struct fake_stream stream = { 0 };
	trace_calls(
	    m, &stream,
	    (const char *const[]){ "gpu_all_reduce", "gpu_persistent_plan", "gpu_group_of_send_and_recv" });
	static const struct door_device gpu = { .is_gpu = 1 };
	struct ncclComm door = {
		.magic = DOOR_MAGIC, .rank = m->rank, .size = m->size, .core = m->comm, .device = &gpu
	};
	struct caller c = { .comm = m->comm, .door = &door, .stream = &stream, .rank = m->rank };
	trace_call(m, &c, "nccl_all_reduce", nccl_all_reduce);
	c.comm = m->comm;
	if (call_path_mpi)
		trace_call(m, &c, "mpi_all_reduce", mpi_all_reduce);
}

int main(void)
{
	corale_config gpus;
	corale_config_init(&gpus);
	gpus.device = CORALE_DEVICE_CUDA;
	return team_run(RANKS, NULL, on_hosts, NULL) + team_run(RANKS, &gpus, on_gpus, NULL) != 0;
}
