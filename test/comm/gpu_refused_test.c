/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls on GPUs that are refused: all ranks that refuse alike go on, others learn of it; no part of a group has started, no capture is spoilt. Ranks are threads with an engine that runs nothing (fake_engine.h), on one node or on a node each. Settings
 * are read once a process: each case runs this program again.
 */
#include <unistd.h>

#include "test/helpers/unit.h"
#include "test/helpers/fake_engine.h"
#include "test/helpers/team.h"

/* A rank that waits looks for differences after 0.1 s. */
enum { MOST_RANKS = 3, COUNT = 8, LATER_US = 300000, BYTES = 4096 };

static int reduce(struct team_member *m, struct fake_stream *stream)
{
	static int32_t send[MOST_RANKS][COUNT], recv[MOST_RANKS][COUNT];
	return corale_all_reduce(send[m->rank], recv[m->rank], COUNT, CORALE_INT32, CORALE_SUM, m->comm,
				 stream);
}

static int is_last(const struct team_member *m)
{
	return m->rank == m->size - 1;
}

/* All ranks go on working. */
static void expect_whole(struct team_member *m)
{
	struct fake_stream stream = { 0 };
	team_expect(m, reduce(m, &stream), 0, "a call afterwards");
	team_expect(m, atomic_load(&stream.calls), 1, "calls enqueued");
	team_barrier(m);
	team_expect(m, corale_comm_async_error(m->comm), 0, "the communicator");
}

/* ---- A refused call, then what all ranks do together, the last one later ------------------------------------ */

static void refuse_then_come_late(struct team_member *m)
{
	struct fake_stream refusing = { .refuses = CORALE_ENOTSUP };
	team_expect(m, reduce(m, &refusing), CORALE_ENOTSUP, "a call on a stream that takes none");
	team_barrier(m);
	if (is_last(m))
		usleep(LATER_US);
}

TEAM_TEST(then_alloc, "refused, then corale_mem_alloc")
{
	void *memory = NULL;
	refuse_then_come_late(m);
	team_expect(m, corale_mem_alloc(m->comm, BYTES, &memory), 0, "corale_mem_alloc");
	if (memory)
		team_expect(m, corale_mem_free(m->comm, memory), 0, "corale_mem_free");
	expect_whole(m);
}

TEAM_TEST(then_register, "refused, then corale_mem_register")
{
	static char memory[MOST_RANKS][BYTES];
	void *handle = NULL;
	refuse_then_come_late(m);
	team_expect(m, corale_mem_register(m->comm, memory[m->rank], BYTES, &handle), 0,
		    "corale_mem_register");
	if (handle)
		team_expect(m, corale_mem_deregister(m->comm, handle), 0, "corale_mem_deregister");
	expect_whole(m);
}

TEAM_TEST(then_split, "refused, then corale_comm_split")
{
	corale_comm *child = NULL;
	refuse_then_come_late(m);
	team_expect(m, corale_comm_split(m->comm, 0, m->rank, &child), 0, "corale_comm_split");
	corale_comm_destroy(child);
	expect_whole(m);
}

/* ---- A call that the last rank alone refuses ------------------------------------------------------------------ */

static corale_comm *split(struct team_member *m)
{
	corale_comm *comm = NULL;
	team_expect(m, corale_comm_split(m->comm, 0, m->rank, &comm), 0, "corale_comm_split");
	return comm;
}

static int reduce_on(struct team_member *m, corale_comm *comm, struct fake_stream *stream)
{
	corale_comm *own = m->comm;
	m->comm = comm;
	const int ret = reduce(m, stream);
	m->comm = own;
	return ret;
}

/* The ranks that wait learn who has refused what, and why. */
static void expect_told(struct team_member *m, corale_comm *comm, const char *what)
{
	char name[24];
	const double until = clock_s() + 20;
	snprintf(name, sizeof name, "rank %d", m->size - 1);
	while (!corale_comm_async_error(comm) && clock_s() < until)
		usleep(1000);
	team_expect(m, corale_comm_async_error(comm), CORALE_EMISMATCH, what);
	const char *line = corale_comm_last_error(comm);
	if (!is_last(m) && (!strstr(line, name) || !strstr(line, "refused") || !strstr(line, what)))
		team_fault(m, "no \"%s\" and \"%s\": %s", name, what, line);
	team_barrier(m);
	corale_comm_destroy(comm);
}

/* Others have enqueued a call behind it, too. */
TEAM_TEST(refused_by_one, "refused by one rank")
{
	struct fake_stream refusing = { .refuses = CORALE_ENOTSUP }, waiting = { .waits = 1 };
	corale_comm *comm = split(m);
	int32_t mine = 0;
	if (is_last(m))
		team_expect(m, reduce_on(m, comm, &refusing), CORALE_ENOTSUP, "a stream that takes none");
	else
		team_expect(m, reduce_on(m, comm, &waiting), 0, "a call that waits");
	waiting.waits = 0;
	if (!is_last(m) && m->size > atoi(getenv("CORALE_NODE_SIZE")))
		team_expect(m, reduce_on(m, comm, &waiting), 0, "a call behind it");
	expect_told(m, comm, "takes no call");
	comm = split(m);
	if (is_last(m))
		team_expect(m, corale_send(NULL, 1, CORALE_INT32, 0, comm, &waiting), CORALE_EINVAL,
			    "a send");
	expect_told(m, comm, "send buffer is NULL");
	if (m->rank == 0)
		team_expect(m, corale_send(&mine, 1, CORALE_INT32, 0, m->comm, &waiting), CORALE_EINVAL,
			    "a send to oneself");
	else
		team_expect(m, corale_recv(&mine, 1, CORALE_INT32, m->rank, m->comm, &waiting), CORALE_EINVAL,
			    "a receive from oneself");
	expect_whole(m);
}

/* ---- Groups ------------------------------------------------------------------------------------------------- */

static void expect_nothing(struct team_member *m, const struct fake_stream *stream)
{
	team_expect(m, atomic_load(&stream->calls), 0, "calls enqueued of a group that was refused");
	team_expect(m, atomic_load(&stream->joins), 0, "streams joined of a group that was refused");
}

/* Other ranks may have started the calls that this one has not: that communicator ends everywhere. */
static void expect_mismatch(struct team_member *m, corale_comm *comm)
{
	const double until = clock_s() + 20;
	while (!corale_comm_async_error(comm) && clock_s() < until)
		usleep(1000);
	team_expect(m, corale_comm_async_error(comm), CORALE_EMISMATCH,
		    "a communicator of which calls were not started");
	if (!strstr(corale_comm_last_error(comm), "group"))
		team_fault(m, "the line does not name the group: %s", corale_comm_last_error(comm));
}

/* All ranks have refused a group: one of them may have ended the communicator before another came. */
static void expect_over(struct team_member *m, corale_comm *comm, int ret, int expected)
{
	if (ret != CORALE_ECOMM && ret != CORALE_EMISMATCH)
		team_expect(m, ret, expected, "a group with a call that is refused");
	expect_mismatch(m, comm);
	team_barrier(m);
	corale_comm_destroy(comm);
}

static void group_of_two_sums(struct team_member *m, corale_comm *comm, struct fake_stream *first,
			      struct fake_stream *second)
{
	corale_group_begin();
	reduce_on(m, comm, first);
	reduce_on(m, comm, second);
}

/* The second collective is refused, so the first one does not start either. */
TEAM_TEST(group_of_collectives, "a group of collectives")
{
	struct fake_stream good = { 0 }, refusing = { .refuses = CORALE_ENOTSUP };
	corale_comm *comm = split(m);
	group_of_two_sums(m, comm, &good, &refusing);
	expect_over(m, comm, corale_group_end(), CORALE_ENOTSUP);
	expect_nothing(m, &good);
	expect_whole(m);
}

static int exchange(struct team_member *m, corale_comm *comm, struct fake_stream *out, struct fake_stream *in)
{
	static int32_t sent[MOST_RANKS][COUNT], received[MOST_RANKS][COUNT];
	const int next = (m->rank + 1) % m->size, before = (m->rank + m->size - 1) % m->size;
	corale_group_begin();
	corale_send(sent[m->rank], COUNT, CORALE_INT32, next, comm, out);
	corale_recv(received[m->rank], COUNT, CORALE_INT32, before, comm, in);
	return corale_group_end();
}

/* Sends and receives start before the collective that is refused. */
TEAM_TEST(group_of_messages, "a group of messages and a collective")
{
	struct fake_stream good = { 0 }, refusing = { .refuses = CORALE_EINVAL };
	corale_comm *comm = split(m);
	corale_group_begin();
	exchange(m, comm, &good, &good);
	reduce_on(m, comm, &refusing);
	expect_over(m, comm, corale_group_end(), CORALE_EINVAL);
	expect_nothing(m, &good);
	expect_whole(m);
}

/*
 * Two communicators in either order: the calls of one are refused, before the group starts or amid it, on all ranks or on the last one
 * alone. That one ends its group last: other ranks' groups would be refused, too, once it has ended a communicator of theirs. Where all
 * are refused, one of them may have done that already.
 */
static void refuse_one_of_two(struct team_member *m, int refused, int everywhere, int amid)
{
	struct fake_stream good = { 0 }, refusing = { .refuses = CORALE_ENOTSUP },
			   failing = { .fails = CORALE_ENOTSUP };
	corale_comm *comms[2] = { split(m), split(m) };
	const int refuses = everywhere || is_last(m);
	int ret = 0;
	corale_group_begin();
	for (int i = 0; i < 2; i++)
		team_expect(m,
			    reduce_on(m, comms[i],
				      !refuses || i != refused ? &good
				      : amid                   ? &failing
							       : &refusing),
			    0, "a call in a group");
	if (!refuses)
		team_expect(m, corale_group_end(), 0, "a group without a call that is refused");
	team_barrier(m);
	if (refuses) {
		ret = corale_group_end();
		if (!everywhere || ret != CORALE_ECOMM)
			team_expect(m, ret, CORALE_ENOTSUP, "a group with a call that is refused");
		team_expect(m, atomic_load(&good.calls), amid, "calls enqueued of the group");
	}
	expect_mismatch(m, comms[refused]);
	if (!amid)
		expect_mismatch(m, comms[!refused]);
	else
		team_expect(m, corale_comm_async_error(comms[!refused]), 0, "the other communicator");
	team_barrier(m);
	for (int i = 0; i < 2; i++)
		corale_comm_destroy(comms[i]);
	expect_whole(m);
}

TEAM_TEST(group_of_communicators, "a group of two communicators")
{
	refuse_one_of_two(m, 0, 0, 0);
	refuse_one_of_two(m, 1, 1, 0);
	refuse_one_of_two(m, 1, 0, 1);
}

/* A group starts as one, and a captured call does not start before its graph does. */
TEAM_TEST(group_half_captured, "a group of captured and eager calls")
{
	struct fake_stream eager = { 0 }, captured = { .capture = 1 }, other = { .capture = 2 },
			   same = { .capture = 1 };
	struct fake_stream *const streams[][2] = { { &eager, &captured },
						   { &captured, &eager },
						   { &captured, &other } };
	for (int i = 0; i < 3; i++) {
		corale_comm *comm = split(m);
		expect_over(m, comm, exchange(m, comm, streams[i][0], streams[i][1]), CORALE_ENOTSUP);
	}
	corale_comm *comm = split(m);
	group_of_two_sums(m, comm, &eager, &captured);
	expect_over(m, comm, corale_group_end(), CORALE_ENOTSUP);
	expect_nothing(m, &eager);
	expect_nothing(m, &captured);
	team_expect(m, exchange(m, m->comm, &captured, &same), 0, "two streams of one capture");
	expect_whole(m);
}

/* ---- v-forms -------------------------------------------------------------------------------------------------- */

static void expect_edges(struct team_member *m, const struct fake_stream *s, corale_coll coll,
			 const size_t *sent, const size_t *received, const char *what)
{
	team_expect(m, atomic_load(&s->calls), 1, what);
	team_expect(m, s->coll, coll, what);
	for (int r = 0; r < m->size; r++)
		if (s->edges[0][r] != sent[r] || s->edges[2][r] != received[r])
			team_fault(m, "%s: %zu to rank %d and %zu from it, not %zu and %zu", what,
				   s->edges[0][r], r, s->edges[2][r], sent[r], received[r]);
}

/* Blocks are moved as the edges of an all_to_all_v, and summed by the launch of a reduce_scatter, whose blocks have the largest one's whole vectors. */
TEAM_TEST(v_forms, "v-forms")
{
	static const size_t counts[MOST_RANKS] = { 3, 0, 2 }, displs[MOST_RANKS] = { 4, 8, 0 },
			    none[MOST_RANKS] = { 0 };
	static int32_t send[MOST_RANKS][16], recv[MOST_RANKS][16];
	struct fake_stream s[5] = { { 0 } };
	const int last = m->size - 1;
	const size_t own = counts[m->rank];
	const size_t to_all[MOST_RANKS] = { own, own, own };
	size_t alone[MOST_RANKS] = { 0 }, own_alone[MOST_RANKS] = { 0 };
	alone[last] = own_alone[m->rank] = own;
	int32_t *from = send[m->rank], *to = recv[m->rank];
	team_expect(
	    m, corale_reduce_scatter_v(from, counts, displs, to, CORALE_INT32, CORALE_SUM, m->comm, &s[0]), 0,
	    "reduce_scatter_v");
	expect_edges(m, &s[0], CORALE_REDUCE_SCATTER, counts, own_alone, "reduce_scatter_v");
	team_expect(m, (int)s[0].bytes, 16, "bytes of its launch");
	team_expect(
	    m, corale_reduce_scatter_v(from, counts, displs, from, CORALE_INT32, CORALE_SUM, m->comm, &s[4]),
	    0, "reduce_scatter_v, the result at the front");
	team_expect(
	    m, corale_all_gather_v(to + displs[m->rank], to, counts, displs, CORALE_INT32, m->comm, &s[1]), 0,
	    "all_gather_v in place");
	expect_edges(m, &s[1], CORALE_ALL_TO_ALL_V, to_all, counts, "all_gather_v");
	corale_group_begin();
	corale_gather_v(from, own, to, counts, displs, CORALE_INT32, last, m->comm, &s[2]);
	corale_scatter_v(from, counts, displs, to, own, CORALE_INT32, last, m->comm, &s[3]);
	team_expect(m, corale_group_end(), 0, "gather_v and scatter_v");
	expect_edges(m, &s[2], CORALE_ALL_TO_ALL_V, alone, is_last(m) ? counts : none, "gather_v");
	expect_edges(m, &s[3], CORALE_ALL_TO_ALL_V, is_last(m) ? counts : none, alone, "scatter_v");
	expect_whole(m);
}

/* No message of a fold says how many elements its block has: where counts differ, and the largest is the same, signatures do. */
TEAM_TEST(counts_that_differ, "v-forms whose counts differ")
{
	static int32_t send[MOST_RANKS][16], recv[MOST_RANKS][16];
	static uint64_t signatures[2][MOST_RANKS];
	const size_t displs[MOST_RANKS] = { 0, 4, 8 };
	size_t counts[MOST_RANKS] = { 3, 2, 1 };
	struct fake_stream s = { 0 };
	for (int i = 0; i < 2; i++) {
		counts[1] = i && is_last(m) ? 1 : 2;
		corale_reduce_scatter_v(send[m->rank], counts, displs, recv[m->rank], CORALE_INT32,
					CORALE_SUM, m->comm, &s);
		signatures[i][m->rank] = s.signature;
		team_barrier(m);
		if ((signatures[i][0] != signatures[i][m->size - 1]) != i)
			team_fault(m, "signatures of counts that are %s", i ? "not the same" : "the same");
		team_barrier(m);
	}
}

/* ---- Running ------------------------------------------------------------------------------------------------ */

/* ---- Operators that no codelet folds: by plans, whatever ran before ----------------------------------------- */

static int is_lowered(struct team_member *m, corale_type type, corale_op op)
{
	static char send[MOST_RANKS][BYTES], recv[MOST_RANKS][BYTES];
	struct fake_stream stream = { 0 };
	const int ret = corale_all_reduce(send[m->rank], recv[m->rank], COUNT, type, op, m->comm, &stream);
	team_expect(m, ret, 0, corale_op_name(op));
	return stream.lowered;
}

TEAM_TEST(any_operator, "any operator")
{
	const int over_nodes = m->size > atoi(getenv("CORALE_NODE_SIZE"));
	for (int turn = 0; turn < 2; turn++) {
		team_expect(m, is_lowered(m, CORALE_INT32, CORALE_SUM), over_nodes, "a sum of integers");
		team_expect(m, is_lowered(m, CORALE_INT32, CORALE_BIT_XOR), 1, "bits");
		team_expect(m, is_lowered(m, CORALE_COMPLEX64, CORALE_AVG), over_nodes, "an average");
		team_expect(m, is_lowered(m, CORALE_COMPLEX64, CORALE_PROD), 1, "a complex product");
		team_expect(m, is_lowered(m, CORALE_BOOL, CORALE_LOGICAL_OR), 1, "bools");
		team_expect(m, is_lowered(m, CORALE_PAIR_INT64, CORALE_MIN_LOC), 1, "pairs");
	}
	team_expect(m, is_lowered(m, CORALE_COMPLEX128, CORALE_SUM), over_nodes, "a complex sum");
	expect_whole(m);
}

int main(int argc, char **argv)
{
	static const char *const settings[] = { "CORALE_NODE_SIZE=8", "CORALE_NODE_SIZE=2",
						"CORALE_NODE_SIZE=1", NULL };
	corale_config config;
	corale_config_init(&config);
	config.device = CORALE_DEVICE_CUDA;
	return team_main(argc, argv, &(struct team_runs){ 2, MOST_RANKS, &config, settings });
}
