/* SPDX-License-Identifier: BSD-3-Clause */
/* An all_reduce of messages, whose second exchange goes into registered memory. */
#include "cuda_codelet.h"

static int run(struct engine *e, const struct call *c, const struct gpu_launch *l, cudaStream_t stream)
{
	const struct codelet_args a = codelet_begin(e, c, l);
	return engine_check(e, codelets_direct(&a, l->cut.grid, (int)c->record.type, stream),
			    "launching a kernel");
}

const struct cuda_codelet cuda_direct = { codelets_load_direct, codelet_fill_slots, codelet_overwrites, run };
