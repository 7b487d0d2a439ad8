/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What may be destroyed while a call that uses it still waits on a stream or in a group: operators and persistent plans;
 * and a communicator while other threads abort it, or ask for its error.
 * Runs itself for each case and node size.
 */
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "state/comm.h"
#include "test/helpers/team.h"

enum { RANKS = 3, COUNT = 1000 };

enum way { BLOCKING, ON_STREAM, IN_GROUP, IN_GROUP_ON_STREAM, WAYS };

/* What a case makes, calls and destroys. */
struct subject {
	corale_op op;
	corale_plan *plan;
	int (*call)(struct team_member *m, struct subject *s, corale_stream *stream);
	void (*destroy)(struct team_member *m, struct subject *s);
	float send[COUNT], recv[COUNT];
};

static void expect_all(struct team_member *m, const float *got, float expected, enum way way)
{
	static const char *const names[] = { "blocking", "on a stream", "in a group",
					     "in a group on a stream" };
	int i = 0;
	while (i < COUNT && got[i] == expected)
		i++;
	if (i < COUNT)
		team_fault(m, "%s: element %d is %g, expected %g", names[way], i, got[i], expected);
}

/* On streams rank 0 comes last: the other ranks' calls wait behind a barrier until all they use is destroyed. */
static void play(struct team_member *m, struct subject *s, enum way way, float expected)
{
	corale_stream *stream = NULL;
	int streams = way == ON_STREAM || way == IN_GROUP_ON_STREAM;
	for (int i = 0; i < COUNT; i++)
		s->send[i] = 1;
	if (streams)
		team_expect(m, corale_stream_create(&stream), 0, "a stream");
	if (streams && m->rank == 0)
		team_barrier(m);
	if (way >= IN_GROUP)
		corale_group_begin();
	if (streams)
		team_expect(m, corale_barrier(m->comm, stream), 0, "a barrier before");
	team_expect(m, s->call(m, s, stream), 0, "the call");
	if (way == IN_GROUP)
		s->destroy(m, s);
	if (way >= IN_GROUP)
		team_expect(m, corale_group_end(), 0, "the group");
	if (way != IN_GROUP)
		s->destroy(m, s);
	if (streams && m->rank)
		team_barrier(m);
	if (streams)
		team_expect(m, corale_stream_synchronize(stream), 0, "the stream");
	corale_stream_destroy(stream);
	expect_all(m, s->recv, expected, way);
	team_barrier(m);
}

/* ---- Operators ---- */

static int call_op(struct team_member *m, struct subject *s, corale_stream *stream)
{
	return corale_all_reduce(s->send, s->recv, COUNT, CORALE_FLOAT32, s->op, m->comm, stream);
}

/* Another operator takes its place. */
static void destroy_op(struct team_member *m, struct subject *s)
{
	const float other = 1000;
	team_expect(m, corale_op_destroy(s->op, m->comm), 0, "destroying an operator");
	team_expect(m, corale_op_create_premul_sum(&other, CORALE_FLOAT32, m->comm, &s->op), 0,
		    "an operator");
	team_expect(m, corale_op_destroy(s->op, m->comm), 0, "destroying it");
}

static void make_op(struct team_member *m, struct subject *s)
{
	const float scalar = (float)(m->rank + 1);
	team_expect(m, corale_op_create_premul_sum(&scalar, CORALE_FLOAT32, m->comm, &s->op), 0,
		    "an operator");
}

TEAM_TEST(operators, "a premultiplied sum destroyed behind its call")
{
	for (int way = 0; way < WAYS; way++) {
		struct subject s = { .call = call_op, .destroy = destroy_op };
		make_op(m, &s);
		play(m, &s, way, 6);
	}
}

/* ---- Plans ---- */

static int call_plan(struct team_member *m, struct subject *s, corale_stream *stream)
{
	return corale_plan_run(s->plan, s->send, s->recv, stream);
}

static void destroy_plan(struct team_member *m, struct subject *s)
{
	corale_plan_destroy(s->plan);
	s->plan = NULL;
}

TEAM_TEST(plans, "a plan destroyed behind its run")
{
	for (int way = 0; way < WAYS; way++) {
		struct subject s = { .call = call_plan, .destroy = destroy_plan };
		team_expect(m,
			    corale_plan_create(CORALE_ALL_REDUCE, COUNT, CORALE_FLOAT32, CORALE_SUM, 0,
					       m->comm, &s.plan),
			    0, "a plan");
		play(m, &s, way, RANKS);
	}
}

/* The plan keeps the scalar. */
TEAM_TEST(plans_of_operators, "a premultiplied sum destroyed behind its plan")
{
	for (int way = 0; way < WAYS; way++) {
		struct subject s = { .call = call_plan, .destroy = destroy_plan };
		make_op(m, &s);
		team_expect(
		    m,
		    corale_plan_create(CORALE_ALL_REDUCE, COUNT, CORALE_FLOAT32, s.op, 0, m->comm, &s.plan),
		    0, "a plan");
		destroy_op(m, &s);
		play(m, &s, way, 6);
	}
}

/* ---- Communicators ---- */

static void *abort_it(void *comm)
{
	while (!corale_comm_abort(comm)) /* until it is destroyed */
		;
	return NULL;
}

/* Three threads of each rank abort what that rank destroys. */
TEAM_TEST(aborts, "a communicator destroyed beside aborts")
{
	enum { THREADS = 3, ROUNDS = 10 };
	for (int k = 0; k < ROUNDS; k++) {
		corale_comm *comm = NULL;
		pthread_t threads[THREADS];
		team_expect(m, corale_comm_split(m->comm, 0, 0, &comm), 0, "split");
		for (int i = 0; i < THREADS; i++)
			if (pthread_create(&threads[i], NULL, abort_it, comm))
				abort();
		corale_comm_destroy(comm);
		for (int i = 0; i < THREADS; i++)
			pthread_join(threads[i], NULL);
	}
}

struct question {
	corale_comm *comm;
	_Atomic int over;
};

static void *ask(void *arg)
{
	struct question *q = arg;
	while (!q->over)
		corale_comm_async_error(q->comm);
	return NULL;
}

/* They ask on and on, also when it is destroyed. */
TEAM_TEST(questions, "a communicator destroyed beside questions")
{
	enum { THREADS = 4, ROUNDS = 3 };
	for (int k = 0; k < ROUNDS; k++) {
		struct question q = { 0 };
		pthread_t threads[THREADS];
		team_expect(m, corale_comm_split(m->comm, 0, 0, &q.comm), 0, "split");
		for (int i = 0; i < THREADS; i++)
			if (pthread_create(&threads[i], NULL, ask, &q))
				abort();
		const double start = clock_s();
		corale_comm_destroy(q.comm);
		if (clock_s() - start > 2)
			team_late(m, "destroy took %.1f s", clock_s() - start);
		q.over = 1;
		for (int i = 0; i < THREADS; i++)
			pthread_join(threads[i], NULL);
	}
}

/* A destroy in the group that holds its calls frees nothing; the group goes on. */
TEAM_TEST(in_its_group, "a communicator destroyed in its group")
{
	static const int32_t one = 1;
	for (int on_stream = 0; on_stream < 2; on_stream++) {
		corale_comm *comm = NULL;
		corale_stream *stream = NULL;
		int32_t sum = 0;
		team_expect(m, corale_comm_split(m->comm, 0, 0, &comm), 0, "split");
		if (on_stream)
			team_expect(m, corale_stream_create(&stream), 0, "a stream");
		corale_group_begin();
		team_expect(m, corale_all_reduce(&one, &sum, 1, CORALE_INT32, CORALE_SUM, comm, stream), 0,
			    "a call");
		corale_comm_destroy(comm);
		if (!strstr(corale_comm_last_error(comm), "corale_group_end"))
			team_fault(m, "the refused destroy says: %s", corale_comm_last_error(comm));
		corale_stream_destroy(stream);
		team_expect(m, corale_group_end(), 0, "the group");
		if (stream)
			team_expect(m, corale_stream_synchronize(stream), 0, "the stream");
		if (sum != RANKS)
			team_fault(m, "sum %d", (int)sum);
		corale_stream_destroy(stream);
		corale_comm_destroy(comm);
	}
}

enum beside { SINGLE, GROUPED, SPLITTING, ALLOCATING, OPEN, BESIDES };

struct caller {
	corale_comm *comm;
	enum beside how;
	int ret;
	_Atomic int open; /* a group */
	_Atomic int destroyed;
};

static void *call_beside(void *arg)
{
	struct caller *c = arg;
	const int32_t one = 1;
	int32_t sum;
	corale_comm *child;
	void *memory;
	if (c->how == SPLITTING || c->how == ALLOCATING) {
		c->ret = c->how == SPLITTING ? corale_comm_split(c->comm, 0, 0, &child)
					     : corale_mem_alloc(c->comm, 100, &memory);
		return NULL;
	}
	if (c->how != SINGLE)
		corale_group_begin();
	c->ret = corale_all_reduce(&one, &sum, 1, CORALE_INT32, CORALE_SUM, c->comm, NULL);
	atomic_store(&c->open, 1);
	while (c->how == OPEN && !atomic_load(&c->destroyed))
		sched_yield();
	if (c->how != SINGLE)
		c->ret = corale_group_end();
	return NULL;
}

static int is_beside(const struct caller *c)
{
	struct comm *comm = atomic_load(&c->comm->comm);
	return c->how == OPEN ? atomic_load(&((struct caller *)(uintptr_t)c)->open)
			      : atomic_load(&c->comm->callers) && comm->number;
}

/* Rank 0 destroys what its other thread calls, for which nobody comes. */
static void destroy_beside(struct team_member *m, enum beside how)
{
	struct caller c = { .how = how };
	pthread_t thread;
	const int32_t one = 1;
	int32_t sum;
	team_expect(m, corale_comm_split(m->comm, 0, 0, &c.comm), 0, "split");
	team_barrier(m);
	const double start = clock_s();
	if (m->rank == 0) {
		if (pthread_create(&thread, NULL, call_beside, &c))
			abort();
		while (!is_beside(&c) && clock_s() < start + 10)
			sched_yield();
		corale_comm_destroy(c.comm);
		atomic_store(&c.destroyed, 1);
		pthread_join(thread, NULL);
		team_expect(m, c.ret, how == OPEN ? CORALE_EINVAL : CORALE_EABORTED,
			    "the call beside destroy");
		if (clock_s() > start + 2)
			team_late(m, "kind %d: it took %.1f s", (int)how, clock_s() - start);
	}
	team_barrier(m);
	if (m->rank && !corale_all_reduce(&one, &sum, 1, CORALE_INT32, CORALE_SUM, c.comm, NULL) &&
	    how != OPEN)
		team_fault(m, "a call of another rank: 0");
	if (m->rank)
		corale_comm_destroy(c.comm);
}

TEAM_TEST(beside_a_call, "a communicator destroyed beside a call")
{
	for (int how = 0; how < BESIDES; how++)
		destroy_beside(m, (enum beside)how);
}

int main(int argc, char **argv)
{
	static const char *const settings[] = { "CORALE_DEBUG=none CORALE_TIMEOUT=20",
						"CORALE_DEBUG=none CORALE_TIMEOUT=20 CORALE_NODE_SIZE=2",
						NULL };
	return team_main(argc, argv, &(struct team_runs){ .ranks = RANKS, .settings = settings });
}
