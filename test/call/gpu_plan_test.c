/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans of CUDA communicators over nodes: which run on all channels, and what is said of those that don't. */
#include "test/helpers/unit.h"
#include "examples/plans/machine.h"
#include "base/log.h"
#include "call/gpu_call.h"
#include "net/connections.h"
#include "test/helpers/planning_engine.h"

enum { CAP = 64 << 20, SLOTS = 8 << 20, MOST_BITS = 30 };

/* ---- In place of the log ---------------------------------------------------------------------------------- */

static int lines; /* that name the setting */

static void count_line(enum log_level level, int rank, const char *text)
{
	lines += level == LOG_INFO && rank == 0 && strstr(text, "CORALE_PINNED_MEMORY") != NULL;
}

/* ---- Communicators ---------------------------------------------------------------------------------------- */

static struct comm *open_comm(const char *machine, size_t cap)
{
	char error[200];
	struct comm *comm = calloc(1, sizeof *comm);
	assert_non_null(comm);
	assert_int_equal(machine_parse(machine, &comm->topo, error, sizeof error), 0);
	comm->size = comm->topo->map.ranks;
	comm->settings.pinned_memory = cap;
	comm->engine.locals = 1;
	comm->machine = (struct gpu_machine){ .rates = rates_of_default_gpu(),
					      .ranks = 1,
					      .max_blocks = 64,
					      .slots_bytes = SLOTS,
					      .over_nodes = 1 };
	comm->proxy = (struct proxy *)(void *)comm; /* nobody looks into it */
	planning_remote = connections_shape(comm->size, comm->topo->map.nodes, 1, 1, cap);
	lines = 0;
	assert_int_equal(gpu_plans_open(comm), 0);
	return comm;
}

static void close_comm(struct comm *comm)
{
	gpu_plans_close(comm);
	topo_destroy(comm->topo);
	free(comm);
}

/* All_reduces and broadcasts from all ranks, from 1 MB on; how many run on one channel though larger ones would not. */
static int make_calls(struct comm *comm)
{
	int single_channel = 0;
	for (int bits = 20; bits <= MOST_BITS; bits++)
		for (int i = 0; i <= comm->size; i++) {
			const struct call c = { .record.coll = i ? CORALE_BROADCAST : CORALE_ALL_REDUCE,
						.record.count = (size_t)1 << bits >> 2,
						.record.type = CORALE_FLOAT32,
						.record.root = i ? i - 1 : 0 };
			const struct choices *list;
			struct launch launch;
			assert_int_equal(
			    plans_choices(&comm->gpu_plans, 0, c.record.coll, CORALE_FLOAT32, 0, &list), 0);
			assert_int_equal(gpu_plan(comm, &c, choices_find(list, (uint64_t)1 << bits), &launch),
					 0);
			single_channel += launch.single_channel;
		}
	return single_channel;
}

static void expect_wide(const char *machine)
{
	struct comm *comm = open_comm(machine, CAP);
	assert_int_equal(make_calls(comm), 0);
	assert_int_equal(lines, 0);
	close_comm(comm);
}

/* Nodes of one rank, where plans are those that ignore nodes: their ranks talk to all others. */
UNIT_TEST(test_all_channels)
{
	expect_wide("node:2 gpu:1 nvlink:390 rail:50");
	expect_wide("node:8 gpu:1 nvlink:390 rail:50");
	expect_wide("node:16 gpu:1 nvlink:390 rail:50");
}

/* One line when the communicator is made; calls add none, whatever their order. */
UNIT_TEST(test_told)
{
	struct comm *comm = open_comm("node:40 gpu:1 nvlink:390 rail:50", CAP / 4);
	assert_int_equal(lines, 1);
	const int single_channel = make_calls(comm);
	assert_int_equal(make_calls(comm), single_channel);
	assert_int_equal(lines, 1);
	close_comm(comm);
}

int main(void)
{
	log_open(LOG_INFO, NULL);
	log_set_writer(count_line);
	return unit_run(NULL, NULL);
}
