/* SPDX-License-Identifier: BSD-3-Clause */
/* What all launches have in common, and the log line of a launch. */
#include "engine_cuda.h"

#include "base/collectives.h"
#include "base/log.h"

/* ---- Arguments ------------------------------------------------------------------------------------------ */

/* What the kernels for few ranks need not compute. */
static void fill_near(const struct engine *e, struct codelet_args *a)
{
	unsigned char *mine = a->windows + (uint64_t)e->rank * a->stride + a->area;
	for (int k = 1; k < e->ranks && k < CODELET_FEW_RANKS; k++) {
		int to = (e->rank + k) % e->ranks;
		a->few_ranks.out[k - 1] = a->windows + (uint64_t)to * a->stride + a->area +
					  (uint64_t)codelet_index(e->rank, to) * a->area_bytes;
		a->few_ranks.in[k - 1] = mine + (uint64_t)(k - 1) * a->area_bytes;
	}
	a->few_ranks.half = (uint32_t)(e->ranks - 1) * a->area_bytes;
}

void engine_make_args(struct engine *e)
{
	const struct codelet_layout *l = &e->layout;
	e->machine.ranks = e->ranks;
	e->machine.words_bytes = l->words_bytes;
	e->machine.lines_bytes = l->lines_bytes;
	e->machine.slots_bytes = l->slots_bytes;
	e->machine.rings_bytes = codelet_rings_room(l->pair_rings, l->ring_depth);
	unsigned char *alone = (unsigned char *)e->state + offsetof(struct codelet_state, alone);
	const uint64_t areas[][2] = { [AREA_WORDS] = { l->words, l->words_bytes },
				      [AREA_LINES] = { l->lines, l->lines_bytes },
				      [AREA_SLOTS] = { l->slots, l->slots_bytes },
				      [AREA_SCRATCH] = { 0, 0 } };
	for (int i = 0; i < ENGINE_AREAS; i++) {
		e->args[i] = (struct codelet_args){ .windows = e->stride ? (unsigned char *)e->base : alone,
						    .stride = (uint32_t)e->stride,
						    .state = e->state,
						    .headers = (uint32_t)l->headers,
						    .zero_copy.refs = (uint32_t)l->refs,
						    .flags = (uint32_t)l->flags,
						    .acks = (uint32_t)l->acks,
						    .area = (uint32_t)areas[i][0],
						    .area_bytes = (uint32_t)areas[i][1],
						    .one_polls = (uint32_t)e->machine.host_window,
						    .depth = LAUNCH_SLOT_DEPTH,
						    .rank = e->rank,
						    .ranks = e->ranks };
		fill_near(e, &e->args[i]);
	}
}

void engine_use_scratch(struct engine *e, int region, size_t bytes)
{
	e->scratch_region = region;
	e->machine.scratch_bytes = bytes;
	e->args[AREA_SCRATCH].slots = e->regions[region].gpu_peers;
	e->args[AREA_SCRATCH].area_bytes = (uint32_t)bytes;
}

void engine_fill_args(const struct engine *e, struct gpu_launch *l, enum engine_area area)
{
	const uint64_t bytes = l->cut.bytes;
	struct codelet_args *a = &l->args;
	*a = e->args[area];
	a->bytes = bytes;
	a->send_block = coll_sends_each(l->cut.coll) ? bytes : 0;
	a->recv_block = coll_receives_each(l->cut.coll) ? bytes : 0;
	a->piece = (uint32_t)l->cut.piece;
	a->pieces = (uint32_t)l->cut.pieces;
	a->slot_bytes = (uint32_t)l->cut.message;
	a->zero_copy.channels = l->cut.zero_copy;
	a->depth = l->cut.depth ? l->cut.depth : a->depth;
	a->root = -1;
}

void engine_patch_args(struct engine *e, const struct call *c, struct codelet_args *a)
{
	const struct record *r = &c->record;
	a->send = c->send;
	a->recv = c->recv;
	a->signature = r->signature;
	a->tag = (uint32_t)(r->signature >> 32) ^ (uint32_t)r->signature;
	a->scalar = c->scalar;
	a->scalar_at = a->bytes ? c->scalar_at : NULL; /* what is not looked at (engine_admit) is not read */
	a->number = c->number;
	a->root = coll_is_rooted(r->coll) ? r->root : -1;
	a->op = codelet_op(r->type, r->op);
	engine_number_args(e, a);
}

size_t engine_scratch_bytes(const struct engine *e)
{
	return launch_scratch_bytes(e->ranks, e->layout.bytes, e->memory_cap);
}

void engine_keep_scratch(struct engine *e, void *memory, int region)
{
	const size_t sender = engine_scratch_bytes(e), all = sender * (size_t)(e->ranks - 1);
	e->scratch = memory;
	engine_use_scratch(e, region, sender);
	e->bytes += all;
	log_line(LOG_INFO, e->world_rank, "copy engines: %zu bytes of scratch, in chunks of %zu", all,
		 sender / 2);
}

/* ---- In the log ------------------------------------------------------------------------------------------- */

static void log_launch(const struct engine *e, const struct launch *l)
{
	char text[256];
	if (log_level < LOG_TRACE)
		return;
	launch_print(l, text, sizeof text);
	log_line(LOG_TRACE, e->world_rank, "launch: %s of %llu bytes: %s", corale_coll_name(l->coll),
		 (unsigned long long)l->bytes, text);
}

void engine_begin_launch(struct engine *e, const struct launch *l, int n)
{
	log_launch(e, l);
	engine_count(e, n);
}
