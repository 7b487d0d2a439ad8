/* A broadcast of messages. */
#include "cuda_codelet.h"

static int run(struct engine *e, const struct call *c, const struct gpu_launch *l, cudaStream_t stream)
{
	struct codelet_args a = l->args;
	engine_patch_args(e, c, &a);
	if (l->cut.direct)
		codelet_set_peers(e, c, &a);
	engine_begin_launch(e, &l->cut, l->cut.grid.blocks);
	return engine_check(e, codelets_scatter_allgather(&a, l->cut.grid, stream), "launching a kernel");
}

const struct cuda_codelet cuda_scatter_allgather = { &scatter_allgather_codelet,
						     codelets_load_scatter_allgather, codelet_fill_slots,
						     codelet_overwrites, run };
