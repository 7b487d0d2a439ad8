/* How kernels that move data themselves are launched; copies are in shape_copies.c, words in shape_print.c. */
#include "shape.h"

#include "base/collectives.h"
#include "shape_copies.h"

enum {
	LEAN_VECTORS = 640, /* 8 KB and a little more */
	SLOT_BYTES = 64 << 10, /* at most */
	LONG_SLOT_BYTES = 1 << 20,
	MOST_TAKEN = 4, /* messages that a block takes out of scratch, where it has fewer peers */
	DEALT_BYTES = 4608 << 10, /* of a broadcast's messages in flight, one a crew */
	LONG_DEALT_BYTES = 6 << 20, /* the same of many messages */
	MOST_DEALT_DEPTH = 8, /* so that the second-level cache holds what is in flight */
	EDGE_SLOT_BYTES = 256 << 10,
	LEAST_SLOT_BYTES = 16 << 10,
	FEW_LANES = 64, /* that nearly fill a link; SHAPE_LANES do */
	LEAST_SHARE = 16 /* blocks of a list: below, rounds are many */
};
#define LONG_DEALT ((uint64_t)100 << 20)

/* ---- Packets -------------------------------------------------------------------------------------------- */

static uint64_t vectors_of(uint64_t bytes, int words)
{
	return words ? (bytes + 15) / 16 : (bytes + SHAPE_LINE_DATA - 1) / SHAPE_LINE_DATA * 8;
}

/* One vector a thread as long as blocks and threads suffice; small ones in blocks of one warp, which find room beside a busy
 * kernel. */
static struct codelet_shape packet_grid(const struct plan_node *node, uint64_t vectors, uint64_t small)
{
	struct codelet_shape grid = { 1, 32 };
	if (vectors > small) {
		grid.threads = vectors <= 8192 ? 128 : 256;
		while (grid.threads < PLAN_CODELET_THREADS &&
		       vectors > (uint64_t)(grid.threads * node->max_blocks))
			grid.threads *= 2;
	}
	uint64_t blocks = (vectors + (uint64_t)grid.threads - 1) / (uint64_t)grid.threads;
	grid.blocks = blocks < 1 ? 1 : blocks < (uint64_t)node->max_blocks ? (int)blocks : node->max_blocks;
	return grid;
}

/* Of a block whose threads take turns. A thread has one packet for each other rank under way: of one, more threads fill the link. */
static int long_threads(const struct plan_node *node)
{
	return node->ranks == 2 ? SHAPE_LONG_THREADS : PLAN_CODELET_THREADS;
}

static int is_near(const struct plan_launch *l)
{
	return l->node->ranks > 1 && l->node->ranks <= PLAN_NEAR_RANKS && !l->odd;
}

static int has_blocks(const struct plan_launch *l)
{
	return coll_sends_each(l->coll) || coll_receives_each(l->coll);
}

/* What is larger than the packets' room goes in pieces of about one size. parts: of the vector; 1: all to all. */
static void cut_pieces(const struct plan_launch *l, struct plan_shape *s, int words, int exchanges,
		       uint64_t parts)
{
	const uint64_t area = words ? l->node->words_bytes : l->node->lines_bytes,
		       most = plan_packets_piece(area, words, exchanges, parts, l->node->max_blocks),
		       pieces = (l->bytes + most - 1) / most;
	uint64_t each = pieces > 1 ? (l->bytes + pieces - 1) / pieces : l->bytes;
	s->piece = pieces > 1 ? shape_round(each, parts * PLAN_UNIT_BYTES) : each;
	s->pieces = s->piece ? (l->bytes + s->piece - 1) / s->piece : 1;
}

static void shape_two_shot(const struct plan_launch *l, struct plan_shape *s)
{
	int deals = coll_is_rooted(l->coll), words = !deals && l->words;
	uint64_t parts = (uint64_t)(l->node->ranks - deals);
	cut_pieces(l, s, words, 2, parts);
	s->grid = packet_grid(l->node, vectors_of((s->piece + parts - 1) / parts, words), 0);
	s->kernel = deals || is_near(l) ? KERNEL_NEAR_TWO_SHOT : KERNEL_TWO_SHOT;
	if (s->kernel == KERNEL_NEAR_TWO_SHOT && s->grid.threads == PLAN_CODELET_THREADS && !deals)
		s->grid.threads = long_threads(l->node);
}

static void shape_exchange(const struct plan_launch *l, struct plan_shape *s)
{
	s->piece = l->bytes;
	s->pieces = 1;
	if (has_blocks(l))
		cut_pieces(l, s, 0, 1, 1);
	uint64_t vectors = vectors_of(s->piece, 0);
	s->grid = packet_grid(l->node, vectors, LEAN_VECTORS);
	int one_turn = s->pieces == 1 && vectors <= (uint64_t)s->grid.blocks * (uint64_t)s->grid.threads;
	s->kernel = !is_near(l) || (!one_turn && !has_blocks(l)) ? KERNEL_PACKETS
		    : one_turn                                   ? KERNEL_NEAR
								 : KERNEL_NEAR_LONG;
	if (s->kernel == KERNEL_NEAR_LONG)
		s->grid.threads = long_threads(l->node);
}

/* ---- Slots ---------------------------------------------------------------------------------------------- */

uint64_t shape_slot_bytes(uint64_t room, int lanes, int rings, uint32_t depth, uint64_t most)
{
	uint64_t bytes = room / ((uint64_t)(lanes * rings) * depth);
	return (bytes < most ? bytes : most) / SHAPE_LINE * SHAPE_LINE;
}

/* Of one sender. Large calls have scratch, if there is any: longer runs to one peer. */
static uint64_t room_of(const struct plan_launch *l)
{
	return l->scratch ? l->node->scratch_bytes : l->node->slots_bytes;
}

/* Of a broadcast: as many bytes are in flight as a link takes in the time of a message's flag, whatever the number of crews; and
 * all messages are of about one size. */
static uint64_t dealt_bytes(const struct plan_node *node, uint64_t bytes)
{
	const uint64_t blocks = (uint64_t)node->max_blocks, piece = (bytes + blocks - 1) / blocks,
		       turn = (uint64_t)SHAPE_CREWS * (uint64_t)(node->ranks > 1 ? node->ranks - 1 : 1),
		       all = bytes < LONG_DEALT ? DEALT_BYTES : LONG_DEALT_BYTES,
		       most = all / (blocks * SHAPE_CREWS);
	uint64_t rounds = piece / (turn * most) + 1;
	return shape_round(piece / (turn * rounds) + 1, SHAPE_LINE);
}

static void shape_dealt(const struct plan_launch *l, struct plan_shape *s)
{
	const uint64_t most = dealt_bytes(l->node, l->bytes),
		       crews = (uint64_t)l->node->max_blocks * SHAPE_CREWS;
	s->kernel = KERNEL_DEALT;
	s->message = shape_slot_bytes(room_of(l), (int)crews, 1, SHAPE_LEAST_DEPTH, most);
	uint64_t depth = room_of(l) / s->message / crews;
	s->depth = (uint32_t)(depth < MOST_DEALT_DEPTH ? depth : MOST_DEALT_DEPTH) / 2 * 2;
	if (l->direct)
		s->message = most;
}

/* The most that a message through slots holds. Long runs are faster, but nobody sends beside a block's last message being taken out: it
 * is half as long as the others. */
static uint64_t most_of_message(const struct plan_launch *l, int runs, int folds)
{
	const uint64_t others = (uint64_t)(l->node->ranks > 1 ? l->node->ranks - 1 : 1),
		       each = others < MOST_TAKEN ? MOST_TAKEN / others : 1,
		       blocks = (uint64_t)l->node->max_blocks,
		       part = shape_round(2 * l->bytes / ((2 * each - 1) * blocks) + 1, SHAPE_LINE);
	if (!runs && (folds || !l->scratch))
		return SLOT_BYTES;
	return runs || part > LONG_SLOT_BYTES ? LONG_SLOT_BYTES : part;
}

/* Folds by one exchange or two, and blocks: straight into the peers' memory where it is registered. */
static void shape_slots(const struct plan_launch *l, struct plan_shape *s)
{
	int two_shot = l->codelet == CODELET_SLOTS_TWO_SHOT, runs = two_shot && l->direct,
	    folds = coll_folds(l->coll);
	s->kernel = runs ? KERNEL_RUNS : folds ? KERNEL_SLOTS : KERNEL_MOVES;
	s->message = shape_slot_bytes(room_of(l), l->node->max_blocks, 1 + (two_shot && !runs), s->depth,
				      most_of_message(l, runs, folds));
	if (s->kernel == KERNEL_MOVES && l->direct)
		s->message = SHAPE_WHOLE_PIECE;
}

/* ---- Edges ---------------------------------------------------------------------------------------------- */

int shape_blocks_of_lists(const struct plan_node *node, int pairs, int lists, int narrow)
{
	int blocks = node->resident;
	if (!pairs && blocks > SHAPE_MAX_BLOCKS) /* whose epochs are counted */
		blocks = SHAPE_MAX_BLOCKS;
	return blocks - narrow > lists ? (blocks - narrow) / lists : 1;
}

/*
 * Lanes of a message at most, equal on both ends: a block each, when a rank has all edges; of pairs so many that they fill a link, in
 * whole rounds where a list may have to share its blocks with many. No more than have slots worth their flags.
 */
int shape_most_lanes(const struct plan_node *node, int pairs)
{
	int all = shape_blocks_of_lists(node, pairs, 2 * node->ranks - 1, 0), rounds = SHAPE_LANES / all;
	uint64_t most = node->slots_bytes / (SHAPE_SLOT_DEPTH * LEAST_SLOT_BYTES), lanes = (uint64_t)all;
	if (pairs)
		lanes = all < LEAST_SHARE ? FEW_LANES : rounds < 2 ? SHAPE_LANES : (uint64_t)(all * rounds);
	most = most < 1 ? 1 : most < SHAPE_LANES ? most : SHAPE_LANES;
	return (int)(lanes < most ? lanes : most);
}

uint64_t shape_edge_slot_bytes(uint64_t room, int lanes)
{
	return shape_slot_bytes(room, lanes, 1, SHAPE_SLOT_DEPTH, EDGE_SLOT_BYTES);
}

/* An all_to_all_v of equal counts, both buffers at other places: each rank has a list to and from each other one, and its own. */
static void shape_edges(const struct plan_launch *l, struct plan_shape *s)
{
	const int most = shape_most_lanes(l->node, 0), lists = 2 * (l->node->ranks - 1) + (l->bytes > 0);
	const uint64_t lanes = l->bytes / SHAPE_LANE_BYTES + 1;
	int blocks = lanes < (uint64_t)most ? (int)lanes : most,
	    limit = lists ? shape_blocks_of_lists(l->node, 0, lists, 0) : 0;
	s->kernel = KERNEL_EDGES;
	s->grid.blocks = lists * (blocks < limit ? blocks : limit);
	s->message = shape_edge_slot_bytes(l->node->slots_bytes, most);
}

/* ---- The call ------------------------------------------------------------------------------------------- */

struct plan_launch plan_launch_of(const struct row *row, const struct plan_node *node,
				  const struct plan_call *call)
{
	return (struct plan_launch){ .node = node,
				     .codelet = row->codelet,
				     .coll = call->coll,
				     .bytes = call->bytes,
				     .words = call->words,
				     .odd = call->bytes % 4 != 0,
				     .direct = row_stores_direct(row, node, call),
				     .scratch = row_uses_scratch(row, node, call) && node->scratch_bytes };
}

void plan_shape(const struct plan_launch *l, struct plan_shape *s)
{
	*s = (struct plan_shape){ .grid = { l->node->max_blocks, PLAN_CODELET_THREADS },
				  .piece = l->bytes,
				  .pieces = 1,
				  .depth = SHAPE_SLOT_DEPTH };
	switch (l->codelet) {
	case CODELET_PACKETS:
		shape_exchange(l, s);
		break;
	case CODELET_TWO_SHOT:
		shape_two_shot(l, s);
		break;
	case CODELET_COPIES:
		shape_copies(l, s);
		break;
	default:
		if (coll_is_uneven(l->coll))
			shape_edges(l, s);
		else if (coll_is_rooted(l->coll))
			shape_dealt(l, s);
		else
			shape_slots(l, s);
	}
}
