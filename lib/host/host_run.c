/* SPDX-License-Identifier: BSD-3-Clause */
#include "host_engine.h"

#include <stdio.h>
#include <string.h>

#include "base/collectives.h"
#include "base/log.h"

/* ---- Progress -------------------------------------------------------------------- */

/* Channels are threads: one's addition may be lost, but not that there was progress. */
static void count_progress(struct host_run *run, const struct plan_action *a)
{
	uint64_t actions = atomic_load_explicit(&run->actions, memory_order_relaxed),
		 bytes = atomic_load_explicit(&run->bytes, memory_order_relaxed);
	size_t moved = a->op == PLAN_MOVE ? a->count * run->type_bytes : 0;
	atomic_store_explicit(&run->actions, actions + 1, memory_order_relaxed);
	atomic_store_explicit(&run->bytes, bytes + moved, memory_order_relaxed);
}

/* Executes actions of one program until it waits or ends, or *left, which it counts down, are executed. */
static int program_progress(struct host_run *run, struct host_channel *ch, struct host_program *p, int *left)
{
	while (*left > 0) {
		if (!p->active && !plan_cursor_next(&p->cursor, run->plan, &ch->env, &p->action)) {
			p->done = 1;
			return 0;
		}
		p->active = 1;
		int ret = host_sources_ready(run, ch, p);
		p->ready = ret > 0;
		if (ret > 0)
			ret = host_targets_free(run, ch, &p->action);
		if (ret <= 0)
			return ret;
		ret = host_move(run, ch, p);
		if (ret <= 0)
			return ret;
		count_progress(run, &p->action);
		p->active = 0;
		p->ready = 0;
		p->scan = 0;
		p->folded = 0;
		--*left;
	}
	return 0;
}

/* A rank of another node to which a message of a channel has not left, where no other thread moves it, or PLAN_NONE. */
static int unsent(const struct host_run *run, int channel)
{
	const int first = channel * PLAN_MAX_QUEUES;
	if (!run->engine->transport)
		return PLAN_NONE;
	return link_table_unsent(&run->engine->links, first, first + run->plan->nqueues);
}

int host_channel_reader(const struct host_run *run, int channel)
{
	if (!run->channels[channel].referenced)
		return PLAN_NONE;
	const int rank = host_lend_awaits(run, channel);
	return rank == PLAN_NONE ? unsent(run, channel) : rank;
}

/* True when nobody reads this rank's buffers any more, and what it sends has left. */
static int drained(struct host_run *run, struct host_channel *ch)
{
	struct host_engine *e = run->engine;
	for (int d = 0; d <= e->locals; d++) {
		for (int queue = 0; queue < run->plan->nqueues; queue++) {
			struct host_out *out = host_out(e, d, ch->env.channel, queue);
			if (out->reference > out->consumed) {
				host_out_free(out, 0);
				if (out->reference > out->consumed)
					return 0;
			}
		}
	}
	return unsent(run, ch->env.channel) == PLAN_NONE;
}

int host_channel_progress(struct host_run *run, int channel)
{
	enum { ACTIONS = 64 }; /* others must be looked at too: aborts, deadlines */
	struct host_channel *ch = &run->channels[channel];
	int done = 1, left = ACTIONS;
	if (ch->done)
		return 1;
	const int asked = ch->referenced ? host_lend_answer(run, ch) : 0;
	if (asked < 0)
		return asked;
	for (int i = 0, before = left; i < run->plan->nprograms; i++) {
		struct host_program *p = &ch->programs[i];
		int ret = p->done ? 0 : program_progress(run, ch, p, &left);
		if (ret < 0)
			return ret;
		done &= p->done;
		if (i == run->plan->nprograms - 1 && left < before && left > 0) {
			before = left; /* tokens may have freed an earlier program */
			i = -1;
			done = 1;
		}
	}
	ch->done = done && (!ch->referenced || drained(run, ch));
	return ch->done;
}

static void channel_init(struct host_run *run, struct host_channel *ch, const struct plan_env *env,
			 int channel)
{
	ch->env = *env;
	ch->env.channel = channel;
	ch->referenced = ch->done = 0;
	ch->edges = coll_is_uneven(run->plan->key.coll) || coll_is_pair(run->plan->key.coll);
	for (int i = 0; i < run->plan->nprograms; i++) {
		struct host_program *p = &ch->programs[i];
		plan_cursor_start(&p->cursor, run->plan, i);
		p->active = p->done = p->scan = 0;
		p->folded = 0;
	}
}

/* Places for several channels, then each channel's cells, then a copy of so many bytes of what is sent. most: bytes of a block. */
static int take_memory(struct host_run *run, size_t most, size_t copied)
{
	const size_t n = (size_t)run->nchannels,
		     channels = n > 1 ? ALIGN_ROUND(n * sizeof *run->channels) : 0,
		     cell = run->plan->spans ? most : run->plan->chunk_bytes,
		     cells = ALIGN_ROUND((size_t)run->plan->scratch_cells * cell);
	run->memory = free_list_take(&run->engine->spare, channels + n * cells + copied);
	if (!run->memory)
		return log_error(CORALE_ENOMEM, run->engine->rank,
				 "no memory for %d channels with %u cells of %zu bytes each, and to copy %zu "
				 "bytes of a call in place",
				 run->nchannels, run->plan->scratch_cells, cell, copied);
	if (channels)
		run->channels = run->memory;
	for (size_t c = 0; c < n; c++)
		run->channels[c].scratch = (unsigned char *)run->memory + channels + c * cells;
	run->copy = (unsigned char *)run->memory + channels + n * cells;
	return 0;
}

/* Elements from the beginning of the buffer to the end of the last block. */
static size_t sent_elements(const struct plan_env *env)
{
	size_t end = 0;
	for (int r = 0; env->send_counts && r < env->map.ranks; r++)
		if (env->send_counts[r] && env->send_displs[r] + env->send_counts[r] > end)
			end = env->send_displs[r] + env->send_counts[r];
	return env->send_counts ? end : env->count * (size_t)env->map.ranks;
}

static size_t received_bytes(const struct host_run *run, const struct plan_env *env)
{
	const int coll = run->plan->key.coll;
	const int one = coll_table[coll].recv == COLL_ONE;
	return env->count * run->type_bytes * (one ? 1 : (size_t)env->map.ranks);
}

/* What lies between blocks is not touched. */
static void copy_sent(struct host_run *run, const struct plan_env *env, size_t bytes)
{
	const unsigned char *sent = run->binding.send;
	for (int r = 0; env->send_counts && r < env->map.ranks; r++) {
		const size_t at = env->send_displs[r] * run->type_bytes;
		if (env->send_counts[r])
			memcpy(run->copy + at, sent + at, env->send_counts[r] * run->type_bytes);
	}
	if (!env->send_counts)
		memcpy(run->copy, sent, bytes);
	run->binding.send = run->copy;
}

/* Bytes of a block or vector, at most. */
static size_t largest_block(const struct plan *plan)
{
	return (size_t)1 << (plan->key.size_class < 40 ? plan->key.size_class : 40);
}

/* A message is a chunk at most; where a rank knows its own counts alone, the plan does not say more. Several blocks are at most all ranks'. */
size_t host_stride(const struct host_engine *engine, const struct plan *plan)
{
	size_t most = engine->layout.slot_bytes, stride = WINDOW_LINE, bytes = largest_block(plan);
	if (plan->spans)
		bytes *= (size_t)engine->map.ranks;
	if (!coll_has_count(plan->key.coll) || bytes > plan->chunk_bytes)
		bytes = plan->chunk_bytes;
	while (stride < bytes)
		stride *= 2;
	return bytes <= WINDOW_INLINE ? 0 : stride < most ? stride : most;
}

int host_run_init(struct host_run *run, struct host_engine *engine, const struct plan *plan,
		  const struct plan_env *env, const struct host_binding *binding)
{
	run->engine = engine;
	run->plan = plan;
	run->mismatch.found = run->mismatch.in_bytes = 0; /* the rest is written with found */
	run->actions = run->bytes = 0;
	run->binding = *binding;
	run->type_bytes = corale_type_bytes(binding->spec.type);
	const size_t most = largest_block(plan);
	run->stride = host_stride(engine, plan);
	run->nchannels = plan->channels;
	run->channels = &run->one;
	run->memory = NULL;
	run->exceeds_cache = 0;
	if (env->count * run->type_bytes * (size_t)env->map.ranks >= HOST_COPY_CALL)
		run->exceeds_cache = host_copy_exceeds_cache(received_bytes(run, env));
	/* What the call overwrites, as an all_to_all in place does, is sent from a copy. */
	const size_t own_at = env->send_displs ? env->send_displs[engine->rank] : (size_t)engine->rank;
	const int copies = coll_overwrites_in(plan->key.coll, binding->send, binding->recv, own_at);
	const size_t copied = copies ? sent_elements(env) * run->type_bytes : 0;
	run->copied = copied != 0;
	int ret = plan->channels > 1 || plan->scratch_cells || copied ? take_memory(run, most, copied) : 0;
	if (!ret && copied)
		copy_sent(run, env, copied);
	for (int c = 0; !ret && c < run->nchannels; c++)
		channel_init(run, &run->channels[c], env, c);
	return ret;
}

void host_run_skip(struct host_run *run, int n)
{
	struct host_channel *ch = &run->channels[0];
	struct plan_action action;
	for (int i = 0; n && i < run->plan->nprograms; i++) {
		while (n && plan_cursor_next(&ch->programs[i].cursor, run->plan, &ch->env, &action))
			n--;
		ch->programs[i].done = n > 0;
	}
}

void host_run_free(struct host_run *run)
{
	free_list_give(&run->engine->spare, run->memory);
}

/* The rank whose message a program waits for, or PLAN_NONE. What comes from a program of ours is another matter: that one waits for somebody else. */
static int awaits(const struct host_run *run, const struct host_program *p)
{
	const struct plan_action *a = &p->action;
	if (p->done || !p->active || p->ready || a->from == PLAN_NONE || a->from == run->engine->rank)
		return PLAN_NONE;
	return a->from == PLAN_ALL ? host_member(run->engine, a, a->from_group, p->scan) : a->from;
}

int host_channel_awaits(const struct host_run *run, int channel)
{
	int rank = PLAN_NONE;
	for (int i = 0; i < run->plan->nprograms && rank == PLAN_NONE; i++)
		rank = awaits(run, &run->channels[channel].programs[i]);
	return rank;
}

void host_channel_describe(const struct host_run *run, int channel, char *buf, size_t bytes)
{
	const struct host_channel *ch = &run->channels[channel];
	for (int i = 0; i < run->plan->nprograms; i++) {
		const struct host_program *p = &ch->programs[i];
		const struct plan_action *a = &p->action;
		const int rank = awaits(run, p);
		if (p->done || !p->active || (rank == PLAN_NONE && !p->ready && a->from != PLAN_NONE))
			continue;
		const size_t message = host_message_bytes(run, a);
		if (rank != PLAN_NONE && message)
			snprintf(buf, bytes, "%zu bytes of rank %d", message, rank);
		else if (rank != PLAN_NONE)
			snprintf(buf, bytes, "a signal of rank %d", rank);
		else if (a->to >= 0)
			snprintf(
			    buf, bytes,
			    "rank %d to take what was sent to it before, so that %zu bytes more can follow",
			    a->to, message);
		else
			snprintf(buf, bytes,
				 "other ranks to take what was sent to them before, so that %zu bytes more "
				 "can follow",
				 message);
		return;
	}
	const int reader = host_channel_reader(run, channel);
	if (reader >= 0)
		snprintf(buf, bytes, "rank %d to take what this rank has sent", reader);
	else
		snprintf(buf, bytes, "its own last step");
}
