/* Sizes of lanes between nodes, and which plans have room: what all ranks must agree on without a message, on machines that nobody has here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/collectives.h"
#include "base/settings.h"
#include "base/status.h"
#include "net/lanes.h"
#include "plan/row.h"
#include "plan/lower_room.h"
#include "plan/planner.h"
#include "plan/rates.h"
#include "plan/topo.h"

enum { CAP = 64 << 20, SLOTS = 8 << 20, KIBI = 1 << 10 };

/* ---- Sizes ------------------------------------------------------------------------------------------------ */

enum { LEAST_CHUNK = 512 /* of a plan */ };

/* Nodes of `each` ranks, but one of `least`, whose rank has the most peers. */
static void check_shape(int nodes, int each, int least, size_t cap)
{
	const int ranks = (nodes - 1) * each + least, peers = ranks - least;
	const struct remote r = lanes_shape(ranks, nodes, each, least, cap);
	const size_t pairs =
	    2 * (size_t)peers * r.pair_channels * remote_end_bytes(&r.slots[REMOTE_OF_PAIRS]);
	for (int use = 0; use < REMOTE_USES; use++) {
		const struct remote_slots *s = &r.slots[use];
		assert_true(s->bytes >= (use == REMOTE_OF_PAIRS ? REMOTE_LINE : LEAST_CHUNK));
		assert_true(s->bytes % REMOTE_LINE == 0);
		assert_true(s->depth >= 2 && !(s->depth & (s->depth - 1)));
	}
	assert_true(r.pair_channels >= 1 && r.pair_channels <= REMOTE_CHANNELS);
	assert_true(pairs <= cap / 8 * 3);
	assert_true(lanes_bytes(&r, cap) <= cap);
	if (peers <= LANES_FAR)
		assert_true(2 * (size_t)peers * PLAN_MAX_RINGS *
				remote_end_bytes(&r.slots[REMOTE_OF_NARROW_PLANS]) <=
			    cap / 8);
}

/* All lanes for sends fit into the least memory, and no longer into a little less. */
static void check_least(int ranks)
{
	const size_t least = lanes_least_cap(ranks - 1);
	const struct remote r = lanes_shape(ranks, ranks, 1, 1, least);
	const size_t pairs = 2 * (size_t)(ranks - 1) * remote_end_bytes(&r.slots[REMOTE_OF_PAIRS]);
	assert_int_equal(r.pair_channels, 1);
	assert_in_range(pairs, 0, (least - REMOTE_LINE) / 8 * 3);
	assert_in_range((least - REMOTE_LINE - 8) / 8 * 3, 0, pairs - 1);
	assert_in_range(lanes_bytes(&r, least), 0, least);
}

static void test_shapes(void **state)
{
	(void)state;
	for (int ranks = 2; ranks <= 16384; ranks *= 2)
		check_least(ranks);
	for (int nodes = 2; nodes <= 256; nodes += nodes < 20 ? 1 : 59)
		for (int each = 1; each <= 8; each++)
			for (size_t cap = CAP / 4; cap <= CAP; cap *= 2) {
				check_shape(nodes, each, each, cap);
				check_shape(nodes, each, 1, cap);
			}
}

static void expect(int nodes, int each, size_t of_plans, size_t of_pairs)
{
	const struct remote r = lanes_shape(nodes * each, nodes, each, each, CAP);
	assert_in_range(r.slots[REMOTE_OF_PLANS].bytes, of_plans, 64 * KIBI);
	assert_in_range(r.slots[REMOTE_OF_PAIRS].bytes, of_pairs, 64 * KIBI);
}

static void test_sizes(void **state)
{
	(void)state;
	expect(2, 1, 64 * KIBI, 64 * KIBI);
	expect(2, 8, 64 * KIBI, 40 * KIBI);
	expect(4, 8, 64 * KIBI, 16 * KIBI);
	expect(9, 8, 30 * KIBI, 16 * KIBI);
	expect(16, 8, 30 * KIBI, 16 * KIBI);
	expect(256, 8, 15 * KIBI, 2 * KIBI);
}

/* Ends of one table do not overlap, and are apart from the words before them. */
static void test_places(void **state)
{
	(void)state;
	const struct remote r = lanes_shape(4, 4, 1, 1, CAP);
	unsigned char *seen = calloc(remote_place_of(3, REMOTE_OUT, 0), 1);
	assert_non_null(seen);
	for (int peer = 0; peer < 3; peer++)
		for (uint32_t lane = 0; lane < REMOTE_LANES; lane++)
			for (int d = REMOTE_OUT; d <= REMOTE_IN; d++)
				assert_false(seen[remote_place_of(peer, (enum remote_direction)d, lane)]++);
	free(seen);
	const struct remote_slots *s = &r.slots[REMOTE_OF_PLANS];
	const unsigned char *last = remote_data_at(&r, 1, s, s->depth - 1) + s->bytes;
	assert_int_equal((size_t)(last - (unsigned char *)remote_words_at(&r, 1)), remote_end_bytes(s));
}

/* ---- Plans ------------------------------------------------------------------------------------------------ */

struct machine {
	struct topo *topo;
	struct plan_node node;
	struct planner planner;
	struct remote shape;
	struct lanes_account account;
	unsigned char *open; /* by rank, rank at the other end, direction and lane */
};

static int least_size(const struct plan_map *map)
{
	int least = map->max_node_size;
	for (int node = 0; node < map->nodes; node++) {
		const int size = map->node_first[node + 1] - map->node_first[node];
		least = size < least ? size : least;
	}
	return least;
}

static void make_machine(struct machine *m, const char *text, size_t slots_bytes, size_t cap)
{
	static struct settings settings;
	char error[200];
	memset(m, 0, sizeof *m);
	assert_int_equal(topo_parse(text, &m->topo, error, sizeof error), 0);
	m->node = (struct plan_node){ .rates = rates_of_default_gpu(),
				      .max_blocks = 64,
				      .slots_bytes = slots_bytes };
	m->node.ranks = m->topo->map.max_node_size;
	const struct plan_map *map = &m->topo->map;
	topo_set_gpus(m->topo, m->node.rates);
	planner_init_gpus(&m->planner, m->topo, &settings, &m->node);
	m->shape = lanes_shape(map->ranks, map->nodes, map->max_node_size, least_size(map), cap);
	planner_limit_remote(&m->planner, m->shape.slots[REMOTE_OF_PLANS].bytes, REMOTE_CHANNELS, 24);
	m->planner.by_nodes = m->topo->map.max_node_size > 1;
	assert_int_equal(lanes_account_open(&m->account, &m->shape, REMOTE_OF_PLANS, cap, &m->topo->map), 0);
	const size_t ranks = (size_t)m->topo->map.ranks;
	assert_non_null(m->open = calloc(ranks * ranks * 2, REMOTE_LANES));
}

static void drop_machine(struct machine *m)
{
	lanes_account_close(&m->account);
	topo_destroy(m->topo);
	free(m->open);
}

static unsigned char *end_of(const struct machine *m, int rank, int other, int direction, uint32_t lane)
{
	const size_t ranks = (size_t)m->topo->map.ranks;
	return &m->open[(((size_t)rank * ranks + (size_t)other) * 2 + (size_t)direction) * REMOTE_LANES +
			lane];
}

static void open_ends(struct machine *m, const struct lowered *list, int rank, int first, int count, int ring,
		      int direction, int channels)
{
	const int *node_of = m->topo->map.node_of;
	for (int k = 0; k < count; k++) {
		const int other = list->peers[first + k].rank;
		for (int c = 0; c < channels && node_of[other] != node_of[rank]; c++)
			*end_of(m, rank, other, direction, remote_lane((uint32_t)c, (uint32_t)ring)) = 1;
	}
}

/* As lib/cuda/engine_cuda_lanes.c does, on all ranks. */
static void open_plan(struct machine *m, const struct plan *plan, int root)
{
	struct lowered list;
	const char *why;
	for (int rank = 0; rank < m->topo->map.ranks; rank++) {
		assert_int_equal(lower_plan(plan, &m->topo->map, rank, root, &list, &why), 0);
		for (int i = 0; i < list.nops; i++) {
			const struct lowered_op *op = &list.ops[i];
			open_ends(m, &list, rank, op->to_first, op->to_count, op->to_ring, REMOTE_OUT,
				  plan->channels);
			open_ends(m, &list, rank, op->from_first, op->from_count, op->from_ring, REMOTE_IN,
				  plan->channels);
		}
		lowered_free(&list);
	}
}

/* Each rank has room for what is open, and what one sends along the other awaits. */
static void check_machine(const struct machine *m)
{
	const size_t end = remote_end_bytes(&m->shape.slots[REMOTE_OF_PLANS]);
	for (int rank = 0; rank < m->topo->map.ranks; rank++) {
		size_t bytes = 0;
		for (int other = 0; other < m->topo->map.ranks; other++)
			for (uint32_t lane = 0; lane < REMOTE_LANES; lane++) {
				const unsigned char out = *end_of(m, rank, other, REMOTE_OUT, lane);
				assert_int_equal(out, *end_of(m, other, rank, REMOTE_IN, lane));
				bytes += (size_t)(out + *end_of(m, rank, other, REMOTE_IN, lane)) * end;
			}
		assert_true(bytes <= m->account.bytes);
	}
}

/* Calls of all kinds and sizes; how many plans were refused. */
static int make_calls(struct machine *m)
{
	static const corale_coll colls[] = { CORALE_ALL_REDUCE,     CORALE_BROADCAST, CORALE_ALL_GATHER,
					     CORALE_REDUCE_SCATTER, CORALE_REDUCE,    CORALE_BARRIER };
	int refused = 0;
	for (size_t i = 0; i < sizeof colls / sizeof *colls; i++)
		for (int bits = 3; bits <= 27; bits += 6)
			for (int root = 0; root < (i == 1 ? 9 : 1); root += 4) {
				char error[256];
				struct plan plan;
				const struct plan_key key =
				    planner_key(colls[i], (size_t)1 << bits >> 2, CORALE_FLOAT32, CORALE_SUM);
				if (planner_plan(&m->planner, &key, NULL, &plan, error, sizeof error))
					continue;
				const int fits = lanes_admit(&m->account, &plan, root);
				assert_in_range(fits, 0, 1);
				refused += !fits;
				if (fits)
					open_plan(m, &plan, root);
			}
	return refused;
}

static void run_machine(const char *text, size_t cap)
{
	struct machine m;
	make_machine(&m, text, SLOTS, cap);
	const int refused = make_calls(&m);
	if (refused)
		print_message("%s: %d plans are narrow\n", text, refused);
	check_machine(&m);
	drop_machine(&m);
}

static void test_plans(void **state)
{
	(void)state;
	static const char *const machines[] = { "node:2 gpu:1 nvlink:390 rail:50",
						"node:2 gpu:8 nvlink:390 rail:50",
						"node:[3,1,2] nvlink:390 rail:50",
						"node:5 gpu:2 nvlink:390 rail:50",
						"node:25 gpu:8 nvlink:390 rail:50" };
	for (size_t i = 0; i < sizeof machines / sizeof *machines; i++)
		run_machine(machines[i], CAP);
}

/* Plan after plan until there is room for no more: then nothing is counted, and what is open stays. */
static void test_full(void **state)
{
	(void)state;
	struct machine m;
	char error[256];
	struct plan plan;
	make_machine(&m, "node:9 gpu:1 nvlink:390 rail:50", SLOTS, CAP / 4);
	const struct plan_key key = planner_key(CORALE_ALL_TO_ALL, 1 << 20, CORALE_FLOAT32, CORALE_SUM);
	assert_int_equal(planner_plan(&m.planner, &key, NULL, &plan, error, sizeof error), 0);
	m.account.bytes = remote_end_bytes(&m.shape.slots[REMOTE_OF_PLANS]) * 2 * 8 * plan.channels;
	assert_int_equal(lanes_admit(&m.account, &plan, 0), 1);
	assert_int_equal(lanes_admit(&m.account, &plan, 0), 1); /* no more lanes */
	lanes_account_close(&m.account);
	assert_int_equal(lanes_account_open(&m.account, &m.shape, REMOTE_OF_PLANS, CAP / 4, &m.topo->map), 0);
	m.account.bytes = remote_end_bytes(&m.shape.slots[REMOTE_OF_PLANS]) * 2 * 8 * plan.channels - 1;
	assert_int_equal(lanes_admit(&m.account, &plan, 0), 0);
	for (int i = 0; i < m.topo->map.ranks * m.topo->map.ranks; i++)
		assert_int_equal(m.account.edges[i], 0);
	drop_machine(&m);
}

/* Of 2048 ranks a plan is chosen that kernels can run. */
static void test_many(void **state)
{
	(void)state;
	struct machine m;
	char error[256];
	struct plan plan;
	const corale_coll colls[] = { CORALE_ALL_REDUCE, CORALE_BROADCAST, CORALE_BARRIER };
	make_machine(&m, "node:256 gpu:8 nvlink:390 rail:50", SLOTS, CAP);
	for (size_t i = 0; i < sizeof colls / sizeof *colls; i++)
		for (int bits = 3; bits <= 27; bits += 8) {
			const struct plan_key key =
			    planner_key(colls[i], (size_t)1 << bits >> 2, CORALE_FLOAT32, CORALE_SUM);
			assert_int_equal(planner_plan(&m.planner, &key, NULL, &plan, error, sizeof error), 0);
			assert_true(lower_fits(&plan, &m.topo->map));
			assert_int_equal(lanes_admit(&m.account, &plan, 0), 1);
		}
	drop_machine(&m);
}

/* ---- Room ------------------------------------------------------------------------------------------------- */

static void check_room(const struct machine *m, const struct plan_key *key, int row)
{
	int rows;
	struct plan plan;
	struct plan_env env;
	struct lowered_call call;
	struct lowered_room room;
	if (planner_build(&m->planner, key, row, &plan))
		return;
	const size_t most = ((size_t)1 << key->size_class) / corale_type_bytes((corale_type)key->type);
	plan_env_init(&env, &plan, &m->topo->map, 0, 0, most);
	lowered_call_init(&call, &plan, &env);
	lowered_room_init(&room, &plan, &call);
	if (room.bytes > m->node.slots_bytes || room.message > m->shape.slots[REMOTE_OF_PLANS].bytes)
		fail_msg("%s %s, 2^%d bytes, %d nodes: messages of %zu bytes, %zu of the window's %zu bytes",
			 corale_coll_name((corale_coll)key->coll), row_table(&rows)[row].name,
			 key->size_class, m->topo->map.nodes, (size_t)room.message, (size_t)room.bytes,
			 (size_t)m->node.slots_bytes);
}

/* Messages of all rows fit into the lanes' slots, and into the window with all that is in flight: in windows of 12 and 64 MB. */
static void test_room(void **state)
{
	static const char *const machines[] = { "node:3 gpu:2 nvlink:390 rail:50",
						"node:4 gpu:8 nvlink:390 rail:50",
						"node:8 gpu:8 nvlink:390 rail:50",
						"node:[3,1,2] nvlink:390 rail:50",
						"node:[8,8,8,8,1,8,8,8,8] nvlink:390 rail:50" };
	static const size_t slots[] = { 800000, 6361088, 4 << 20 };
	int rows;
	const struct row *algo = row_table(&rows);
	(void)state;
	for (size_t i = 0; i < sizeof machines / sizeof *machines * 3 * 2; i++) {
		struct machine m;
		make_machine(&m, machines[i / 6], slots[i % 3], i % 2 ? CAP : CAP / 4);
		m.planner.partials_float32 = i / 3 % 2;
		for (int row = 0; row < rows; row++)
			for (int bits = 8; bits <= 30 && !algo[row].codelet && !coll_is_pair(algo[row].coll);
			     bits += 2) {
				const struct plan_key key = planner_key(
				    algo[row].coll, (size_t)1 << bits >> 1, CORALE_FLOAT16, CORALE_SUM);
				check_room(&m, &key, row);
			}
		drop_machine(&m);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shapes), cmocka_unit_test(test_sizes), cmocka_unit_test(test_places),
		cmocka_unit_test(test_plans),  cmocka_unit_test(test_full),  cmocka_unit_test(test_many),
		cmocka_unit_test(test_room),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
