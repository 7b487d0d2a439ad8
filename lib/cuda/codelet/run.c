/* SPDX-License-Identifier: BSD-3-Clause */
/* From a call to its codelet. */
#include "cuda_codelet.h"

#include "base/collectives.h"

/* By index. */
#define CODELET(name) &cuda_##name,
static const struct cuda_codelet *const cuda_codelets[] = {
#include "plan/codelet/codelets.def"
};

static const struct cuda_codelet *codelet_of(const struct launch *l)
{
	return cuda_codelets[l->codelet->index];
}

int engine_load_codelets(void)
{
	int error = 0;
	for (int i = 0; !error && i < CODELETS; i++)
		error = cuda_codelets[i]->load();
	return error;
}

void engine_prepare(const struct engine *e, struct gpu_launch *l)
{
	codelet_of(&l->cut)->fill(e, l);
}

static int overwrites(const struct engine *e, const struct call *c, const struct launch *l)
{
	if (!call_overwrites(c, e->world_rank))
		return 0;
	const enum codelet_overwrites how = codelet_of(l)->overwrites;
	const int codelet_does = how == CODELET_OVERWRITES ||
				 (how == CODELET_OVERWRITES_DIRECT && l->direct) ||
				 (how == CODELET_OVERWRITES_REMOTE && e->remote.remote.memory);
	return c->send_counts || coll_folds_to_front(c->record.coll) || (l->bytes && codelet_does);
}

static int launch_codelet(struct engine *e, const struct call *c, const struct gpu_launch *l,
			  cudaStream_t stream)
{
	return codelet_of(&l->cut)->run(e, c, l, stream);
}

static int launch_call(struct engine *e, const struct call *c, const struct gpu_launch *l,
		       cudaStream_t stream);

/* A reduce_scatter_v, by the launch of a reduce_scatter of its largest block, or of rounds of it. Copy engines take each block from its place, others from
 * a copy with even ones. */
static int launch_uneven(struct engine *e, const struct call *c, const struct gpu_launch *l,
			 cudaStream_t stream)
{
	struct call even = *c;
	const uint64_t element = corale_type_bytes(c->record.type);
	even.record.coll = CORALE_REDUCE_SCATTER;
	even.record.count = l->cut.bytes / element;
	even.record.target = 0;
	if (l->cut.codelet == &copies_codelet && !call_overwrites(c, e->world_rank))
		return codelet_of(&l->cut)->run(e, &even, l, stream);
	return engine_copy_uneven(e, &even, c->record.count * element, l, stream, launch_call);
}

static int launch_call(struct engine *e, const struct call *c, const struct gpu_launch *l,
		       cudaStream_t stream)
{
	if (engine_has_one_rank(e, c))
		return engine_run_one_rank(e, c, stream);
	if (c->send_counts && coll_folds(c->record.coll))
		return launch_uneven(e, c, l, stream);
	if (overwrites(e, c, &l->cut))
		return engine_copy_call(e, c, l, stream, launch_codelet);
	return launch_codelet(e, c, l, stream);
}

int engine_run(struct engine *e, const struct call *c, const struct gpu_launch *l, void *stream)
{
	if (engine_failed(e))
		return CORALE_ECOMM;
	if (c->admission.plain)
		return engine_stage_call(e, c, l, stream, launch_call);
	int ret = engine_order(e, stream, c->admission.capture);
	return ret ? ret : launch_call(e, c, l, stream);
}

int engine_run_messages(struct engine *e, const struct call *m, int n, void *stream)
{
	int plain = 0;
	if (engine_failed(e))
		return CORALE_ECOMM;
	for (int i = 0; i < n; i++)
		plain |= m[i].admission.plain;
	if (plain)
		return engine_stage_messages(e, m, n, stream, p2p_run_messages);
	int ret = engine_order(e, stream, m->admission.capture);
	return ret ? ret : p2p_run_messages(e, m, n, stream);
}
