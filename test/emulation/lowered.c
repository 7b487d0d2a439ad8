/* SPDX-License-Identifier: BSD-3-Clause */
/* Lowered plans: every row of the algorithm table that a node of GPUs can run, by the one kernel that runs any. */
#include "emulation_test.h"

#include <stdio.h>

#include "base/collectives.h"
#include "test/helpers/op_sets.h"
#include "plan/codelet/row.h"
#include "script.h"
#include "test/helpers/thin.h"
#include "test/helpers/row_find.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

/* What plans are made for, and how they run. */
struct way {
	int words; /* by these, over a link that tears lines */
	const int *nodes; /* over these; NULL: all ranks reach each other's memory */
	unsigned slab_rails; /* between them */
};

enum { REMOTE_SLOT = 1 << 10 };

static struct world_params of_ranks(int ranks, struct way way)
{
	return (struct world_params){ .ranks = ranks,
				      .max_blocks = test_thin ? 2 : 6,
				      .window_bytes = 512 << 10,
				      .torn_lines = way.words,
				      .words_only = way.words,
				      .nodes = way.nodes,
				      .slab_rails = way.slab_rails,
				      .remote_slot = REMOTE_SLOT };
}

/* Whether the planner makes a plan of a row, and calls.c knows the collective. spans: its messages have several
 * blocks, so these are small. */
static int applies(int row, int ranks, struct way way, int *spans)
{
	int rows, ret, list;
	const struct row *algo = &row_table(&rows)[row];
	struct plan_key key = planner_key(algo->coll, 1, CORALE_FLOAT16, CORALE_SUM);
	const struct world_params p = of_ranks(ranks, way);
	struct world w;
	struct plan plan;
	struct lowered_messages messages;
	if (algo->codelet)
		return 0;
	if (way.nodes && coll_is_uneven(algo->coll)) /* edges have messages of their own */
		return 0;
	if (coll_is_pair(algo->coll) || !coll_has_data(algo->coll) || world_open(&w, &p))
		return 0;
	ret = world_plan(&w, &key, row, 0, 0, 0, &plan, &list, &messages);
	world_close(&w);
	*spans = !ret && plan.spans;
	return !ret;
}

static void set_type(struct test_call *c, int i)
{
	c->type = (corale_type)((size_t)(i * 5 + 8) % CORALE_NUM_TYPES);
	c->op = coll_folds(c->coll) ? op_of_type(c->type, (size_t)i) : 0;
	c->scalar_changes = c->op == CORALE_NUM_OPS && (i / (CORALE_NUM_OPS + 1) + (int)test_seed) % 2;
}

/* A vector's ends, one chunk and several, buffers at addresses of all kinds, every root. */
static void add_calls(struct script *s, int row, int spans, struct way way)
{
	static const size_t counts[][7] = { { 1, 700, 0, 9001, 33, 64, 5000 }, { 1, 30, 0, 16, 29, 2, 21 } };
	static const unsigned shifts[] = { 0, 1, 4, 8, 13, 16, 30, 64 };
	int rows;
	const struct row *algo = &row_table(&rows)[row];
	struct test_call c = { .codelet = NULL, .row = row, .coll = algo->coll };
	const int roots = coll_is_rooted(c.coll) ? s->params.ranks : 0;
	const int first = test_thin ? (row + (int)(test_seed % 4)) % 4 : 0,
		  end = test_thin ? first + 3 : (int)COUNT(*counts) + roots;
	for (int i = first; i < end; i++) {
		size_t turn = (size_t)i + test_seed;
		set_type(&c, i + row + (int)(test_seed % 7));
		c.count = counts[spans][(size_t)i % COUNT(*counts)];
		if (spans && corale_type_bytes(c.type) > 8) /* half of all blocks fit a slot */
			c.count /= 2;
		c.root = roots ? i % roots : 0;
		c.send_shift = i % 3 ? 0 : shifts[turn % COUNT(shifts)];
		c.recv_shift = i % 3 ? 0 : shifts[turn / 2 % COUNT(shifts)];
		c.in_place = !coll_is_uneven(c.coll) && i % 4 == 3;
		c.in_place <<= c.coll == CORALE_REDUCE_SCATTER && i % 8 == 3; /* CALL_AT_FRONT */
		c.in_lines = (i + (int)test_seed) % 4 != 0;
		if (c.in_place)
			c.recv_shift = c.send_shift = 0;
		script_add(s, c);
	}
}

static int run_row(int row, int spans, int ranks, struct way way)
{
	int rows, faults;
	struct script *s = script_new(of_ranks(ranks, way), test_seed);
	s->most_pause = 300;
	add_calls(s, row, spans, way);
	faults = script_run(s);
	if (faults)
		printf("# %s by %s, %d ranks%s%s\n", corale_coll_name(row_table(&rows)[row].coll),
		       row_table(&rows)[row].name, ranks, way.nodes ? " of several nodes" : "",
		       way.slab_rails ? ", slots in slabs" : "");
	return faults;
}

/* Of the rows one in so many (test/helpers/thin.h), others in another turn. */
static int run_rows_of(int ranks, struct way way, int turn, unsigned one_in, int *ran)
{
	int rows, faults = 0, spans;
	row_table(&rows);
	for (int row = 0; !faults && row < rows; row++) {
		if (!thin_takes((uint64_t)(turn * rows + row), one_in) || !applies(row, ranks, way, &spans))
			continue;
		faults = run_row(row, spans, ranks, way);
		++*ran;
	}
	return faults;
}

static int run_rows(struct way way)
{
	int faults = 0, ran = 0;
	for (int ranks = 1; !faults && ranks <= (test_thin ? 3 : 5); ranks += test_thin ? 2 : 1)
		faults = run_rows_of(ranks, way, 0, 1, &ran);
	return faults ? faults : !ran;
}

/* Groups of nodes, of which those behind the first take one row in eight, as all do with windows in host memory. */
int test_remote_lowered(void)
{
	int faults = 0, ran = 0;
	struct world_params p;
	for (int i = 0; !faults && remote_nodes(i, &p); i++) {
		const struct way way = { .nodes = p.nodes, .slab_rails = p.slab_rails };
		faults = run_rows_of(p.ranks, way, i, i >= REMOTE_WAYS || world_in_host ? 8 : 2, &ran);
	}
	return faults ? faults : !ran;
}

int test_lowered(void)
{
	return run_rows((struct way){ 0 });
}

/* Over a link that tears lines. */
int test_lowered_by_words(void)
{
	return run_rows((struct way){ .words = 1 });
}

/* The same slots and flags, cut in other ways; calls that do not wait for anybody before they fill slots. */
int test_lowered_in_turn(void)
{
	static const struct {
		const struct codelet *codelet;
		corale_coll coll;
		const char *algo;
	} calls[] = {
		{ NULL, CORALE_ALL_REDUCE, "twoshot" },     { &bulk_codelet, CORALE_ALL_REDUCE, "" },
		{ NULL, CORALE_ALL_GATHER, "ring" },        { &one_shot_codelet, CORALE_ALL_REDUCE, "" },
		{ &fifo_codelet, CORALE_BROADCAST, "" },    { NULL, CORALE_ALL_TO_ALL, "pairwise" },
		{ &fifo_codelet, CORALE_ALL_TO_ALL_V, "" }, { NULL, CORALE_ALL_TO_ALL_V, "pairwise" },
		{ &fifo_codelet, CORALE_ALL_GATHER, "" },   { NULL, CORALE_BROADCAST, "scatter" }
	};
	struct script *s = script_new(of_ranks(3, (struct way){ 0 }), test_seed);
	s->most_pause = 500;
	for (int i = 0; i < (test_thin ? 8 : 40); i++) {
		size_t k = (size_t)(i * 3) % COUNT(calls);
		struct test_call c =
		    call_by(calls[k].codelet, calls[k].coll, CORALE_INT32, i % 5 == 4 ? 3 : 4000);
		c.row = c.codelet ? 0 : row_find(c.coll, calls[k].algo);
		c.in_lines = i % 2;
		c.root = c.coll == CORALE_BROADCAST ? i % 3 : 0;
		script_add(s, c);
	}
	return script_run(s);
}

/* A root that only sends, or only receives, could be calls ahead of the others, or behind them: places are stored to again two calls later. */
int test_lowered_rooted(void)
{
	static const struct {
		corale_coll coll;
		const char *algo;
	} calls[] = { { CORALE_BROADCAST, "flat" },
		      { CORALE_REDUCE, "oneshot" },
		      { CORALE_GATHER, "flat" },
		      { CORALE_SCATTER, "flat" } };
	struct script *s =
	    script_new(of_ranks(3, (struct way){ .words = (int)(test_seed / 2 % 2) }), test_seed);
	s->most_pause = 20000;
	for (int i = 0; i < (test_thin ? 16 : 80); i++) {
		const size_t k = (test_seed + (size_t)i / 8) % COUNT(calls);
		struct test_call c = call_by(NULL, calls[k].coll, CORALE_INT32, 200);
		c.row = row_find(c.coll, calls[k].algo);
		c.in_lines = 1;
		script_add(s, c);
	}
	return script_run(s);
}

/* ---- Counts of an edge that its ends don't agree on --------------------------------------------------------- */

struct astray {
	struct world world;
	struct test_call call;
	struct started started[3];
};

static void call_astray(int rank, void *arg)
{
	struct astray *a = arg;
	if (call_start(&a->started[rank], &a->world, rank, &a->call, call_signature(&a->call)))
		printf("# rank %d: an all_to_all_v could not be started\n", rank);
	gpu_synchronize();
	call_drop(&a->started[rank]);
}

/* Whoever awaits the other count says so, with both; nobody's call ends well. */
static int expect_counts(const struct astray *a, size_t sent)
{
	const struct codelet_failure *f = a->world.engines[1].failure;
	const uint64_t type = (uint64_t)a->call.type << CODELET_TYPE_SHIFT, element = 4;
	int good = f->peer == 0 && f->of_message && f->got == (type | sent * element) &&
		   f->expected == (type | (sent + a->call.astray) * element);
	for (int r = 0; r < a->world.ranks; r++)
		good &= a->world.engines[r].failure->code == CORALE_EMISMATCH;
	if (!good)
		printf("# an edge of %zu elements, one more is awaited: rank 1 has '%s', peer %d, expected "
		       "%llx, got %llx\n",
		       sent, corale_strerror(f->code), f->peer, (unsigned long long)f->expected,
		       (unsigned long long)f->got);
	return !good;
}

int test_lowered_counts(void)
{
	struct astray a = { .call = { .codelet = NULL,
				      .coll = CORALE_ALL_TO_ALL_V,
				      .row = row_find(CORALE_ALL_TO_ALL_V, "pairwise"),
				      .type = CORALE_INT32,
				      .count = 2000,
				      .astray = 1 } };
	const struct world_params p = of_ranks(3, (struct way){ 0 });
	int faults = 0;
	for (a.call.seed = test_seed; !faults && a.call.seed < test_seed + 4; a.call.seed++) {
		if (world_open(&a.world, &p))
			return 1;
		if (gpu_run(3, call_astray, &a, test_seed))
			return -1;
		faults = expect_counts(&a, a.started[0].send_counts[1]);
		world_close(&a.world);
	}
	return faults;
}

/* Calls of so many chunks that they may have more messages than one epoch numbers, in turn with calls by other kernels. */
int test_lowered_many_messages(void)
{
	enum { RANKS = 8, CHUNK = 512, CHUNKS = 13200 };
	static const struct world_params p = {
		.ranks = RANKS, .max_blocks = 1, .window_bytes = 512 << 10, .chunk_bytes = CHUNK
	};
	const struct test_call many = { .coll = CORALE_REDUCE,
					.row = row_find(CORALE_REDUCE, "binomial"),
					.type = CORALE_INT32,
					.count = CHUNKS * CHUNK / 4,
					.root = 3 };
	const struct test_call packets = call_by(&one_shot_codelet, CORALE_ALL_REDUCE, CORALE_INT32, 100);
	const struct test_call slots = call_by(&bulk_codelet, CORALE_REDUCE_SCATTER, CORALE_INT32, 3000);
	if (test_thin) /* the long call is what this is about */
		return 0;
	struct script *s = script_new(p, test_seed);
	script_add(s, packets);
	script_add(s, many);
	script_add(s, slots);
	script_add(s, packets);
	script_add(s, slots);
	return script_run(s);
}
