/* SPDX-License-Identifier: BSD-3-Clause */
/* From a key and an algorithm to a plan. Which algorithm is chosen is in planner_choose.c, what they cost in cost.c. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "planner_room.h"
#include "plan/plan_eval.h"
#include "plan/codelet/launch.h"
#include "base/hash.h"
#include "base/status.h"

enum {
	GPU_CHANNELS = 8, /* enough to hide the latency of a chunk behind the others */
	CHANNEL_BYTES = 256 << 10, /* a channel is worth it from here on, */
	GPU_CHANNEL_BYTES = 4 << 10, /* and on GPUs, where it costs a block */
	SCRATCH_QUEUES = 2, /* as much as the slots of so many */
	GPU_SLOTS = 2, /* messages in flight of a connection */
	GPU_LEAST_SLOT = 16 << 10, /* rather than more channels */
	GPU_MOST_SLOT = 128 << 10,
	CACHED_BYTES =
	    256 << 10, /* what a fold finds in the second-level cache: measured, docs/lab/hosts.md */
	COPIED_BYTES =
	    128 << 10, /* what two ranks of a node find in it that copy into a slot and out of it */
	CELLS_BYTES = 16 << 20, /* of a channel's cells that one fold takes */
	MOST_CHUNK = 1 << 30,
	SMALL_AHEAD_BYTES = 128 << 10,
	MOST_AHEAD = 64, /* header lines of a connection */
	CHUNK_CHOICES = 4, /* slot, slot / 2, slot / 4, slot / 8 */
	GPU_CHUNK_CHOICES =
	    6 /* and on GPUs, where rings over many nodes have as many messages a chunk, slot / 32 */
};

/* The order of chunks is that of preference: a later one must be better by more than the model's noise. */
static const double clearly_less = 0.95;

static uint32_t round_chunk(size_t bytes)
{
	return bytes < 2 * PLAN_CHUNK_GRAIN ? PLAN_CHUNK_GRAIN
					    : (uint32_t)(bytes / PLAN_CHUNK_GRAIN * PLAN_CHUNK_GRAIN);
}

void planner_init(struct planner *planner, const struct topo *topo, const struct settings *settings)
{
	memset(planner, 0, sizeof(*planner));
	planner->topo = topo;
	planner->slot_bytes = (uint32_t)settings->slot_bytes;
	planner->chunk_bytes = (uint32_t)settings->chunk_bytes;
	planner->single_class = -1;
	planner->slots = settings->slots < 2 ? 2 : settings->slots;
	int cores = topo->shared_memory ? topo->cores_per_rank_x16 / 16 : GPU_CHANNELS;
	planner->max_channels = settings->max_channels ? settings->max_channels : cores > 1 ? cores : 1;
	planner->reproducible = settings->reproducible;
	memcpy(planner->algo, settings->algo, sizeof(planner->algo));
}

/* All queues of a plan have a slot for each of their messages in flight and channels: there are seldom more than two queues. */
void planner_init_gpus(struct planner *planner, const struct topo *topo, const struct settings *settings,
		       const struct gpu_machine *machine)
{
	const size_t queues = PLAN_MAX_QUEUES - 1, slots_bytes = machine->slots_bytes;
	const int max_blocks = machine->max_blocks;
	planner_init(planner, topo, settings);
	planner->gpus = 1;
	planner->machine = machine;
	planner->slots = GPU_SLOTS;
	planner->max_channels = max_blocks;
	size_t most = slots_bytes / (queues * GPU_SLOTS * GPU_LEAST_SLOT);
	if (most < (size_t)max_blocks)
		planner->max_channels = most ? (int)most : 1;
	size_t slot = slots_bytes / (queues * GPU_SLOTS * (size_t)planner->max_channels);
	planner->slot_bytes = round_chunk(slot < GPU_MOST_SLOT ? slot : GPU_MOST_SLOT);
}

void planner_limit_remote(struct planner *planner, uint32_t slot_bytes, int channels, int blocks)
{
	const size_t units = (size_t)(PLAN_MAX_QUEUES + SCRATCH_QUEUES) * GPU_SLOTS * (size_t)channels,
		     most = planner->machine->slots_bytes / units;
	planner->slot_bytes = round_chunk(slot_bytes < most ? slot_bytes : most);
	planner->most_channels = channels;
	planner->max_channels = blocks < planner->max_channels ? blocks : planner->max_channels;
}

struct plan_key planner_key(corale_coll coll, size_t count, corale_type type, corale_op op)
{
	size_t bytes = count * corale_type_bytes(type);
	struct plan_key key = { 0 };
	key.coll = (uint8_t)coll;
	key.type = (uint8_t)type;
	key.op = (uint8_t)op_kind(op);
	key.size_class = bytes > 1 ? (uint8_t)(64 - __builtin_clzll(bytes - 1)) : 0;
	return key;
}

/* Small messages may run further ahead, as far as they stay in a processor's caches. */
static int queue_depth(const struct planner *planner, size_t bytes)
{
	size_t depth = planner->gpus ? 0 : SMALL_AHEAD_BYTES / bytes;
	depth = depth < MOST_AHEAD ? depth : MOST_AHEAD;
	return (int)depth < planner->slots ? planner->slots : (int)depth;
}

static struct algo_call describe(const struct planner *planner, const struct plan_key *key,
				 const struct row *row)
{
	struct algo_call call = { .row = row, .key = *key, .topo = planner->topo };
	call.bytes = (size_t)1 << key->size_class;
	call.slot_bytes = planner->slot_bytes;
	call.slots = queue_depth(planner, call.bytes);
	call.chunk_bytes = planner->chunk_bytes;
	call.max_channels = planner->max_channels;
	call.most_at_once = planner->most_at_once ? planner->most_at_once : PLANNER_MOST_AT_ONCE;
	call.reproducible = planner->reproducible;
	return call;
}

/* Slices of a part that are large enough to be worth a channel. */
static uint8_t choose_channels(const struct planner *planner, const struct algo_call *call,
			       const struct plan *plan)
{
	size_t worth =
	    call->bytes / (size_t)plan->parts / (planner->gpus ? GPU_CHANNEL_BYTES : CHANNEL_BYTES);
	size_t most = call->max_channels < 255 ? (size_t)call->max_channels : 255;
	if (planner->gpus)
		most = most / plan->nprograms ? most / plan->nprograms : 1;
	if (planner->most_channels && most > (size_t)planner->most_channels)
		most = (size_t)planner->most_channels;
	if (planner->room && planner->room->channels[plan->algo] &&
	    most > planner->room->channels[plan->algo])
		most = planner->room->channels[plan->algo];
	if (plan->spans)
		most = 1;
	return (uint8_t)(worth < 1 ? 1 : worth < most ? worth : most);
}

/* Messages that carry one chunk: several where each message is an inner piece. */
static uint32_t messages_per_chunk(const struct plan *plan)
{
	for (int i = 0; i < plan->nsteps; i++) {
		const struct plan_step *step = &plan->steps[i];
		const struct plan_span *span = step->src.space ? &step->src : &step->dst;
		if (step->op == PLAN_MOVE && (step->from || step->to) && !span->inner)
			return 1;
	}
	return (uint32_t)plan->inner;
}

/* Some step folds chunks that wait in cells. */
static int folds_cells(const struct plan *plan)
{
	for (int i = 0; i < plan->nsteps; i++)
		if (plan->steps[i].cells)
			return 1;
	return 0;
}

/*
 * A slot, but on hosts no more than stays in a cache where a message is folded, or read by several ranks, out of it; and on one node no more than that a copy
 * into a slot and one out of it meet in a cache.
 * A chunk of many messages stays within 32 bits.
 */
static uint32_t largest_message(const struct algo_call *call, const struct plan *plan, uint32_t messages)
{
	size_t most = call->slot_bytes, readers = (size_t)call->topo->map.max_node_size - 1;
	int cached = call->key.coll == CORALE_BROADCAST && readers > 1;
	for (int i = 0; i < plan->nqueues; i++)
		cached |= plan->queues[i].folded;
	if (call->topo->shared_memory && (cached || call->topo->map.nodes == 1) && most > CACHED_BYTES)
		most = CACHED_BYTES;
	if (folds_cells(plan) && most > CELLS_BYTES / plan->scratch_cells)
		most = CELLS_BYTES / plan->scratch_cells;
	while (most * messages > MOST_CHUNK && most > PLAN_CHUNK_GRAIN)
		most /= 2;
	return round_chunk(most);
}

/* A chunk holds all that one message may carry of the call. */
static int is_one_chunk(const struct algo_call *call, const struct plan *plan)
{
	struct plan_env env;
	plan_env_init(&env, plan, &call->topo->map, 0, 0, planner_class_count(&call->key));
	return env.chunks == 1;
}

/* The i-th of the chunks that are compared; 0: it is like an earlier one. Those that hold the whole call are alike. */
static uint32_t chunk_choice(const struct algo_call *call, struct plan *plan, uint32_t slot,
			     uint32_t messages, int i)
{
	const uint32_t chunk = round_chunk(slot >> i) * messages;
	plan->chunk_bytes = chunk;
	return i && (chunk == round_chunk(slot >> (i - 1)) * messages || is_one_chunk(call, plan)) ? 0
												   : chunk;
}

/* The one among a few fractions of a slot that the model likes best, and its cost. Where none costs less than most_ns, the first one and a cost that is
 * no less. */
static struct plan_cost best_chunk(const struct algo_call *call, struct plan *plan, uint32_t slot,
				   uint32_t messages, double most_ns)
{
	const int choices = call->topo->shared_memory ? CHUNK_CHOICES : GPU_CHUNK_CHOICES;
	const size_t count = planner_class_count(&call->key);
	uint32_t best = chunk_choice(call, plan, slot, messages, 0);
	struct plan_cost cost = cost_plan_below(call->topo, plan, count, most_ns, 0);
	const int is_bound = cost.ns >= most_ns;
	for (int i = 1; i < choices; i++) {
		const double less_ns = is_bound ? most_ns : cost.ns * clearly_less;
		if (!chunk_choice(call, plan, slot, messages, i))
			continue;
		const struct plan_cost next = cost_plan_below(call->topo, plan, count, less_ns, cost.slowest);
		if (next.ns >= less_ns)
			continue;
		if (is_bound) /* what the first one costs matters after all */
			return best_chunk(call, plan, slot, messages, INFINITY);
		best = plan->chunk_bytes;
		cost = next;
	}
	plan->chunk_bytes = best;
	return cost;
}

/* Forced, or the best one: 1, then *cost is its. */
static int choose_chunk(const struct algo_call *call, struct plan *plan, double most_ns,
			struct plan_cost *cost)
{
	const uint32_t messages = messages_per_chunk(plan), slot = largest_message(call, plan, messages);
	if (plan->spans) /* no block is cut: a chunk stays what a message may carry */
		return 0;
	if (call->chunk_bytes) {
		const uint32_t forced = round_chunk(call->chunk_bytes);
		plan->chunk_bytes = (forced < slot ? forced : slot) * messages;
		return 0;
	}
	if (call->key.coll == CORALE_SEND || call->key.coll == CORALE_RECV) {
		plan->chunk_bytes = slot; /* the two ends have plans of their own that must cut alike */
		return 0;
	}
	*cost = best_chunk(call, plan, slot, messages, most_ns);
	return 1;
}

/* Copy engines run all programs but those that fold. */
static void give_to_copies(struct plan *plan)
{
	for (int p = 0; p < plan->nprograms; p++) {
		struct plan_program *program = &plan->programs[p];
		int folds = 0;
		for (int i = program->first; i < program->first + program->steps; i++)
			folds |= plan->steps[i].flags & PLAN_REDUCE;
		program->engine = folds ? PLAN_SM : PLAN_CE;
	}
}

/* Whether the planner's machine runs the row at all. */
static int is_for(const struct planner *planner, const struct row *row)
{
	if (row->traits & (planner->gpus ? ROW_ON_HOSTS : ROW_ON_GPUS))
		return 0;
	const int over_nodes = planner->topo->map.nodes > 1;
	return !row->codelet || (planner->gpus && over_nodes == !!(row->traits & ROW_OVER_NODES));
}

static int applies(const struct planner *planner, const struct plan_key *key, int index,
		   struct algo_call *call)
{
	int rows;
	const struct row *row = row_table(&rows) + index;
	if (index < 0 || index >= rows || row->coll != key->coll || !is_for(planner, row))
		return 0;
	*call = describe(planner, key, row);
	return row->applicable(call) && (!call->reproducible || row->traits & ROW_ALL_AT_ONCE);
}

const struct planner *planner_for(const struct planner *planner, const struct plan_key *key, int index)
{
	const struct planner *preferred = planner_of(planner, key);
	struct algo_call call;
	return preferred == planner || applies(preferred, key, index, &call) ? preferred : planner;
}

/* All of a plan but how it is cut. */
static int build_steps(const struct planner *planner, const struct plan_key *key, int index,
		       struct algo_call *call, struct plan *out)
{
	const struct row *row = row_table(&(int){ 0 }) + index;
	if (!applies(planner, key, index, call))
		return CORALE_ENOTSUP;
	plan_init(out, key);
	out->algo = (uint8_t)index;
	out->codelet = (uint8_t)(row->codelet ? row->codelet->index : 0);
	out->protocol = (uint8_t)row->protocol;
	out->chunk_bytes = round_chunk(call->slot_bytes);
	row->build(call, out);
	return plan_finish(out);
}

int planner_build(const struct planner *planner, const struct plan_key *key, int index, struct plan *out)
{
	struct plan_cost ignored;
	return planner_build_priced(planner_for(planner, key, index), key, index, INFINITY, out, &ignored);
}

int planner_build_priced(const struct planner *planner, const struct plan_key *key, int index, double most_ns,
			 struct plan *out, struct plan_cost *cost)
{
	int rows;
	struct algo_call call;
	const int ret = build_steps(planner, key, index, &call, out);
	if (ret)
		return ret;
	out->channels = choose_channels(planner, &call, out);
	if (!choose_chunk(&call, out, most_ns, cost))
		*cost = cost_plan_below(planner->topo, out, planner_class_count(key), INFINITY, 0);
	const struct codelet *codelet = row_table(&rows)[index].codelet;
	if (codelet && codelet->engine == PLAN_CE)
		give_to_copies(out);
	return 0;
}

int planner_build_cut(const struct planner *planner, const struct plan_key *key, int index, int channels,
		      uint32_t chunk_bytes, struct plan *out)
{
	struct algo_call call;
	const int ret = build_steps(planner, key, index, &call, out);
	out->channels = (uint8_t)channels;
	out->chunk_bytes = chunk_bytes;
	return ret;
}

int planner_build_steps(const struct planner *planner, const struct plan_key *key, int index,
			struct plan *out)
{
	struct algo_call call;
	const int ret = build_steps(planner, key, index, &call, out);
	if (!ret)
		out->channels = choose_channels(planner, &call, out);
	return ret;
}

uint64_t plan_hash_steps(const struct plan *plan)
{
	const size_t first = offsetof(struct plan, queues);
	return hash_bytes(hash_start ^ (uint64_t)plan->parts << 32 ^ (uint64_t)plan->inner,
			  (const char *)plan + first, sizeof *plan - first);
}

/* Channels are the launch's blocks, each with its slice; chunks what one message carries, or a block of one piece or round. */
static void take_launch(const struct planner *planner, const struct row *row, const struct plan_call *call,
			struct plan *plan)
{
	const struct launch l = launch_of(row, planner->machine, call);
	plan->channels = l.codelet->engine == PLAN_CE ? 1 : (uint8_t)l.grid.blocks;
	uint64_t cuts = (uint64_t)plan->parts * plan->channels;
	uint64_t chunk = l.message ? l.message : (l.piece + cuts - 1) / cuts;
	chunk = chunk < MOST_CHUNK ? plan_round(chunk ? chunk : 1, PLAN_UNIT_BYTES) : MOST_CHUNK;
	plan->chunk_bytes = (uint32_t)chunk;
}

int planner_build_codelet(const struct planner *planner, const struct plan_key *key, const struct row *row,
			  const struct plan_call *call, struct plan *out)
{
	const int index = (int)(row - row_table(&(int){ 0 }));
	/* The two ends of an edge cut its message when it runs. */
	if (row->protocol == PLAN_GRANTED)
		return planner_build(planner, key, index, out);
	const int ret = planner_build_steps(planner_of(planner, key), key, index, out);
	if (ret)
		return ret;
	if (row->codelet->engine == PLAN_CE)
		give_to_copies(out);
	take_launch(planner, row, call, out);
	return 0;
}
