/* SPDX-License-Identifier: BSD-3-Clause */
/* Any plan, lowered: the arguments of its launch. */
#include "cuda_codelet.h"

#include <string.h>

#include "base/collectives.h"
#include "base/log.h"
#include "base/status.h"
#include "plan/lower.h"

enum {
	MOST_IN_LINES = 32 << 10, /* bytes of a message */
	MOST_FAR_WORDS = 8 << 10 /* in a window in host memory; larger ones are behind one flag */
};

/* A thread for each packet, in whole warps. */
static uint64_t threads_for(uint64_t slot_bytes)
{
	uint64_t threads = plan_round(slot_bytes / 16, 32);
	return threads < CODELET_THREADS ? threads : CODELET_THREADS;
}

/* Small calls between nodes begin and end sooner in small blocks. Each half of a block serves all ranks of the list. */
static uint64_t threads_in_slots(const struct engine *e, const struct codelet_lowered *l, uint64_t message)
{
	const uint64_t threads = threads_for(message),
		       peers = plan_round(2 * ((uint64_t)e->ranks + l->nfar), 64);
	return !e->remote.counts ? CODELET_THREADS : threads > peers ? threads : peers;
}

/* Lays out the queues one after the other, with a slot for each of a call's messages or of the queues' depths. Returns the number of slots. */
static uint32_t lay_rings(const struct plan *plan, const struct lowered_messages *messages,
			  struct codelet_lowered *l)
{
	uint32_t slots = 0;
	for (int i = 0; i < plan->nqueues; i++) {
		l->depth[i] = messages ? messages->most[i] : plan->queues[i].depth;
		l->ring_at[i] = slots;
		slots += l->depth[i] * plan->channels;
	}
	return slots;
}

/* Cuts the lines' room into a slot for each message of a call; 0: it is too small. */
static int cut_lines(const struct engine *e, const struct call *c, const struct launch *launch,
		     uint64_t message, struct codelet_lowered *l)
{
	const struct plan *plan = launch->plan;
	const int words_only = e->machine.words_only;
	const int is_far = e->machine.host_window && e->machine.forced != PLAN_LL && message > MOST_FAR_WORDS;
	if (!launch->messages || l->call.chunks > 1 || message > MOST_IN_LINES || plan->scratch_cells ||
	    plan->spans || l->element || c->send_counts)
		return 0;
	/* half of a word is data */
	l->args.slot_bytes = (uint32_t)(is_far       ? plan_round(message + 16, CODELET_LINE)
					: words_only ? plan_round(2 * message + 1, CODELET_LINE)
						     : codelet_lines(message) * CODELET_LINE);
	const uint64_t places = lay_rings(plan, launch->messages, l);
	l->form = is_far ? LOWERED_FAR : words_only ? LOWERED_LL : LOWERED_LL128;
	l->all_receive_from_all = launch->messages->all_receive_from_all != 0;
	l->receives_from_all = e->lists.list[launch->list].receives_from_all != 0;
	l->threads = (uint16_t)threads_for(l->args.slot_bytes);
	l->args.area = (uint32_t)e->layout.lines;
	l->args.area_bytes = (uint32_t)e->layout.lines_bytes;
	return (uint64_t)places * l->args.slot_bytes <= e->layout.lines_bytes;
}

/* Of the call, or of its longest edge here. */
static int most_chunks(const struct engine *e, const struct call *c, const struct lowered_call *call)
{
	int most = call->chunks;
	for (int r = 0; c->send_counts && r < e->ranks; r++) {
		const int out = lowered_chunks(call, c->send_counts[r]),
			  in = lowered_chunks(call, c->recv_counts[r]);
		most = out > most ? out : most;
		most = in > most ? in : most;
	}
	return most;
}

/* An operation runs once a trip. Lists between nodes may be rolled: for them this bound is far above the messages of any connection. */
static uint64_t most_steps(const struct engine *e, const struct plan *plan)
{
	const uint64_t unrolled = (uint64_t)plan->nsteps * (uint64_t)e->world_ranks;
	return unrolled < CODELET_LOWERED_OPS || e->world_ranks > e->ranks ? unrolled : CODELET_LOWERED_OPS;
}

/* Most messages of a connection that flags can count. */
static uint64_t most_counted(const struct engine *e, const struct call *c)
{
	if (c->send_counts)
		return (uint64_t)1 << CODELET_NUMBER_BITS;
	return e->world_ranks > e->ranks ? (uint64_t)UINT32_MAX << CODELET_NUMBER_BITS : UINT32_MAX;
}

/*
 * Flags number a connection's messages within the call's epochs. The number of epochs follows from the plan and the count, so all ranks agree. Counts of an
 * all_to_all_v differ between ranks, so it has one epoch, and both ends of an edge with more messages refuse the call.
 */
static int count_epochs(const struct engine *e, const struct call *c, const struct plan *plan,
			struct codelet_lowered *l)
{
	const uint64_t most = (uint64_t)most_chunks(e, c, &l->call) * most_steps(e, plan),
		       room = most_counted(e, c);
	l->epochs = (uint32_t)(most >> CODELET_NUMBER_BITS) | 1;
	if (most < room)
		return 0;
	return log_error(
	    CORALE_ENOTSUP, e->world_rank,
	    "%s of %llu bytes in %d chunks: up to %llu messages from a rank to another one in one call, at "
	    "most "
	    "%llu are counted: give it more blocks (CORALE_MAX_CTAS), a larger CORALE_GPU_WINDOW, or make "
	    "several calls of it",
	    corale_coll_name(c->record.coll), (unsigned long long)call_bytes(c), most_chunks(e, c, &l->call),
	    (unsigned long long)most, (unsigned long long)room - 1);
}

/* Each sender's part of the window holds the slots of all queues, one after the other. The rest of the first part is scratch. */
static int cut_rings(const struct engine *e, const struct call *c, const struct plan *plan,
		     const struct lowered_room *room, struct codelet_lowered *l)
{
	struct codelet_args *a = &l->args;
	l->form = LOWERED_FIFO;
	l->threads = (uint16_t)threads_in_slots(e, l, room->message);
	a->area = (uint32_t)e->layout.slots;
	a->area_bytes = (uint32_t)e->layout.slots_bytes;
	a->slot_bytes = room->slot;
	int ret = count_epochs(e, c, plan, l);
	if (ret)
		return ret;
	lay_rings(plan, NULL, l);
	l->scratch_bytes = room->scratch;
	l->scratch = (unsigned char *)e->base + (uint64_t)e->rank * e->stride + e->layout.slots +
		     (uint64_t)room->slots * room->slot;
	if (e->world_ranks > 1 && room->bytes > e->layout.slots_bytes)
		return log_error(CORALE_EINTERNAL, e->world_rank,
				 "%s of %llu bytes: its plan needs %llu bytes of slots and scratch, %llu are "
				 "there: raise CORALE_GPU_WINDOW, and report this",
				 corale_coll_name(c->record.coll), (unsigned long long)call_bytes(c),
				 (unsigned long long)room->bytes, (unsigned long long)e->layout.slots_bytes);
	return 0;
}

/* The counts go in bytes into the launch's arguments, so that each graph keeps its own. */
static int launch_all_to_all_v(struct engine *e, const struct call *c, const struct codelet_lowered *l,
			       int blocks, cudaStream_t stream)
{
	const size_t element = corale_type_bytes(c->record.type);
	struct codelet_lowered_all_to_all_v uneven = { .plan = *l, .type = (int32_t)c->record.type };
	uneven.plan.call.chunk *= element;
	uneven.plan.call.unit *= element;
	for (int r = 0; r < e->ranks; r++) {
		uneven.send_counts[r] = c->send_counts[r] * element;
		uneven.send_displs[r] = c->send_displs[r] * element;
		uneven.recv_counts[r] = c->recv_counts[r] * element;
		uneven.recv_displs[r] = c->recv_displs[r] * element;
	}
	return engine_check(e, codelets_lowered_all_to_all_v(&uneven, blocks, stream), "launching a kernel");
}

/* Kernels move and fold the parts of complex numbers, and of other elements of 16 bytes their halves. */
static void count_parts(const struct call *c, struct lowered_call *call)
{
	const struct type_row *type = &type_rows[c->record.type];
	const size_t parts = type->kind == TYPE_COMPLEX || type->bytes > 8 ? 2 : 1;
	call->count *= parts;
	call->chunk *= parts;
	call->unit *= parts;
}

static int run(struct engine *e, const struct call *c, const struct gpu_launch *prepared, cudaStream_t stream)
{
	const struct launch *launch = &prepared->cut;
	const struct plan *plan = launch->plan;
	const struct engine_list *list = &e->lists.list[launch->list];
	const int blocks = plan->nprograms * plan->channels;
	struct codelet_lowered l = { .args = prepared->args,
				     .channels = plan->channels,
				     .world = e->world_ranks,
				     .remote = e->remote,
				     .nfar = (uint16_t)list->nfar,
				     .first_channel = launch->single_channel ? REMOTE_SINGLE : 0 };
	struct plan_env env;
	const struct plan_map map = { .ranks = e->world_ranks };
	engine_patch_args(e, c, &l.args);
	memcpy(l.few_far, list->few_far, sizeof l.few_far);
	plan_env_init(&env, plan, &map, e->world_rank, c->record.root,
		      coll_is_uneven(launch->coll) ? 0 : c->record.count);
	lowered_call_init(&l.call, plan, &env);
	for (int p = 0; p <= plan->nprograms; p++)
		l.first[p] = (uint16_t)list->host.first[p];
	l.ops = (const struct lowered_op *)(const void *)list->memory;
	l.peers = (const struct lowered_peer *)(const void *)(list->memory +
							      (size_t)list->host.nops * sizeof *l.ops);
	l.npeers = (uint16_t)list->host.npeers;
	l.far_peers = (const int16_t *)(const void *)(l.peers + list->host.npeers);
	if (coll_folds(c->record.coll) && type_folds_lowered(c->record.type, op_kind(c->record.op)))
		l.element = (uint8_t)corale_type_bytes(c->record.type);
	struct lowered_room room;
	struct lowered_call counted = l.call;
	counted.send_counts = c->send_counts;
	lowered_room_init(&room, plan, &counted);
	int ret = cut_lines(e, c, launch, room.message, &l) ? 0 : cut_rings(e, c, plan, &room, &l);
	ret = ret ? ret : engine_open_list(e, launch->list, l.first_channel, plan->channels);
	if (ret)
		return ret;
	engine_begin_launch(e, launch, blocks);
	if (c->send_counts)
		return launch_all_to_all_v(e, c, &l, blocks, stream);
	if (!l.element)
		count_parts(c, &l.call);
	return engine_check(e, codelets_lowered(&l, blocks, (int)c->record.type, stream),
			    "launching a kernel");
}

static void fill(const struct engine *e, struct gpu_launch *l)
{
	engine_fill_args(e, l, AREA_SLOTS);
}

const struct cuda_codelet cuda_lowered = { codelets_load_lowered, fill, CODELET_OVERWRITES, run };
