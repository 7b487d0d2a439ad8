/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fast path of small calls within a node: what a plan says of one rank, root and count, resolved once into a list of steps with addresses of
 * headers and offsets of buffers. A step is executed by straight code: compare the headers, fold or copy, write the headers. The messages are those of the
 * plan, so a rank may take this path while others interpret the plan (host_run.c), and a call may begin here and go on there.
 */
#ifndef HOST_FAST_H
#define HOST_FAST_H

#include "host_engine.h"

enum {
	HOST_FAST_BYTES = 1024, /* of a message, at most */
	HOST_FAST_STEPS = 18,
	HOST_FAST_MESSAGES = 34, /* received in all steps together */
	HOST_FAST_KEPT = 8, /* of a plan: lists of several counts, roots or peers */
	HOST_FAST_UNEVEN = 8 /* ranks, at most, of a v-form */
};

/* By what the calls of one plan differ. */
struct host_fast_call {
	int root;
	size_t count;
	size_t own; /* of a v-form, as plan_env_uneven takes it and the arrays; else 0 and NULL */
	const size_t *uneven[4];
};

/* A span of a buffer of the call. */
struct host_fast_span {
	int space; /* PLAN_SEND, PLAN_RECV, or PLAN_NOWHERE: there is none */
	size_t offset; /* bytes */
};

struct host_fast_step {
	struct host_in **ins; /* the messages that it receives, in the order of the fold */
	int nins, own; /* own: the place of src among the sources */
	int depth; /* of out: messages that may be unread */
	int final; /* PLAN_FINAL */
	struct host_fast_span src, dst;
	struct host_out *out; /* NULL: it sends nothing */
	size_t count, bytes; /* of a message and of both spans; 0: a signal */
	uint64_t edge; /* in headers: host_edge */
};

struct host_fast_list {
	size_t count, own; /* the call's */
	size_t uneven[4][HOST_FAST_UNEVEN];
	int root;
	int nsteps; /* 0: no such call was made yet; -1: the plan's run must execute it */
	size_t stride; /* between payloads, as a run has it */
	struct host_fast_step steps[HOST_FAST_STEPS];
	struct host_in *ins[HOST_FAST_MESSAGES];
};

/* Of a plan. All zero: empty. */
struct host_fast {
	unsigned next; /* the list that is made anew */
	struct host_fast_list lists[HOST_FAST_KEPT];
};

/* True if calls like this one may have a list: few bytes, one node, no message by reference, nothing copied first. */
int host_fast_serves(const struct host_engine *engine, const struct plan *plan,
		     const struct host_fast_call *call);
/* The list of a call, made where there is none, in place of an older one: other calls may change it. NULL: the plan's run must execute the call. */
const struct host_fast_list *host_fast_find(struct host_fast *fast, struct host_engine *engine,
					    const struct plan *plan, const struct host_fast_call *call);
/* 1 if the list is that of the call. */
int host_fast_is_of(const struct host_fast_list *list, const struct host_engine *engine,
		    const struct host_fast_call *call);

/*
 * Executes a list's steps from *step on, which counts them; looks up to so many times in all for messages or room that are missing. 1: the call is complete;
 * 0: the plan's run goes on behind *step steps (host_run_skip), because a rank is late or a message is not what this rank expects.
 */
int host_fast_run(const struct host_fast_list *list, const struct host_engine *engine,
		  const struct host_binding *binding, int polls, int *step);

#endif
