/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The program's progress function (corale_set_progress): each kind of wait calls it while a rank comes late, in the thread that waits and in no other one, not
 * too often, and not where nothing is waited for.
 */
#include <unistd.h>

#include "test/helpers/unit.h"
#include "base/wait.h"
#include "test/helpers/team.h"

enum { RANKS = 3, LATE = RANKS - 1, LATE_US = 100000, LEAST_CALLS = 5, COUNT = 1 << 20 };

static _Thread_local int calls; /* in this thread */
static _Thread_local int is_rank; /* this thread */
static _Atomic int foreign; /* calls in threads of the library */
static _Atomic int nested; /* calls in which a wait would call it again */

static void count_call(void *ctx)
{
	calls++;
	foreign += !is_rank;
	nested += hook_is_set() || ctx != &foreign;
}

/* ---- Kinds of waits ---- */

static void begin_late(struct team_member *m)
{
	team_barrier(m);
	if (m->rank == LATE)
		usleep(LATE_US);
	calls = 0;
}

/* By the thread that has waited for the late rank. */
static void expect_calls(struct team_member *m, const char *what)
{
	if (m->rank != LATE && (calls < LEAST_CALLS || calls > LATE_US / (WAIT_HOOK_NS / 1000) * 2))
		team_fault(m, "%s: the progress function was called %d times in about 100 ms", what, calls);
	team_barrier(m);
}

static void try_calls(struct team_member *m, unsigned char *send, unsigned char *recv)
{
	corale_comm *c = m->comm;
	begin_late(m);
	team_expect(m, corale_barrier(c, NULL), 0, "barrier");
	expect_calls(m, "barrier");
	begin_late(m);
	team_expect(m, corale_all_reduce(send, recv, 1, CORALE_INT8, CORALE_SUM, c, NULL), 0, "all_reduce");
	expect_calls(m, "all_reduce of 1 byte");
	begin_late(m);
	team_expect(m, corale_all_reduce(send, recv, COUNT, CORALE_INT8, CORALE_SUM, c, NULL), 0,
		    "all_reduce");
	expect_calls(m, "all_reduce of 1 MB");
	begin_late(m);
	corale_group_begin();
	corale_send(send, COUNT, CORALE_INT8, (m->rank + 1) % RANKS, c, NULL);
	corale_recv(recv, COUNT, CORALE_INT8, (m->rank + 2) % RANKS, c, NULL);
	corale_send(send, COUNT, CORALE_INT8, (m->rank + 2) % RANKS, c, NULL);
	corale_recv(recv + COUNT, COUNT, CORALE_INT8, (m->rank + 1) % RANKS, c, NULL);
	team_expect(m, corale_group_end(), 0, "group");
	expect_calls(m, "a group of sends and receives");
}

static void try_streams(struct team_member *m, unsigned char *send, unsigned char *recv)
{
	corale_stream *stream;
	team_expect(m, corale_stream_create(&stream), 0, "stream_create");
	begin_late(m);
	team_expect(m, corale_all_reduce(send, recv, COUNT, CORALE_INT8, CORALE_SUM, m->comm, stream), 0,
		    "all_reduce");
	team_expect(m, corale_stream_synchronize(stream), 0, "stream_synchronize");
	expect_calls(m, "stream_synchronize");
	begin_late(m);
	team_expect(m, corale_barrier(m->comm, stream), 0, "barrier");
	corale_stream_destroy(stream);
	expect_calls(m, "stream_destroy");
}

static void try_communicators(struct team_member *m)
{
	corale_comm *child = NULL, *made = NULL;
	const unsigned char send[1] = { 1 };
	unsigned char recv;
	void *memory;
	begin_late(m);
	team_expect(m, corale_comm_create_inproc(m->arg, m->rank, NULL, &made), 0, "comm_create");
	expect_calls(m, "comm_create_inproc");
	begin_late(m);
	team_expect(m, corale_comm_split(m->comm, 0, m->rank, &child), 0, "comm_split");
	expect_calls(m, "comm_split");
	begin_late(m);
	team_expect(m, corale_mem_alloc(child, COUNT, &memory), 0, "mem_alloc");
	expect_calls(m, "mem_alloc");
	team_expect(m, corale_mem_free(child, memory), 0, "mem_free");
	/* destroy waits until the next rank has made the last call that has a root */
	begin_late(m);
	team_expect(m, corale_reduce(send, &recv, 1, CORALE_INT8, CORALE_SUM, LATE, made, NULL), 0, "reduce");
	corale_comm_destroy(made);
	calls = m->rank == LATE - 1 ? calls : LEAST_CALLS;
	expect_calls(m, "comm_destroy");
	corale_comm_destroy(child);
}

static void wait_for_late(struct team_member *m)
{
	unsigned char *send = calloc(1, COUNT), *recv = calloc(2, COUNT);
	is_rank = 1;
	team_barrier(m);
	if (!m->rank)
		corale_set_progress(count_call, (void *)&foreign);
	try_calls(m, send, recv);
	try_streams(m, send, recv);
	try_communicators(m);
	free(send);
	free(recv);
}

UNIT_TEST(test_waits)
{
	corale_inproc *group;
	assert_int_equal(corale_inproc_create(RANKS, &group), 0);
	assert_int_equal(team_run(RANKS, NULL, wait_for_late, group), 0);
	corale_inproc_destroy(group);
	assert_int_equal(foreign, 0);
	assert_int_equal(nested, 0);
	corale_set_progress(NULL, NULL);
}

static void wait_without(struct team_member *m)
{
	begin_late(m);
	corale_barrier(m->comm, NULL);
	if (calls)
		team_fault(m, "the progress function was called, but is not set");
}

UNIT_TEST(test_unset)
{
	corale_set_progress(count_call, (void *)&foreign);
	corale_set_progress(NULL, NULL);
	assert_int_equal(team_run(RANKS, NULL, wait_without, NULL), 0);
}

/* ---- Waits that no rank can be made to enter ---- */

UNIT_TEST(test_polls)
{
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
	int ends[2];
	is_rank = 1;
	assert_int_equal(pipe(ends), 0);
	struct pollfd fd = { .fd = ends[0], .events = POLLIN };
	corale_set_progress(count_call, (void *)&foreign);
	calls = 0;
	int64_t start = wait_now_ns();
	assert_int_equal(wait_poll(&fd, 1, 20), 0);
	assert_true(wait_now_ns() - start >= 20000000);
	assert_in_range(calls, 5, 1000);
	assert_int_equal(write(ends[1], "x", 1), 1);
	assert_int_equal(wait_poll(&fd, 1, 1000000), 1);
	assert_int_equal(wait_poll(&fd, 1, 0), 1);
	calls = 0;
	start = wait_now_ns();
	pthread_mutex_lock(&lock);
	while (wait_now_ns() - start < 20000000)
		wait_changed(&changed, &lock, start + 20000000);
	pthread_mutex_unlock(&lock);
	assert_in_range(calls, 5, 1000);
	corale_set_progress(NULL, NULL);
	close(ends[0]);
	close(ends[1]);
}

static int poll_once(void *arg)
{
	return ++*(int *)arg > 1;
}

/* What comes at once is not worth a call. */
UNIT_TEST(test_short)
{
	const struct wait_policy policy = { .spin_ns = 1000000000 };
	is_rank = 1;
	corale_set_progress(count_call, (void *)&foreign);
	calls = 0;
	for (int i = 0; i < 1000; i++)
		assert_int_equal(wait_until(&policy, poll_once, &(int){ 0 }), 1);
	assert_int_equal(calls, 0);
	corale_set_progress(NULL, NULL);
}
