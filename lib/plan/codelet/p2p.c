/*
 * Messages between two ranks: sends and receives that start together, all_to_all_v, and all_to_all where each rank sends to many ranks of other nodes.
 * Protocol GRANTED: the receiver decides, when the call runs, how a message comes.
 */
#include "cut.h"

enum {
	MESSAGE_SLOT_BYTES = 256 << 10,
	LEAST_SLOT_BYTES = 16 << 10,
	FEW_CHANNELS = 64, /* that nearly fill a link; LAUNCH_CHANNELS do */
	LEAST_SHARE = 16 /* blocks of a list: with fewer there are many rounds */
};

/* An all_to_all between nodes is a codelet's only where its messages exceed a lowered list. */
static int can(const struct row *row, const struct gpu_machine *machine, const struct plan_call *call)
{
	(void)call;
	return row->coll != CORALE_ALL_TO_ALL || machine->many_far;
}

static struct codelet_rate rate(const struct row *row, int ranks)
{
	(void)row;
	return slots_rate_of_moves(ranks);
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
 * Channels of a message at most, equal on both ends. With edges to all ranks each channel has a block. Pairs have enough to fill a link, a multiple of a
 * list's blocks where these are many. No more than have slots of LEAST_SLOT_BYTES.
 */
int launch_most_channels(const struct gpu_machine *machine, int pairs)
{
	int all = launch_blocks_of_lists(machine, pairs, 2 * machine->ranks - 1, 0),
	    rounds = LAUNCH_CHANNELS / all;
	uint64_t most = machine->slots_bytes / (LAUNCH_SLOT_DEPTH * LEAST_SLOT_BYTES), n = (uint64_t)all;
	if (pairs)
		n = all < LEAST_SHARE ? FEW_CHANNELS
		    : rounds < 2      ? LAUNCH_CHANNELS
				      : (uint64_t)(all * rounds);
	most = most < 1 ? 1 : most < LAUNCH_CHANNELS ? most : LAUNCH_CHANNELS;
	return (int)(n < most ? n : most);
}

uint64_t launch_p2p_slot_bytes(uint64_t room, int channels)
{
	return slots_bytes(room, channels, 1, LAUNCH_SLOT_DEPTH, MESSAGE_SLOT_BYTES);
}

/* An all_to_all_v of equal counts in two buffers: each rank has a list to and from each other one, and its own. */
static void cut(struct launch *l)
{
	const int most = launch_most_channels(l->machine, 0),
		  lists = 2 * (l->machine->ranks - 1) + (l->bytes > 0);
	const uint64_t channels = l->bytes / LAUNCH_CHANNEL_BYTES + 1;
	int blocks = channels < (uint64_t)most ? (int)channels : most,
	    limit = lists ? launch_blocks_of_lists(l->machine, 0, lists, 0) : 0;
	l->grid.blocks = lists * (blocks < limit ? blocks : limit);
	l->message = launch_p2p_slot_bytes(l->machine->slots_bytes, most);
}

static size_t print(const struct launch *l, char *buf, size_t bytes)
{
	return launch_print_kernel(l, "p2p", buf, bytes);
}

const struct codelet p2p_codelet = {
	"p2p", 6, PLAN_SM, can, us, rate, codelet_sent_to_all, codelet_one_piece, cut, launch_block, print
};
