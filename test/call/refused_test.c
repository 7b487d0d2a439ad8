/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that a rank refuses (lib/call/refuse.c): ranks that make them end with CORALE_EMISMATCH, and learn who refused and why; what all refuse alike changes
 * nothing. In a group each communicator ends. Ranks are threads, two and three of them, on one node and on several. Settings are read once a process: each
 * case runs this program again.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <unistd.h>

#include "test/helpers/unit.h"
#include "test/helpers/team.h"
#include "test/helpers/thin.h"

enum { MOST_RANKS = 3, LARGE = 1 << 20, LATER_US = 200000 };
/* A sanitizer takes several times as long. */
static double soon_s(void)
{
	return getenv("TEST_SANITIZER") ? 5 : 1;
}

/* ---- No memory: of one thread, while it asks for it ---- */

static _Thread_local int has_no_memory;

int posix_memalign(void **out, size_t alignment, size_t bytes)
{
	*out = has_no_memory ? NULL : aligned_alloc(alignment, (bytes + alignment - 1) & ~(alignment - 1));
	return *out ? 0 : ENOMEM;
}

/* ---- Calls ---- */

static int is_last(const struct team_member *m)
{
	return m->rank == m->size - 1;
}

/* Rank r gives 10^r times `value`; the call's number is in the sum. */
static int sum_on(struct team_member *m, corale_comm *comm, int value, void *stream, int32_t *mine,
		  int32_t *sum)
{
	static const int32_t weights[MOST_RANKS] = { 1, 10, 100 };
	*mine = weights[m->rank] * value;
	*sum = -1;
	return corale_all_reduce(mine, sum, 1, CORALE_INT32, CORALE_SUM, comm, stream);
}

static int32_t sum_of(const struct team_member *m, int value)
{
	return (m->size == 2 ? 11 : 111) * value;
}

static void expect_sum(struct team_member *m, corale_comm *comm, int value, const char *what)
{
	int32_t mine, sum;
	const int ret = sum_on(m, comm, value, NULL, &mine, &sum);
	if (ret || sum != sum_of(m, value))
		team_fault(m, "%s: %s, %d, expected %d", what, corale_strerror(ret), (int)sum,
			   (int)sum_of(m, value));
}

/* A wrong argument each, with a word of the line; the same call without it. */
enum wrong { SEND, RECV, TYPE, ROOT, OP, IN_PLACE, OVERLAP, COUNTS, PLAN, OWN, WRONGS };
static const char *const words[WRONGS] = { "send buffer is NULL",
					   "recv buffer is NULL",
					   "99 is no type",
					   "root 99",
					   "operator",
					   "MPI_IN_PLACE",
					   "overlap",
					   "must not be NULL",
					   "recv buffer is NULL",
					   "to oneself" };

static int run_plan(corale_comm *comm, const void *from, void *to, int is_wrong, void *stream)
{
	corale_plan *plan = NULL;
	int ret = corale_plan_create(CORALE_ALL_REDUCE, 1, CORALE_INT32, CORALE_SUM, 0, comm, &plan);
	ret = ret ? ret : corale_plan_run(plan, from, is_wrong ? NULL : to, stream);
	corale_plan_destroy(plan);
	return ret;
}

static int call(corale_comm *comm, enum wrong how, int is_wrong, void *stream)
{
	static const size_t counts[MOST_RANKS] = { 1, 1, 1 }, displs[MOST_RANKS] = { 0, 1, 2 };
	static const int32_t from[MOST_RANKS] = { 1, 1, 1 };
	static _Thread_local int32_t to[2 * MOST_RANKS]; /* of calls that may end when others are made */
	switch (how) {
	case SEND:
		return corale_reduce_scatter(is_wrong ? NULL : from, to, 1, CORALE_INT32, CORALE_SUM, comm,
					     stream);
	case RECV:
		return corale_all_gather(from, is_wrong ? NULL : to, 1, CORALE_INT32, comm, stream);
	case TYPE:
		return corale_all_to_all(from, to, 1, is_wrong ? (corale_type)99 : CORALE_INT32, comm,
					 stream);
	case ROOT:
		return corale_broadcast(from, to, 1, CORALE_INT32, is_wrong ? 99 : corale_comm_size(comm) - 1,
					comm, stream);
	case OP:
		return corale_all_reduce(from, to, 1, CORALE_INT32, is_wrong ? 1 << 20 : CORALE_SUM, comm,
					 stream);
	case IN_PLACE:
		return corale_all_reduce(is_wrong ? (void *)1 : from, to, 1, CORALE_INT32, CORALE_SUM, comm,
					 stream);
	case OVERLAP:
		return corale_all_reduce(is_wrong ? to + 1 : from, to, 2, CORALE_INT32, CORALE_SUM, comm,
					 stream);
	case COUNTS:
		return corale_all_gather_v(from, to, is_wrong ? NULL : counts, displs, CORALE_INT32, comm,
					   stream);
	case OWN:
		return is_wrong ? corale_send(from, 1, CORALE_INT32, corale_comm_rank(comm), comm, stream)
				: corale_barrier(comm, stream);
	default:
		return run_plan(comm, from, to, is_wrong, stream);
	}
}

static corale_comm *split(struct team_member *m)
{
	corale_comm *comm = NULL;
	team_expect(m, corale_comm_split(m->comm, 0, m->rank, &comm), 0, "split");
	return comm;
}

/* The communicator has ended, or its next call finds that out; the line has the refuser and a word of the reason. */
static void expect_refused(struct team_member *m, corale_comm *comm, double since, const char *word)
{
	char name[24];
	int32_t mine, sum;
	snprintf(name, sizeof name, "rank %d", m->size - 1);
	const int ret = sum_on(m, comm, 7, NULL, &mine, &sum);
	if (ret != CORALE_ECOMM && ret != CORALE_EMISMATCH)
		team_fault(m, "%s: the next call: %s, %d", word, corale_strerror(ret), (int)sum);
	if (clock_s() - since > soon_s())
		team_late(m, "%s: it took %.1f s", word, clock_s() - since);
	const char *line = corale_comm_last_error(comm);
	if (!is_last(m) && (!strstr(line, word) || !strstr(line, name) || !strstr(line, "refused")))
		team_fault(m, "the line has no \"%s\", \"%s\" and \"refused\": %s", word, name, line);
}

/* Each refusal is awaited, so of two neighbours one is taken, others with other numbers of ranks and nodes. */
static int is_drawn(const struct team_member *m, unsigned how)
{
	const uint64_t i = (uint64_t)(m->size * 16 + corale_comm_nodes(m->comm)) * 32 + how;
	return thin_takes_case(i);
}

/* ---- One call ---- */

/* The last rank refuses it, and calls nothing more until the others know. */
TEAM_TEST(alone, "a call that one rank refuses")
{
	for (enum wrong how = 0; how < WRONGS; how++) {
		if (!is_drawn(m, how))
			continue;
		corale_comm *comm = split(m);
		expect_sum(m, comm, 1, "before");
		team_barrier(m);
		const double since = clock_s();
		const int ret = call(comm, how, is_last(m), NULL);
		if (is_last(m))
			team_expect(m, ret, CORALE_EINVAL, words[how]);
		else if (ret != CORALE_EMISMATCH)
			team_fault(m, "%s: %s at the ranks that made the call", words[how],
				   corale_strerror(ret));
		if (!is_last(m))
			expect_refused(m, comm, since, words[how]);
		team_barrier(m);
		if (is_last(m))
			expect_refused(m, comm, clock_s(), words[how]);
		corale_comm_destroy(comm);
	}
}

/* It goes on at once, or comes late. No sum may be another call's. */
TEAM_TEST(alone_and_on, "a call that one rank refuses, which goes on")
{
	for (int late = 0; late < 2; late++) {
		corale_comm *comm = split(m);
		int32_t mine, sum;
		team_barrier(m);
		if (late && !is_last(m))
			usleep(LATER_US);
		const double since = clock_s();
		for (int i = 1; i <= 3; i++) {
			int ret = is_last(m) && i == 1 ? call(comm, IN_PLACE, 1, NULL)
						       : sum_on(m, comm, i, NULL, &mine, &sum);
			if (!ret)
				team_fault(m, "call %d behind a refused one: sum %d", i, (int)sum);
		}
		expect_refused(m, comm, since, words[IN_PLACE]);
		team_barrier(m);
		corale_comm_destroy(comm);
	}
}

TEAM_TEST(all_alike, "calls that all ranks refuse")
{
	int32_t mine = m->rank, theirs = -1;
	const int next = (m->rank + 1) % m->size, before = (m->rank + m->size - 1) % m->size;
	for (enum wrong how = 0; how < WRONGS; how++) {
		if (m->rank == (int)how % m->size)
			usleep(1000);
		team_expect(m, call(m->comm, how, 1, NULL), CORALE_EINVAL, words[how]);
		expect_sum(m, m->comm, (int)how + 1, words[how]);
	}
	team_expect(m, corale_send(NULL, 1, CORALE_INT32, next, m->comm, NULL), CORALE_EINVAL, "no buffer");
	team_expect(m, corale_send(&mine, 1, CORALE_INT32, 99, m->comm, NULL), CORALE_EINVAL, "no peer");
	team_expect(m, corale_send(&mine, 1, CORALE_INT32, m->rank, m->comm, NULL), CORALE_EINVAL,
		    "to oneself");
	corale_group_begin();
	corale_send(&mine, 1, CORALE_INT32, next, m->comm, NULL);
	corale_recv(&theirs, 1, CORALE_INT32, before, m->comm, NULL);
	team_expect(m, corale_group_end(), 0, "a ring of messages");
	if (theirs != before)
		team_fault(m, "received %d", (int)theirs);
	expect_sum(m, m->comm, 20, "behind messages");
}

/* ---- On a stream, behind a call that waits ---- */

TEAM_TEST(on_streams, "on a stream behind a call that waits")
{
	for (int everywhere = 0; everywhere < 2; everywhere++) {
		corale_comm *comm = split(m);
		corale_stream *stream = NULL;
		int32_t mine[3], sums[3];
		team_expect(m, corale_stream_create(&stream), 0, "stream");
		team_barrier(m);
		if (m->rank == 0)
			usleep(LATER_US / 4);
		const double since = clock_s();
		team_expect(m, sum_on(m, comm, 1, stream, &mine[0], &sums[0]), 0, "a call on a stream");
		team_expect(m, sum_on(m, comm, 2, stream, &mine[1], &sums[1]), 0, "a second one");
		const int ret = call(comm, SEND, is_last(m) || everywhere, stream);
		team_expect(m, ret, is_last(m) || everywhere ? CORALE_EINVAL : 0, "the call behind it");
		if (everywhere || !is_last(m))
			team_expect(m, sum_on(m, comm, 3, stream, &mine[2], &sums[2]), 0, "a last one");
		team_expect(m, corale_stream_synchronize(stream),
			    everywhere || is_last(m) ? 0 : CORALE_EMISMATCH, "the stream");
		if (sums[0] != sum_of(m, 1) || sums[1] != sum_of(m, 2) ||
		    (everywhere && sums[2] != sum_of(m, 3)))
			team_fault(m, "sums %d %d %d", (int)sums[0], (int)sums[1], (int)sums[2]);
		if (!everywhere && !is_last(m))
			expect_refused(m, comm, since, words[SEND]);
		team_barrier(m);
		corale_stream_destroy(stream);
		corale_comm_destroy(comm);
	}
}

/* ---- Sends and receives ---- */

enum pair { SENDS, RECEIVES, SENDS_ON, RECEIVES_ON, SENDS_NOWHERE, PAIRS };

/* Rank 0 and the last one, which refuses its end, and makes the next one, or not before the others know. */
static void refuse_pair(struct team_member *m, corale_comm *comm, enum pair how, int32_t *mine, int32_t *got)
{
	const int last = m->size - 1, sends = how != RECEIVES && how != RECEIVES_ON;
	const size_t count = sends ? 1 : LARGE; /* a large one waits for its receiver */
	int ret = 0;
	if (is_last(m)) {
		ret = sends ? corale_send(how == SENDS_NOWHERE ? mine : NULL, count, CORALE_INT32,
					  how == SENDS_NOWHERE ? 99 : 0, comm, NULL)
			    : corale_recv(NULL, count, CORALE_INT32, 0, comm, NULL);
		team_expect(m, ret, CORALE_EINVAL, "a send or receive");
		if (how == SENDS_ON || how == SENDS_NOWHERE)
			corale_send(mine, count, CORALE_INT32, 0, comm, NULL);
		else if (how == RECEIVES_ON && !corale_recv(got, count, CORALE_INT32, 0, comm, NULL))
			team_fault(m, "a receive has got the message of the one before");
	} else if (m->rank == 0) {
		ret = sends ? corale_recv(got, count, CORALE_INT32, last, comm, NULL)
			    : corale_send(mine, count, CORALE_INT32, last, comm, NULL);
		if (sends || ret) /* links between nodes may take all of a send */
			team_expect(m, ret, CORALE_EMISMATCH, "its other end");
	}
}

TEAM_TEST(in_pairs, "sends and receives")
{
	int32_t *mine = calloc(LARGE, sizeof *mine), *got = calloc(LARGE, sizeof *got);
	for (enum pair how = 0; mine && got && how < PAIRS; how++) {
		if (!is_drawn(m, how))
			continue;
		corale_comm *comm = split(m);
		int32_t one = 1;
		if (is_last(m)) /* none before is lost */
			team_expect(m, corale_send(&one, 1, CORALE_INT32, 0, comm, NULL), 0, "a send");
		else if (m->rank == 0)
			team_expect(m, corale_recv(&one, 1, CORALE_INT32, m->size - 1, comm, NULL), 0,
				    "a recv");
		team_barrier(m);
		const double since = clock_s();
		refuse_pair(m, comm, how, mine, got);
		if (m->rank == 0)
			expect_refused(m, comm, since,
				       how == SENDS_NOWHERE ? "peer 99"
				       : how % 2 == SENDS   ? "send buffer"
							    : "recv buffer");
		team_barrier(m);
		expect_refused(m, comm, clock_s(), "refused");
		corale_comm_destroy(comm);
	}
	free(mine);
	free(got);
}

/* ---- Groups ---- */

enum group { NULL_BUFFER, NO_TYPE, NO_ROOT, NO_OP, OWN_SEND, NO_COMM, NO_PLAN, NO_MEMORY, GROUPS };
enum { MANY = 64 };

/* A call on a, one on b, which may be refused, one on c. */
static int make_group(struct team_member *m, corale_comm **comms, enum group how, int refuses)
{
	static const int32_t one = 1;
	static _Thread_local int32_t to[2 + MANY];
	const enum wrong kinds[] = { SEND, TYPE, ROOT, OP };
	corale_group_begin();
	team_expect(m, corale_all_reduce(&one, &to[0], 1, CORALE_INT32, CORALE_SUM, comms[0], NULL), 0,
		    "a call");
	has_no_memory = refuses && how == NO_MEMORY;
	if (how < OWN_SEND)
		call(comms[1], kinds[how], refuses, NULL);
	else if (how == OWN_SEND && refuses)
		corale_send(&one, 1, CORALE_INT32, m->rank, comms[1], NULL);
	else if (how == NO_COMM && refuses)
		corale_barrier(NULL, NULL);
	else if (how == NO_PLAN && refuses)
		corale_plan_run(NULL, &one, &to[1], NULL);
	for (int i = 0; how >= OWN_SEND && i < MANY; i++)
		corale_all_reduce(&one, &to[2 + i], 1, CORALE_INT32, CORALE_SUM, comms[1], NULL);
	corale_all_reduce(&one, &to[1], 1, CORALE_INT32, CORALE_SUM, comms[2], NULL);
	const int ret = corale_group_end();
	has_no_memory = 0;
	return ret;
}

static void refuse_group(struct team_member *m, enum group how)
{
	corale_comm *comms[3] = { split(m), split(m), split(m) };
	for (int i = 0; i < 3; i++)
		expect_sum(m, comms[i], 1, "before");
	team_barrier(m);
	const double since = clock_s();
	const int ret = make_group(m, comms, how, is_last(m));
	if (is_last(m))
		team_expect(m, ret, how == NO_MEMORY ? CORALE_ENOMEM : CORALE_EINVAL, "the refused group");
	else if (!ret)
		team_fault(m, "group %d: 0 at a rank that has made it", (int)how);
	for (int i = 0; i < 3; i++) {
		int32_t mine, sum;
		const int next = sum_on(m, comms[i], 2, NULL, &mine, &sum);
		if (next != CORALE_ECOMM && next != CORALE_EMISMATCH)
			team_fault(m, "group %d, communicator %d: the next call: %s, %d", (int)how, i,
				   corale_strerror(next), (int)sum);
		if (!strstr(corale_comm_last_error(comms[i]), "refused a group"))
			team_fault(m, "group %d, communicator %d: %s", (int)how, i,
				   corale_comm_last_error(comms[i]));
	}
	if (clock_s() - since > 3 * soon_s())
		team_late(m, "group %d: it took %.1f s", (int)how, clock_s() - since);
	team_barrier(m);
	for (int i = 0; i < 3; i++)
		corale_comm_destroy(comms[i]);
}

TEAM_TEST(groups, "groups")
{
	for (int how = GROUPS - 1; how >= 0; how--) /* threads keep what memory a group had */
		if (is_drawn(m, (unsigned)how))
			refuse_group(m, (enum group)how);
	expect_sum(m, m->comm, 1, "a communicator without a call in a group");
}

/* Also a group of one call, and all ranks alike. */
TEAM_TEST(group_of_one, "a group of one call")
{
	corale_comm *comm = split(m);
	corale_group_begin();
	const int made = call(comm, OP, 1, NULL), ended = corale_group_end();
	if ((made != CORALE_EINVAL && made != CORALE_ECOMM) || ended != made)
		team_fault(m, "%s, %s", corale_strerror(made), corale_strerror(ended));
	int32_t mine, sum;
	if (!sum_on(m, comm, 1, NULL, &mine, &sum))
		team_fault(m, "a communicator whose only call of a group was refused goes on");
	team_barrier(m);
	corale_comm_destroy(comm);
}

TEAM_TEST(no_memory_alone, "no memory")
{
	corale_comm *comm = split(m);
	int32_t one = 1, got = 0;
	const double since = clock_s();
	int ret = 0;
	if (is_last(m)) {
		corale_stream *stream = NULL;
		corale_stream_create(&stream);
		has_no_memory = 1;
		ret = sum_on(m, comm, 1, stream, &one, &got);
		has_no_memory = 0;
		if (ret != CORALE_ENOMEM)
			team_fault(m, "without memory: %s", corale_strerror(ret));
		corale_stream_synchronize(stream);
		corale_stream_destroy(stream);
	} else {
		team_expect(m, sum_on(m, comm, 1, NULL, &one, &got), CORALE_EMISMATCH,
			    "the call of that place");
		expect_refused(m, comm, since, "no memory");
	}
	team_barrier(m);
	corale_comm_destroy(comm);
}

int main(int argc, char **argv)
{
	static const char *const settings[] = { "CORALE_NODE_SIZE=8", "CORALE_NODE_SIZE=2",
						"CORALE_NODE_SIZE=1", "CORALE_NODE_SIZE=2 CORALE_CODELETS=no",
						NULL };
	return team_main(argc, argv,
			 &(struct team_runs){ .least = 2, .ranks = MOST_RANKS, .settings = settings });
}
