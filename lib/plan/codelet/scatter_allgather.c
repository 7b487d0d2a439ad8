/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A broadcast of messages: the root scatters them among the other ranks, which pass them on to each other. A block's warp groups take its messages in
 * turn; the messages of a group go to the other ranks in turn. Protocols FIFO and DIRECT.
 */
#include "cut.h"

enum {
	IN_FLIGHT = 4608 << 10, /* bytes of messages, one a warp group */
	LONG_IN_FLIGHT = 6 << 20, /* the same, where a call has many messages */
	MOST_DEPTH = 8 /* so that the second-level cache holds what is in flight */
};
#define LONG_BROADCAST ((uint64_t)100 << 20)

static int can(const struct row *row, const struct gpu_machine *machine, const struct plan_call *call)
{
	(void)machine;
	return row->protocol == PLAN_DIRECT ? row_is_registered(call) : !row_is_registered(call);
}

static struct codelet_rate rate(const struct row *row, int ranks)
{
	if (row->protocol == PLAN_DIRECT)
		return ranks > 2 ? codelet_rate(22, 359, 33, 239, 2, RATES_PASSING)
				 : codelet_rate(10, 367, 15, 245, 1, RATES_MOVING);
	return ranks > 2 ? codelet_rate(30, 355, 45, 237, 2, RATES_PASSING)
			 : codelet_rate(14, 362, 21, 241, 1,
					RATES_FOLDING /* by which data also go out of slots */);
}

/* The bytes in flight cover a link's rate times the latency of a flag, whatever the number of warp groups. All messages have about one size. */
static uint64_t message_of(const struct gpu_machine *machine, uint64_t bytes)
{
	const uint64_t blocks = (uint64_t)machine->max_blocks, piece = (bytes + blocks - 1) / blocks,
		       turn = (uint64_t)LAUNCH_WARP_GROUPS *
			      (uint64_t)(machine->ranks > 1 ? machine->ranks - 1 : 1),
		       all = bytes < LONG_BROADCAST ? IN_FLIGHT : LONG_IN_FLIGHT,
		       most = all / (blocks * LAUNCH_WARP_GROUPS);
	uint64_t rounds = piece / (turn * most) + 1;
	return plan_round(piece / (turn * rounds) + 1, LAUNCH_LINE);
}

static void cut(struct launch *l)
{
	const uint64_t most = message_of(l->machine, l->bytes),
		       groups = (uint64_t)l->machine->max_blocks * LAUNCH_WARP_GROUPS;
	l->message = slots_bytes(slots_room(l), (int)groups, 1, LAUNCH_LEAST_DEPTH, most);
	const uint64_t depth = l->message ? slots_room(l) / l->message / groups : 0;
	l->depth = (uint32_t)(depth < MOST_DEPTH ? depth : MOST_DEPTH) / 2 * 2;
	if (l->direct)
		l->message = most;
}

static uint64_t to_peer(const struct launch *l)
{
	const size_t others = (size_t)l->machine->ranks - 1, blocks = (size_t)l->grid.blocks;
	uint64_t most = 0;
	for (size_t rank = 0; rank < others; rank++) {
		uint64_t sum = 0;
		for (size_t block = 0; block < blocks; block++) {
			size_t begin, bytes = plan_cut(l->bytes, LAUNCH_LINE, blocks, block, &begin);
			for (size_t at = 0, i = 0; at < bytes; at += l->message, i++) {
				size_t left = bytes - at,
				       group = block * LAUNCH_WARP_GROUPS + i % LAUNCH_WARP_GROUPS;
				if ((group + i / LAUNCH_WARP_GROUPS) % others == rank)
					sum += left < l->message ? left : l->message;
			}
		}
		most = sum > most ? sum : most;
	}
	return most;
}

static size_t print(const struct launch *l, char *buf, size_t bytes)
{
	return launch_print_kernel(l, "scatter_allgather", buf, bytes);
}

const struct codelet scatter_allgather_codelet = { "scatter_allgather",
						   codelet_index_scatter_allgather,
						   PLAN_SM,
						   can,
						   codelet_us,
						   rate,
						   codelet_sent_in_parts,
						   codelet_one_piece,
						   cut,
						   to_peer,
						   print,
						   NULL };
