/* SPDX-License-Identifier: BSD-3-Clause */
/* Parts that several codelets have. */
#include "cuda_codelet.h"

void codelet_fill_slots(const struct engine *e, struct gpu_launch *l)
{
	engine_fill_args(e, l, l->cut.scratch ? AREA_SCRATCH : AREA_SLOTS);
}

struct codelet_args codelet_begin(struct engine *e, const struct call *c, const struct gpu_launch *l)
{
	struct codelet_args a = l->args;
	engine_patch_args(e, c, &a);
	if (l->cut.direct) {
		a.peers = engine_region_of(e, c->record.target)->gpu_peers;
		a.peers_at = engine_offset_of(c->record.target);
	}
	if (l->cut.zero_copy)
		engine_name_buffers(e, c, &a.zero_copy);
	engine_begin_launch(e, &l->cut, l->cut.grid.blocks);
	return a;
}
