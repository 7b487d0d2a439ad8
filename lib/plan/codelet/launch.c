/* How kernels that move data themselves are launched; copies are in launch_copies.c, words in launch_print.c. */
#include "launch.h"

#include "base/collectives.h"
#include "launch_copies.h"

enum {
	LEAN_VECTORS = 640, /* 8 KB and a little more */
	SLOT_BYTES = 64 << 10, /* at most */
	LONG_SLOT_BYTES = 1 << 20,
	MOST_TAKEN = 4, /* messages that a block takes out of scratch, where it has fewer peers */
	BROADCAST_BYTES = 4608 << 10, /* of a broadcast's messages in flight, one a warp group */
	LONG_BROADCAST_BYTES = 6 << 20, /* the same of many messages */
	MOST_BROADCAST_DEPTH = 8, /* so that the second-level cache holds what is in flight */
	EDGE_SLOT_BYTES = 256 << 10,
	LEAST_SLOT_BYTES = 16 << 10,
	FEW_LANES = 64, /* that nearly fill a link; LAUNCH_LANES do */
	LEAST_SHARE = 16 /* blocks of a list: below, rounds are many */
};
#define LONG_BROADCAST ((uint64_t)100 << 20)

/* ---- One-shot and two-shot: packets -------------------------------------------------------------------- */

static uint64_t vectors_of(uint64_t bytes, int words)
{
	return words ? (bytes + 15) / 16 : (bytes + LAUNCH_LINE_DATA - 1) / LAUNCH_LINE_DATA * 8;
}

/* One vector a thread as long as blocks and threads suffice; small ones in blocks of one warp, which find room beside a busy
 * kernel. */
static struct grid packet_grid(const struct gpu_machine *machine, uint64_t vectors, uint64_t small)
{
	struct grid grid = { 1, 32 };
	const uint64_t most = (uint64_t)machine->max_blocks;
	if (vectors > small) {
		grid.threads = vectors <= 8192 ? 128 : 256;
		while (grid.threads < PLAN_CODELET_THREADS && vectors > (uint64_t)grid.threads * most)
			grid.threads *= 2;
	}
	uint64_t blocks = (vectors + (uint64_t)grid.threads - 1) / (uint64_t)grid.threads;
	grid.blocks = blocks < 1 ? 1 : (int)(blocks < most ? blocks : most);
	return grid;
}

/* Of a block whose threads take turns. A thread has one packet for each other rank under way: of one, more threads fill the link. */
static int long_threads(const struct gpu_machine *machine)
{
	return machine->ranks == 2 ? LAUNCH_LONG_THREADS : PLAN_CODELET_THREADS;
}

static int has_few_ranks(const struct launch *l)
{
	return l->machine->ranks > 1 && l->machine->ranks <= PLAN_FEW_RANKS && !l->odd;
}

static int has_blocks(const struct launch *l)
{
	return coll_sends_each(l->coll) || coll_receives_each(l->coll);
}

/* What is larger than the packets' room goes in pieces of about one size. parts: of the vector; 1: all to all. */
static void cut_pieces(struct launch *l, int words, int exchanges, uint64_t parts)
{
	const uint64_t area = words ? l->machine->words_bytes : l->machine->lines_bytes,
		       most = plan_packets_piece(area, words, exchanges, parts, l->machine->max_blocks),
		       pieces = most ? (l->bytes + most - 1) / most : 1; /* 0: one rank, which sends none */
	uint64_t each = pieces > 1 ? (l->bytes + pieces - 1) / pieces : l->bytes;
	l->piece = pieces > 1 ? plan_round(each, parts * PLAN_UNIT_BYTES) : each;
	l->pieces = l->piece ? (l->bytes + l->piece - 1) / l->piece : 1;
}

static void cut_two_shot(struct launch *l)
{
	int scatters = coll_is_rooted(l->coll), words = !scatters && l->words;
	uint64_t parts = (uint64_t)(l->machine->ranks - scatters);
	cut_pieces(l, words, 2, parts);
	l->grid = packet_grid(l->machine, vectors_of((l->piece + parts - 1) / parts, words), 0);
	l->kernel = scatters || has_few_ranks(l) ? KERNEL_TWO_SHOT_FEW : KERNEL_TWO_SHOT;
	if (l->kernel == KERNEL_TWO_SHOT_FEW && l->grid.threads == PLAN_CODELET_THREADS && !scatters)
		l->grid.threads = long_threads(l->machine);
}

static void cut_one_shot(struct launch *l)
{
	l->piece = l->bytes;
	l->pieces = 1;
	if (has_blocks(l))
		cut_pieces(l, 0, 1, 1);
	uint64_t vectors = vectors_of(l->piece, 0);
	l->grid = packet_grid(l->machine, vectors, LEAN_VECTORS);
	int one_turn = l->pieces == 1 && vectors <= (uint64_t)l->grid.blocks * (uint64_t)l->grid.threads;
	l->kernel = !has_few_ranks(l) || (!one_turn && !has_blocks(l)) ? KERNEL_ONE_SHOT
		    : one_turn                                         ? KERNEL_ONE_SHOT_FEW
								       : KERNEL_ONE_SHOT_FEW_LONG;
	if (l->kernel == KERNEL_ONE_SHOT_FEW_LONG)
		l->grid.threads = long_threads(l->machine);
}

/* ---- FIFO and direct --------------------------------------------------------------------------------- */

uint64_t launch_slot_bytes(uint64_t room, int lanes, int rings, uint32_t depth, uint64_t most)
{
	uint64_t bytes = room / ((uint64_t)(lanes * rings) * depth);
	return (bytes < most ? bytes : most) / LAUNCH_LINE * LAUNCH_LINE;
}

/* Of one sender. Large calls have scratch, if there is any: longer runs to one peer. */
static uint64_t room_of(const struct launch *l)
{
	return l->scratch ? l->machine->scratch_bytes : l->machine->slots_bytes;
}

/* Of a broadcast: as many bytes are in flight as a link takes in the time of a message's flag, whatever the number of warp groups, and
 * all messages have about one size. */
static uint64_t broadcast_message(const struct gpu_machine *machine, uint64_t bytes)
{
	const uint64_t blocks = (uint64_t)machine->max_blocks, piece = (bytes + blocks - 1) / blocks,
		       turn = (uint64_t)LAUNCH_WARP_GROUPS *
			      (uint64_t)(machine->ranks > 1 ? machine->ranks - 1 : 1),
		       all = bytes < LONG_BROADCAST ? BROADCAST_BYTES : LONG_BROADCAST_BYTES,
		       most = all / (blocks * LAUNCH_WARP_GROUPS);
	uint64_t rounds = piece / (turn * most) + 1;
	return plan_round(piece / (turn * rounds) + 1, LAUNCH_LINE);
}

static void cut_scatter_allgather(struct launch *l)
{
	const uint64_t most = broadcast_message(l->machine, l->bytes),
		       groups = (uint64_t)l->machine->max_blocks * LAUNCH_WARP_GROUPS;
	l->kernel = KERNEL_SCATTER_ALLGATHER;
	l->message = launch_slot_bytes(room_of(l), (int)groups, 1, LAUNCH_LEAST_DEPTH, most);
	const uint64_t depth = l->message ? room_of(l) / l->message / groups : 0;
	l->depth = (uint32_t)(depth < MOST_BROADCAST_DEPTH ? depth : MOST_BROADCAST_DEPTH) / 2 * 2;
	if (l->direct)
		l->message = most;
}

/* The most that a message through slots holds. Long runs are faster, but nobody sends beside a block's last message being taken out: it
 * is half as long as the others. */
static uint64_t most_of_message(const struct launch *l, int direct, int folds)
{
	const uint64_t others = (uint64_t)(l->machine->ranks > 1 ? l->machine->ranks - 1 : 1),
		       each = others < MOST_TAKEN ? MOST_TAKEN / others : 1,
		       blocks = (uint64_t)l->machine->max_blocks,
		       part = plan_round(2 * l->bytes / ((2 * each - 1) * blocks) + 1, LAUNCH_LINE);
	if (!direct && (folds || !l->scratch))
		return SLOT_BYTES;
	return direct || part > LONG_SLOT_BYTES ? LONG_SLOT_BYTES : part;
}

/* Folds by one exchange or two, and blocks: straight into the peers' memory where it is registered. */
static void cut_fifo(struct launch *l)
{
	int two_shot = l->codelet == CODELET_FIFO_TWO_SHOT, direct = two_shot && l->direct,
	    folds = coll_folds(l->coll);
	l->kernel = direct ? KERNEL_DIRECT : folds ? KERNEL_FIFO_REDUCE : KERNEL_FIFO_MOVES;
	l->message = launch_slot_bytes(room_of(l), l->machine->max_blocks, 1 + (two_shot && !direct),
				       l->depth, most_of_message(l, direct, folds));
	if (l->kernel == KERNEL_FIFO_MOVES && l->direct)
		l->message = LAUNCH_WHOLE_PIECE;
}

/* ---- Point to point ---------------------------------------------------------------------------------- */

int launch_blocks_of_lists(const struct gpu_machine *machine, int pairs, int lists, int narrow)
{
	int blocks = machine->resident;
	if (!pairs && blocks > LAUNCH_MAX_BLOCKS) /* whose epochs are counted */
		blocks = LAUNCH_MAX_BLOCKS;
	return blocks - narrow > lists ? (blocks - narrow) / lists : 1;
}

/*
 * Lanes of a message at most, equal on both ends: a block each, when a rank has all edges; of pairs so many that they fill a link, in
 * whole rounds where a list may have to share its blocks with many. No more than have slots worth their flags.
 */
int launch_most_lanes(const struct gpu_machine *machine, int pairs)
{
	int all = launch_blocks_of_lists(machine, pairs, 2 * machine->ranks - 1, 0),
	    rounds = LAUNCH_LANES / all;
	uint64_t most = machine->slots_bytes / (LAUNCH_SLOT_DEPTH * LEAST_SLOT_BYTES), lanes = (uint64_t)all;
	if (pairs)
		lanes = all < LEAST_SHARE ? FEW_LANES : rounds < 2 ? LAUNCH_LANES : (uint64_t)(all * rounds);
	most = most < 1 ? 1 : most < LAUNCH_LANES ? most : LAUNCH_LANES;
	return (int)(lanes < most ? lanes : most);
}

uint64_t launch_p2p_slot_bytes(uint64_t room, int lanes)
{
	return launch_slot_bytes(room, lanes, 1, LAUNCH_SLOT_DEPTH, EDGE_SLOT_BYTES);
}

/* An all_to_all_v of equal counts, both buffers at other places: each rank has a list to and from each other one, and its own. */
static void cut_p2p(struct launch *l)
{
	const int most = launch_most_lanes(l->machine, 0),
		  lists = 2 * (l->machine->ranks - 1) + (l->bytes > 0);
	const uint64_t lanes = l->bytes / LAUNCH_LANE_BYTES + 1;
	int blocks = lanes < (uint64_t)most ? (int)lanes : most,
	    limit = lists ? launch_blocks_of_lists(l->machine, 0, lists, 0) : 0;
	l->kernel = KERNEL_P2P;
	l->grid.blocks = lists * (blocks < limit ? blocks : limit);
	l->message = launch_p2p_slot_bytes(l->machine->slots_bytes, most);
}

/* ---- The call ------------------------------------------------------------------------------------------- */

struct launch launch_of(const struct row *row, const struct gpu_machine *machine,
			const struct plan_call *call)
{
	struct launch l = { .machine = machine,
			    .codelet = row->codelet,
			    .coll = call->coll,
			    .bytes = call->bytes,
			    .words = call->words != 0,
			    .odd = call->bytes % 4 != 0,
			    .direct = row_stores_direct(row, machine, call) != 0,
			    .scratch = row_uses_scratch(row, machine, call) && machine->scratch_bytes };
	launch_cut(&l);
	return l;
}

void launch_cut(struct launch *l)
{
	l->grid = (struct grid){ l->machine->max_blocks, PLAN_CODELET_THREADS };
	l->piece = l->bytes;
	l->pieces = 1;
	l->message = 0;
	l->depth = LAUNCH_SLOT_DEPTH;
	switch (l->codelet) {
	case CODELET_ONE_SHOT:
		cut_one_shot(l);
		break;
	case CODELET_TWO_SHOT:
		cut_two_shot(l);
		break;
	case CODELET_COPIES:
		launch_copies(l);
		break;
	default:
		if (coll_is_uneven(l->coll))
			cut_p2p(l);
		else if (coll_is_rooted(l->coll))
			cut_scatter_allgather(l);
		else
			cut_fifo(l);
	}
}
