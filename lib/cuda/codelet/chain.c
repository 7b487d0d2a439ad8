/* SPDX-License-Identifier: BSD-3-Clause */
/* A broadcast from rank to rank. */
#include "cuda_codelet.h"

static int run(struct engine *e, const struct call *c, const struct gpu_launch *l, cudaStream_t stream)
{
	const struct codelet_args a = codelet_begin(e, c, l);
	return engine_check(e, codelets_chain(&a, l->cut.grid, stream), "launching a kernel");
}

const struct cuda_codelet cuda_chain = { codelets_load_chain, codelet_fill_slots, CODELET_OVERWRITES_DIRECT,
					 run };
