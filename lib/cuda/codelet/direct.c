/* An all_reduce of messages, whose second exchange goes into registered memory. */
#include "cuda_codelet.h"

static int run(struct engine *e, const struct call *c, const struct gpu_launch *l, cudaStream_t stream)
{
	struct codelet_args a = l->args;
	engine_patch_args(e, c, &a);
	codelet_set_peers(e, c, &a);
	engine_begin_launch(e, &l->cut, l->cut.grid.blocks);
	return engine_check(e, codelets_direct(&a, l->cut.grid, (int)c->record.type, stream),
			    "launching a kernel");
}

const struct cuda_codelet cuda_direct = { &direct_codelet, codelets_load_direct, codelet_fill_slots,
					  codelet_overwrites, run };
