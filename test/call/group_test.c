/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Groups: sends and receives in order per pair, to oneself, of nothing, several at a time, beside collectives, nested,
 * over several communicators, on streams. Runs itself for each case and node size.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "state/comm.h"
#include "test/helpers/reference.h"
#include "test/helpers/team.h"

enum { RANKS = 4, LARGE = 70001 };

/* Message number k from one rank to another has contents of its own. */
static struct reference message(int from, int to, int k)
{
	return (struct reference){ CORALE_INT32, REFERENCE_COPY, RANKS, REFERENCE_EXACT,
				   (uint64_t)(from * 1000003 + to * 1009 + k) };
}

static void *allocate(size_t count)
{
	void *buf = malloc(count * sizeof(int32_t) + 1);
	if (!buf)
		abort();
	return buf;
}

static int32_t *make(int from, int to, int k, size_t count)
{
	struct reference ref = message(from, to, k);
	int32_t *buf = allocate(count);
	reference_fill(&ref, from, 0, count, buf);
	return buf;
}

static void expect_message(struct team_member *m, int from, int to, int k, size_t count, const int32_t *buf)
{
	struct reference ref = message(from, to, k);
	struct reference_fault fault;
	size_t wrong = reference_check_copy(&ref, from, 0, count, buf, &fault);
	if (wrong)
		team_fault(m, "message %d from %d: %zu of %zu wrong, the first at %zu: %s, expected %s", k,
			   from, wrong, count, fault.index, fault.got, fault.expected);
}

static int send_to(struct team_member *m, const int32_t *buf, size_t count, int peer, void *stream)
{
	return corale_send(buf, count, CORALE_INT32, peer, m->comm, stream);
}

static int recv_from(struct team_member *m, int32_t *buf, size_t count, int peer, void *stream)
{
	return corale_recv(buf, count, CORALE_INT32, peer, m->comm, stream);
}

/* ---- Everybody sends messages of the given sizes to everybody, itself included, in one group ---- */

struct exchange {
	const size_t *sizes;
	int messages;
	void *stream;
	int32_t **sent, **received; /* [peer * messages + k] */
};

static void exchange_post(struct team_member *m, struct exchange *x, int receive_first)
{
	for (int pass = 0; pass < 2; pass++) {
		for (int i = 0; i < RANKS; i++) {
			int peer = pass ? (m->rank + i) % RANKS : (m->rank - i + RANKS) % RANKS;
			for (int k = 0; k < x->messages; k++) {
				int at = peer * x->messages + k;
				int ret = pass == receive_first
					      ? send_to(m, x->sent[at], x->sizes[k], peer, x->stream)
					      : recv_from(m, x->received[at], x->sizes[k], peer, x->stream);
				team_expect(m, ret, 0, "a call inside a group");
			}
		}
	}
}

static void exchange_all(struct team_member *m, const size_t *sizes, int messages, void *stream,
			 int receive_first)
{
	struct exchange x = { sizes, messages, stream, calloc((size_t)(RANKS * messages), sizeof(void *)),
			      calloc((size_t)(RANKS * messages), sizeof(void *)) };
	if (!x.sent || !x.received)
		abort();
	for (int i = 0; i < RANKS * messages; i++) {
		x.sent[i] = make(m->rank, i / messages, i % messages, sizes[i % messages]);
		x.received[i] = allocate(sizes[i % messages]);
	}
	corale_group_begin();
	exchange_post(m, &x, receive_first);
	team_expect(m, corale_group_end(), 0, "the end of the group");
	if (stream)
		team_expect(m, corale_stream_synchronize(stream), 0, "synchronize");
	for (int i = 0; i < RANKS * messages; i++) {
		expect_message(m, i / messages, m->rank, i % messages, sizes[i % messages], x.received[i]);
		free(x.sent[i]);
		free(x.received[i]);
	}
	free(x.sent);
	free(x.received);
}

TEAM_TEST(in_order, "in order per pair, to oneself, of nothing")
{
	const size_t sizes[] = { 1, 0, 5000, 3, LARGE, 0, 17 };
	exchange_all(m, sizes, 7, NULL, 0);
	exchange_all(m, sizes, 7, NULL, 1);
	exchange_all(m, sizes, 1, NULL, m->rank % 2);
}

TEAM_TEST(many_small, "many small messages")
{
	size_t sizes[150];
	for (size_t i = 0; i < 150; i++)
		sizes[i] = i % 7;
	exchange_all(m, sizes, 150, NULL, 1);
}

/* Of one direction, in one group: more than there are lists of a plan. */
TEAM_TEST(many_counts, "many counts")
{
	enum { CALLS = 12, LEAST = 33 };
	int32_t out[CALLS * 2 * LEAST], in[CALLS * 2 * LEAST];
	for (int i = 0; i < CALLS * 2 * LEAST; i++) {
		out[i] = i;
		in[i] = -1;
	}
	corale_group_begin();
	for (int i = 0; i < CALLS; i++) {
		if (m->rank == 0)
			send_to(m, out + i * 2 * LEAST, (size_t)(LEAST + i), 1, NULL);
		else if (m->rank == 1)
			recv_from(m, in + i * 2 * LEAST, (size_t)(LEAST + i), 0, NULL);
	}
	team_expect(m, corale_group_end(), 0, "sends of many counts");
	for (int i = 0; m->rank == 1 && i < CALLS * 2 * LEAST; i++) {
		const int expected = i % (2 * LEAST) < LEAST + i / (2 * LEAST) ? i : -1;
		if (in[i] != expected)
			team_fault(m, "%d at %d, expected %d", (int)in[i], i, expected);
	}
}

TEAM_TEST(on_streams, "on streams")
{
	const size_t sizes[] = { 3, 2000, 0, LARGE };
	corale_stream *stream;
	team_expect(m, corale_stream_create(&stream), 0, "stream");
	exchange_all(m, sizes, 4, stream, 0);
	exchange_all(m, sizes, 4, stream, 1);
	corale_stream_destroy(stream);
}

/* A group was refused: that is its result, unless another rank's end of the communicator has come first. So the communicator ends, with a line that has the word. */
static void expect_over(struct team_member *m, corale_comm *comm, int ret, int expected, const char *word)
{
	const int32_t mine = 1;
	int32_t sum = 0;
	if (ret != CORALE_ECOMM && ret != CORALE_EMISMATCH)
		team_expect(m, ret, expected, "a refused group");
	ret = corale_all_reduce(&mine, &sum, 1, CORALE_INT32, CORALE_SUM, comm, NULL);
	if (ret != CORALE_ECOMM && ret != CORALE_EMISMATCH)
		team_fault(m, "a call behind a refused group: %s, %d", corale_strerror(ret), (int)sum);
	if (!strstr(corale_comm_last_error(comm), word))
		team_fault(m, "no \"%s\": %s", word, corale_comm_last_error(comm));
}

/* What is on one host stream can't wait for another one: that is said, and nothing starts. */
TEAM_TEST(on_several_streams, "on several streams")
{
	int32_t out[2] = { 1, 2 }, in[2] = { -1, -1 };
	corale_stream *stream;
	corale_comm *comm;
	team_expect(m, corale_stream_create(&stream), 0, "stream");
	team_expect(m, corale_comm_split(m->comm, 0, 0, &comm), 0, "split");
	corale_group_begin();
	corale_send(out, 2, CORALE_INT32, (m->rank + 1) % RANKS, comm, stream);
	corale_recv(in, 2, CORALE_INT32, (m->rank + RANKS - 1) % RANKS, comm, NULL);
	expect_over(m, comm, corale_group_end(), CORALE_ENOTSUP, "streams");
	team_expect(m, corale_stream_synchronize(stream), 0, "synchronize");
	if (in[0] != -1)
		team_fault(m, "it was started");
	corale_stream_destroy(stream);
	corale_comm_destroy(comm);
	exchange_all(m, (const size_t[]){ 3 }, 1, NULL, 1);
}

TEAM_TEST(one_way, "sends without a group")
{
	int32_t *out = make(0, 1, 0, LARGE), *in = allocate(LARGE);
	for (int k = 0; k < 20; k++) {
		size_t count = k % 2 ? LARGE : (size_t)k;
		if (m->rank == 0)
			team_expect(m, send_to(m, out, count, 1, NULL), 0, "send");
		if (m->rank == 1) {
			memset(in, 0, count * sizeof(*in));
			team_expect(m, recv_from(m, in, count, 0, NULL), 0, "recv");
			expect_message(m, 0, 1, 0, count, in);
		}
	}
	free(out);
	free(in);
}

TEAM_TEST(beside_collectives, "beside collectives")
{
	int32_t mine = m->rank + 1, sum = 0, root = m->rank == 2 ? 77 : 0, all[RANKS] = { 0 };
	int32_t *out = make(m->rank, (m->rank + 1) % RANKS, 0, 300), *in = allocate(300);
	int previous = (m->rank + RANKS - 1) % RANKS;
	corale_group_begin();
	corale_all_reduce(&mine, &sum, 1, CORALE_INT32, CORALE_SUM, m->comm, NULL);
	if (m->rank % 2) /* the order of sends among collectives may differ from rank to rank */
		send_to(m, out, 300, (m->rank + 1) % RANKS, NULL);
	corale_broadcast(&root, &root, 1, CORALE_INT32, 2, m->comm, NULL);
	recv_from(m, in, 300, previous, NULL);
	corale_all_gather(&mine, all, 1, CORALE_INT32, m->comm, NULL);
	if (m->rank % 2 == 0)
		send_to(m, out, 300, (m->rank + 1) % RANKS, NULL);
	corale_barrier(m->comm, NULL);
	team_expect(m, corale_group_end(), 0, "a mixed group");
	if (sum != RANKS * (RANKS + 1) / 2 || root != 77)
		team_fault(m, "sum %d, root's %d", (int)sum, (int)root);
	for (int r = 0; r < RANKS; r++)
		if (all[r] != r + 1)
			team_fault(m, "all_gather: %d of rank %d", (int)all[r], r);
	expect_message(m, previous, m->rank, 0, 300, in);
	free(out);
	free(in);
}

/* Everything with a root in one group, each root in turn, twice in place; then the same by persistent plans. */
TEAM_TEST(rooted, "with a root")
{
	int32_t mine = 10 + m->rank, sum = -1, part = -1, all[RANKS], parts[RANKS];
	for (int root = 0; root < RANKS; root++) {
		int is_root = m->rank == root;
		for (int r = 0; r < RANKS; r++)
			parts[r] = 100 * root + r;
		all[root] = mine;
		corale_group_begin();
		corale_scatter(is_root ? parts : NULL, &part, 1, CORALE_INT32, root, m->comm, NULL);
		corale_reduce(&mine, is_root ? &sum : NULL, 1, CORALE_INT32, CORALE_SUM, root, m->comm, NULL);
		corale_gather(is_root ? all + root : &mine, is_root ? all : NULL, 1, CORALE_INT32, root,
			      m->comm, NULL);
		team_expect(m, corale_group_end(), 0, "a group of calls with a root");
		if (part != 100 * root + m->rank || (is_root && sum != 10 * RANKS + RANKS * (RANKS - 1) / 2))
			team_fault(m, "root %d: part %d, sum %d", root, (int)part, (int)sum);
		for (int r = 0; is_root && r < RANKS; r++)
			if (all[r] != 10 + r)
				team_fault(m, "gathered %d of rank %d", (int)all[r], r);
	}
}

TEAM_TEST(rooted_plans, "persistent plans with a root")
{
	enum { COUNT = 3001 };
	static const corale_coll colls[] = { CORALE_REDUCE, CORALE_GATHER, CORALE_SCATTER };
	int32_t *one = allocate(COUNT), *each = allocate((size_t)RANKS * COUNT);
	for (int i = 0; i < 3 * RANKS; i++) {
		int root = i / 3, is_root = m->rank == root, scatters = colls[i % 3] == CORALE_SCATTER;
		corale_plan *plan;
		for (int k = 0; k < RANKS * COUNT; k++)
			each[k] = k;
		for (int k = 0; k < COUNT; k++)
			one[k] = m->rank * COUNT + k;
		team_expect(
		    m,
		    corale_plan_create(colls[i % 3], COUNT, CORALE_INT32, CORALE_MAX, root, m->comm, &plan),
		    0, "a plan");
		for (int run = 0; run < 3; run++)
			team_expect(m,
				    corale_plan_run(plan, scatters ? (is_root ? each : NULL) : one,
						    scatters  ? one
						    : is_root ? each
							      : NULL,
						    NULL),
				    0, "a run of it");
		corale_plan_destroy(plan);
		for (int k = 0; k < COUNT; k++)
			if (one[k] != m->rank * COUNT + k)
				team_fault(m, "root %d: own element %d is %d", root, k, (int)one[k]);
		int highest = colls[i % 3] == CORALE_REDUCE ? (RANKS - 1) * COUNT : 0;
		for (int k = 0; is_root && k < (highest ? COUNT : RANKS * COUNT); k++)
			if (each[k] != highest + k)
				team_fault(m, "element %d at the root is %d", k, (int)each[k]);
	}
	free(one);
	free(each);
}

TEAM_TEST(nested, "nested")
{
	int32_t out = m->rank, in = -1;
	team_expect(m, corale_group_begin(), 0, "begin");
	team_expect(m, corale_group_end(), 0, "an empty group");
	corale_group_begin();
	corale_group_begin();
	send_to(m, &out, 1, (m->rank + 1) % RANKS, NULL);
	team_expect(m, corale_group_end(), 0, "the inner end");
	if (in != -1)
		team_fault(m, "the inner end has started calls");
	recv_from(m, &in, 1, (m->rank + RANKS - 1) % RANKS, NULL);
	team_expect(m, corale_group_end(), 0, "the outer end");
	if (in != (m->rank + RANKS - 1) % RANKS)
		team_fault(m, "received %d", (int)in);
	team_expect(m, corale_group_end(), CORALE_EINVAL, "an end too many");
}

TEAM_TEST(refused, "a refused call")
{
	int32_t mine = 1, sum = -1, more = -1;
	corale_comm *comm;
	team_expect(m, corale_comm_split(m->comm, 0, 0, &comm), 0, "split");
	corale_group_begin();
	corale_all_reduce(&mine, &sum, 1, CORALE_INT32, CORALE_SUM, comm, NULL);
	corale_all_reduce(&mine, NULL, 1, CORALE_INT32, CORALE_SUM, comm, NULL);
	corale_all_reduce(&mine, &more, 1, CORALE_INT32, CORALE_SUM, comm, NULL);
	expect_over(m, comm, corale_group_end(), CORALE_EINVAL, "recv buffer is NULL");
	if (sum != -1 || more != -1)
		team_fault(m, "a group with a bad call was started");
	corale_comm_destroy(comm);
}

TEAM_TEST(self_mismatch, "to oneself with other counts")
{
	int32_t out[2] = { 0 }, in[2];
	corale_group_begin();
	send_to(m, out, 2, m->rank, NULL);
	recv_from(m, in, 1, m->rank, NULL);
	team_expect(m, corale_group_end(), CORALE_EINVAL, "2 to oneself, 1 from oneself");
}

TEAM_TEST(self_alone, "to oneself without a receive")
{
	int32_t out[2] = { 0 };
	corale_group_begin();
	send_to(m, out, 2, m->rank, NULL);
	int ret = corale_group_end();
	if (ret != CORALE_EINVAL)
		team_fault(m, "a send to oneself that nobody receives: %s", corale_strerror(ret));
}

static void add_up(struct team_member *m, corale_comm *comm, int32_t *sum, void *stream)
{
	static const int32_t mine = 1; /* read when the group or the stream comes to it */
	*sum = 0;
	team_expect(m, corale_all_reduce(&mine, sum, 1, CORALE_INT32, CORALE_SUM, comm, stream), 0,
		    "all_reduce");
}

/* The collective beside a refused pair has not run on any rank. */
TEAM_TEST(refused_pair, "beside a refused pair")
{
	int32_t out[2] = { 0 }, sum = -1;
	const int32_t mine = 1;
	corale_comm *comm;
	team_expect(m, corale_comm_split(m->comm, 0, 0, &comm), 0, "split");
	corale_group_begin();
	corale_all_reduce(&mine, &sum, 1, CORALE_INT32, CORALE_SUM, comm, NULL);
	corale_send(out, 2, CORALE_INT32, m->rank, comm, NULL);
	expect_over(m, comm, corale_group_end(), CORALE_EINVAL, "has no receive");
	if (sum != -1)
		team_fault(m, "the all_reduce of a refused group has run: %d", (int)sum);
	corale_comm_destroy(comm);
}

/* Even ranks group what odd ranks do one by one, in both orders of two communicators. */
TEAM_TEST(against_plain_calls, "against plain calls")
{
	for (int k = 0; k < 8; k++) {
		corale_comm *comms[2];
		corale_stream *stream = NULL;
		int32_t sums[2], grouped = m->rank % 2 == 0;
		for (int c = 0; c < 2; c++)
			team_expect(m, corale_comm_split(m->comm, 0, 0, &comms[c]), 0, "split");
		if (k / 4)
			team_expect(m, corale_stream_create(&stream), 0, "stream");
		if (grouped)
			corale_group_begin();
		for (int c = 0; c < 2; c++) {
			int first = grouped ? k / 2 % 2 : k % 2;
			add_up(m, comms[c ^ first], &sums[c ^ first], grouped ? stream : NULL);
		}
		if (grouped)
			team_expect(m, corale_group_end(), 0, "the group");
		if (stream)
			team_expect(m, corale_stream_synchronize(stream), 0, "the stream");
		corale_stream_destroy(stream);
		for (int c = 0; c < 2; c++) {
			if (sums[c] != RANKS)
				team_fault(m, "round %d: sum %d of communicator %d", k, (int)sums[c], c);
			corale_comm_destroy(comms[c]);
		}
	}
}

/* A communicator of the group is aborted by a rank that only calls the other one: that one's sum comes. */
TEAM_TEST(one_fails, "a communicator of the group fails")
{
	for (int on_stream = 0; on_stream < 2; on_stream++) {
		corale_comm *bad, *good;
		corale_stream *stream = NULL;
		int32_t sums[2];
		int ret = 0;
		team_expect(m, corale_comm_split(m->comm, 0, 0, &bad), 0, "split");
		team_expect(m, corale_comm_split(m->comm, 0, 0, &good), 0, "split");
		if (on_stream)
			team_expect(m, corale_stream_create(&stream), 0, "stream");
		if (m->rank == 0) {
			team_expect(m, corale_comm_abort(bad), 0, "abort");
			add_up(m, good, &sums[1], NULL);
		} else {
			const int32_t mine = 1;
			corale_group_begin();
			ret = corale_all_reduce(&mine, &sums[0], 1, CORALE_INT32, CORALE_SUM, bad, stream);
			if (!ret) /* else the abort was there before */
				add_up(m, good, &sums[1], stream);
			int ended = corale_group_end();
			if (ret)
				add_up(m, good, &sums[1], NULL);
			else if (on_stream)
				ended = corale_stream_synchronize(stream);
			team_expect(m, ended, ret ? ret : CORALE_EABORTED, "the group");
		}
		if (sums[1] != RANKS)
			team_fault(m, "the sum of the other communicator is %d", (int)sums[1]);
		team_barrier(m);
		corale_stream_destroy(stream);
		corale_comm_destroy(good);
		corale_comm_destroy(bad);
	}
}

/* What is no call runs at once, inside a group as outside: also where the group has taken nothing of the thread's memory yet, or has taken much. */
TEAM_TEST(inside_a_group, "what is no call, inside a group")
{
	static const int32_t mine = 1;
	int32_t sums[100], sum = 0, own;
	for (int calls = 0; calls <= 100; calls += calls ? 99 : 1) {
		corale_comm *child = NULL, *aborted = NULL;
		corale_stream *stream = NULL;
		void *memory = NULL, *handle = NULL;
		add_up(m, m->comm, &sum, NULL);
		corale_group_begin();
		add_up(m, m->comm, &sum, NULL);
		team_expect(m, corale_group_end(), 0, "a group before");
		corale_group_begin();
		for (int i = 0; i < calls; i++)
			add_up(m, m->comm, &sums[i], NULL);
		team_expect(m, corale_comm_split(m->comm, 0, 0, &child), 0, "split");
		team_expect(m, corale_comm_split(m->comm, 0, 0, &aborted), 0, "split");
		team_expect(m, corale_mem_alloc(m->comm, 1000, &memory), 0, "mem_alloc");
		team_expect(m, corale_mem_register(m->comm, &own, sizeof own, &handle), 0, "mem_register");
		team_expect(m, corale_stream_create(&stream), 0, "stream");
		team_expect(m, corale_stream_synchronize(stream), 0, "synchronize");
		corale_stream_destroy(stream);
		team_expect(m, corale_mem_deregister(m->comm, handle), 0, "mem_deregister");
		team_expect(m, corale_mem_free(m->comm, memory), 0, "mem_free");
		team_expect(m, corale_comm_abort(aborted), 0, "abort");
		corale_comm_destroy(aborted);
		team_expect(m, corale_all_reduce(&mine, &own, 1, CORALE_INT32, CORALE_SUM, child, NULL), 0,
			    "a call of the child");
		team_expect(m, corale_group_end(), 0, "the group");
		for (int i = 0; i < calls; i++)
			if (sums[i] != RANKS)
				team_fault(m, "sum %d of %d is %d", i, calls, (int)sums[i]);
		if (own != RANKS)
			team_fault(m, "the child's sum is %d", (int)own);
		corale_comm_destroy(child);
	}
}

/* ---- A group that one rank alone refuses ---- */

enum refusal { SUM_FIRST, SUM_LAST, MESSAGES, PLANS, ON_STREAM, DESTROYED, REFUSALS };

/* The calls on `good` of a group that also holds a sum on `bad`. */
static void post_good(struct team_member *m, corale_comm *good, enum refusal how, int32_t *in, void *stream)
{
	static const int32_t mine = 1;
	const int next = (m->rank + 1) % RANKS, previous = (m->rank + RANKS - 1) % RANKS;
	corale_plan *plan = NULL;
	if (how == MESSAGES) {
		team_expect(m, corale_send(&mine, 1, CORALE_INT32, next, good, NULL), 0, "send");
		team_expect(m, corale_recv(in, 1, CORALE_INT32, previous, good, NULL), 0, "recv");
	} else if (how == PLANS) {
		team_expect(
		    m, corale_plan_create(CORALE_ALL_REDUCE, 1, CORALE_INT32, CORALE_SUM, 0, good, &plan), 0,
		    "a plan");
		team_expect(m, corale_plan_run(plan, &mine, in, NULL), 0, "a run");
		corale_plan_destroy(plan);
	} else {
		team_expect(m, corale_all_reduce(&mine, in, 1, CORALE_INT32, CORALE_SUM, good, stream), 0,
			    "all_reduce");
	}
}

/* The group, which fails on all ranks. */
static void group_with_bad(struct team_member *m, corale_comm *good, corale_comm *bad, enum refusal how)
{
	static const int32_t mine = 1;
	int32_t in[2] = { 0 };
	corale_stream *stream = NULL;
	if (how == ON_STREAM)
		team_expect(m, corale_stream_create(&stream), 0, "stream");
	corale_group_begin();
	if (how != SUM_FIRST)
		post_good(m, good, how, &in[0], stream);
	corale_all_reduce(&mine, &in[1], 1, CORALE_INT32, CORALE_SUM, bad, stream);
	if (how == SUM_FIRST)
		post_good(m, good, how, &in[0], stream);
	int ret = corale_group_end();
	if (stream && !ret)
		ret = corale_stream_synchronize(stream);
	if (m->rank == 1)
		team_expect(m, ret, how == DESTROYED ? CORALE_EINVAL : CORALE_ECOMM, "the refused group");
	else if (!ret)
		team_fault(m, "the group of a rank whose communicator has not failed: 0");
	corale_stream_destroy(stream);
}

static void refuse_once(struct team_member *m, enum refusal how)
{
	corale_comm *good, *bad;
	const int32_t mine = 1;
	int32_t sum = 0;
	team_expect(m, corale_comm_split(m->comm, 0, 0, &good), 0, "split");
	team_expect(m, corale_comm_split(m->comm, 0, 0, &bad), 0, "split");
	if (m->rank == 1 && how == DESTROYED)
		corale_comm_destroy(bad);
	else if (m->rank == 1)
		team_expect(m, corale_comm_abort(bad), 0, "abort");
	const double start = clock_s();
	group_with_bad(m, good, bad, how);
	/* without the end of good, this would be the first sum of rank 1 and the second one of the others */
	int ret = corale_all_reduce(&mine, &sum, 1, CORALE_INT32, CORALE_SUM, good, NULL);
	if (ret != CORALE_ECOMM && ret != CORALE_EMISMATCH)
		team_fault(m, "kind %d: the next call: %s, sum %d", (int)how, corale_strerror(ret), (int)sum);
	team_expect(m, corale_comm_async_error(good), CORALE_EMISMATCH, "the other communicator");
	if (!strstr(corale_comm_last_error(good), "group") ||
	    (m->rank == 1 &&
	     !strstr(corale_comm_last_error(good), how == MESSAGES ? "send(count 1" : "all_reduce(count 1")))
		team_fault(m, "the line does not name the group: %s", corale_comm_last_error(good));
	if (clock_s() - start > 2)
		team_late(m, "kind %d: it took %.1f s", (int)how, clock_s() - start);
	team_barrier(m);
	corale_comm_destroy(good);
	if (m->rank != 1 || how != DESTROYED)
		corale_comm_destroy(bad);
}

TEAM_TEST(refused_by_one, "one rank refuses the group")
{
	for (int how = 0; how<REFUSALS; how += corale_comm_nodes(m->comm)> 1 ? 2 : 1)
		refuse_once(m, (enum refusal)how);
}

/* All communicators with calls in the group end, also where all ranks refuse it. Others do not, nor do those of one rank. */
TEAM_TEST(refused_by_all, "all ranks refuse the group")
{
	corale_comm *taken, *own, *refused;
	int32_t mine = 1, sum = -1;
	team_expect(m, corale_comm_split(m->comm, 0, 0, &taken), 0, "split");
	team_expect(m, corale_comm_split(m->comm, m->rank, 0, &own), 0, "split");
	team_expect(m, corale_comm_split(m->comm, 0, 0, &refused), 0, "split");
	corale_group_begin();
	team_expect(m, corale_all_reduce(&mine, &sum, 1, CORALE_INT32, CORALE_SUM, own, NULL), 0,
		    "a good call");
	corale_all_reduce(&mine, &sum, 1, CORALE_INT32, CORALE_SUM, taken, NULL);
	corale_broadcast(&mine, &mine, 1, CORALE_INT32, 9, refused, NULL);
	team_expect(m, corale_barrier(NULL, NULL), CORALE_EINVAL, "no communicator");
	const int ret = corale_group_end();
	expect_over(m, taken, ret, CORALE_EINVAL, "root 9");
	expect_over(m, refused, ret, CORALE_EINVAL, "root 9");
	add_up(m, m->comm, &sum, NULL);
	if (sum != RANKS)
		team_fault(m, "sum %d behind a group with bad arguments", (int)sum);
	add_up(m, own, &sum, NULL);
	if (sum != 1)
		team_fault(m, "sum %d of one rank", (int)sum);
	team_barrier(m);
	corale_comm_destroy(refused);
	corale_comm_destroy(own);
	corale_comm_destroy(taken);
}

enum { MIXED_SUMS = 6 };

/* Sums of two communicators, a send and a receive, which each rank and round makes at other places among them. */
static void mix(struct team_member *m, corale_comm *half, int round, void *stream)
{
	static const int32_t mine = 1;
	int next = (m->rank + 1) % RANKS, previous = (m->rank + RANKS - 1) % RANKS;
	int32_t sums[2][MIXED_SUMS] = { { 0 } }, out[3] = { m->rank, round, 7 }, in[3] = { 0 };
	corale_group_begin();
	for (int i = 0; i < MIXED_SUMS; i++) {
		corale_all_reduce(&mine, &sums[0][i], 1, CORALE_INT32, CORALE_SUM, m->comm, stream);
		corale_all_reduce(&mine, &sums[1][i], 1, CORALE_INT32, CORALE_SUM, half, stream);
		if (i == (round + m->rank) % MIXED_SUMS)
			send_to(m, out, 3, next, stream);
		if (i == (round + 3 * m->rank) % MIXED_SUMS)
			recv_from(m, in, 3, previous, stream);
	}
	team_expect(m, corale_group_end(), 0, "the group");
	if (stream)
		team_expect(m, corale_stream_synchronize(stream), 0, "the stream");
	for (int i = 0; i < MIXED_SUMS; i++)
		if (sums[0][i] != RANKS || sums[1][i] != RANKS / 2)
			team_fault(m, "round %d: sums %d and %d", round, (int)sums[0][i], (int)sums[1][i]);
	if (in[0] != previous || in[1] != round || in[2] != 7)
		team_fault(m, "round %d: received %d %d %d", round, (int)in[0], (int)in[1], (int)in[2]);
}

TEAM_TEST(mixed, "everything in one group")
{
	corale_comm *half;
	corale_stream *stream;
	team_expect(m, corale_comm_split(m->comm, m->rank % 2, 0, &half), 0, "split");
	team_expect(m, corale_stream_create(&stream), 0, "stream");
	for (int round = 0; round < 30; round++)
		mix(m, half, round, round % 3 ? stream : NULL);
	corale_stream_destroy(stream);
	corale_comm_destroy(half);
}

/* Even ranks group an all_reduce and a send; odd ranks do the all_reduce before their receive, or behind it. */
TEAM_TEST(large_beside_collective, "a large message beside a collective")
{
	enum { MANY = 1 << 20 };
	int peer = m->rank ^ 1, sends = m->rank % 2 == 0;
	int32_t *buf = sends ? make(m->rank, peer, 0, MANY) : allocate(MANY), sum;
	for (int k = 0; k < 4; k++) {
		if (sends)
			corale_group_begin();
		if (sends || k % 2)
			add_up(m, m->comm, &sum, NULL);
		team_expect(m,
			    sends ? send_to(m, buf, MANY, peer, NULL) : recv_from(m, buf, MANY, peer, NULL),
			    0, "the message");
		if (!sends && k % 2 == 0)
			add_up(m, m->comm, &sum, NULL);
		if (sends)
			team_expect(m, corale_group_end(), 0, "the group");
		else
			expect_message(m, peer, m->rank, 0, MANY, buf);
		if (sum != RANKS)
			team_fault(m, "round %d: sum %d", k, (int)sum);
	}
	free(buf);
}

/* The same calls fused and one by one give the same bits. */
TEAM_TEST(same_bits, "fusing keeps bits")
{
	enum { CALLS = 6 };
	static const size_t counts[CALLS] = { 1, 33, 1000, 5001, 20000, 7 };
	float *in[CALLS], *fused[CALLS], *single[CALLS];
	for (int i = 0; i < CALLS; i++) {
		struct reference ref = { CORALE_FLOAT32, CORALE_SUM, RANKS, REFERENCE_RANDOM, (uint64_t)i };
		in[i] = allocate(counts[i]);
		fused[i] = allocate(counts[i]);
		single[i] = allocate(counts[i]);
		reference_fill(&ref, m->rank, 0, counts[i], in[i]);
		corale_all_reduce(in[i], single[i], counts[i], CORALE_FLOAT32, CORALE_SUM, m->comm, NULL);
	}
	corale_group_begin();
	for (int i = 0; i < CALLS; i++)
		corale_all_reduce(in[i], fused[i], counts[i], CORALE_FLOAT32, CORALE_SUM, m->comm, NULL);
	team_expect(m, corale_group_end(), 0, "fused calls");
	for (int i = 0; i < CALLS; i++) {
		if (memcmp(fused[i], single[i], counts[i] * sizeof(float)))
			team_fault(m, "%zu elements: fusing changed bits", counts[i]);
		free(in[i]);
		free(fused[i]);
		free(single[i]);
	}
}

TEAM_TEST(several_communicators, "several communicators")
{
	corale_comm *half, *turned;
	int32_t mine = m->rank + 1, of_half = 0, of_all = 0, in = -1;
	team_expect(m, corale_comm_split(m->comm, m->rank / 2, 0, &half), 0, "split into halves");
	team_expect(m, corale_comm_split(m->comm, 0, -m->rank, &turned), 0, "split with the order turned");
	int rank = corale_comm_rank(turned);
	if (corale_comm_size(half) != 2 || rank != RANKS - 1 - m->rank)
		team_fault(m, "a half of %d, rank %d turned", corale_comm_size(half), rank);
	corale_group_begin();
	if (m->rank % 2) { /* communicators in another order on odd ranks */
		corale_all_reduce(&mine, &of_all, 1, CORALE_INT32, CORALE_SUM, turned, NULL);
		corale_all_reduce(&mine, &of_half, 1, CORALE_INT32, CORALE_SUM, half, NULL);
	} else {
		corale_all_reduce(&mine, &of_half, 1, CORALE_INT32, CORALE_SUM, half, NULL);
		corale_all_reduce(&mine, &of_all, 1, CORALE_INT32, CORALE_SUM, turned, NULL);
	}
	corale_send(&mine, 1, CORALE_INT32, (rank + 1) % RANKS, turned, NULL);
	corale_recv(&in, 1, CORALE_INT32, (rank + RANKS - 1) % RANKS, turned, NULL);
	team_expect(m, corale_group_end(), 0, "a group over two communicators");
	if (of_half != (m->rank / 2 ? 7 : 3) || of_all != 10 || in != (m->rank + 1) % RANKS + 1)
		team_fault(m, "half %d, all %d, received %d", (int)of_half, (int)of_all, (int)in);
	corale_comm_destroy(turned);
	corale_comm_destroy(half);
	team_expect(m, corale_comm_split(m->comm, m->rank == 1 ? -1 : 5, 0, &half), 0,
		    "split without rank 1");
	if ((half == NULL) != (m->rank == 1))
		team_fault(m, "a color below 0 must give no communicator");
	corale_comm_destroy(half);
}

/* Everybody's messages to everybody, and what collectives send: staging keeps to what is left of the cap. */
TEAM_TEST(within_cap, "memory within the cap")
{
	enum { MANY = 1 << 20 };
	size_t cap = comm_get(m->comm, "within_cap")->settings.memory_cap;
	float *in = calloc(MANY, sizeof(*in)), *out = malloc(MANY * sizeof(*out));
	if (!in || !out)
		abort();
	team_expect(m, corale_all_reduce(in, out, MANY, CORALE_FLOAT32, CORALE_SUM, m->comm, NULL), 0,
		    "all_reduce");
	team_expect(m, corale_all_to_all(in, out, MANY / RANKS, CORALE_FLOAT32, m->comm, NULL), 0,
		    "all_to_all");
	exchange_all(m, (const size_t[]){ LARGE, 100, LARGE }, 3, NULL, 0);
	if (corale_comm_memory(m->comm) > cap)
		team_fault(m, "%zu bytes where %zu are allowed", corale_comm_memory(m->comm), cap);
	free(in);
	free(out);
}

/* A window reserves two of the largest payloads a queue, and takes pages as messages touch them. */
TEAM_TEST(memory_used, "memory used")
{
	enum { SMALL_CALL = 1000, REST = 2 << 20 };
	static const float in[SMALL_CALL];
	float out[SMALL_CALL];
	const struct comm *comm = comm_get(m->comm, "memory_used");
	const size_t reserved = corale_comm_memory(m->comm), used = corale_comm_memory_used(m->comm);
	const size_t locals = (size_t)comm->engine.locals, channels = (size_t)comm->engine.channels;
	const size_t queues = locals > 1 ? locals * channels * PLAN_MAX_QUEUES : 0;
	if (reserved > 2 * queues * comm->settings.slot_bytes + REST * channels)
		team_fault(m, "%zu bytes reserved by %zu queues", reserved, queues);
	if (!used || used > reserved)
		team_fault(m, "%zu bytes of %zu used", used, reserved);
	if (comm->topo->map.nodes > 1) /* what links reserve counts as used */
		return;
	if (used > reserved / 8)
		team_fault(m, "%zu bytes of %zu used before any call", used, reserved);
	team_expect(m, corale_all_reduce(in, out, SMALL_CALL, CORALE_FLOAT32, CORALE_SUM, m->comm, NULL), 0,
		    "all_reduce");
	const size_t after = corale_comm_memory_used(m->comm);
	if (after < used + sizeof(in) / 2 || after > used + REST)
		team_fault(m, "%zu bytes used before a small call, %zu after", used, after);
}

/* No call on the host shows which one a communicator has. */
static int policy_of(corale_comm *comm)
{
	return comm_get(comm, "policy_of")->settings.cta_policy;
}

TEAM_TEST(policy_of_parts, "a part has the policy of the whole")
{
	static const int given[] = { CORALE_CTA_POLICY_DEFAULT, CORALE_CTA_POLICY_AUTO,
				     CORALE_CTA_POLICY_EFFICIENT, CORALE_CTA_POLICY_ZERO };
	static const int wanted[] = { SETTINGS_CTA_AUTO, SETTINGS_CTA_AUTO, SETTINGS_CTA_EFFICIENT,
				      SETTINGS_CTA_ZERO };
	for (int i = 0; i < 4; i++) {
		corale_config config;
		corale_inproc *group = NULL;
		corale_comm *whole = NULL, *part = NULL;
		corale_config_init(&config);
		config.cta_policy = given[i];
		team_expect(m, corale_inproc_create(1, &group), 0, "a group");
		team_expect(m, corale_comm_create_inproc(group, 0, &config, &whole), 0, "a communicator");
		team_expect(m, corale_comm_split(whole, 0, 0, &part), 0, "its part");
		if (policy_of(whole) != wanted[i] || policy_of(part) != wanted[i])
			team_fault(m, "policy %d given: the whole has %d, its part %d", given[i],
				   policy_of(whole), policy_of(part));
		corale_comm_destroy(part);
		corale_comm_destroy(whole);
		corale_inproc_destroy(group);
	}
}

/* ---- One thread that drives several ranks of a communicator ------------------------------------------------- */

enum { ONE_COUNT = 5000 };

/* The calls of one rank in the thread's group. */
struct driven {
	corale_comm *comm;
	corale_stream *stream;
	int rank, size;
	int32_t mine[ONE_COUNT], sums[2][ONE_COUNT], *out, *in;
};

static void make_driven(struct driven *d, corale_comm *comm, corale_stream *stream)
{
	*d = (struct driven){
		.comm = comm, .stream = stream, .rank = corale_comm_rank(comm), .size = corale_comm_size(comm)
	};
	d->out = make(d->rank, (d->rank + 1) % d->size, 0, LARGE);
	d->in = allocate(LARGE);
	for (int i = 0; i < ONE_COUNT; i++)
		d->mine[i] = (d->rank + 1) * (i % 7 + 1);
}

static int sum_driven(struct driven *d, int k)
{
	return corale_all_reduce(d->mine, d->sums[k], ONE_COUNT, CORALE_INT32, k ? CORALE_MAX : CORALE_SUM,
				 d->comm, d->stream);
}

static void exchange_driven(struct driven *d)
{
	corale_recv(d->in, LARGE, CORALE_INT32, (d->rank + d->size - 1) % d->size, d->comm, d->stream);
	corale_send(d->out, LARGE, CORALE_INT32, (d->rank + 1) % d->size, d->comm, d->stream);
}

static void check_driven(struct team_member *m, struct driven *d, int sums, int messages)
{
	for (int k = 0; k < sums; k++) {
		const int32_t factor = k ? d->size : d->size * (d->size + 1) / 2;
		for (int i = 0; i < ONE_COUNT; i++)
			if (d->sums[k][i] != factor * (i % 7 + 1)) {
				team_fault(m, "rank %d: element %d of sum %d is %d", d->rank, i, k,
					   (int)d->sums[k][i]);
				break;
			}
	}
	if (messages)
		expect_message(m, (d->rank + d->size - 1) % d->size, d->rank, 0, LARGE, d->in);
}

static void drive_once(struct team_member *m, struct driven *ranks, int n, int sums, int messages,
		       int by_rank)
{
	corale_group_begin();
	for (int i = 0; i < n * sums; i++) {
		const int rank = by_rank ? i / sums : i % n, k = by_rank ? i % sums : i / n;
		team_expect(m, sum_driven(&ranks[rank], k), 0, "all_reduce");
		if (messages && k == sums - 1)
			exchange_driven(&ranks[rank]);
	}
	for (int r = 0; messages && !sums && r < n; r++)
		exchange_driven(&ranks[r]);
	team_expect(m, corale_group_end(), 0, "the group of several ranks");
	for (int r = 0; r < n; r++) {
		if (ranks[r].stream)
			team_expect(m, corale_stream_synchronize(ranks[r].stream), 0, "synchronize");
		check_driven(m, &ranks[r], sums, messages);
	}
}

/* streams: 0: none; 1: one of all ranks; 2: one each; 3: the first rank has none. */
static void drive_ranks(struct team_member *m, corale_comm **comms, int n, int streams)
{
	struct driven *ranks = calloc((size_t)n, sizeof *ranks);
	if (!ranks)
		abort();
	corale_stream *stream = NULL;
	for (int r = 0; r < n; r++) {
		if (streams && (streams != 1 || !r))
			corale_stream_create(&stream);
		if (streams == 3 && !r) {
			corale_stream_destroy(stream);
			stream = NULL;
		}
		make_driven(&ranks[r], comms[r], stream);
	}
	for (int i = 0; i < 12; i++)
		drive_once(m, ranks, n, i / 2 % 3, i / 6, i % 2);
	for (int r = 0; r < n; r++) {
		if (streams != 1 || !r)
			corale_stream_destroy(ranks[r].stream);
		free(ranks[r].out);
		free(ranks[r].in);
	}
	free(ranks);
}

/* The first rank's thread drives all ranks, of two halves too, while the other threads wait. */
TEAM_TEST(one_thread, "one thread drives several ranks")
{
	corale_comm *half, *all[RANKS], *halves[RANKS];
	team_expect(m, corale_comm_split(m->comm, m->rank / 2, 0, &half), 0, "split");
	m->team->shared[m->rank] = m->comm;
	m->team->shared[RANKS + m->rank] = half;
	team_barrier(m);
	for (int streams = 0; m->rank == 0 && streams < 4; streams++) {
		for (int r = 0; r < RANKS; r++) {
			all[r] = m->team->shared[r];
			halves[r] = m->team->shared[RANKS + r];
		}
		drive_ranks(m, all, RANKS, streams);
		drive_ranks(m, halves, 2, streams);
		drive_ranks(m, halves + 2, 2, streams);
	}
	team_barrier(m);
	corale_comm_destroy(half);
}

/* ---- Every call, by one thread ---- */

enum { KINDS = 15 };

/* What a rank sends and gets in one group; messages go two ranks on. */
struct every {
	corale_comm *comm;
	corale_stream *stream;
	int rank, round;
	size_t counts[RANKS], displs[RANKS], back[RANKS];
	int32_t one, many[RANKS], sum, max, root, gathered[RANKS], scattered, all[RANKS], crossed[RANKS],
	    uneven[RANKS * RANKS], uneven_in[RANKS * RANKS], part, in;
	int32_t v_all[RANKS * RANKS], v_gathered[RANKS * RANKS], v_part[RANKS], v_scattered[RANKS];
};

/* Elements of a rank's block of a v-form. */
static size_t block_of(const struct every *e, int rank)
{
	return (size_t)((rank + e->round) % RANKS);
}

static void prepare_every(struct every *e, int round)
{
	e->round = round;
	e->one = 100 * round + e->rank;
	e->sum = e->max = e->scattered = e->part = e->in = -1;
	e->root = e->one;
	for (int r = 0; r < RANKS; r++) {
		e->many[r] = 1000 * round + 10 * e->rank + r;
		e->gathered[r] = e->all[r] = e->crossed[r] = e->v_part[r] = e->v_scattered[r] = -1;
		e->counts[r] = (size_t)((e->rank + r + round) % RANKS);
		e->displs[r] = (size_t)(RANKS * r);
		e->back[r] = (size_t)((r + e->rank + round) % RANKS);
		for (int k = 0; k < RANKS; k++) {
			e->uneven[RANKS * r + k] = 10 * e->rank + r + 1000 * k;
			e->uneven_in[RANKS * r + k] = e->v_all[RANKS * r + k] = e->v_gathered[RANKS * r + k] =
			    -1;
		}
	}
}

/* The arrays are gone when the call has returned. */
static int call_v(struct every *e, int kind)
{
	const int root = e->round % RANKS;
	const corale_type t = CORALE_INT32;
	size_t counts[RANKS], displs[RANKS];
	int ret;
	for (int r = 0; r < RANKS; r++) {
		counts[r] = block_of(e, r);
		displs[r] = (size_t)(RANKS * r);
	}
	const size_t own = counts[e->rank];
	if (kind == 11)
		ret = corale_all_gather_v(e->uneven, e->v_all, counts, displs, t, e->comm, e->stream);
	else if (kind == 12)
		ret = corale_reduce_scatter_v(e->uneven, counts, displs, e->v_part, t, CORALE_SUM, e->comm,
					      e->stream);
	else if (kind == 13)
		ret = corale_gather_v(e->uneven, own, e->v_gathered, counts, displs, t, root, e->comm,
				      e->stream);
	else
		ret = corale_scatter_v(e->uneven, counts, displs, e->v_scattered, own, t, root, e->comm,
				       e->stream);
	memset(counts, 0xff, sizeof counts);
	memset(displs, 0xff, sizeof displs);
	__asm__ volatile("" : : "r"(counts), "r"(displs) : "memory");
	return ret;
}

static int call_every(struct every *e, int kind)
{
	corale_comm *c = e->comm;
	corale_stream *s = e->stream;
	const corale_type t = CORALE_INT32;
	const int root = e->round % RANKS;
	switch (kind) {
	case 0:
		return corale_all_reduce(&e->one, &e->sum, 1, t, CORALE_SUM, c, s);
	case 1:
		return corale_broadcast(&e->root, &e->root, 1, t, root, c, s);
	case 2:
		return corale_reduce(&e->one, &e->max, 1, t, CORALE_MAX, root, c, s);
	case 3:
		return corale_gather(&e->one, e->gathered, 1, t, root, c, s);
	case 4:
		return corale_scatter(e->many, &e->scattered, 1, t, root, c, s);
	case 5:
		return corale_all_gather(&e->one, e->all, 1, t, c, s);
	case 6:
		return corale_all_to_all(e->many, e->crossed, 1, t, c, s);
	case 7:
		return corale_all_to_all_v(e->uneven, e->counts, e->displs, e->uneven_in, e->back, e->displs,
					   t, c, s);
	case 8:
		return corale_reduce_scatter(e->many, &e->part, 1, t, CORALE_SUM, c, s);
	case 9:
		return corale_send(&e->one, 1, t, (e->rank + 2) % RANKS, c, s);
	case 10:
		return corale_recv(&e->in, 1, t, (e->rank + 2) % RANKS, c, s);
	default:
		return call_v(e, kind);
	}
}

/* What v-forms leave; -1 where nothing comes. */
static int is_v(const struct every *e)
{
	const int n = RANKS, root = e->round % n, own = (int)block_of(e, e->rank), tens = n * (n - 1) / 2;
	int good = 1;
	for (int k = 0; k < n; k++) {
		const int part = n * (e->rank + 1000 * k) + 10 * tens,
			  scattered = 10 * root + e->rank + 1000 * k;
		good &= e->v_part[k] == (k < own ? part : -1);
		good &= e->v_scattered[k] == (k < own ? scattered : -1);
	}
	for (int i = 0; i < n * n; i++) {
		const int r = i / n, k = i % n, gathered = k < (int)block_of(e, r) ? 10 * r + 1000 * k : -1;
		good &= e->v_all[i] == gathered;
		good &= e->v_gathered[i] == (e->rank == root ? gathered : -1);
	}
	return good;
}

static int is_every(const struct every *e)
{
	const int n = RANKS, root = e->round % RANKS, base = 100 * e->round, tens = n * (n - 1) / 2;
	int good = e->sum == n * base + tens && e->root == base + root && e->in == base + (e->rank + 2) % n &&
		   e->scattered == 1000 * e->round + 10 * root + e->rank &&
		   e->part == 1000 * n * e->round + 10 * tens + n * e->rank;
	for (int r = 0; r < n; r++) {
		good &= e->all[r] == base + r && e->crossed[r] == 1000 * e->round + 10 * r + e->rank;
		good &= e->rank != root || (e->gathered[r] == base + r && e->max == base + n - 1);
		for (int k = 0; k < n; k++)
			good &= e->uneven_in[n * r + k] ==
				(k < (int)e->back[r] ? 10 * r + e->rank + 1000 * k : -1);
	}
	return good;
}

/* How the ranks' calls alternate. */
static void call_in_order(struct team_member *m, struct every *ranks, int order)
{
	for (int i = 0; i < RANKS * KINDS; i++) {
		int rank = i % RANKS, kind = i / RANKS;
		if (order == 1) { /* one rank behind the other, the last one first */
			rank = RANKS - 1 - i / KINDS;
			kind = i % KINDS;
		} else if (order == 2) { /* another rank begins each time */
			rank = (i + kind) % RANKS;
		} else if (order == 3) { /* ranks in pairs that alternate */
			rank = i / (2 * KINDS) * 2 + i % 2;
			kind = i / 2 % KINDS;
		}
		team_expect(m, call_every(&ranks[rank], kind), 0, "a call of a rank");
	}
}

static void check_every(struct team_member *m, struct every *ranks, int streams, const char *how, int order)
{
	for (int r = 0; r < RANKS; r++) {
		if (streams)
			team_expect(m, corale_stream_synchronize(ranks[r].stream), 0, "synchronize");
		if (!is_every(&ranks[r]) || !is_v(&ranks[r]))
			team_fault(m, "%s, order %d: rank %d has wrong results", how, order, r);
	}
}

/* In a group, without streams and with one a rank; and on streams without a group, as stream calls may come in any order. */
TEAM_TEST(every_call_of_one_thread, "every call of four ranks by one thread")
{
	static struct every ranks[RANKS];
	m->team->shared[m->rank] = m->comm;
	team_barrier(m);
	for (int r = 0; m->rank == 0 && r < RANKS; r++) {
		ranks[r] = (struct every){ .comm = m->team->shared[r], .rank = r };
		team_expect(m, corale_stream_create(&ranks[r].stream), 0, "stream");
	}
	for (int i = 0; m->rank == 0 && i < 24; i++) {
		corale_stream *streams[RANKS];
		const int order = i % 4, on_streams = i / 4 % 3, in_group = on_streams < 2;
		for (int r = 0; r < RANKS; r++) {
			streams[r] = ranks[r].stream;
			ranks[r].stream = on_streams ? streams[r] : NULL;
			prepare_every(&ranks[r], i);
		}
		if (in_group)
			corale_group_begin();
		call_in_order(m, ranks, order);
		if (in_group)
			team_expect(m, corale_group_end(), 0, "the group of every call");
		check_every(m, ranks, on_streams, in_group ? "a group" : "streams", order);
		for (int r = 0; r < RANKS; r++)
			ranks[r].stream = streams[r];
	}
	for (int r = 0; m->rank == 0 && r < RANKS; r++)
		corale_stream_destroy(ranks[r].stream);
	team_barrier(m);
}

/* ---- Many sends, and what groups allocate ---- */

/* All sends first, and the receives of each rank in an order of its own: those of a pair stay in order. */
static void post_many(struct team_member *m, int n, const int32_t *out, int32_t *in)
{
	const int next = (m->rank + 1) % RANKS, previous = (m->rank + RANKS - 1) % RANKS;
	for (int pass = 0; pass < 2; pass++)
		for (int k = 0; k < n; k++)
			team_expect(m,
				    pass == m->rank % 2 ? send_to(m, &out[k], 1, next, NULL)
							: recv_from(m, &in[k], 1, previous, NULL),
				    0, "a message");
}

TEAM_TEST(two_thousand, "2,000 sends")
{
	enum { MANY = 2000 };
	int32_t *out = allocate(MANY), *in = allocate(MANY);
	for (int round = 0; round < 2; round++) {
		for (int k = 0; k < MANY; k++) {
			out[k] = 10000 * m->rank + k + round;
			in[k] = -1;
		}
		corale_group_begin();
		post_many(m, MANY, out, in);
		team_expect(m, corale_group_end(), 0, "a group of 2,000 sends");
		for (int k = 0; k < MANY; k++)
			if (in[k] != 10000 * ((m->rank + RANKS - 1) % RANKS) + k + round)
				team_fault(m, "message %d is %d", k, (int)in[k]);
	}
	free(out);
	free(in);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static _Thread_local long allocations;
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

void *malloc(size_t bytes)
{
	allocations++;
	return __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes)
{
	allocations++;
	return __libc_calloc(n, bytes);
}

void *realloc(void *old, size_t bytes)
{
	allocations++;
	return __libc_realloc(old, bytes);
}

int posix_memalign(void **out, size_t alignment, size_t bytes)
{
	allocations++;
	*out = __libc_memalign(alignment, bytes);
	return *out ? 0 : 12; /* ENOMEM */
}

/* The first group of its size may allocate, as its thread keeps the memory. Over nodes plans have scratch, which each call allocates. */
TEAM_TEST(allocate_nothing, "groups allocate nothing")
{
	struct every e = { .comm = m->comm, .rank = m->rank };
	int32_t out[150], in[150];
	for (int i = 0; i < 150; i++)
		out[i] = i;
	for (int round = 0; round < 12; round++) {
		prepare_every(&e, 4);
		const long before = allocations;
		corale_group_begin();
		for (int kind = 0; round % 3 < 2 && kind < KINDS; kind++)
			team_expect(m, call_every(&e, kind), 0, "a call");
		if (round % 3)
			post_many(m, 150, out, in);
		team_expect(m, corale_group_end(), 0, "the group");
		if (round >= 9 && corale_comm_nodes(m->comm) == 1 && allocations != before)
			team_fault(m, "group %d made %ld allocations", round, allocations - before);
	}
}
#else
TEAM_TEST(allocate_nothing, "groups allocate nothing")
{
}
#endif

int main(int argc, char **argv)
{
	static const char *const settings[] = { "CORALE_DEBUG=none", "CORALE_DEBUG=none CORALE_NODE_SIZE=2",
						"CORALE_DEBUG=none CORALE_NODE_SIZE=1 CORALE_CHUNK_BYTES=4K",
						"CORALE_DEBUG=none CORALE_NODE_SIZE=1 CORALE_MEMORY_CAP=1M",
						NULL };
	return team_main(argc, argv, &(struct team_runs){ .ranks = RANKS, .settings = settings });
}
