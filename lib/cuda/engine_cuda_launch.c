/* What all launches have in common, and the line that tells of one. */
#include "engine_cuda.h"

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
	e->limits.ranks = e->ranks;
	e->limits.words_bytes = l->words_bytes;
	e->limits.lines_bytes = l->lines_bytes;
	e->limits.slots_bytes = l->slots_bytes;
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
						    .flags = (uint32_t)l->flags,
						    .acks = (uint32_t)l->acks,
						    .area = (uint32_t)areas[i][0],
						    .area_bytes = (uint32_t)areas[i][1],
						    .rank = e->rank,
						    .ranks = e->ranks };
		fill_near(e, &e->args[i]);
	}
}

void engine_use_scratch(struct engine *e, int region, size_t bytes)
{
	e->scratch_region = region;
	e->limits.scratch_bytes = bytes;
	e->args[AREA_SCRATCH].slots = e->regions[region].gpu_peers;
	e->args[AREA_SCRATCH].area_bytes = (uint32_t)bytes;
}

/* ---- In words ------------------------------------------------------------------------------------------- */

void engine_log_launch(const struct engine *e, const struct launch *l)
{
	char text[256];
	if (log_level < LOG_TRACE)
		return;
	launch_print(l, text, sizeof text);
	log_line(LOG_TRACE, e->world_rank, "launch: %s of %llu bytes: %s", corale_coll_name(l->coll),
		 (unsigned long long)l->bytes, text);
}

/* Bytes to another rank at most. */
static uint64_t most_sent(const struct engine *e, const struct call *c)
{
	uint64_t most = 0;
	if (!c->send_counts)
		return call_bytes(c);
	for (int r = 0; r < e->world_ranks; r++)
		most = r != e->world_rank && c->send_counts[r] > most ? c->send_counts[r] : most;
	return most * corale_type_bytes(c->record.type);
}

void engine_log_p2p(const struct engine *e, const struct call *c)
{
	const struct codelet_group *g = &e->p2p->group;
	if (log_level < LOG_TRACE)
		return;
	const uint64_t bytes = most_sent(e, c);
	const struct launch l = { .machine = &e->limits,
				  .coll = c->record.coll,
				  .bytes = bytes,
				  .kernel = KERNEL_P2P,
				  .grid = { g->wide * g->blocks + g->lists - g->wide, CODELET_THREADS },
				  .piece = bytes,
				  .pieces = 1,
				  .message = g->args.slot_bytes,
				  .depth = g->args.depth };
	engine_log_launch(e, &l);
}
