/* Parts that several codelets have. */
#include "cuda_codelet.h"

void codelet_fill_slots(const struct engine *e, struct gpu_launch *l)
{
	engine_fill_args(e, l, l->cut.scratch ? AREA_SCRATCH : AREA_SLOTS);
}

int codelet_keeps_order(const struct engine *e, const struct launch *l)
{
	(void)e, (void)l;
	return 0;
}

int codelet_overwrites(const struct engine *e, const struct launch *l)
{
	(void)e, (void)l;
	return 1;
}

void codelet_set_peers(const struct engine *e, const struct call *c, struct codelet_args *a)
{
	a->peers = engine_region_of(e, c->record.target)->gpu_peers;
	a->peers_at = engine_offset_of(c->record.target);
}
