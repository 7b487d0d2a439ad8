/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages through slots, or into registered memory, moved by many blocks: a broadcast's scatter and all-gather; blocks. Protocol FIFO. */
#include "cut.h"

#include "base/collectives.h"

enum {
	SLOT_BYTES = 64 << 10, /* at most */
	LONG_SLOT_BYTES = 1 << 20,
	MOST_TAKEN = 4, /* messages that a block takes out of scratch, at most */
	BROADCAST_IN_FLIGHT = 4608 << 10, /* bytes of a broadcast's messages, one a block */
	LONG_BROADCAST_IN_FLIGHT = 6 << 20 /* the same, where a call has many messages */
};
#define LONG_BROADCAST ((uint64_t)100 << 20)

static int can(const struct row *row, const struct gpu_machine *machine, const struct plan_call *call)
{
	(void)row, (void)machine, (void)call;
	return 1;
}

static struct codelet_rate rate_of_registered(corale_coll coll, int ranks)
{
	if (coll == CORALE_BROADCAST)
		return ranks > 2 ? codelet_rate(22, 359, 33, 239, 2, RATES_PASSING)
				 : codelet_rate(10, 367, 15, 245, 1, RATES_MOVING);
	return codelet_rate(8, 360, 12, 240, 1, RATES_MOVING);
}

static struct codelet_rate rate(const struct row *row, const struct gpu_machine *machine)
{
	if (row->coll == CORALE_BROADCAST)
		return machine->ranks > 2
			   ? codelet_rate(30, 355, 45, 237, 2, RATES_PASSING)
			   : codelet_rate(14, 362, 21, 241, 1,
					  RATES_FOLDING /* by which data also go out of slots */);
	return slots_rate_of_moves(machine->ranks);
}

static double us(const struct row *row, const struct gpu_machine *machine, const struct plan_call *call)
{
	const struct codelet_rate registered = rate_of_registered(row->coll, machine->ranks);
	return row_is_registered(call) ? codelet_us_at(row, machine, call, &registered)
				       : codelet_us(row, machine, call);
}

/* Bytes of a message at most. Long runs to one peer are faster, but no rank sends while a block takes out its last message: so the last one is half as
 * long as the others. */
static uint64_t most_of_message(const struct launch *l)
{
	const uint64_t others = (uint64_t)(l->machine->ranks > 1 ? l->machine->ranks - 1 : 1),
		       each = others < MOST_TAKEN ? MOST_TAKEN / others : 1,
		       blocks = (uint64_t)l->machine->max_blocks,
		       part = plan_round(2 * l->bytes / ((2 * each - 1) * blocks) + 1, LAUNCH_LINE);
	if (l->direct)
		return LAUNCH_WHOLE_PIECE;
	if (!l->scratch)
		return SLOT_BYTES;
	return part > LONG_SLOT_BYTES ? LONG_SLOT_BYTES : part;
}

/* The bytes in flight cover a link's rate times the latency of a flag; the second-level cache holds them. All messages have about one size. */
static uint64_t message_of_broadcast(const struct launch *l)
{
	const uint64_t blocks = (uint64_t)l->machine->max_blocks,
		       all = l->bytes < LONG_BROADCAST ? BROADCAST_IN_FLIGHT : LONG_BROADCAST_IN_FLIGHT,
		       piece = l->bytes / (blocks * slots_owners(l->coll, l->machine->ranks)),
		       most = all / blocks;
	return plan_round(piece / (piece / most + 1) + 1, LAUNCH_LINE);
}

static void cut(struct launch *l)
{
	const int slotted = 1 + (slots_have_parts(l->coll) && !l->direct); /* exchanges through slots */
	l->variant = l->coll == CORALE_BROADCAST ? FIFO_BROADCAST : FIFO_MOVES;
	l->message = l->variant == FIFO_BROADCAST ? message_of_broadcast(l) : most_of_message(l);
	if (!l->direct)
		l->message = slots_message(l, slotted, l->message);
}

static const char *const kernels[] = { [FIFO_MOVES] = "fifo_moves", [FIFO_BROADCAST] = "fifo_broadcast" };

const struct codelet fifo_codelet = { "fifo", codelet_index_fifo, PLAN_SM, can, us, rate, slots_sent, NULL,
				      cut,    launch_parts,       kernels, NULL };
