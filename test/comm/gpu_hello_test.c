/* SPDX-License-Identifier: BSD-3-Clause */
/* What a CUDA communicator makes of where its ranks are: in which processes, on which GPUs. */
#include "test/helpers/unit.h"
#include "base/settings.h"
#include "comm/gpu.h"
#include "kernels/codelets.h"
#include "plan/choose/planner.h"

enum { MOST = 8 };

/* Ranks as pairs of letters: its process, its GPU. */
static int hellos(const char *ranks, struct gpu_hello all[MOST])
{
	const int n = (int)strlen(ranks) / 2;
	memset(all, 0, MOST * sizeof *all);
	for (int r = 0; r < n; r++) {
		all[r].process = (uint64_t)ranks[2 * r];
		all[r].id.uuid[ENGINE_UUID_BYTES - 1] = (unsigned char)ranks[2 * r + 1];
	}
	return n;
}

static int find_beside(const char *ranks)
{
	struct gpu_hello all[MOST];
	const int n = hellos(ranks, all);
	return gpu_hello_find_beside(all, n);
}

UNIT_TEST(test_beside)
{
	struct gpu_hello all[MOST];
	const int n = hellos("pApApBqAqA", all);
	assert_int_equal(gpu_hello_beside(all, n, 0), 2);
	assert_int_equal(gpu_hello_beside(all, n, 2), 1);
	assert_int_equal(gpu_hello_beside(all, n, 4), 2);
	assert_int_equal(find_beside("pApApBqAqA"), 0);
	assert_int_equal(find_beside("pApBqAqA"), 2);
	assert_int_equal(find_beside("pApBqAqB"), -1); /* processes of several GPUs each */
	assert_int_equal(find_beside("pAqArAsA"), -1); /* a GPU of several processes, under MPS perhaps */
	assert_int_equal(find_beside("pA"), -1);
}

UNIT_TEST(test_share)
{
	struct gpu_hello all[MOST];
	const int n = hellos("pApApBqAqArC", all);
	for (int r = 0; r < n; r++)
		all[r] = (struct gpu_hello){ .id = all[r].id,
					     .process = all[r].process,
					     .max_blocks = 32,
					     .offered = 32,
					     .processors = 132 };
	assert_int_equal(gpu_hello_share(all, n, 0), 16);
	assert_int_equal(gpu_hello_share(all, n, 2), 32); /* another GPU of its process */
	for (int r = 0; r < n; r++)
		all[r].processors = 64;
	assert_int_equal(gpu_hello_share(all, n, 0), 15); /* with another process on the GPU, of 62 */
	assert_int_equal(gpu_hello_share(all, n, 2), 32);
	all[4].offered = all[5].offered = 4; /* beside other communicators */
	assert_int_equal(gpu_hello_share(all, n, 4), 2);
	assert_int_equal(gpu_hello_share(all, n, 5), 4);
	all[0].offered = 1; /* less than a block for each rank: one all the same, */
	assert_int_equal(gpu_hello_share(all, n, 0), 1);
	all[0].max_blocks = 1; /* but not where the ranks had none each alone */
	assert_int_equal(gpu_hello_share(all, n, 0), 0);
}

static int find_process(const char *ranks)
{
	struct gpu_hello all[MOST];
	const int n = hellos(ranks, all);
	return gpu_hello_find_process(all, n);
}

UNIT_TEST(test_process)
{
	assert_int_equal(find_process("pApBqC"), 0);
	assert_int_equal(find_process("pAqArBsCqD"), 1);
	assert_int_equal(find_process("pAqArB"), -1);
	assert_int_equal(find_process("pA"), -1);
}

static int export(const char *ranks, int without)
{
	struct gpu_hello all[MOST];
	const int n = hellos(ranks, all);
	for (int r = 0; r < n; r++)
		all[r].exports = r != without;
	return gpu_hello_all_export(all, n);
}

UNIT_TEST(test_exports)
{
	assert_int_equal(export("pAqBrC", -1), 1);
	assert_int_equal(export("pAqBrC", 2), 0);
	assert_int_equal(export("pAqArA", -1), 1);
	assert_int_equal(export("pApAqB", -1), 1);
	assert_int_equal(export("pAqCpB", -1), 1);
}

UNIT_TEST(test_no_scratch)
{
	struct gpu_hello all[MOST];
	const int n = hellos("pAqBrC", all);
	assert_int_equal(gpu_hello_find_no_scratch(all, n), -1);
	all[2].no_scratch = 1;
	assert_int_equal(gpu_hello_find_no_scratch(all, n), 2);
}

/* Whatever the call, the memory and the settings. */
UNIT_TEST(test_refused_copies)
{
	struct codelet_layout l;
	struct settings settings = { .codelets = 1 };
	codelet_layout_init(&l, 4, (uint64_t)62 << 20);
	struct gpu_machine machine = { .rates = rates_of_default_gpu(),
				       .ranks = 4,
				       .max_blocks = 32,
				       .words_bytes = l.words_bytes,
				       .lines_bytes = l.lines_bytes,
				       .slots_bytes = l.slots_bytes };
	int chosen = 0;
	for (int i = 0; i < 2 * 3 * CORALE_NUM_COLLS * 8; i++) {
		static const char *const protos[] = { "auto", "CE", "auto" };
		const int refuses = i % 2, kind = i / 2 % 3, coll = i / 6 % CORALE_NUM_COLLS;
		struct gpu_machine asked = machine;
		strcpy(settings.proto, protos[kind]);
		settings.cta_policy = kind == 2 ? SETTINGS_CTA_ZERO : SETTINGS_CTA_AUTO;
		if (refuses)
			gpu_machine_refuse(&asked, &copies_codelet);
		gpu_machine_apply(&asked, &settings);
		const struct plan_call call = { (corale_coll)coll, (uint64_t)512 << 20, 1,
						i / 6 / CORALE_NUM_COLLS, PLAN_ALIGNED_16 };
		const struct row *row = planner_codelet(&asked, &call);
		const int copies = row && row->codelet == &copies_codelet;
		assert_false(refuses && copies);
		chosen += copies;
	}
	assert_true(chosen > 20);
}
