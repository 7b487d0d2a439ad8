/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Broadcasts from rank to rank by few blocks, message behind message. Protocol BULK. Every link into a rank carries the vector once, here as where the root scatters
 * (fifo, bulk); what is in flight comes later by one rank's turn for each hop, there by one in all. What a multiprocessor stores is what few blocks lack, and a rank on
 * the way loads a message once and stores it twice.
 */
#include "cut.h"

enum {
	MOST_BLOCKS = 16, /* 32 are a tenth slower, which was measured with 4 GPUs */
	LEAST_MESSAGES = 24, /* of each block: a rank waits for one at each rank before it */
	IN_FLIGHT = 4, /* at a time: both where they are not too short */
	PASS_US = 6 /* a fence and a flag */
};

static int blocks_of(const struct gpu_machine *machine)
{
	return machine->max_blocks < MOST_BLOCKS ? machine->max_blocks : MOST_BLOCKS;
}

/* A block's room: of the areas of all senders, as only the rank before sends. */
static uint64_t room_of(const struct gpu_machine *machine, uint64_t room)
{
	return room * (uint64_t)(machine->ranks - 1) / (uint64_t)blocks_of(machine);
}

static int can(const struct row *row, const struct gpu_machine *machine, const struct plan_call *call)
{
	(void)call;
	const int few = machine->max_blocks <= LAUNCH_BULK_BLOCKS || machine->forced == (int)row->protocol;
	/* over a window in host memory all load what the root stores once (bulk) */
	return few && machine->ranks > 1 && !machine->host_window &&
	       room_of(machine, machine->slots_bytes) >= 2 * LAUNCH_LINE;
}

static uint64_t message_of(const struct gpu_machine *machine, uint64_t bytes, uint64_t room)
{
	return slots_team_message(bytes, (uint64_t)blocks_of(machine) * LEAST_MESSAGES, room, IN_FLIGHT);
}

/* Measured with 8 to 32 blocks behind libnccl.so, 4 H100. */
static struct codelet_rate rate(const struct row *row, const struct gpu_machine *machine)
{
	(void)row, (void)machine;
	return codelet_rate(13, 310, 20, 207, 1, RATES_TEAM_MOVING);
}

/* Each rank between the root and the last one adds the time of a message. */
static double us(const struct row *row, const struct gpu_machine *machine, const struct plan_call *call)
{
	const struct codelet_speed speed = codelet_speed_of(row, machine);
	const uint64_t blocks = (uint64_t)blocks_of(machine), room = room_of(machine, machine->slots_bytes),
		       message = message_of(machine, call->bytes, room),
		       first = message * blocks < call->bytes ? message * blocks : call->bytes;
	return codelet_us(row, machine, call) +
	       (machine->ranks - 2) * (PASS_US + (double)first / codelet_gbs(&speed, machine) / 1e3);
}

static void cut(struct launch *l)
{
	const uint64_t room = room_of(l->machine, slots_room(l));
	l->grid.blocks = blocks_of(l->machine);
	slots_cut_teams(l, room, message_of(l->machine, l->bytes, room));
}

static const char *const kernels[] = { "chain" };

const struct codelet chain_codelet = {
	"chain", codelet_index_chain, PLAN_SM, can, us, rate, codelet_sent_in_parts, NULL,
	cut,     launch_block,        kernels, NULL
};
