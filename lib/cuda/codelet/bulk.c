/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages through slots, folded or moved, by few blocks. */
#include "cuda_codelet.h"

static int load(void)
{
	int error = codelets_load_bulk_reduce();
	error = error ? error : codelets_load_bulk_moves();
	return error ? error : codelets_load_bulk_broadcast();
}

static int launch(const struct codelet_args *a, const struct launch *l, int type, cudaStream_t stream)
{
	switch (l->variant) {
	case BULK_REDUCE:
		return codelets_bulk_reduce(a, l->grid, type, stream);
	case BULK_MOVES:
		return codelets_bulk_moves(a, l->grid, 0, stream);
	default:
		return codelets_bulk_broadcast(a, l->grid, 0, stream);
	}
}

static int run(struct engine *e, const struct call *c, const struct gpu_launch *l, cudaStream_t stream)
{
	const struct codelet_args a = codelet_begin(e, c, l);
	return engine_check(e, launch(&a, &l->cut, (int)c->record.type, stream), "launching a kernel");
}

const struct cuda_codelet cuda_bulk = { load, codelet_fill_slots, CODELET_OVERWRITES_DIRECT, run };
