/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages through slots, folded or moved. */
#include "cuda_codelet.h"

static int load(void)
{
	int error = codelets_load_fifo_reduce();
	error = error ? error : codelets_load_direct();
	error = error ? error : codelets_load_fifo_moves();
	return error ? error : codelets_load_fifo_broadcast();
}

static int launch(const struct codelet_args *a, const struct launch *l, int type, cudaStream_t stream)
{
	switch (l->variant) {
	case FIFO_REDUCE:
		return codelets_fifo_reduce(a, l->grid, type, stream);
	case FIFO_DIRECT:
		return codelets_direct(a, l->grid, type, stream);
	case FIFO_MOVES:
		return codelets_fifo_moves(a, l->grid, stream);
	default:
		return codelets_fifo_broadcast(a, l->grid, stream);
	}
}

static int run(struct engine *e, const struct call *c, const struct gpu_launch *l, cudaStream_t stream)
{
	const struct codelet_args a = codelet_begin(e, c, l);
	return engine_check(e, launch(&a, &l->cut, (int)c->record.type, stream), "launching a kernel");
}

const struct cuda_codelet cuda_fifo = { load, codelet_fill_slots, CODELET_OVERWRITES_DIRECT, run };
