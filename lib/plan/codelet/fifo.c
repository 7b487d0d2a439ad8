/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages through slots, folded or moved: a reduce-scatter, after which an all_reduce has an all-gather; a broadcast's scatter and all-gather; blocks. Protocol
 * FIFO. By DIRECT a collective that folds nothing stores straight into registered memory.
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

/* A vector in parts, by two exchanges; else blocks, by one. */
static int has_parts(corale_coll coll)
{
	return coll == CORALE_ALL_REDUCE || coll == CORALE_BROADCAST;
}

/* With registered receive buffers a row by DIRECT runs the call, if the collective has one. */
static int can(const struct row *row, const struct gpu_machine *machine, const struct plan_call *call)
{
	const int has_direct = coll_moves(row->coll) || row->coll == CORALE_ALL_REDUCE;
	(void)machine;
	if (row->protocol == PLAN_DIRECT)
		return row_is_registered(call);
	return !has_direct || !row_is_registered(call);
}

static struct codelet_rate rate_of_broadcast(const struct row *row, int ranks)
{
	if (row->protocol == PLAN_DIRECT)
		return ranks > 2 ? codelet_rate(22, 359, 33, 239, 2, RATES_PASSING)
				 : codelet_rate(10, 367, 15, 245, 1, RATES_MOVING);
	return ranks > 2 ? codelet_rate(30, 355, 45, 237, 2, RATES_PASSING)
			 : codelet_rate(14, 362, 21, 241, 1,
					RATES_FOLDING /* by which data also go out of slots */);
}

static struct codelet_rate rate(const struct row *row, int ranks)
{
	if (row->coll == CORALE_BROADCAST)
		return rate_of_broadcast(row, ranks);
	if (row->protocol == PLAN_DIRECT)
		return codelet_rate(8, 360, 12, 240, 1, RATES_MOVING);
	if (row->coll == CORALE_ALL_REDUCE)
		return codelet_rate(28, 323, 42, 215, 2, RATES_FOLDING);
	if (coll_folds(row->coll))
		return ranks == 2 ? codelet_rate(21, 277, 32, 185, 1, RATES_FOLDING_BLOCKS)
				  : codelet_rate(22, 300, 33, 200, 1, RATES_FOLDING_BLOCKS);
	return slots_rate_of_moves(ranks);
}

static double sent(const struct row *row, const struct gpu_machine *machine, uint64_t bytes)
{
	return has_parts(row->coll) ? codelet_sent_in_parts(row, machine, bytes)
				    : codelet_sent_to_all(row, machine, bytes);
}

/* Bytes of a message at most. Long runs to one peer are faster, but no rank sends while a block takes out its last message: so the last one is half as
 * long as the others. */
static uint64_t most_of_message(const struct launch *l)
{
	const uint64_t others = (uint64_t)(l->machine->ranks > 1 ? l->machine->ranks - 1 : 1),
		       each = others < MOST_TAKEN ? MOST_TAKEN / others : 1,
		       blocks = (uint64_t)l->machine->max_blocks,
		       part = plan_round(2 * l->bytes / ((2 * each - 1) * blocks) + 1, LAUNCH_LINE);
	if (coll_folds(l->coll) || !l->scratch)
		return SLOT_BYTES;
	return part > LONG_SLOT_BYTES ? LONG_SLOT_BYTES : part;
}

/* The bytes in flight cover a link's rate times the latency of a flag; the second-level cache holds them. All messages have about one size. */
static uint64_t message_of_broadcast(const struct launch *l)
{
	const uint64_t blocks = (uint64_t)l->machine->max_blocks,
		       owners = (uint64_t)(l->machine->ranks > 1 ? l->machine->ranks - 1 : 1),
		       all = l->bytes < LONG_BROADCAST ? BROADCAST_IN_FLIGHT : LONG_BROADCAST_IN_FLIGHT,
		       piece = l->bytes / (blocks * owners), most = all / blocks;
	return plan_round(piece / (piece / most + 1) + 1, LAUNCH_LINE);
}

static void cut(struct launch *l)
{
	const int is_broadcast = l->coll == CORALE_BROADCAST;
	const uint64_t most = is_broadcast ? message_of_broadcast(l) : most_of_message(l);
	l->variant = is_broadcast ? FIFO_BROADCAST : coll_folds(l->coll) ? FIFO_REDUCE : FIFO_MOVES;
	l->message = slots_message(l, 1 + has_parts(l->coll), most);
	if (l->direct)
		l->message = is_broadcast ? most : LAUNCH_WHOLE_PIECE; /* which is passed on by messages */
}

static uint64_t to_peer(const struct launch *l)
{
	size_t begin;
	if (l->coll == CORALE_BROADCAST) /* the first owner's part */
		return plan_cut(l->bytes, PLAN_UNIT_BYTES, (size_t)l->machine->ranks - 1, 0, &begin);
	return l->coll == CORALE_ALL_REDUCE ? launch_two_parts(l) : l->bytes;
}

static size_t print(const struct launch *l, char *buf, size_t bytes)
{
	static const char *const kernels[] = { [FIFO_REDUCE] = "fifo_reduce",
					       [FIFO_MOVES] = "fifo_moves",
					       [FIFO_BROADCAST] = "fifo_broadcast" };
	return launch_print_kernel(l, kernels[l->variant], buf, bytes);
}

const struct codelet fifo_codelet = { "fifo", codelet_index_fifo, PLAN_SM, can,     codelet_us, rate,
				      sent,   codelet_one_piece,  cut,     to_peer, print,      NULL };
