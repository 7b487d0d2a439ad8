/* SPDX-License-Identifier: BSD-3-Clause */
/* One exchange of packets. */
#include "cuda_codelet.h"

#include "base/collectives.h"

static void fill(const struct engine *e, struct gpu_launch *l)
{
	engine_fill_args(e, l, AREA_LINES);
}

static int run(struct engine *e, const struct call *c, const struct gpu_launch *l, cudaStream_t stream)
{
	static int (*const kernels[])(const struct codelet_args *, struct grid, int, int,
				      void *) = { [ONE_SHOT_ANY] = codelets_one_shot,
						  [ONE_SHOT_FEW] = codelets_one_shot_few,
						  [ONE_SHOT_FEW_LONG] = codelets_one_shot_few_long };
	struct codelet_args a = l->args;
	const struct grid grid = l->cut.grid;
	engine_patch_args(e, c, &a);
	engine_begin_launch(e, &l->cut,
			    l->cut.variant == ONE_SHOT_FEW ? grid.blocks * (grid.threads / 32) : grid.blocks);
	return engine_check(
	    e, kernels[l->cut.variant](&a, grid, (int)c->record.type, coll_folds(l->cut.coll), stream),
	    "launching a kernel");
}

const struct cuda_codelet cuda_one_shot = { codelets_load_one_shot, fill, CODELET_KEEPS_ORDER, run };
