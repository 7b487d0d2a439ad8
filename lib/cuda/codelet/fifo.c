/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages through slots, moved by many blocks. */
#include "cuda_codelet.h"

static int load(void)
{
	return 0; /* bulk loads them */
}

static int run(struct engine *e, const struct call *c, const struct gpu_launch *l, cudaStream_t stream)
{
	const struct codelet_args a = codelet_begin(e, c, l);
	return engine_check(e,
			    (l->cut.variant == FIFO_MOVES ? codelets_bulk_moves : codelets_bulk_broadcast)(
				&a, l->cut.grid, 1, stream),
			    "launching a kernel");
}

const struct cuda_codelet cuda_fifo = { load, codelet_fill_slots, CODELET_OVERWRITES_DIRECT, run };
