/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that make different calls, or none: every rank that has not returned gets an error within a second that names
 * both calls and the odd rank; aborts and deadlines end calls everywhere. Runs itself for each case and node size.
 */
#include <unistd.h>

#include "test/helpers/unit.h"
#include "base/log.h"
#include "test/helpers/any_call.h"
#include "test/helpers/team.h"

enum {
	RANKS = 4,
	ODD = 2,
	COUNT = 40,
	MUCH_MORE = 400000, /* another size class, another algorithm */
	BLOCKS = RANKS * 2 * COUNT
};

struct buffers {
	float send[BLOCKS], recv[BLOCKS];
};

static void poison(struct buffers *b)
{
	for (int i = 0; i < BLOCKS; i++) {
		b->send[i] = (float)i;
		b->recv[i] = -7;
	}
}

static int untouched(const struct buffers *b)
{
	for (int i = 0; i < BLOCKS; i++)
		if (b->recv[i] != -7)
			return 0;
	return 1;
}

enum how {
	DIRECT,
	STAGED /* small enough that receive buffers must be untouched */
};

/* A call, and the one before it that only the other ranks have made, or NULL. */
struct params {
	corale_coll coll;
	int count;
	corale_type type;
	corale_op op;
	int root;
	const struct params *before;
};

/* One pair of calls: what all ranks but ODD make, and what ODD makes instead. */
struct pair {
	const char *name;
	const struct params *all, *odd;
	const char *words[3]; /* of both calls, in the error */
	int how; /* of enum how */
};

static int call(struct team_member *m, struct buffers *b, const struct params *p)
{
	static float large[2][MUCH_MORE];
	const int is_large = p->count == MUCH_MORE;
	const int ret = p->before ? call(m, b, p->before) : 0;
	if (ret)
		return ret;
	return any_call(&(struct any_call){ .coll = p->coll,
					    .count = (size_t)p->count,
					    .type = p->type,
					    .op = p->op,
					    .root = p->root,
					    .send = is_large ? large[0] : b->send,
					    .recv = is_large ? large[1] : b->recv,
					    .comm = m->comm });
}

static const struct params
    reduce = { CORALE_ALL_REDUCE, COUNT, CORALE_FLOAT32, CORALE_SUM, 0, NULL },
    reduce_more = { CORALE_ALL_REDUCE, COUNT + 1, CORALE_FLOAT32, CORALE_SUM, 0, NULL },
    reduce_much_more = { CORALE_ALL_REDUCE, MUCH_MORE, CORALE_FLOAT32, CORALE_SUM, 0, NULL },
    reduce_integers = { CORALE_ALL_REDUCE, COUNT, CORALE_INT32, CORALE_SUM, 0, NULL },
    reduce_max = { CORALE_ALL_REDUCE, COUNT, CORALE_FLOAT32, CORALE_MAX, 0, NULL },
    gather = { CORALE_ALL_GATHER, COUNT, CORALE_FLOAT32, CORALE_SUM, 0, NULL },
    gather_less = { CORALE_ALL_GATHER, COUNT - 3, CORALE_FLOAT32, CORALE_SUM, 0, NULL },
    scatter = { CORALE_REDUCE_SCATTER, COUNT, CORALE_FLOAT32, CORALE_SUM, 0, NULL },
    scatter_bytes = { CORALE_REDUCE_SCATTER, COUNT, CORALE_INT8, CORALE_SUM, 0, NULL },
    broadcast = { CORALE_BROADCAST, COUNT, CORALE_FLOAT32, CORALE_SUM, 0, NULL },
    broadcast_other_root = { CORALE_BROADCAST, COUNT, CORALE_FLOAT32, CORALE_SUM, 1, NULL },
    to_all = { CORALE_ALL_TO_ALL, COUNT, CORALE_FLOAT32, CORALE_SUM, 0, NULL },
    reduce_to = { CORALE_REDUCE, COUNT, CORALE_FLOAT32, CORALE_SUM, 0, NULL },
    reduce_to_min = { CORALE_REDUCE, COUNT, CORALE_FLOAT32, CORALE_MIN, 0, NULL },
    reduce_to_other = { CORALE_REDUCE, COUNT, CORALE_FLOAT32, CORALE_SUM, 3, NULL },
    gather_to = { CORALE_GATHER, COUNT, CORALE_FLOAT32, CORALE_SUM, 0, NULL },
    gather_less_to = { CORALE_GATHER, COUNT - 9, CORALE_FLOAT32, CORALE_SUM, 0, NULL },
    scatter_from = { CORALE_SCATTER, COUNT, CORALE_FLOAT32, CORALE_SUM, 0, NULL },
    scatter_from_other = { CORALE_SCATTER, COUNT, CORALE_FLOAT32, CORALE_SUM, 2, NULL },
    scatter_doubles = { CORALE_SCATTER, COUNT, CORALE_FLOAT64, CORALE_SUM, 0, NULL },
    barrier = { CORALE_BARRIER, 0, CORALE_FLOAT32, CORALE_SUM, 0, NULL },
    reduce_then_gather = { CORALE_ALL_GATHER, COUNT, CORALE_FLOAT32, CORALE_SUM, 0, &reduce };

static const struct pair pairs[] = {
	{ "other collective", &reduce, &gather, { "all_reduce", "all_gather" }, DIRECT },
	{ "other count", &reduce, &reduce_more, { "count 40", "count 41" }, STAGED },
	{ "other count by far", &reduce, &reduce_much_more, { "count 40", "count 400000" }, DIRECT },
	{ "other type", &reduce, &reduce_integers, { "float32", "int32" }, STAGED },
	{ "other operator", &reduce, &reduce_max, { "sum", "max" }, STAGED },
	{ "other root", &broadcast, &broadcast_other_root, { "root 0", "root 1" }, DIRECT },
	{ "missing call", &reduce_then_gather, &gather, { "all_reduce", "all_gather" }, DIRECT },
	{ "all_gather's count", &gather, &gather_less, { "count 40", "count 37" }, DIRECT },
	{ "reduce_scatter's type", &scatter, &scatter_bytes, { "float32", "int8" }, STAGED },
	{ "all_to_all and barrier", &to_all, &barrier, { "all_to_all", "barrier" }, DIRECT },
	{ "broadcast and barrier", &barrier, &broadcast, { "broadcast", "barrier" }, DIRECT },
	{ "reduce's operator", &reduce_to, &reduce_to_min, { "sum", "min" }, STAGED },
	{ "reduce's root", &reduce_to, &reduce_to_other, { "root 0", "root 3" }, STAGED },
	{ "reduce and all_reduce", &reduce_to, &reduce, { "reduce(", "all_reduce(" }, STAGED },
	{ "gather's count", &gather_to, &gather_less_to, { "count 40", "count 31" }, DIRECT },
	{ "gather and scatter", &gather_to, &scatter_from, { "gather(", "scatter(" }, DIRECT },
	{ "gather and reduce", &reduce_to, &gather_to, { "gather(", "reduce(" }, STAGED },
	{ "scatter and barrier", &barrier, &scatter_from, { "scatter(", "barrier(" }, DIRECT },
	{ "scatter's root", &scatter_from, &scatter_from_other, { "root 0", "root 2" }, DIRECT },
	{ "scatter's type", &scatter_from, &scatter_doubles, { "float32", "float64" }, DIRECT },
};
enum { PAIRS = sizeof(pairs) / sizeof(pairs[0]) };

/* A rank that heard from nobody in a rooted call may have returned; the next call finds it. */
static int until_found(struct team_member *m, const struct pair *pair, struct buffers *b)
{
	int ret = call(m, b, m->rank == ODD ? pair->odd : pair->all);
	return ret ? ret : corale_barrier(m->comm, NULL);
}

static void run_pair(struct team_member *m)
{
	const struct pair *pair = m->arg;
	struct buffers b;
	char odd[32];
	poison(&b);
	team_expect(m, call(m, &b, &reduce), 0, "a good call before");
	poison(&b);
	team_barrier(m);
	double start = clock_s();
	int ret = until_found(m, pair, &b);
	double took = clock_s() - start;
	team_expect(m, ret, CORALE_EMISMATCH, pair->name);
	if (took > 1)
		team_late(m, "%s took %.2f s", pair->name, took);
	const char *text = corale_comm_last_error(m->comm);
	snprintf(odd, sizeof(odd), "rank %d", ODD);
	if (!strstr(text, pair->words[0]) || !strstr(text, pair->words[1]) || !strstr(text, odd))
		team_fault(m, "\"%s\" should name %s, %s and %s", text, pair->words[0], pair->words[1], odd);
	if (pair->how == STAGED && !untouched(&b))
		team_fault(m, "%s: the receive buffer was written", pair->name);
	team_expect(m, corale_comm_async_error(m->comm), CORALE_EMISMATCH, "asynchronous error");
	team_expect(m, corale_barrier(m->comm, NULL), CORALE_ECOMM, "a call after the error");
}

/* Each of two ranks is the root of a gather of its own, so both wait, and neither sends anything. */
static void two_roots(struct team_member *m)
{
	float mine = 1, all[2];
	corale_comm *pair;
	team_expect(m, corale_comm_split(m->comm, m->rank % 2, m->rank, &pair), 0, "split");
	int rank = corale_comm_rank(pair);
	double start = clock_s();
	team_expect(m, corale_gather(&mine, all, 1, CORALE_FLOAT32, rank, pair, NULL), CORALE_EMISMATCH,
		    "two roots");
	if (clock_s() - start > 2)
		team_late(m, "took %.2f s", clock_s() - start);
	const char *text = corale_comm_last_error(pair);
	if (!strstr(text, "gather(count 1, float32, root 0)") ||
	    !strstr(text, "gather(count 1, float32, root 1)"))
		team_fault(m, "\"%s\" should name both gathers", text);
	corale_comm_destroy(pair);
}

static _Atomic int lines[RANKS]; /* of errors that name both broadcasts, by rank of the pair */

static void count_line(enum log_level level, int rank, const char *text)
{
	const int names_both = strstr(text, "broadcast(count 1, float32, root 0)") &&
			       strstr(text, "broadcast(count 1, float32, root 1)");
	lines[rank] += level == LOG_ERROR && names_both;
}

static _Atomic int ring_lines; /* of errors that name the broadcasts of ranks 1 and 3 */

static void count_ring(enum log_level level, int rank, const char *text)
{
	ring_lines += level == LOG_ERROR && strstr(text, "broadcast(count 1, float32, root 1)") &&
		      strstr(text, "broadcast(count 1, float32, root 3)");
}

/* Each of two ranks is the root of a broadcast of its own, so both only send; the ends of both say so. */
static void two_senders(struct team_member *m)
{
	float mine = 1, got = 0;
	corale_comm *pair;
	team_expect(m, corale_comm_split(m->comm, m->rank % 2, m->rank, &pair), 0, "split");
	team_barrier(m); /* nobody is in the library */
	if (m->rank == 0) {
		log_level = LOG_ERROR;
		log_set_writer(count_line);
	}
	team_barrier(m);
	const int ret = corale_broadcast(&mine, &got, 1, CORALE_FLOAT32, corale_comm_rank(pair), pair, NULL);
	if (ret && ret != CORALE_EMISMATCH)
		team_fault(m, "a broadcast with two roots: %s", corale_strerror(ret));
	const double start = clock_s();
	corale_comm_destroy(pair);
	if (clock_s() - start > 1)
		team_late(m, "the end took %.2f s", clock_s() - start);
	team_barrier(m);
	if (lines[0] + lines[1] <
	    2) /* of two pairs; of one that comes much later the other one says nothing */
		team_fault(m, "%d and %d lines of two pairs", lines[0], lines[1]);
}

/* Two ranks find the mismatch before the third has made its call, which still tells who is odd. */
static void odd_of_three(struct team_member *m, int odd, int late, int asks)
{
	struct buffers b;
	corale_comm *three = NULL;
	char name[48];
	poison(&b);
	team_expect(m, corale_comm_split(m->comm, m->rank < 3 ? 0 : -1, m->rank, &three), 0, "split");
	team_barrier(m);
	if (!three)
		return;
	struct team_member third = *m;
	third.comm = three;
	if (m->rank == late)
		usleep(100000);
	const int told = m->rank == late && asks && corale_comm_async_error(three);
	const double start = clock_s();
	const int ret = call(&third, &b, m->rank == odd ? &gather : &reduce);
	const double took = clock_s() - start;
	team_expect(m, ret, told ? CORALE_ECOMM : CORALE_EMISMATCH, "three ranks");
	if (took > 1)
		team_late(m, "odd rank %d, late rank %d: took %.2f s", odd, late, took);
	snprintf(name, sizeof(name), "the odd one out is rank %d", odd);
	if (!strstr(corale_comm_last_error(three), name))
		team_fault(m, "\"%s\" should say that %s", corale_comm_last_error(three), name);
	corale_comm_destroy(three);
}

static void three_ranks(struct team_member *m)
{
	for (int i = 0; i < 12; i++)
		odd_of_three(m, i % 3, (i + 1 + i / 3 % 2) % 3, i >= 6);
}

/* Ranks that agree end at once, in any order. */
static void one_sender(struct team_member *m)
{
	float data = 1;
	team_expect(m, corale_broadcast(&data, &data, 1, CORALE_FLOAT32, 1, m->comm, NULL), 0, "broadcast");
	const double start = clock_s();
	corale_comm_destroy(m->comm);
	m->comm = NULL;
	if (clock_s() - start > 1)
		team_late(m, "the end took %.2f s", clock_s() - start);
}

/* A rank that ends does not wait for those that make the call later; of two roots the later one says that there are two. */
static void late_receiver(struct team_member *m)
{
	enum { LATE_US = 700000 };
	float mine = 1, got = 0;
	corale_comm *pair;
	team_expect(m, corale_comm_split(m->comm, m->rank % 2, m->rank, &pair), 0, "split");
	const int rank = corale_comm_rank(pair), roots = m->rank % 2;
	team_barrier(m); /* nobody is in the library */
	if (m->rank == 0) {
		log_level = LOG_ERROR;
		log_set_writer(count_line);
	}
	team_barrier(m);
	if (rank == 1)
		usleep(LATE_US);
	const double start = clock_s();
	team_expect(m, corale_broadcast(&mine, &got, 1, CORALE_FLOAT32, roots ? rank : 0, pair, NULL), 0,
		    "broadcast");
	corale_comm_destroy(pair);
	if (clock_s() - start > 0.5)
		team_late(m, "the end took %.2f s", clock_s() - start);
	if (rank == 1 && !roots && got != 1)
		team_fault(m, "got %g", (double)got);
	team_barrier(m);
	if (lines[0] || lines[1] != 1) /* of the pair of two roots */
		team_fault(m, "%d and %d lines", lines[0], lines[1]);
}

/* Two roots end early. The ranks behind them in the ring come late, and each finds that the rank before it had the other root. */
static void late_in_ring(struct team_member *m)
{
	enum { LATE_US = 700000 };
	float mine = 1, got = 0;
	team_barrier(m); /* nobody is in the library */
	if (m->rank == 0) {
		log_level = LOG_ERROR;
		log_set_writer(count_ring);
	}
	team_barrier(m);
	if (m->rank % 2 == 0)
		usleep(LATE_US);
	const int root = m->rank < 2 ? 1 : 3,
		  ret = corale_broadcast(&mine, &got, 1, CORALE_FLOAT32, root, m->comm, NULL);
	if (ret && ret != CORALE_EMISMATCH)
		team_fault(m, "a broadcast with two roots: %s", corale_strerror(ret));
	corale_comm_destroy(m->comm);
	m->comm = NULL;
	team_barrier(m);
	if (!ring_lines)
		team_fault(m, "no line of two roots");
}

/* ---- Edges: only their two ends know, but the communicator ends for all ---- */

/* Rank 0 sends to rank 1; the others, and whoever got through, learn of it in their next call. */
static void run_edge(struct team_member *m, size_t sent, size_t expected, corale_type type)
{
	float buf[COUNT] = { 0 };
	double start = clock_s();
	int ret = 0;
	if (m->rank == 0)
		ret = corale_send(buf, sent, CORALE_FLOAT32, 1, m->comm, NULL);
	if (m->rank == 1)
		ret = corale_recv(buf, expected, type, 0, m->comm, NULL);
	if (ret == 0 && m->rank != 1)
		ret = corale_barrier(m->comm, NULL);
	team_expect(m, ret, CORALE_EMISMATCH, "a send and its recv that differ");
	if (clock_s() - start > 1)
		team_late(m, "took %.2f s", clock_s() - start);
}

/* All ranks learn both calls. */
static void expect_both(struct team_member *m, const char *send, const char *recv)
{
	const char *text = corale_comm_last_error(m->comm);
	if (!strstr(text, send) || !strstr(text, recv) || !strstr(text, "rank 0") || !strstr(text, "rank 1"))
		team_fault(m, "\"%s\" should name %s of rank 0 and %s of rank 1", text, send, recv);
}

static void pair_counts(struct team_member *m)
{
	run_edge(m, 7, 8, CORALE_FLOAT32); /* both fit into a header's line */
	expect_both(m, "send(count 7, float32, peer 1)", "recv(count 8, float32, peer 0)");
}

static void pair_types(struct team_member *m)
{
	run_edge(m, 8, 8, CORALE_INT32);
	expect_both(m, "send(count 8, float32, peer 1)", "recv(count 8, int32, peer 0)");
}

static void edges_of_all_to_all_v(struct team_member *m)
{
	float send[RANKS * 4] = { 0 }, recv[RANKS * 4];
	size_t counts[RANKS] = { 2, 2, 2, 2 }, displs[RANKS] = { 0, 4, 8, 12 }, wrong[RANKS] = { 2, 2, 2, 2 };
	wrong[ODD] = m->rank == 0 ? 3 : 2;
	double start = clock_s();
	int ret =
	    corale_all_to_all_v(send, counts, displs, recv, wrong, displs, CORALE_FLOAT32, m->comm, NULL);
	if (ret == 0)
		ret = corale_barrier(m->comm, NULL);
	team_expect(m, ret, CORALE_EMISMATCH, "all_to_all_v whose ends disagree");
	if (clock_s() - start > 1)
		team_late(m, "took %.2f s", clock_s() - start);
}

/* Rank 0 sends nothing where rank 1 expects two elements, or the other way round: it may have returned, and learns by its next call. */
static void one_edge(struct team_member *m, size_t sent, size_t expected)
{
	float send[8] = { 0 }, recv[8] = { 0 };
	size_t out[RANKS] = { 0 }, in[RANKS] = { 0 }, displs[RANKS] = { 0 };
	corale_comm *comm = NULL;
	team_expect(m, corale_comm_split(m->comm, 0, 0, &comm), 0, "split");
	out[1] = m->rank == 0 ? sent : 0;
	in[0] = m->rank == 1 ? expected : 0;
	const double start = clock_s();
	int ret = corale_all_to_all_v(send, out, displs, recv, in, displs, CORALE_FLOAT32, comm, NULL);
	if (m->rank == 1)
		team_expect(m, ret, CORALE_EMISMATCH, "the receiver of an edge that differs");
	else if (ret == 0)
		ret = corale_barrier(comm, NULL);
	team_expect(m, ret, CORALE_EMISMATCH, "the next call of a rank that has returned");
	if (m->rank < 2 && !strstr(corale_comm_last_error(comm), "counts of a pair"))
		team_fault(m, "\"%s\" should name the counts", corale_comm_last_error(comm));
	if (clock_s() - start > 1)
		team_late(m, "%zu sent, %zu expected: took %.2f s", sent, expected, clock_s() - start);
	team_barrier(m);
	corale_comm_destroy(comm);
}

static void one_edge_of_all_to_all_v(struct team_member *m)
{
	one_edge(m, 0, 2);
	one_edge(m, 2, 0);
	one_edge(m, 3, 2);
}

/* A call of a v-form in which one rank has another count of a block. */
struct block {
	corale_coll coll;
	int rank, block; /* who says so, of which block */
	size_t counts[RANKS], said;
	const char *words[4]; /* in the error of some rank */
};

static int call_v(int rank, corale_comm *comm, const struct block *b, const size_t *counts)
{
	static const size_t displs[RANKS] = { 0, 16, 32, 48 };
	float send[64] = { 0 }, recv[64];
	const size_t own = counts[rank];
	switch (b->coll) {
	case CORALE_ALL_GATHER_V:
		return corale_all_gather_v(send, recv, counts, displs, CORALE_FLOAT32, comm, NULL);
	case CORALE_REDUCE_SCATTER_V:
		return corale_reduce_scatter_v(send, counts, displs, recv, CORALE_FLOAT32, CORALE_SUM, comm,
					       NULL);
	case CORALE_GATHER_V:
		return corale_gather_v(send, own, recv, counts, displs, CORALE_FLOAT32, 0, comm, NULL);
	default:
		return corale_scatter_v(send, counts, displs, recv, own, CORALE_FLOAT32, 0, comm, NULL);
	}
}

static const struct block blocks[] = {
	/* the largest block differs: that is part of each message's signature */
	{ CORALE_ALL_GATHER_V, ODD, 1, { 2, 4, 3, 1 }, 9, { "count 4", "count 9", "rank 2" } },
	{ CORALE_REDUCE_SCATTER_V, ODD, 1, { 2, 4, 3, 1 }, 9, { "count 4", "count 9", "rank 2" } },
	/* another block differs: headers say it */
	{ CORALE_ALL_GATHER_V, ODD, 0, { 2, 4, 3, 1 }, 1, { "rank 0", "2 elements", "rank 2", "expects 1" } },
	{ CORALE_ALL_GATHER_V, ODD, 3, { 2, 4, 3, 0 }, 1, { "rank 3", "0 elements", "rank 2", "expects 1" } },
	{ CORALE_REDUCE_SCATTER_V,
	  ODD,
	  0,
	  { 2, 4, 3, 1 },
	  1,
	  { "rank 2", "1 elements", "rank 0", "expects 2" } },
	{ CORALE_GATHER_V, ODD, ODD, { 2, 4, 3, 1 }, 5, { "rank 2", "5 elements", "rank 0", "expects 3" } },
	{ CORALE_GATHER_V, 0, 3, { 2, 4, 3, 1 }, 0, { "rank 3", "1 elements", "rank 0", "expects 0" } },
	{ CORALE_SCATTER_V, 0, 3, { 2, 4, 3, 1 }, 0, { "rank 0", "0 elements", "rank 3", "expects 1" } },
	{ CORALE_SCATTER_V, ODD, ODD, { 2, 4, 3, 1 }, 5, { "rank 0", "3 elements", "rank 2", "expects 5" } },
};

/* Some rank finds both counts, and all learn them by their next call. */
static void one_block(struct team_member *m, const struct block *b)
{
	size_t counts[RANKS];
	corale_comm *comm = NULL;
	team_expect(m, corale_comm_split(m->comm, 0, 0, &comm), 0, "split");
	memcpy(counts, b->counts, sizeof counts);
	if (m->rank == b->rank)
		counts[b->block] = b->said;
	const double start = clock_s();
	int ret = call_v(m->rank, comm, b, counts);
	if (ret == 0)
		ret = corale_barrier(comm, NULL);
	team_expect(m, ret, CORALE_EMISMATCH, corale_coll_name(b->coll));
	for (int i = 0; i < 4; i++)
		if (b->words[i] && !strstr(corale_comm_last_error(comm), b->words[i]))
			team_fault(m, "\"%s\" should name %s", corale_comm_last_error(comm), b->words[i]);
	if (clock_s() - start > 1)
		team_late(m, "took %.2f s", clock_s() - start);
	team_barrier(m);
	corale_comm_destroy(comm);
}

static void counts_of_v_forms(struct team_member *m)
{
	for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
		one_block(m, &blocks[i]);
}

/* ---- Aborts and deadlines ---- */

static void *abort_later(void *comm)
{
	usleep(100000);
	corale_comm_abort(comm);
	corale_comm_abort(comm);
	return NULL;
}

static void aborted(struct team_member *m)
{
	struct buffers b;
	pthread_t thread;
	poison(&b);
	double start = clock_s();
	if (m->rank == 1 && pthread_create(&thread, NULL, abort_later, m->comm))
		abort();
	/* ODD never comes, so that only the abort ends the call; on a busy machine the call may begin behind it. */
	if (m->rank != ODD) {
		int ret = call(m, &b, &reduce);
		if (ret != CORALE_EABORTED && ret != CORALE_ECOMM)
			team_fault(m, "a call that is aborted: %s", corale_strerror(ret));
	}
	if (m->rank == 1)
		pthread_join(thread, NULL);
	team_barrier(m);
	if (clock_s() - start > 3)
		team_late(m, "the abort took %.2f s", clock_s() - start);
	int ret = call(m, &b, &reduce); /* the one who is late may still find what the others sent */
	if (ret == 0 && m->rank == ODD)
		ret = corale_barrier(m->comm, NULL);
	if (ret != CORALE_ECOMM && ret != CORALE_EABORTED)
		team_fault(m, "a call after an abort: %s", corale_strerror(ret));
}

static void timed_out(struct team_member *m)
{
	struct buffers b;
	poison(&b);
	double start = clock_s();
	int ret = m->rank == ODD ? 0 : call(m, &b, &reduce);
	double took = clock_s() - start;
	if (m->rank != ODD && ret != CORALE_ETIMEDOUT)
		team_fault(m, "a rank that never comes: %s", corale_strerror(ret));
	if (took > 2)
		team_late(m, "a deadline of half a second took %.2f s", took);
	if (m->rank != ODD && !strstr(corale_comm_last_error(m->comm), "rank"))
		team_fault(m, "\"%s\" should name a rank", corale_comm_last_error(m->comm));
	team_barrier(m);
	ret = call(m, &b, &reduce); /* the one who is late may still find what the others sent */
	if (ret == 0 && m->rank == ODD)
		ret = corale_barrier(m->comm, NULL);
	if (ret != CORALE_ECOMM && ret != CORALE_ETIMEDOUT)
		team_fault(m, "a call after a deadline: %s", corale_strerror(ret));
}

/* A communicator with calls in flight that never end is destroyed after an abort without waiting. */
static void destroyed_in_flight(struct team_member *m)
{
	struct buffers *b = malloc(sizeof(*b));
	corale_stream *stream;
	if (!b)
		abort();
	poison(b);
	team_expect(m, corale_stream_create(&stream), 0, "stream");
	if (m->rank != ODD)
		team_expect(
		    m,
		    corale_all_reduce(b->send, b->recv, COUNT, CORALE_FLOAT32, CORALE_SUM, m->comm, stream),
		    0, "asynchronous call");
	if (m->rank != ODD && corale_stream_query(stream) != CORALE_INPROGRESS)
		team_fault(m, "an asynchronous call without its peers is not in progress");
	team_barrier(m);
	if (m->rank == 0)
		corale_comm_abort(m->comm);
	double start = clock_s();
	int ret = corale_stream_synchronize(stream);
	if (m->rank != ODD && ret != CORALE_EABORTED && ret != CORALE_ECOMM)
		team_fault(m, "synchronizing after an abort: %s", corale_strerror(ret));
	team_barrier(m);
	corale_comm_destroy(m->comm);
	m->comm = NULL;
	corale_stream_destroy(stream);
	if (clock_s() - start > 1)
		team_late(m, "ending took %.2f s", clock_s() - start);
	free(b);
}

static const struct {
	const char *name;
	void (*body)(struct team_member *m);
	double timeout;
} cases[] = {
	{ "a rank for itself as the root", two_roots, 0 },
	{ "a rank for itself as the root that sends", two_senders, 0 },
	{ "an end after a broadcast", one_sender, 0 },
	{ "an end before another's broadcast", late_receiver, 0 },
	{ "two ends before others' broadcasts", late_in_ring, 0 },
	{ "three ranks, one of which comes later", three_ranks, 0 },
	{ "counts of a send and its recv", pair_counts, 0 },
	{ "types of a send and its recv", pair_types, 0 },
	{ "edges of all_to_all_v", edges_of_all_to_all_v, 0 },
	{ "one edge of all_to_all_v", one_edge_of_all_to_all_v, 0 },
	{ "counts of v-forms", counts_of_v_forms, 0 },
	{ "abort from another thread", aborted, 0 },
	{ "a rank that never comes", timed_out, 0.5 },
	{ "abort with calls on a stream", destroyed_in_flight, 0 },
};
enum { CASES = sizeof(cases) / sizeof(cases[0]) };

static int run_here(int i)
{
	corale_config config;
	corale_config_init(&config);
	if (i < PAIRS)
		return team_run(RANKS, NULL, run_pair, (void *)(uintptr_t)&pairs[i]) != 0;
	config.timeout_seconds = cases[i - PAIRS].timeout;
	return team_run(RANKS, &config, cases[i - PAIRS].body, NULL) != 0;
}

static void run_case(void **state)
{
	char number[16];
	int i = (int)(intptr_t)*state;
	snprintf(number, sizeof(number), "%d", i);
	assert_int_equal(team_spawn("CORALE_DEBUG=none", number), 0);
	assert_int_equal(team_spawn("CORALE_DEBUG=none CORALE_NODE_SIZE=2", number), 0);
	assert_int_equal(team_spawn("CORALE_DEBUG=none CORALE_NODE_SIZE=1", number), 0);
}

int main(int argc, char **argv)
{
	struct CMUnitTest tests[PAIRS + CASES];
	if (argc > 1)
		return run_here(atoi(argv[1]) % (PAIRS + CASES));
	for (int i = 0; i < PAIRS + CASES; i++)
		tests[i] = (struct CMUnitTest){ i < PAIRS ? pairs[i].name : cases[i - PAIRS].name, run_case,
						NULL, NULL, (void *)(intptr_t)i };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
