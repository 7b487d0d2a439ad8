/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages through slots in a GPU's memory are whole when they have arrived, and no CPU touches such a slot: over the adapter of test/fake_verbs, which
 * test/fake_verbs/fake_verbs.sh preloads, whatever order bytes come in. test/mutants/mutants_gpu.sh takes out what sees to that.
 */
#include <sys/wait.h>

#include "test/helpers/unit.h"
#include "gpu_ranks.h"

enum { ROUNDS = 25 };

static const char *faults;

/* Sizes around the limits of UCX's protocols and of few bytes. */
static const size_t sizes[] = { 1,    8,     200,           LINK_INLINE_BYTES, LINK_INLINE_BYTES + 1,
				4096, 20000, GPU_SLOT_BYTES };

enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

static int step(struct gpu_rank *r, size_t bytes, int few)
{
	if (r->rank)
		return gpu_rank_receive(r, bytes, GPU_DEADLINE_MS);
	return few ? gpu_rank_send_few(r, bytes, GPU_DEADLINE_MS) : gpu_rank_send(r, bytes, GPU_DEADLINE_MS);
}

static void exchange(struct gpu_rank *r)
{
	setenv("FAKE_VERBS", faults, 1);
	gpu_rank_open(r, 1);
	for (int i = 0; i < ROUNDS * SIZES; i++) {
		const size_t bytes = sizes[i % SIZES];
		const int got = step(r, bytes, bytes <= LINK_INLINE_BYTES && i / SIZES % 2);
		if (got != 1)
			printf("# rank %d, message %d of %zu bytes: %d\n", r->rank, i, bytes, got);
		EXPECT(got == 1);
	}
	gpu_rank_meet(r);
	gpu_rank_close(r);
}

static void expect_status(const char *of_adapter, const char *paths, int receiver)
{
	int statuses[2];
	faults = of_adapter;
	setenv("UCX_IB_NUM_PATHS", paths, 1);
	gpu_run_two(exchange, statuses);
	unsetenv("UCX_IB_NUM_PATHS");
	assert_true(WIFEXITED(statuses[1]));
	assert_int_equal(WEXITSTATUS(statuses[1]), receiver);
	if (!receiver)
		assert_int_equal(statuses[0], 0);
}

UNIT_TEST(late)
{
	expect_status("", "1", 0);
}

UNIT_TEST(out_of_order)
{
	expect_status("delay_ms=1 reorder_pairs=yes reorder_relaxed=yes", "1", 0);
}

/* Without another order between queue pairs, in which UCX 1.13 now and then does not survive its own datagrams while two paths are made. */
UNIT_TEST(two_paths)
{
	expect_status("delay_ms=1 reorder_relaxed=yes", "2", 0);
}

UNIT_TEST(corrupted)
{
	expect_status("corrupt=7", "1", GPU_WRONG_BYTES);
}
