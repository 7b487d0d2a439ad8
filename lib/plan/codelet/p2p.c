/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages between two ranks: sends and receives that start together, all_to_all_v, and all_to_all where each rank sends to many ranks of other nodes.
 * Protocol GRANTED: the receiver decides, when the call runs, how a message comes.
 */
#include "cut.h"

enum {
	MESSAGE_SLOT_BYTES = 256 << 10,
	LEAST_SLOT_BYTES = 16 << 10,
	FEW_CHANNELS = 64, /* that nearly fill a link; LAUNCH_CHANNELS do */
	LEAST_SHARE = 16, /* blocks of a list: with fewer there are many rounds */
	LONG_LINES = 8, /* times the rings' room: what is longer is faster through slots */
	TEAM_DEPTH = 4, /* messages in flight of a channel, where teams may run them; */
	LEAST_MESSAGES = 8, /* of a channel, where none is shorter than */
	LEAST_MESSAGE_BYTES = 32 << 10,
	TEAM_BYTES = 256 << 10, /* of the longest message that teams run, at least */
	LEAST_LONG_BYTES = 1 << 20, /* of a message that leaves the lines for them */
	MOST_IN_WORDS = 16 << 10, /* bytes of a message, over links that tear lines; */
	MOST_IN_FAR_WORDS =
	    128 << 10 /* in windows in host memory, where grants and flags take several times as long */
};

/* Both ends cut long messages for teams, which may run them. */
static int has_teams(const struct gpu_machine *machine)
{
	if (machine->forced && machine->forced != PLAN_FIFO)
		return machine->forced == PLAN_BULK;
	return machine->max_blocks <= LAUNCH_BULK_BLOCKS;
}

/* An all_to_all between nodes is a codelet's only where its messages exceed a lowered list. */
static int can(const struct row *row, const struct gpu_machine *machine, const struct plan_call *call)
{
	(void)call;
	return row->coll != CORALE_ALL_TO_ALL || machine->many_far;
}

static struct codelet_rate rate(const struct row *row, const struct gpu_machine *machine)
{
	(void)row;
	return slots_rate_of_moves(machine->ranks);
}

/* Over nodes it is preferred to all other rows that can run the call. */
static double us(const struct row *row, const struct gpu_machine *machine, const struct plan_call *call)
{
	return row->traits & ROW_OVER_NODES ? 0 : codelet_us(row, machine, call);
}

int launch_blocks_of_lists(const struct gpu_machine *machine, int pairs, int many_blocks, int one_block)
{
	int blocks = machine->resident;
	if (!pairs && blocks > LAUNCH_MAX_BLOCKS) /* whose epochs are counted */
		blocks = LAUNCH_MAX_BLOCKS;
	return blocks - one_block > many_blocks ? (blocks - one_block) / many_blocks : 1;
}

/*
 * Channels of a message at most, equal on both ends. Of teams each block has one. With edges to all ranks each channel has a block. Pairs have enough to fill a link,
 * a multiple of a list's blocks where these are many. No more than have slots of LEAST_SLOT_BYTES.
 */
int launch_most_channels(const struct gpu_machine *machine, int pairs)
{
	int all = launch_blocks_of_lists(machine, pairs, 2 * machine->ranks - 1, 0),
	    rounds = LAUNCH_CHANNELS / all;
	uint64_t most = machine->slots_bytes / ((uint64_t)launch_p2p_depth(machine) * LEAST_SLOT_BYTES),
		 n = (uint64_t)all;
	if (has_teams(machine))
		n = (uint64_t)machine->max_blocks;
	else if (pairs)
		n = all < LEAST_SHARE ? FEW_CHANNELS
		    : rounds < 2      ? LAUNCH_CHANNELS
				      : (uint64_t)(all * rounds);
	most = most < 1 ? 1 : most < LAUNCH_CHANNELS ? most : LAUNCH_CHANNELS;
	return (int)(n < most ? n : most);
}

int launch_p2p_depth(const struct gpu_machine *machine)
{
	return has_teams(machine) ? TEAM_DEPTH : LAUNCH_SLOT_DEPTH;
}

uint64_t launch_p2p_slot_bytes(const struct gpu_machine *machine, uint64_t room, int channels)
{
	return slots_bytes(room, channels, 1, (uint32_t)launch_p2p_depth(machine), MESSAGE_SLOT_BYTES);
}

/* For teams: while one is taken in the next ones come. */
uint64_t launch_p2p_message(const struct gpu_machine *machine, uint64_t bytes, uint32_t channels,
			    uint64_t slot_bytes)
{
	const uint64_t pieces = (uint64_t)channels * LEAST_MESSAGES,
		       each = plan_round((bytes + pieces - 1) / pieces, LAUNCH_LINE),
		       message = each > LEAST_MESSAGE_BYTES ? each : LEAST_MESSAGE_BYTES;
	return has_teams(machine) && message < slot_bytes ? message : slot_bytes;
}

/* Of words half is data, and some of that says type and bytes. */
static uint64_t most_in_words(const struct gpu_machine *machine)
{
	const uint64_t room = machine->rings_bytes / LAUNCH_LINE_DATA * (LAUNCH_LINE / 2 - 2),
		       most = machine->host_window ? MOST_IN_FAR_WORDS : MOST_IN_WORDS;
	return room < most ? room : most;
}

uint64_t launch_short_lines(const struct gpu_machine *machine)
{
	return machine->words_only ? most_in_words(machine) : machine->rings_bytes;
}

/* What fits the rings goes in lines anyway. */
uint64_t launch_long_lines(const struct gpu_machine *machine)
{
	const uint64_t room = launch_short_lines(machine);
	if (machine->words_only)
		return room;
	const uint64_t least = machine->forced == PLAN_BULK ? 0 : LEAST_LONG_BYTES, most = LONG_LINES * room;
	if (!has_teams(machine) || most < least)
		return most;
	return room > least ? room : least;
}

/* What teams would else move through slots. Rates of the rank's own GPU have no part in that: both ends must agree. */
uint64_t launch_read_messages(const struct gpu_machine *machine)
{
	const int reads =
	    machine->zero_copy && machine->ranks <= LAUNCH_ZERO_COPY_RANKS && has_teams(machine);
	return reads ? launch_long_lines(machine) + 1 : 0;
}

int launch_p2p_by_teams(const struct gpu_machine *machine, uint64_t bytes)
{
	return has_teams(machine) && !machine->over_nodes &&
	       (machine->forced == PLAN_BULK || bytes >= TEAM_BYTES);
}

int launch_reads_message(const struct gpu_machine *machine, uint64_t bytes)
{
	const uint64_t least = launch_read_messages(machine);
	return machine->ranks > 1 && least && bytes >= least && launch_p2p_by_teams(machine, bytes);
}

/* An all_to_all_v of equal counts in two buffers: each rank has a list to and from each other one, and its own. */
static void cut(struct launch *l)
{
	const int most = launch_most_channels(l->machine, 0),
		  lists = 2 * (l->machine->ranks - 1) + (l->bytes > 0);
	const uint64_t channels = l->bytes / LAUNCH_CHANNEL_BYTES + 1;
	int blocks = channels < (uint64_t)most ? (int)channels : most,
	    limit = lists ? launch_blocks_of_lists(l->machine, 0, lists, 0) : 0;
	l->variant = launch_p2p_by_teams(l->machine, l->bytes) ? P2P_BULK : P2P_LISTS;
	l->zero_copy = launch_reads_message(l->machine, l->bytes) != 0;
	l->grid.blocks = l->variant == P2P_BULK ? blocks : lists * (blocks < limit ? blocks : limit);
	l->grid.threads = l->variant == P2P_BULK ? LAUNCH_BULK_THREADS : PLAN_CODELET_THREADS;
	l->depth = (uint32_t)launch_p2p_depth(l->machine);
	l->message = launch_p2p_slot_bytes(l->machine, l->machine->slots_bytes, most);
}

static const char *const kernels[] = { [P2P_LISTS] = "p2p", [P2P_BULK] = "bulk_p2p" };

const struct codelet p2p_codelet = {
	"p2p", codelet_index_p2p, PLAN_SM, can, us, rate, codelet_sent_to_all, NULL,
	cut,   launch_block,      kernels, NULL
};
