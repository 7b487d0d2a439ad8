/* SPDX-License-Identifier: BSD-3-Clause */
/* From a call to its codelet. */
#include "cuda_codelet.h"

#include <string.h>

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

static int launch_copy(struct engine *e, const struct call *c, const struct gpu_launch *l,
		       cudaStream_t stream)
{
	struct stage s;
	struct call copied = *c;
	const int ret = engine_copy_call(&s, e, &copied, stream);
	return engine_stage_end(&s, ret ? ret : launch_codelet(e, &copied, l, stream));
}

static uint64_t at_most(uint64_t bytes, uint64_t most)
{
	return bytes < most ? bytes : most;
}

/* Each rank's block of what is sent, from byte `done` on, one piece behind the other. */
static int copy_pieces(struct stage *s, const struct call *c, unsigned char *copy, uint64_t done,
		       uint64_t piece)
{
	const size_t element = corale_type_bytes(c->record.type);
	int ret = 0;
	for (int r = 0; !ret && r < s->engine->world_ranks; r++) {
		const uint64_t all = c->send_counts[r] * element, at = at_most(done, all);
		ret = engine_stage_copy(s, copy + (uint64_t)r * piece,
					(const unsigned char *)c->send + c->send_displs[r] * element + at,
					at_most(all - at, piece), "copying what an uneven call sends");
	}
	return ret;
}

/* From a copy in which all blocks have the count of `even`: in rounds, if that is less than the largest block's. */
static int launch_rounds(struct engine *e, const struct call *c, struct call even, const struct gpu_launch *l,
			 cudaStream_t stream)
{
	struct stage s = { .engine = e, .stream = stream };
	const uint64_t element = corale_type_bytes(c->record.type), largest = c->record.count * element,
		       piece = call_bytes(&even), ranks = (uint64_t)e->world_ranks,
		       own = c->send_counts[e->world_rank] * element;
	/* At the front the result would lie where later rounds read. */
	const int is_apart = call_overwrites(&even, e->world_rank) && piece < largest;
	unsigned char *copy;
	even.send_counts = even.send_displs = even.recv_counts = even.recv_displs = NULL;
	if (!piece)
		return launch_codelet(e, &even, l, stream);
	int ret = engine_stage_reserve(&s, c, (ranks + 1) * piece + (is_apart ? own : 0), &copy);
	even.send = copy;
	even.recv = copy + ranks * piece; /* as all of a piece is written */
	unsigned char *results = is_apart ? copy + (ranks + 1) * piece : c->recv;
	for (uint64_t done = 0; !ret && done < largest; done += piece) {
		const uint64_t at = at_most(done, own);
		ret = copy_pieces(&s, c, copy, done, piece);
		ret = ret ? ret : launch_codelet(e, &even, l, stream);
		ret = ret ? ret
			  : engine_stage_copy(&s, results + at, even.recv, at_most(own - at, piece),
					      "copying a result to its place");
	}
	if (!ret && is_apart)
		ret = engine_stage_copy(&s, c->recv, results, own, "copying a result to the front");
	return engine_stage_end(&s, ret);
}

/* A reduce_scatter_v, by the launch of a reduce_scatter of its largest block, or of rounds of it. Copy engines take each block from its place, others from
 * a copy with even ones. */
static int launch_uneven(struct engine *e, const struct call *c, const struct gpu_launch *l,
			 cudaStream_t stream)
{
	struct call even = *c;
	even.record.coll = CORALE_REDUCE_SCATTER;
	even.record.count = l->cut.bytes / corale_type_bytes(c->record.type);
	even.record.target = 0;
	if (l->cut.codelet == &copies_codelet && !call_overwrites(c, e->world_rank))
		return launch_codelet(e, &even, l, stream);
	return launch_rounds(e, c, even, l, stream);
}

static int launch_call(struct engine *e, const struct call *c, const struct gpu_launch *l,
		       cudaStream_t stream)
{
	if (engine_has_one_rank(e, c))
		return engine_run_one_rank(e, c, stream);
	if (c->send_counts && coll_folds(c->record.coll))
		return launch_uneven(e, c, l, stream);
	return overwrites(e, c, &l->cut) ? launch_copy(e, c, l, stream) : launch_codelet(e, c, l, stream);
}

/* On memory that no kernel can read. */
static int run_staged(struct engine *e, const struct call *c, const struct gpu_launch *l, cudaStream_t stream)
{
	struct stage s;
	struct call staged = *c;
	const int ret = engine_stage_call(&s, e, &staged, stream);
	return engine_stage_end(&s, ret ? ret : launch_call(e, &staged, l, stream));
}

int engine_run(struct engine *e, const struct call *c, const struct gpu_launch *l, void *stream)
{
	if (engine_failed(e))
		return CORALE_ECOMM;
	if (c->admission.plain)
		return run_staged(e, c, l, stream);
	int ret = engine_order(e, stream, c->admission.capture);
	return ret ? ret : launch_call(e, c, l, stream);
}

static int run_staged_messages(struct engine *e, const struct call *m, int n, cudaStream_t stream)
{
	struct stage s;
	struct call *staged;
	const int ret = engine_stage_messages(&s, e, m, n, stream, &staged);
	return engine_stage_end(&s, ret ? ret : p2p_run_messages(e, staged, n, stream));
}

int engine_run_messages(struct engine *e, const struct call *m, int n, void *stream)
{
	int plain = 0;
	if (engine_failed(e))
		return CORALE_ECOMM;
	for (int i = 0; i < n; i++)
		plain |= m[i].admission.plain;
	if (plain)
		return run_staged_messages(e, m, n, stream);
	int ret = engine_order(e, stream, m->admission.capture);
	return ret ? ret : p2p_run_messages(e, m, n, stream);
}
