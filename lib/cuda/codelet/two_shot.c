/* SPDX-License-Identifier: BSD-3-Clause */
/* A reduce-scatter and an all-gather of packets in one pass. */
#include "cuda_codelet.h"

#include "base/collectives.h"

/* Where the ranks' parts of so many bytes begin. root: the rank without a part, or -1. */
static void cut_parts(int ranks, int root, uint64_t bytes, uint32_t *at)
{
	const int deals = root >= 0;
	for (int p = 0; p <= ranks; p++)
		at[p] = codelet_part((uint32_t)bytes, (uint32_t)(ranks - deals),
				     (uint32_t)(p - (deals && p > root)));
}

static void set_parts(struct codelet_args *a)
{
	cut_parts(a->ranks, a->root, a->piece, a->few_ranks.part_at);
	cut_parts(a->ranks, a->root, a->bytes - (uint64_t)(a->pieces - 1) * a->piece, a->few_ranks.last_at);
}

static void fill(const struct engine *e, struct gpu_launch *l)
{
	const int words = coll_folds(l->cut.coll) && l->cut.words;
	engine_fill_args(e, l, words ? AREA_WORDS : AREA_LINES);
	if (l->cut.variant == TWO_SHOT_FEW)
		set_parts(&l->args);
}

static int run(struct engine *e, const struct call *c, const struct gpu_launch *l, cudaStream_t stream)
{
	struct codelet_args a = l->args;
	engine_patch_args(e, c, &a);
	if (a.root >= 0)
		set_parts(&a);
	engine_begin_launch(e, &l->cut, l->cut.grid.blocks);
	return engine_check(e,
			    (l->cut.variant == TWO_SHOT_FEW ? codelets_two_shot_few : codelets_two_shot)(
				&a, l->cut.grid, (int)c->record.type, stream),
			    "launching a kernel");
}

const struct cuda_codelet cuda_two_shot = { codelets_load_two_shot, fill, CODELET_KEEPS_ORDER, run };
