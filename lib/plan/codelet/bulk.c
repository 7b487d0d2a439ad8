/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages through slots, folded or moved, by blocks whose warps divide the work, for calls from about 1 MB on. What is only moved has a kernel for many blocks (fifo.c). Protocol BULK. */
#include "cut.h"

#include "base/collectives.h"

enum {
	LEAST_ALONE = 1 << 20, /* of a call, instead of a lowered plan */
	LEAST_MESSAGES = 4, /* of each block, in all; */
	LEAST_STORED_ONCE = 16, /* the same where all others load what the root has stored; */
	IN_FLIGHT = 3 /* at a time: all where they are not too short */
};

/* Without a codelet for small calls. */
static int is_lowered_else(corale_coll coll)
{
	return coll == CORALE_REDUCE || coll == CORALE_GATHER || coll == CORALE_SCATTER;
}

/* A broadcast over a window in host memory: one exchange, of the whole vector. */
static int stores_once(const struct gpu_machine *machine, corale_coll coll)
{
	return machine->host_window && coll == CORALE_BROADCAST;
}

/* Of a sender's room, for one exchange. */
static uint64_t room_of(const struct gpu_machine *machine, uint64_t room, corale_coll coll)
{
	return slots_have_parts(coll) && !stores_once(machine, coll) ? room / 2 : room;
}

/* Each with room for two messages. */
static int most_blocks(const struct gpu_machine *machine, uint64_t room)
{
	const uint64_t fitting = room / (2 * LAUNCH_LINE);
	return fitting < (uint64_t)machine->max_blocks ? (int)fitting : machine->max_blocks;
}

static int can(const struct row *row, const struct gpu_machine *machine, const struct plan_call *call)
{
	const int room = most_blocks(machine, room_of(machine, machine->slots_bytes, row->coll));
	if (machine->forced == (int)row->protocol)
		return room;
	return room && (machine->ranks > 1 || slots_are_of_bulk(row->coll)) &&
	       (machine->max_blocks <= LAUNCH_BULK_BLOCKS || slots_are_of_bulk(row->coll) ||
		zero_copy_pays(row, machine, call)) &&
	       (!is_lowered_else(row->coll) || row->codelet->sent(row, machine, call->bytes) >= LEAST_ALONE);
}

/* Measured with 8 to 32 blocks behind libnccl.so, 4 H100; all_reduce with 132 on 2 H200. */
static struct codelet_rate rate(const struct row *row, const struct gpu_machine *machine)
{
	switch (row->coll) {
	case CORALE_ALL_REDUCE:
		return machine->ranks == 2 && machine->max_blocks > LAUNCH_BULK_BLOCKS
			   ? codelet_rate(22, 362, 33, 241, 2, RATES_TEAM_FOLDING)
			   : codelet_rate(22, 330, 33, 220, 2, RATES_TEAM_FOLDING);
	case CORALE_REDUCE:
		return codelet_rate(29, 220, 43, 147, 2, RATES_TEAM_FOLDING);
	case CORALE_REDUCE_SCATTER:
		return codelet_rate(18, 290, 27, 193, 1, RATES_TEAM_FOLDING);
	case CORALE_BROADCAST:
		return codelet_rate(23, 280, 34, 187, 2, RATES_TEAM_MOVING);
	default:
		return codelet_rate(13, 280, 20, 187, 1, RATES_TEAM_MOVING);
	}
}

static double us(const struct row *row, const struct gpu_machine *machine, const struct plan_call *call)
{
	return zero_copy_pays(row, machine, call) ? zero_copy_us(row, machine, call)
						  : codelet_us(row, machine, call);
}

static uint64_t message_of(const struct launch *l, uint64_t room)
{
	const uint64_t messages = stores_once(l->machine, l->coll)
				      ? LEAST_STORED_ONCE
				      : slots_owners(l->coll, l->machine->ranks) * LEAST_MESSAGES,
		       pieces = messages * (uint64_t)l->grid.blocks;
	return slots_team_message(l->bytes, pieces, room, IN_FLIGHT);
}

/*
 * While a message is folded or passed on the next ones come, and acknowledgements go back. A zero-copy call has as many blocks as its slots need, as its buffers may turn out not to
 * be mapped; if they are, few of them read.
 */
static void cut(struct launch *l)
{
	const int moves = zero_copy_block(l->coll) == RATES_READ_MOVING;
	const uint64_t room = room_of(l->machine, slots_room(l), l->coll);
	l->grid.blocks = most_blocks(l->machine, room);
	if (l->zero_copy && l->grid.blocks > LAUNCH_BULK_BLOCKS)
		l->grid.blocks = LAUNCH_BULK_BLOCKS;
	if (l->zero_copy)
		l->zero_copy = (uint8_t)(moves && l->machine->zero_copy > LAUNCH_ZERO_COPY_MOVES
					     ? LAUNCH_ZERO_COPY_MOVES
					     : l->machine->zero_copy);
	l->variant = l->coll == CORALE_BROADCAST ? BULK_BROADCAST
		     : coll_folds(l->coll)       ? BULK_REDUCE
						 : BULK_MOVES;
	const uint64_t each = room / (uint64_t)l->grid.blocks;
	slots_cut_teams(l, each, message_of(l, each));
}

static const char *const kernels[] = {
	[BULK_REDUCE] = "bulk_reduce", [BULK_MOVES] = "bulk_moves", [BULK_BROADCAST] = "bulk_broadcast"
};

const struct codelet bulk_codelet = { "bulk",  codelet_index_bulk, PLAN_SM, can, us,
				      rate,    slots_sent,         NULL,    cut, launch_parts,
				      kernels, zero_copy_pays };
