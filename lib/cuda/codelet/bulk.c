/* Messages through slots that have a word each, folded or moved. */
#include "cuda_codelet.h"

static int load(void)
{
	int error = codelets_load_bulk_reduce();
	error = error ? error : codelets_load_bulk_moves();
	return error ? error : codelets_load_bulk_broadcast();
}

static void fill(const struct engine *e, struct gpu_launch *l)
{
	codelet_fill_slots(e, l);
	l->args.flags = (uint32_t)e->layout.bulk_flags;
	l->args.acks = (uint32_t)e->layout.bulk_acks;
}

/* Without tiles threads load and store the data. */
static int shared_bytes(const struct engine *e)
{
	return codelets_bulk_shared() <= e->copy_units ? codelets_bulk_shared() : 0;
}

static int launch(const struct codelet_args *a, const struct launch *l, int type, int shared,
		  cudaStream_t stream)
{
	switch (l->variant) {
	case BULK_REDUCE:
		return codelets_bulk_reduce(a, l->grid, type, shared, stream);
	case BULK_MOVES:
		return codelets_bulk_moves(a, l->grid, shared, stream);
	default:
		return codelets_bulk_broadcast(a, l->grid, shared, stream);
	}
}

static int run(struct engine *e, const struct call *c, const struct gpu_launch *l, cudaStream_t stream)
{
	const struct codelet_args a = codelet_begin(e, c, l);
	const int error = launch(&a, &l->cut, (int)c->record.type, shared_bytes(e), stream);
	return engine_check(e, error, "launching a kernel");
}

const struct cuda_codelet cuda_bulk = { &bulk_codelet, load, fill, codelet_overwrites_direct, run };
