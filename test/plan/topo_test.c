/* SPDX-License-Identifier: BSD-3-Clause */
/* Machines: maps between ranks, nodes and local ranks, and the text form. */
#include "test/helpers/unit.h"
#include "examples/plans/machine.h"
#include "corale.h"
#include "plan/plan_eval.h"
#include "plan/machine/topo.h"

static void check_maps(const struct topo *topo, int n, const uint64_t *id)
{
	const struct plan_map *map = &topo->map;
	int seen = 0, largest = 0;
	assert_int_equal(map->ranks, n);
	assert_int_equal(map->node_first[0], 0);
	assert_int_equal(map->node_first[map->nodes], n);
	for (int b = 0; b < map->nodes; b++) {
		int size = map->node_first[b + 1] - map->node_first[b];
		assert_true(size > 0);
		largest = size > largest ? size : largest;
		/* Nodes are numbered by their lowest rank, ranks of a node in their order. */
		if (b)
			assert_true(map->member[map->node_first[b]] > map->member[map->node_first[b - 1]]);
		for (int i = map->node_first[b]; i < map->node_first[b + 1]; i++, seen++) {
			int r = map->member[i];
			assert_int_equal(map->node_of[r], b);
			assert_int_equal(map->local_of[r], i - map->node_first[b]);
			assert_true(id[r] == id[map->member[map->node_first[b]]]);
			if (i > map->node_first[b])
				assert_true(map->member[i] > map->member[i - 1]);
		}
	}
	assert_int_equal(seen, n);
	assert_int_equal(map->max_node_size, largest);
}

UNIT_TEST(test_maps)
{
	uint64_t id[64];
	for (unsigned seed = 0; seed < 200; seed++) {
		int n = (int)(seed % 64) + 1;
		for (unsigned r = 0; r < (unsigned)n; r++)
			id[r] = (r * r * seed + r * 31 + seed) % (seed % 7 + 1) * 0x123456789abcdefu;
		struct topo *topo;
		assert_int_equal(topo_create(n, id, &topo), 0);
		check_maps(topo, n, id);
		topo_destroy(topo);
	}
	struct topo *none = NULL;
	assert_int_equal(topo_create(0, id, &none), CORALE_EINVAL);
	assert_null(none);
	topo_destroy(NULL);
}

static void expect_machine(const char *text, int ranks, int nodes, int largest)
{
	struct topo *topo;
	char error[200];
	assert_int_equal(machine_parse(text, &topo, error, sizeof(error)), 0);
	assert_int_equal(topo->map.ranks, ranks);
	assert_int_equal(topo->map.nodes, nodes);
	assert_int_equal(topo->map.max_node_size, largest);
	topo_destroy(topo);
}

UNIT_TEST(test_text)
{
	expect_machine("node:512 gpu:8 nvlink:390 rail:50", 4096, 512, 8);
	expect_machine("node:[8,8,4]", 20, 3, 8);
	expect_machine("rank:4 memory:10", 4, 1, 4);
	expect_machine("node:3", 3, 3, 1);
	expect_machine("  node:2\tgpu:3 ", 6, 2, 3);
	expect_machine("", 1, 1, 1);
	struct topo *topo;
	char error[200];
	assert_int_equal(
	    machine_parse("node:2 rank:2 memory:7.5 memory_us:0.25 rail:3 rail_us:9", &topo, error, 200), 0);
	assert_true(topo->node.bytes_per_ns == 7.5 && topo->node.latency_ns == 250);
	assert_true(topo->rail.bytes_per_ns == 3 && topo->rail.latency_ns == 9000 && topo->bus_gbs == 0);
	topo_destroy(topo);
	assert_int_equal(machine_parse("gpu:4 nvlink:0 bus:50", &topo, error, 200), 0);
	assert_true(topo->bus_gbs == 50 && topo->node.bytes_per_ns == 28 && !topo->shared_memory);
	topo_destroy(topo);
}

UNIT_TEST(test_bad_text)
{
	static const char *const texts[] = { "node",
					     "node:",
					     "node:0",
					     "node:-1",
					     "node:2x",
					     "node:[",
					     "node:[]",
					     "node:[8,",
					     "node:[8,8",
					     "node:[8;8]",
					     "node:[8,0]",
					     "gpu:8gpu:8",
					     "nodes:2",
					     "rail:0",
					     "rail:-3",
					     "rail:nan",
					     "rail:1e300",
					     "rail:inf",
					     "rail:0x1p3",
					     "rail: 3",
					     "rail:1e-300",
					     "node: 2",
					     "node:+2",
					     "node:[2] gpu:2",
					     "node:[8] node:3",
					     "node:3 node:[8]",
					     "node:2 node:2",
					     "gpu:8 rank:4",
					     "gpu:8 gpu:8",
					     "nvlink:390 memory:10",
					     "rail:3 rail:4",
					     "gpu:2 nvlink:0",
					     "gpu:2 bus:50",
					     "gpu:2 nvlink:10 bus:50",
					     "gpu:2 nvlink:0 bus:0",
					     "rank:2 memory:0 bus:50",
					     "node:99999999",
					     "node:4000000 gpu:4000000",
					     "node:[4000000,4000000,4000000]" };
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct topo *topo = NULL;
		char error[200] = "";
		if (machine_parse(texts[i], &topo, error, sizeof(error)) != CORALE_EINVAL)
			fail_msg("\"%s\" was accepted", texts[i]);
		assert_null(topo);
		assert_non_null(strstr(error, texts[i]));
	}
}

/* What is printed of the links between nodes is read back to the same, to the digits that are printed. */
UNIT_TEST(test_rails)
{
	struct topo *topo;
	char error[200], text[200], again[200];
	assert_int_equal(
	    machine_parse(
		"node:2 rail:3 rail_us:9 rail_send_us:6.5 rail_recv_us:2 rail_gap_us:0.25 rail_core:0", &topo,
		error, 200),
	    0);
	assert_true(topo->rail.send_ns == 6500 && topo->rail.recv_ns == 2000 && topo->rail.gap_ns == 250);
	assert_true(topo->net_bytes_per_ns == 0);
	topo_print_rails(topo, text, sizeof(text));
	assert_string_equal(text,
			    "rail_us:9 rail_send_us:6.5 rail_recv_us:2 rail_gap_us:0.25 rail:3 rail_core:0");
	topo_destroy(topo);
	assert_int_equal(machine_parse("node:2", &topo, error, 200), 0);
	assert_int_equal(topo_parse_rails(text, topo, error, 200), 0);
	topo_print_rails(topo, again, sizeof(again));
	assert_string_equal(text, again);
	assert_int_equal(topo_parse_rails(text, NULL, error, 200), 0);
	static const char *const bad[] = {
		"node:2", "rail_us:2 memory:3", "rails:1", "rail_us:-1", "rail_us:0", "rail:0", "rail", "fast"
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (topo_parse_rails(bad[i], topo, error, 200) != CORALE_EINVAL)
			fail_msg("\"%s\" was accepted", bad[i]);
	topo_print_rails(topo, again, sizeof(again));
	assert_string_equal(text, again);
	topo_destroy(topo);
}
