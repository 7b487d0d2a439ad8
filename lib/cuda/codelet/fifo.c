/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages through slots, folded or moved. */
#include "cuda_codelet.h"

static int load(void)
{
	const int error = codelets_load_fifo_reduce();
	return error ? error : codelets_load_fifo_moves();
}

static int run(struct engine *e, const struct call *c, const struct gpu_launch *l, cudaStream_t stream)
{
	const struct codelet_args a = codelet_begin(e, c, l);
	const int error = l->cut.variant == FIFO_REDUCE
			      ? codelets_fifo_reduce(&a, l->cut.grid, (int)c->record.type, stream)
			      : codelets_fifo_moves(&a, l->cut.grid, stream);
	return engine_check(e, error, "launching a kernel");
}

const struct cuda_codelet cuda_fifo = { load, codelet_fill_slots, codelet_overwrites_direct, run };
