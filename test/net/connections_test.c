/* SPDX-License-Identifier: BSD-3-Clause */
/* Sizes of connections between nodes, and which plans have room: what all ranks must agree on without a message, on machines that nobody has here. */
#include <math.h>

#include "test/helpers/unit.h"
#include "examples/plans/machine.h"
#include "base/collectives.h"
#include "base/settings.h"
#include "base/status.h"
#include "net/connections.h"
#include "examples/plans/planned.h"
#include "net/gpu_planners.h"
#include "plan/codelet/row.h"
#include "plan/lower.h"
#include "plan/choose/planner_room.h"
#include "plan/machine/rates.h"
#include "plan/machine/topo.h"
#include "test/helpers/row_find.h"

enum { CAP = 64 << 20, SLOTS = 8 << 20, KIBI = 1 << 10 };

/* ---- Sizes ------------------------------------------------------------------------------------------------ */

enum { LEAST_CHUNK = 512 /* of a plan */ };

/* Nodes of `each` ranks, but one of `least`, whose rank has the most peers. */
static void check_shape(int nodes, int each, int least, size_t cap)
{
	const int ranks = (nodes - 1) * each + least, peers = ranks - least;
	const struct remote r = connections_shape(ranks, nodes, each, least, cap);
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
	assert_true(connections_bytes(&r, cap) <= cap);
	if (peers <= CONNECTIONS_FAR)
		assert_true(2 * (size_t)peers * PLAN_MAX_QUEUES *
				remote_end_bytes(&r.slots[REMOTE_OF_SINGLE_CHANNEL]) <=
			    cap / 8);
}

/* All connections for sends fit into the least memory, and no longer into a little less. */
static void check_least(int ranks)
{
	const size_t least = connections_least_cap(ranks - 1);
	const struct remote r = connections_shape(ranks, ranks, 1, 1, least);
	const size_t pairs = 2 * (size_t)(ranks - 1) * remote_end_bytes(&r.slots[REMOTE_OF_PAIRS]);
	assert_int_equal(r.pair_channels, 1);
	assert_in_range(pairs, 0, (least - REMOTE_LINE) / 8 * 3);
	assert_in_range((least - REMOTE_LINE - 8) / 8 * 3, 0, pairs - 1);
	assert_in_range(connections_bytes(&r, least), 0, least);
}

UNIT_TEST(test_shapes)
{
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
	const struct remote r = connections_shape(nodes * each, nodes, each, each, CAP);
	assert_in_range(r.slots[REMOTE_OF_PLANS].bytes, of_plans, 64 * KIBI);
	assert_in_range(r.slots[REMOTE_OF_PAIRS].bytes, of_pairs, 64 * KIBI);
}

UNIT_TEST(test_sizes)
{
	expect(2, 1, 64 * KIBI, 64 * KIBI);
	expect(2, 8, 64 * KIBI, 40 * KIBI);
	expect(4, 8, 64 * KIBI, 16 * KIBI);
	expect(9, 8, 30 * KIBI, 16 * KIBI);
	expect(16, 8, 30 * KIBI, 16 * KIBI);
	expect(256, 8, 15 * KIBI, 2 * KIBI);
}

/* Ends of one table do not overlap, and are apart from the words before them. */
UNIT_TEST(test_places)
{
	static unsigned char memory[REMOTE_LINE];
	struct remote r = connections_shape(4, 4, 1, 1, CAP);
	unsigned char *seen = calloc(remote_end_index(3, REMOTE_OUT, 0), 1);
	assert_non_null(seen);
	for (int peer = 0; peer < 3; peer++)
		for (uint32_t index = 0; index < REMOTE_CONNECTIONS; index++)
			for (int d = REMOTE_OUT; d <= REMOTE_IN; d++)
				assert_false(seen[remote_end_index(peer, (enum remote_direction)d, index)]++);
	free(seen);
	r.memory = memory;
	remote_set_data(&r, memory);
	const struct remote_slots *s = &r.slots[REMOTE_OF_PLANS];
	const unsigned char *last = remote_data_at(&r, 0, 1, s->depth - 1) + s->bytes;
	assert_int_equal((size_t)(last - (unsigned char *)remote_words_at(&r, 1)), remote_end_bytes(s));
}

/* ---- Plans ------------------------------------------------------------------------------------------------ */

struct machine {
	struct topo *topo;
	struct gpu_machine machine;
	struct planner planner, single;
	struct remote shape;
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

static void plan_machine(struct machine *m, size_t slots_bytes, size_t cap)
{
	static struct settings settings;
	const struct plan_map *map = &m->topo->map;
	settings.pinned_memory = cap;
	m->machine = (struct gpu_machine){ .rates = rates_of_default_gpu(),
					   .max_blocks = 64,
					   .slots_bytes = slots_bytes,
					   .ranks = map->max_node_size,
					   .over_nodes = 1,
					   .many_far = map->max_node_size > 1 };
	topo_set_gpus(m->topo, m->machine.rates);
	m->shape = connections_shape(map->ranks, map->nodes, map->max_node_size, least_size(map), cap);
	gpu_planners_init(m->topo, &settings, &m->machine, &m->shape, &m->planner, &m->single);
	m->planner.single_class = -1;
}

static void make_machine(struct machine *m, const char *text, size_t slots_bytes, size_t cap)
{
	char error[200];
	memset(m, 0, sizeof *m);
	assert_int_equal(machine_parse(text, &m->topo, error, sizeof error), 0);
	plan_machine(m, slots_bytes, cap);
}

/* Ranks are dealt to nodes one by one. */
static void make_dealt(struct machine *m, int ranks, int nodes)
{
	uint64_t node_of[64];
	memset(m, 0, sizeof *m);
	for (int i = 0; i < ranks; i++)
		node_of[i] = (uint64_t)(i % nodes);
	assert_int_equal(topo_create(ranks, node_of, &m->topo), 0);
	plan_machine(m, SLOTS, CAP);
}

static void drop_machine(struct machine *m)
{
	topo_destroy(m->topo);
}

/* What is opened as lib/cuda/engine_cuda_connections.c does, on all ranks: by sender, receiver and index. */
struct open {
	const struct connection_edges
	    *edges; /* that must hold all of it; NULL: only what is opened is looked at */
	const struct plan_map *map;
	unsigned char *connections;
};

static unsigned char *cell_at(const struct open *o, int from, int to, uint32_t index)
{
	return &o->connections[((size_t)from * (size_t)o->map->ranks + (size_t)to) * REMOTE_CONNECTIONS +
			       index];
}

static void open_connections(const struct open *o, const struct lowered_op *op,
			     const struct lowered_peer *peers, int rank, int channels)
{
	const struct connection_edges *e = o->edges;
	const int n = o->map->ranks;
	for (int k = 0; k < op->to_count; k++) {
		const int to = peers[op->to_first + k].rank;
		const int cell = e && e->exact ? rank * n + to : (to - rank + n) % n;
		if (o->map->node_of[to] == o->map->node_of[rank])
			continue;
		if (e && !(e->queues[cell] >> op->to_queue & 1))
			fail_msg("rank %d sends to rank %d along queue %d, which was not counted", rank, to,
				 op->to_queue);
		for (int c = 0; o->connections && c < channels; c++)
			*cell_at(o, rank, to, remote_index((uint32_t)c, op->to_queue)) = 1;
	}
}

static void open_plan(const struct open *o, const struct plan *plan, int root)
{
	struct lowered list;
	const char *why;
	for (int rank = 0; rank < o->map->ranks; rank++) {
		assert_int_equal(lower_plan(plan, o->map, rank, root, &list, &why), 0);
		for (int i = 0; i < list.nops; i++)
			open_connections(o, &list.ops[i], list.peers, rank, plan->channels);
		lowered_free(&list);
	}
}

/* Each rank has room for what is open. */
static void check_room_of_ranks(const struct open *o, const struct planner *planner)
{
	for (int rank = 0; rank < o->map->ranks; rank++) {
		size_t ends = 0;
		for (int other = 0; other < o->map->ranks; other++)
			for (uint32_t index = 0; index < REMOTE_CONNECTIONS; index++)
				ends += (size_t)(*cell_at(o, rank, other, index) +
						 *cell_at(o, other, rank, index));
		assert_true(ends <= planner->connection_ends);
	}
}

/* All plans of the rows that have room, from all roots, on several channels or on one. */
static int open_rows(const struct open *o, const struct planner *planner, const struct planner_room *room,
		     int which)
{
	int rows, open = 0;
	const struct row *table = row_table(&rows);
	for (int row = 0; row < rows; row++)
		for (uint8_t power = 0; room->of[row] & which && power <= 30; power += 10) {
			const struct plan_key key = { .coll = (uint8_t)table[row].coll,
						      .type = CORALE_FLOAT32,
						      .size_class = power };
			struct plan plan;
			if (planner_build_priced(planner, &key, row, INFINITY, &plan,
						 &(struct plan_cost){ 0 }))
				continue;
			for (int root = 0; root < (coll_is_rooted(key.coll) ? o->map->ranks : 1); root++)
				open_plan(o, &plan, root);
			open++;
		}
	return open;
}

static void check_connections(struct machine *m)
{
	const struct plan_map *map = &m->topo->map;
	struct planner_room room;
	assert_int_equal(planner_room_init(&room, &m->planner), 0);
	m->planner.room = &room;
	for (int which = ROOM_MULTI; which <= ROOM_SINGLE; which++) {
		const struct planner *planner = which == ROOM_MULTI ? &m->planner : &m->single;
		const size_t ranks = (size_t)map->ranks;
		struct open o = { .map = map, .connections = calloc(ranks * ranks, REMOTE_CONNECTIONS) };
		assert_non_null(o.connections);
		assert_true(open_rows(&o, planner, &room, which) > 0);
		check_room_of_ranks(&o, planner);
		free(o.connections);
	}
	drop_machine(m);
}

/* Whatever is called in whatever order, there is room for it. */
UNIT_TEST(test_connections)
{
	static const char *const machines[] = { "node:2 gpu:1 nvlink:390 rail:50",
						"node:2 gpu:8 nvlink:390 rail:50",
						"node:[3,1,2] nvlink:390 rail:50",
						"node:5 gpu:2 nvlink:390 rail:50",
						"node:11 gpu:1 nvlink:390 rail:50" };
	struct machine m;
	for (size_t i = 0; i < sizeof machines / sizeof *machines; i++)
		for (size_t cap = CAP / 16; cap <= CAP; cap *= 4) {
			make_machine(&m, machines[i], SLOTS, cap);
			check_connections(&m);
		}
	make_dealt(&m, 8, 3);
	check_connections(&m);
}

/* A row's edges for all roots hold those of each root: by one root's. */
static void check_edges(struct machine *m, int root_step, int each)
{
	int rows;
	const struct row *table = row_table(&rows);
	struct connection_edges edges;
	assert_int_equal(connection_edges_open(&edges, &m->topo->map), 0);
	for (int row = 0; row < rows; row++)
		for (uint8_t power = 0; power <= 30; power += 30) {
			const struct plan_key key = { .coll = (uint8_t)table[row].coll,
						      .type = CORALE_FLOAT16,
						      .size_class = power };
			const struct open o = { .edges = &edges, .map = &m->topo->map };
			struct plan plan;
			if (table[row].codelet || coll_is_pair(key.coll) ||
			    (!each && !coll_is_rooted(key.coll)) ||
			    planner_build_steps(&m->planner, &key, row, &plan))
				continue;
			connection_edges_begin(&edges);
			connection_edges_add(&edges, &plan, table[row].traits & ROW_FLAT);
			for (int root = 0; root < (coll_is_rooted(key.coll) ? m->topo->map.ranks : 1);
			     root += root_step)
				open_plan(&o, &plan, root);
		}
	connection_edges_close(&edges);
	drop_machine(m);
}

UNIT_TEST(test_edges)
{
	static const char *const machines[] = {
		"node:2 gpu:1 nvlink:390 rail:50",   "node:3 gpu:4 nvlink:390 rail:50",
		"node:[3,1,2] nvlink:390 rail:50",   "node:6 gpu:2 nvlink:390 rail:50",
		"node:[1,4,4,3] nvlink:390 rail:50", "node:13 gpu:1 nvlink:390 rail:50",
		"node:[5,2,5,5] nvlink:390 rail:50"
	};
	struct machine m;
	for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
		make_machine(&m, machines[i], SLOTS, CAP);
		check_edges(&m, 1, 1);
	}
	make_dealt(&m, 12, 3);
	check_edges(&m, 1, 1);
	make_dealt(&m, 11, 4);
	check_edges(&m, 1, 1);
}

/* Of many ranks cells are distances. */
UNIT_TEST(test_edges_of_many)
{
	struct machine m;
	make_machine(&m, "node:33 gpu:8 nvlink:390 rail:50", SLOTS, CAP);
	check_edges(&m, 131, 0);
	make_machine(
	    &m,
	    "node:[8,8,8,8,8,8,8,8,8,8,8,8,8,8,8,8,3,8,8,8,8,8,8,8,8,8,8,8,8,8,8,8,8,2,8] nvlink:390 rail:50",
	    SLOTS, CAP);
	check_edges(&m, 131, 0);
}

/* Rows are counted while there is room; one for which there is none takes nothing. */
UNIT_TEST(test_full)
{
	struct machine m;
	struct plan plan;
	struct connection_edges edges;
	struct connection_ends ends;
	enum { PEERS = 8, CHANNELS = 4, MOST = 2 * PEERS * CHANNELS };
	make_machine(&m, "node:9 gpu:1 nvlink:390 rail:50", SLOTS, CAP / 4);
	const struct plan_key key = { .coll = CORALE_ALL_TO_ALL, .size_class = 20 };
	assert_int_equal(
	    planner_build_steps(&m.planner, &key, row_find(CORALE_ALL_TO_ALL, "pairwise"), &plan), 0);
	assert_int_equal(connection_edges_open(&edges, &m.topo->map), 0);
	connection_edges_begin(&edges);
	connection_edges_add(&edges, &plan, 1);
	assert_int_equal(connection_ends_open(&ends, &edges, MOST - 1), 0);
	assert_int_equal(connection_ends_take(&ends, &edges, CHANNELS), 0);
	for (int i = 0; i < m.topo->map.ranks; i++)
		assert_int_equal(ends.of_rank[i], 0);
	ends.most = MOST;
	assert_int_equal(connection_ends_take(&ends, &edges, CHANNELS), 1);
	assert_int_equal(connection_ends_take(&ends, &edges, CHANNELS), 1); /* no more connections */
	assert_int_equal(connection_ends_take(&ends, &edges, CHANNELS + 1), 0);
	connection_ends_close(&ends);
	connection_edges_close(&edges);
	drop_machine(&m);
}

/* Of 2048 ranks a plan is chosen that kernels can run. */
UNIT_TEST(test_many)
{
	struct machine m;
	char error[256];
	struct plan plan;
	const corale_coll colls[] = { CORALE_ALL_REDUCE, CORALE_BROADCAST, CORALE_BARRIER };
	struct planner_room room;
	make_machine(&m, "node:256 gpu:8 nvlink:390 rail:50", SLOTS, CAP);
	assert_int_equal(planner_room_init(&room, &m.planner), 0);
	m.planner.room = &room;
	for (size_t i = 0; i < sizeof colls / sizeof *colls; i++)
		for (int bits = 3; bits <= 27; bits += 8) {
			const struct plan_key key =
			    planner_key(colls[i], (size_t)1 << bits >> 2, CORALE_FLOAT32, CORALE_SUM);
			assert_int_equal(planner_plan(&m.planner, &key, NULL, &plan, error, sizeof error), 0);
			assert_true(lower_fits(&plan, &m.topo->map));
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
	if (planner_build_priced(&m->planner, key, row, INFINITY, &plan, &(struct plan_cost){ 0 }))
		return;
	const size_t most = ((size_t)1 << key->size_class) / corale_type_bytes((corale_type)key->type);
	plan_env_init(&env, &plan, &m->topo->map, 0, 0, most);
	lowered_call_init(&call, &plan, &env);
	lowered_room_init(&room, &plan, &call);
	if (room.bytes > m->machine.slots_bytes || room.message > m->shape.slots[REMOTE_OF_PLANS].bytes)
		fail_msg("%s %s, 2^%d bytes, %d nodes: messages of %zu bytes, %zu of the window's %zu bytes",
			 corale_coll_name((corale_coll)key->coll), row_table(&rows)[row].name,
			 key->size_class, m->topo->map.nodes, (size_t)room.message, (size_t)room.bytes,
			 (size_t)m->machine.slots_bytes);
}

/* Messages of all rows fit into the connections' slots, and into the window with all that is in flight: in windows of 12 and 64 MB. */
UNIT_TEST(test_room)
{
	static const char *const machines[] = { "node:3 gpu:2 nvlink:390 rail:50",
						"node:4 gpu:8 nvlink:390 rail:50",
						"node:8 gpu:8 nvlink:390 rail:50",
						"node:[3,1,2] nvlink:390 rail:50",
						"node:[8,8,8,8,1,8,8,8,8] nvlink:390 rail:50" };
	static const size_t slots[] = { 800000, 6361088, 4 << 20 };
	int rows;
	const struct row *algo = row_table(&rows);
	for (size_t i = 0; i < sizeof machines / sizeof *machines * 3 * 2; i++) {
		struct machine m;
		make_machine(&m, machines[i / 6], slots[i % 3], i % 2 ? CAP : CAP / 4);
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
