/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fast path of small calls: its lists say what the plan's actions say, for every row, rank, root and some counts. And the choice between slots and
 * references: what is measured decides.
 */
#include "test/helpers/unit.h"
#include "base/collectives.h"
#include "host/host_fast.h"
#include "plan/codelet/row.h"
#include "test/helpers/plan_cases.h"

enum { MOST_RANKS = 9 };

/* ---- Lists ------------------------------------------------------------------------------ */

/* Windows of a node in this process's memory, as rank sees them. */
static void engine_open(struct host_engine *e, const struct topo *topo, int rank, struct settings *settings)
{
	*e = (struct host_engine){ .rank = rank,
				   .local = topo->local_of[rank],
				   .locals = topo->map.ranks,
				   .channels = 1,
				   .map = topo->map,
				   .settings = settings };
	window_layout_init(&e->layout, e->locals, 1, 2, 4096);
	e->windows = calloc((size_t)e->locals, sizeof *e->windows);
	e->pids = calloc((size_t)e->locals, sizeof *e->pids);
	for (int q = 0; q < e->locals; q++)
		e->windows[q] = calloc(1, e->layout.bytes);
	assert_int_equal(host_engine_open(e), 0);
}

static void engine_close(struct host_engine *e)
{
	host_engine_close(e);
	for (int q = 0; q < e->locals; q++)
		free(e->windows[q]);
	free(e->windows);
	free(e->pids);
}

static void expect_span(const struct host_fast_span *got, const struct plan_location *expected, size_t bytes)
{
	assert_int_equal(got->space, expected->space);
	if (expected->space)
		assert_int_equal(got->offset, expected->offset * bytes);
}

static void expect_sources(const struct host_fast_step *step, struct host_engine *e, const struct plan *plan,
			   const struct plan_action *a)
{
	int messages = 0, own = -1;
	const int n = a->from == PLAN_ALL ? host_group_size(e, a->from_group) : a->from != PLAN_NONE;
	for (int i = 0; i < n; i++) {
		const int rank = a->from == PLAN_ALL ? host_member(e, a, a->from_group, i) : a->from;
		if (rank == e->rank) {
			own = messages;
			continue;
		}
		assert_true(messages < step->nins);
		assert_ptr_equal(
		    step->ins[messages++],
		    host_in(e, e->map.local_of[rank], plan->queues[a->from_queue].all, 0, a->from_queue));
	}
	assert_int_equal(step->nins, messages);
	if (a->src.space)
		assert_int_equal(step->own, a->from == PLAN_ALL ? own : messages);
}

static void expect_step(const struct host_fast_step *step, struct host_engine *e, const struct plan *plan,
			const struct plan_action *a)
{
	const size_t type_bytes = corale_type_bytes((corale_type)plan->key.type);
	const int d = a->to == PLAN_ALL ? e->locals : a->to >= 0 ? e->map.local_of[a->to] : -1;
	expect_sources(step, e, plan, a);
	expect_span(&step->src, &a->src, type_bytes);
	expect_span(&step->dst, &a->dst, type_bytes);
	assert_int_equal(step->bytes, a->op == PLAN_MOVE ? a->count * type_bytes : 0);
	assert_int_equal(!step->final, !(a->flags & PLAN_FINAL));
	assert_ptr_equal(step->out, d < 0 ? NULL : host_out(e, d, 0, a->to_queue));
}

/* Of v-forms: 0 elements for some ranks or pairs of ranks. */
struct uneven {
	size_t words[4][MOST_RANKS];
};

static struct uneven uneven_of(int rank, size_t count)
{
	struct uneven u = { { { 0 } } };
	for (size_t r = 0; r < MOST_RANKS; r++) {
		u.words[0][r] = (count + r) % 5 * 7;
		u.words[1][r] = 100 * r;
		u.words[2][r] = (count + 2 * r + (size_t)rank) % 4 * 9;
		u.words[3][r] = 300 + 100 * r;
	}
	return u;
}

static struct host_fast_call call_of(const struct plan *plan, int rank, int root, size_t count,
				     const struct uneven *u)
{
	struct host_fast_call call = { root, count, 0, { NULL } };
	const struct collective *c = &coll_table[plan->key.coll];
	const int sends = c->send == COLL_UNEVEN && (rank == root || !c->root_sends),
		  receives = c->recv == COLL_UNEVEN && (rank == root || !c->root_receives);
	for (int i = 0; i < 4; i++)
		if (i < 2 ? sends : receives)
			call.uneven[i] = u->words[i];
	if (c->send == COLL_UNEVEN || c->recv == COLL_UNEVEN)
		call.own = sends ? u->words[0][rank] : receives ? u->words[2][rank] : count % 5;
	return call;
}

/* What headers say of the elements of a pair of ranks, or of a block. */
static void expect_edge(const struct host_fast_step *step, const struct plan *plan,
			const struct plan_env *env, const struct plan_action *a)
{
	size_t expected = coll_is_uneven(plan->key.coll) ? plan_message_block(env, a) : 0;
	if (plan->key.coll == CORALE_ALL_TO_ALL_V && a->from >= 0)
		expected = env->recv_counts[a->from];
	if (plan->key.coll == CORALE_ALL_TO_ALL_V && a->to >= 0)
		expected = env->send_counts[a->to];
	assert_int_equal(step->edge, expected);
}

/* Calls that differ from this one in a count or a place alone have other lists. */
static void expect_other_lists(struct host_fast *fast, struct host_engine *e, const struct plan *plan,
			       const struct host_fast_call *call)
{
	const struct host_fast_list *list = host_fast_find(fast, e, plan, call);
	for (int i = 0; i < 4 && list; i++) {
		struct host_fast_call other = *call;
		size_t changed[MOST_RANKS];
		if (!call->uneven[i])
			continue;
		memcpy(changed, call->uneven[i], (size_t)e->map.ranks * sizeof *changed);
		changed[e->map.ranks - 1]++;
		other.uneven[i] = changed;
		assert_ptr_not_equal(host_fast_find(fast, e, plan, &other), list);
	}
	assert_ptr_equal(host_fast_find(fast, e, plan, call), list);
}

/* 1 if the rank has a list of the call. */
static int expect_list(struct host_engine *e, const struct plan *plan, int root, size_t count)
{
	struct host_fast *fast = calloc(1, sizeof *fast);
	const struct uneven uneven = uneven_of(e->rank, count);
	const struct host_fast_call call = call_of(plan, e->rank, root, count, &uneven);
	const struct host_fast_list *list = host_fast_find(fast, e, plan, &call);
	struct plan_env env;
	struct plan_action action;
	int steps = 0;
	plan_env_init(&env, plan, &e->map, e->rank, root, count);
	if (coll_is_uneven(plan->key.coll))
		plan_env_uneven(&env, plan, call.uneven, call.own);
	for (int i = 0; list && i < plan->nprograms; i++) {
		struct plan_cursor cursor;
		plan_cursor_start(&cursor, plan, i);
		while (plan_cursor_next(&cursor, plan, &env, &action)) {
			assert_true(steps < list->nsteps);
			expect_edge(&list->steps[steps], plan, &env, &action);
			expect_step(&list->steps[steps++], e, plan, &action);
		}
	}
	if (list)
		assert_int_equal(steps, list->nsteps);
	expect_other_lists(fast, e, plan, &call);
	free(fast);
	return list != NULL;
}

static int expect_lists(const struct topo *topo, const struct plan *plan, size_t count)
{
	struct settings settings = { .memory_cap = 1 << 30 };
	const int roots = coll_table[plan->key.coll].rooted ? topo->map.ranks : 1;
	int lists = 0;
	for (int rank = 0; rank < topo->map.ranks; rank++) {
		struct host_engine e;
		engine_open(&e, topo, rank, &settings);
		const struct uneven uneven = uneven_of(rank, count);
		const struct host_fast_call call = call_of(plan, rank, 0, count, &uneven);
		for (int root = 0; root < roots && host_fast_serves(&e, plan, &call); root++)
			lists += expect_list(&e, plan, root, count);
		engine_close(&e);
	}
	return lists;
}

UNIT_TEST(lists_are_plans)
{
	static const size_t counts[] = { 1, 3, 8, 9, 200 };
	int rows, with_list[64] = { 0 }, all = 0;
	row_table(&rows);
	for (int n = 2; n <= MOST_RANKS; n++) {
		struct topo *topo = cases_topo(n, SPLIT_ONE_NODE);
		for (int row = 0; row < rows; row++) {
			for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
				const struct plan_case c = { .topo = topo,
							     .row = row,
							     .count = counts[i],
							     .channels = 1,
							     .calls = 1 };
				struct plan plan;
				if (cases_build(&c, &plan) && !coll_table[plan.key.coll].pair)
					with_list[plan.key.coll] += expect_lists(topo, &plan, counts[i]);
			}
		}
		topo_destroy(topo);
	}
	for (int coll = 0; coll < CORALE_NUM_COLLS; coll++)
		all += with_list[coll] > 0;
	assert_true(all >= 10); /* each collective has rows with lists */
}

/* More counts and roots than are kept, by turns. */
UNIT_TEST(lists_are_made_anew)
{
	struct topo *topo = cases_topo(4, SPLIT_ONE_NODE);
	struct settings settings = { .memory_cap = 1 << 30 };
	struct host_fast *fast = calloc(1, sizeof *fast);
	struct host_engine e;
	struct plan plan;
	int row = 0, rows;
	const struct plan_case c = { .topo = topo, .count = 9, .channels = 1, .calls = 1 };
	struct plan_case broadcast = c;
	row_table(&rows);
	do
		broadcast.row = row++;
	while (!cases_build(&broadcast, &plan) || plan.key.coll != CORALE_BROADCAST || plan.scratch_cells);
	engine_open(&e, topo, 1, &settings);
	for (int i = 0; i < 100; i++) {
		const int root = i % 3;
		const size_t count = (size_t)(i % 4) + 1;
		const struct host_fast_call call = { root, count, 0, { NULL } };
		const struct host_fast_list *list = host_fast_find(fast, &e, &plan, &call);
		assert_non_null(list);
		assert_int_equal(list->root, root);
		assert_int_equal(list->count, count);
	}
	engine_close(&e);
	free(fast);
	topo_destroy(topo);
}

/* ---- Messages --------------------------------------------------------------------------- */

/* The first row of that collective. */
static void build_pair(const struct topo *topo, corale_coll coll, struct plan *plan)
{
	struct plan_case c = { .topo = topo, .count = 8, .channels = 1, .calls = 1 };
	while (!cases_build(&c, plan) || plan->key.coll != coll)
		c.row++;
}

/* Rank 0 sends count floats to rank 1, which expects 8: 1 if rank 1 has taken them. */
static int take_sent(size_t count)
{
	struct topo *topo = cases_topo(2, SPLIT_ONE_NODE);
	struct settings settings = { .memory_cap = 1 << 30 };
	struct host_engine from, to;
	struct host_fast *fast[2] = { calloc(1, sizeof **fast), calloc(1, sizeof **fast) };
	struct plan send, recv;
	const float sent[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	float got[8] = { 0 };
	build_pair(topo, CORALE_SEND, &send);
	build_pair(topo, CORALE_RECV, &recv);
	engine_open(&from, topo, 0, &settings);
	to = (struct host_engine){ .rank = 1,
				   .local = 1,
				   .locals = 2,
				   .channels = 1,
				   .map = topo->map,
				   .settings = &settings,
				   .layout = from.layout,
				   .windows = from.windows,
				   .pids = from.pids };
	assert_int_equal(host_engine_open(&to), 0);
	const struct host_fast_call sends = { 1, count, 0, { NULL } }, recvs = { 0, 8, 0, { NULL } };
	struct host_binding binding = {
		.send = sent, .recv = got, .signature = 5, .spec = { .type = CORALE_FLOAT32 }
	};
	int steps = 0;
	assert_int_equal(
	    host_fast_run(host_fast_find(fast[0], &from, &send, &sends), &from, &binding, 1, &steps), 1);
	steps = 0;
	const int taken =
	    host_fast_run(host_fast_find(fast[1], &to, &recv, &recvs), &to, &binding, 1, &steps);
	assert_int_equal(steps, taken);
	assert_true(got[0] == (taken ? 1 : 0));
	host_engine_close(&to);
	engine_close(&from);
	free(fast[0]);
	free(fast[1]);
	topo_destroy(topo);
	return taken;
}

/* A message of another count is left to the plan's run, which says what is wrong. */
UNIT_TEST(other_counts_are_not_taken)
{
	assert_int_equal(take_sent(8), 1);
	assert_int_equal(take_sent(7), 0);
}

/* ---- Ways ------------------------------------------------------------------------------- */

/* A machine on which messages take so many ns; each one in odd takes a hundred times as long. */
struct machine {
	int64_t write_ns, read_ns[HOST_WAYS];
	int odd;
};

struct sender {
	struct host_path paths[HOST_PATH_CLASSES];
	_Atomic uint64_t reader[8]; /* a line of the reader's window */
	uint64_t number, seen;
	int one_way;
};

static enum host_way send_one(struct sender *s, size_t bytes, const struct machine *machine)
{
	_Atomic uint64_t *const readers[] = { s->reader };
	host_path_learn(s->paths, readers, 1, &s->seen);
	const enum host_way way =
	    host_path_choose(s->paths, bytes, s->number, (struct host_flow){ s->one_way, 1 });
	const int64_t times = machine->odd && s->number % (uint64_t)machine->odd == 0 ? 100 : 1;
	if (host_path_is_timed(bytes, s->number)) {
		if (way == HOST_BY_SLOT)
			host_path_wrote(s->paths, bytes, machine->write_ns * times);
		host_path_publish(s->reader, bytes, way, s->number, machine->read_ns[way] * times);
	}
	s->number++;
	return way;
}

/* Of n messages, those that went another way than the expected one. */
static int strays(struct sender *s, size_t bytes, const struct machine *machine, int n,
		  enum host_way expected)
{
	int strays = 0;
	for (int i = 0; i < n; i++)
		strays += send_one(s, bytes, machine) != expected;
	return strays;
}

UNIT_TEST(the_faster_way_is_taken)
{
	static const struct machine slots = { 2000, { 2000, 9000 }, 0 },
				    references = { 6000, { 6000, 4000 }, 0 };
	static const size_t sizes[] = { 4096, 16384, 65536, 1 << 20, 1 << 26 };
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		struct sender s = { .number = 0 };
		strays(&s, sizes[i], &slots, 2000, HOST_BY_SLOT);
		assert_in_range(strays(&s, sizes[i], &slots, 10000, HOST_BY_SLOT), 1, 200);
		strays(&s, sizes[i], &references, 20000, HOST_BY_REFERENCE); /* the machine has changed */
		assert_in_range(strays(&s, sizes[i], &references, 10000, HOST_BY_REFERENCE), 1, 200);
		strays(&s, sizes[i], &slots, 20000, HOST_BY_SLOT);
		assert_in_range(strays(&s, sizes[i], &slots, 10000, HOST_BY_SLOT), 1, 200);
	}
}

/* The first messages meet page faults, and a thread loses its core now and then. */
UNIT_TEST(disturbances_do_not_count)
{
	static const struct machine slow = { 200000, { 100000, 9000 }, 0 };
	static const struct machine slots = { 2000, { 2000, 9000 }, 41 };
	struct sender s = { .number = 0 };
	strays(&s, 32768, &slow, 30, HOST_BY_SLOT);
	strays(&s, 32768, &slots, 5000, HOST_BY_SLOT);
	assert_in_range(strays(&s, 32768, &slots, 20000, HOST_BY_SLOT), 1, 400);
}

/* Copies into slots and out of them overlap where ranks do one of both. */
UNIT_TEST(copies_overlap)
{
	static const struct machine machine = { 3000, { 3500, 5000 }, 0 };
	struct sender both = { .one_way = 0 }, one = { .one_way = 1 };
	strays(&both, 65536, &machine, 2000, HOST_BY_REFERENCE);
	strays(&one, 65536, &machine, 2000, HOST_BY_SLOT);
	assert_in_range(strays(&both, 65536, &machine, 10000, HOST_BY_REFERENCE), 1, 200);
	assert_in_range(strays(&one, 65536, &machine, 10000, HOST_BY_SLOT), 1, 200);
}

UNIT_TEST(small_messages_have_slots)
{
	assert_false(host_path_is_timed(HOST_PATH_LEAST - 1, 0));
	assert_true(host_path_is_timed(HOST_PATH_LEAST, 8));
	assert_false(host_path_is_timed(HOST_PATH_LEAST, 9));
	assert_true(host_path_is_timed(HOST_PATH_LONG, 9));
}

/* ---- Copies ----------------------------------------------------------------------------- */

/* Both kinds of store, at every distance from a line, lengths that end within one; and nothing beside the copy is written. */
UNIT_TEST(copies_are_right)
{
	enum { MOST = HOST_COPY_LEAST + 200, ROOM = MOST + 256 };
	static unsigned char from[ROOM], to[ROOM], expected[ROOM];
	struct host_copier copier = { .copies = 0 };
	for (size_t i = 0; i < ROOM; i++)
		from[i] = (unsigned char)(i * 7 + i / 251);
	for (int i = 0; i < 640; i++) {
		const size_t bytes = HOST_COPY_LEAST + (size_t)i % 199, to_at = (size_t)i % 65,
			     from_at = (size_t)i * 5 % 67;
		memset(to, 0xa5, ROOM);
		memset(expected, 0xa5, ROOM);
		memcpy(expected + to_at, from + from_at, bytes);
		host_copy(&copier, to + to_at, from + from_at, bytes);
		assert_memory_equal(to, expected, ROOM);
	}
	assert_true(copier.ns[HOST_STORE_CACHED] > 0 && copier.ns[HOST_STORE_PAST] > 0);
	assert_false(host_copy_exceeds_cache(HOST_COPY_CALL - 1));
	assert_true(host_copy_exceeds_cache((size_t)1 << 40));
}
