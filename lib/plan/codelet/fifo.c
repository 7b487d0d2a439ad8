/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages through slots, folded or moved: a reduce-scatter, after which an all_reduce has an all-gather; a broadcast's scatter and all-gather; blocks. Protocol
 * FIFO. By DIRECT what is moved, and an all_reduce's results, go straight into registered memory.
 */
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

/* With registered receive buffers a row by DIRECT runs the call, if the collective has one. */
static int can(const struct row *row, const struct gpu_machine *machine, const struct plan_call *call)
{
	const int has_direct = coll_moves(row->coll) || row->coll == CORALE_ALL_REDUCE;
	(void)machine;
	if (row->protocol == PLAN_DIRECT)
		return row_is_registered(call);
	return !has_direct || !row_is_registered(call);
}

static struct codelet_rate rate_of_direct(corale_coll coll, int ranks)
{
	if (coll == CORALE_ALL_REDUCE)
		return codelet_rate(14, 362, 21, 241, 2, RATES_FOLDING);
	if (coll == CORALE_BROADCAST)
		return ranks > 2 ? codelet_rate(22, 359, 33, 239, 2, RATES_PASSING)
				 : codelet_rate(10, 367, 15, 245, 1, RATES_MOVING);
	return codelet_rate(8, 360, 12, 240, 1, RATES_MOVING);
}

static struct codelet_rate rate(const struct row *row, int ranks)
{
	if (row->protocol == PLAN_DIRECT)
		return rate_of_direct(row->coll, ranks);
	if (row->coll == CORALE_BROADCAST)
		return ranks > 2 ? codelet_rate(30, 355, 45, 237, 2, RATES_PASSING)
				 : codelet_rate(14, 362, 21, 241, 1,
						RATES_FOLDING /* by which data also go out of slots */);
	if (row->coll == CORALE_ALL_REDUCE)
		return codelet_rate(28, 323, 42, 215, 2, RATES_FOLDING);
	if (coll_folds(row->coll))
		return ranks == 2 ? codelet_rate(21, 277, 32, 185, 1, RATES_FOLDING_BLOCKS)
				  : codelet_rate(22, 300, 33, 200, 1, RATES_FOLDING_BLOCKS);
	return slots_rate_of_moves(ranks);
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
		return coll_folds(l->coll) ? LONG_SLOT_BYTES : LAUNCH_WHOLE_PIECE;
	if (coll_folds(l->coll) || !l->scratch)
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

static uint8_t variant_of(const struct launch *l)
{
	if (l->coll == CORALE_BROADCAST)
		return FIFO_BROADCAST;
	if (!coll_folds(l->coll))
		return FIFO_MOVES;
	return l->direct ? FIFO_DIRECT : FIFO_REDUCE;
}

static void cut(struct launch *l)
{
	const int slotted = 1 + (slots_have_parts(l->coll) && !l->direct); /* exchanges through slots */
	l->variant = variant_of(l);
	l->message = l->variant == FIFO_BROADCAST ? message_of_broadcast(l) : most_of_message(l);
	if (l->variant == FIFO_DIRECT || !l->direct)
		l->message = slots_message(l, slotted, l->message);
}

static size_t print(const struct launch *l, char *buf, size_t bytes)
{
	static const char *const kernels[] = { [FIFO_REDUCE] = "fifo_reduce",
					       [FIFO_DIRECT] = "direct",
					       [FIFO_MOVES] = "fifo_moves",
					       [FIFO_BROADCAST] = "fifo_broadcast" };
	return launch_print_kernel(l, kernels[l->variant], buf, bytes);
}

const struct codelet fifo_codelet = {
	"fifo",     codelet_index_fifo, PLAN_SM, can,           codelet_us, rate,
	slots_sent, codelet_one_piece,  cut,     slots_to_peer, print,      NULL
};
