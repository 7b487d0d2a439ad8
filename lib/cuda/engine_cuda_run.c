/* From a call to the launch of its codelet. */
#include "engine_cuda.h"

#include <string.h>

#include "base/log.h"
#include "base/collectives.h"
#include "base/status.h"

enum {
	LEAN_VECTORS = 640, /* 8 KB and a little more */
	SLOT_BYTES = 64 << 10, /* at most */
	LONG_SLOT_BYTES = 1 << 20,
	MOST_TAKEN = 4, /* messages that a block takes out of scratch, where it has fewer peers */
	EDGE_SLOT_BYTES = 256 << 10,
	LEAST_SLOT_BYTES = 16 << 10,
	FEW_LANES = 64, /* that nearly fill a link; CODELET_LANES do */
	LEAST_SHARE = 16, /* blocks of a list: below, rounds are many */
	FEW_COPYING = 8,
	DEALT_BYTES = 4608 << 10, /* of a broadcast's messages in flight, one a crew */
	LONG_DEALT_BYTES = 6 << 20, /* the same of many messages */
	MOST_DEALT_DEPTH = 8, /* so that the second-level cache holds what is in flight */
	SLOT_DEPTH = 2,
	/* Of receive buffers' addresses: peers store into others in parts of a vector, so these get slots. */
	DIRECT_UNIT = 16
};
#define LONG_DEALT ((uint64_t)100 << 20)

static uint64_t vectors_of(uint64_t bytes, int words)
{
	return words ? (bytes + 15) / 16 : (bytes + CODELET_LINE_DATA - 1) / CODELET_LINE_DATA * 8;
}

/* One vector a thread as long as blocks and threads suffice; small ones in blocks of one warp, which find room beside a busy
 * kernel. */
static struct codelet_shape packet_shape(const struct engine *e, uint64_t vectors, uint64_t small)
{
	struct codelet_shape shape = { 1, 32 };
	if (vectors > small) {
		shape.threads = vectors <= 8192 ? 128 : 256;
		while (shape.threads < CODELET_THREADS && vectors > (uint64_t)(shape.threads * e->max_blocks))
			shape.threads *= 2;
	}
	uint64_t blocks = (vectors + (uint64_t)shape.threads - 1) / (uint64_t)shape.threads;
	shape.blocks = blocks < 1 ? 1 : blocks < (uint64_t)e->max_blocks ? (int)blocks : e->max_blocks;
	return shape;
}

static void fill(const struct engine *e, const struct engine_call *c, struct codelet_args *a)
{
	*a = (struct codelet_args){ .windows = (unsigned char *)e->base,
				    .stride = (uint32_t)e->stride,
				    .state = e->state,
				    .send = c->send,
				    .recv = c->recv,
				    .send_block = coll_sends_each(c->coll) ? c->bytes : 0,
				    .recv_block = coll_receives_each(c->coll) ? c->bytes : 0,
				    .bytes = c->bytes,
				    .signature = c->signature,
				    .depth = SLOT_DEPTH,
				    .tag = (uint32_t)(c->signature >> 32) ^ (uint32_t)c->signature,
				    .scalar = c->scalar,
				    .number = c->number,
				    .headers = (uint32_t)e->layout.headers,
				    .flags = (uint32_t)e->layout.flags,
				    .acks = (uint32_t)e->layout.acks,
				    .rank = e->rank,
				    .ranks = e->ranks,
				    .root = coll_is_rooted(c->coll) ? c->root : -1,
				    .op = c->op };
}

/* ---- Packets -------------------------------------------------------------------------------------------- */

/* Where the ranks' parts of so many bytes begin. */
static void cut_parts(const struct engine *e, const struct codelet_args *a, uint64_t bytes, uint32_t *at)
{
	int deals = a->root >= 0; /* then the root has no part */
	for (int p = 0; p <= e->ranks; p++)
		at[p] = codelet_part((uint32_t)bytes, (uint32_t)(e->ranks - deals),
				     (uint32_t)(p - (deals && p > a->root)));
}

/* What the kernels for few ranks need not compute. */
static void fill_near(const struct engine *e, struct codelet_args *a)
{
	unsigned char *mine = a->windows + (uint64_t)e->rank * a->stride + a->area;
	for (int k = 1; k < e->ranks; k++) {
		int to = (e->rank + k) % e->ranks;
		a->near_ranks.out[k - 1] = a->windows + (uint64_t)to * a->stride + a->area +
					   (uint64_t)codelet_index(e->rank, to) * a->area_bytes;
		a->near_ranks.in[k - 1] = mine + (uint64_t)(k - 1) * a->area_bytes;
	}
	a->near_ranks.half = (uint32_t)(e->ranks - 1) * a->area_bytes;
	if (a->send_block || a->recv_block) /* no parts */
		return;
	cut_parts(e, a, a->piece, a->near_ranks.part_at);
	cut_parts(e, a, a->bytes - (uint64_t)(a->pieces - 1) * a->piece, a->near_ranks.last_at);
}

/* Of a block whose threads take turns. A thread has one packet for each other rank under way: of one, more threads fill the link. */
static int long_threads(const struct engine *e)
{
	return e->ranks == 2 ? CODELET_LONG_THREADS : CODELET_THREADS;
}

static int is_near(const struct codelet_args *a)
{
	return a->ranks > 1 && a->ranks <= CODELET_NEAR && !codelet_is_odd(a);
}

/* What is larger than the packets' room goes in pieces of about one size. parts: of the vector; 1: all to all. */
static void cut_pieces(const struct engine *e, struct codelet_args *a, int words, int exchanges,
		       uint64_t parts)
{
	uint64_t most = plan_packets_piece(a->area_bytes, words, exchanges, parts, e->max_blocks);
	uint64_t pieces = (a->bytes + most - 1) / most;
	uint64_t each = pieces > 1 ? (a->bytes + pieces - 1) / pieces : a->bytes;
	a->piece = (uint32_t)(pieces > 1 ? codelet_round(each, parts * PLAN_UNIT_BYTES) : each);
	a->pieces = a->piece ? (uint32_t)((a->bytes + a->piece - 1) / a->piece) : 1;
}

static int run_two_shot(const struct engine *e, struct codelet_args *a, corale_type type, cudaStream_t stream)
{
	int deals = a->root >= 0, words = !deals && codelets_words(type);
	uint64_t parts = (uint64_t)(e->ranks - deals);
	cut_pieces(e, a, words, 2, parts);
	struct codelet_shape shape = packet_shape(e, vectors_of((a->piece + parts - 1) / parts, words), 0);
	if (!deals && !is_near(a))
		return codelets_two_shot(a, shape, type, stream);
	fill_near(e, a);
	if (shape.threads == CODELET_THREADS && !deals)
		shape.threads = long_threads(e);
	return codelets_near_two_shot(a, shape, type, stream);
}

static int run_exchange(const struct engine *e, struct codelet_args *a, const struct engine_call *c,
			cudaStream_t stream)
{
	int folds = coll_folds(c->coll), has_blocks = a->send_block || a->recv_block;
	a->piece = (uint32_t)a->bytes;
	a->pieces = 1;
	if (has_blocks)
		cut_pieces(e, a, 0, 1, 1);
	uint64_t vectors = vectors_of(a->piece, 0);
	struct codelet_shape shape = packet_shape(e, vectors, LEAN_VECTORS);
	int one_turn = a->pieces == 1 && vectors <= (uint64_t)shape.blocks * (uint64_t)shape.threads;
	if (!is_near(a) || (!one_turn && !has_blocks))
		return codelets_packets(a, shape, c->type, folds, stream);
	fill_near(e, a);
	if (one_turn)
		return codelets_near(a, shape, c->type, folds, stream);
	shape.threads = long_threads(e);
	return codelets_near_long(a, shape, c->type, folds, stream);
}

static int run_packets(struct engine *e, const struct engine_call *c, cudaStream_t stream)
{
	struct codelet_args a;
	int two_shot = c->codelet == CODELET_TWO_SHOT;
	int words = two_shot && coll_folds(c->coll) && codelets_words(c->type);
	fill(e, c, &a);
	a.area = (uint32_t)(words ? e->layout.words : e->layout.lines);
	a.area_bytes = (uint32_t)(words ? e->layout.words_bytes : e->layout.lines_bytes);
	return two_shot ? run_two_shot(e, &a, c->type, stream) : run_exchange(e, &a, c, stream);
}

_Static_assert(CORALE_NUM_TYPES <= 1 << (32 - CODELET_WHAT_IN_LINE), "lines say their message's type");
_Static_assert(CODELET_TARGET_SHIFT == (int)ENGINE_TARGET_SHIFT, "kernels read the engine's targets");

/* A room in slots for so many lanes of a->depth slots in each of so many rings; at most so many bytes a slot. */
static void cut_slots(struct codelet_args *a, int lanes, int rings, uint64_t most)
{
	uint64_t bytes = a->area_bytes / ((uint64_t)(lanes * rings) * a->depth);
	a->slot_bytes = (uint32_t)((bytes < most ? bytes : most) / CODELET_LINE * CODELET_LINE);
}

/* One sender's. */
static void use_slots(const struct engine *e, struct codelet_args *a, int lanes, int rings, uint64_t most)
{
	if (!a->slots) {
		a->area = (uint32_t)e->layout.slots;
		a->area_bytes = (uint32_t)e->layout.slots_bytes;
	}
	cut_slots(a, lanes, rings, most);
}

/* Large calls have scratch, if there is any: longer runs to one peer. */
static void use_scratch(const struct engine *e, struct codelet_args *a)
{
	if (!e->scratch)
		return;
	a->slots = e->regions[e->scratch_region].gpu_peers;
	a->area_bytes = (uint32_t)(2 * e->scratch_chunk);
}

/* Of a broadcast: as many bytes are in flight as a link takes in the time of a message's flag, whatever the number of crews; and
 * all messages are of about one size. */
static uint64_t dealt_bytes(const struct engine *e, uint64_t bytes)
{
	const uint64_t blocks = (uint64_t)e->max_blocks, piece = (bytes + blocks - 1) / blocks,
		       turn = (uint64_t)CODELET_CREWS * (uint64_t)(e->ranks > 1 ? e->ranks - 1 : 1),
		       all = bytes < LONG_DEALT ? DEALT_BYTES : LONG_DEALT_BYTES,
		       most = all / (blocks * CODELET_CREWS);
	uint64_t rounds = piece / (turn * most) + 1;
	return codelet_round(piece / (turn * rounds) + 1, CODELET_LINE);
}

static void use_dealt(const struct engine *e, struct codelet_args *a)
{
	const uint64_t most = dealt_bytes(e, a->bytes), crews = (uint64_t)e->max_blocks * CODELET_CREWS;
	a->depth = CODELET_LEAST_DEPTH;
	use_slots(e, a, (int)crews, 1, most);
	uint64_t depth = a->area_bytes / a->slot_bytes / crews;
	a->depth = (uint32_t)(depth < MOST_DEALT_DEPTH ? depth : MOST_DEALT_DEPTH) / 2 * 2;
	if (a->peers)
		a->slot_bytes = (uint32_t)most;
}

/* The most that a message through slots holds. Long runs are faster, but nobody sends beside a block's last message being taken out: it
 * is half as long as the others. */
static uint64_t most_of_message(const struct codelet_args *a, int blocks, int runs, int folds)
{
	const uint64_t others = (uint64_t)(a->ranks > 1 ? a->ranks - 1 : 1),
		       each = others < MOST_TAKEN ? MOST_TAKEN / others : 1,
		       part = codelet_round(2 * a->bytes / ((2 * each - 1) * (uint64_t)blocks) + 1,
					    CODELET_LINE);
	if (!runs && (folds || !a->slots))
		return SLOT_BYTES;
	return runs || part > LONG_SLOT_BYTES ? LONG_SLOT_BYTES : part;
}

/* Folds by one exchange or two, blocks, and broadcasts: straight into the peers' memory where it is registered. */
static int run_slots(struct engine *e, const struct engine_call *c, cudaStream_t stream)
{
	struct codelet_args a;
	int blocks = e->max_blocks, two_shot = c->codelet == CODELET_SLOTS_TWO_SHOT;
	fill(e, c, &a);
	if (c->target) {
		a.peers = engine_region_of(e, c->target)->gpu_peers;
		a.peers_at = engine_offset_of(c->target);
	}
	if (c->scratch)
		use_scratch(e, &a);
	if (c->coll == CORALE_BROADCAST) {
		use_dealt(e, &a);
		return codelets_dealt(&a, blocks, stream);
	}
	int runs = two_shot && a.peers, folds = coll_folds(c->coll);
	use_slots(e, &a, blocks, 1 + (two_shot && !runs), most_of_message(&a, blocks, runs, folds));
	if (runs)
		return codelets_runs(&a, blocks, c->type, stream);
	if (folds)
		return codelets_slots(&a, blocks, c->type, stream);
	if (c->target)
		a.slot_bytes = CODELET_WHOLE_PIECE;
	return codelets_moves(&a, blocks, stream);
}

/* ---- Edges ---------------------------------------------------------------------------------------------- */

/* With all edges of a rank in both directions, all blocks must be resident at a time: so many have each list of messages. */
static int blocks_of_lists(const struct engine *e, int pairs, int lists, int narrow)
{
	int blocks = e->resident;
	if (!pairs && blocks > CODELET_MAX_BLOCKS) /* whose epochs are counted */
		blocks = CODELET_MAX_BLOCKS;
	return blocks - narrow > lists ? (blocks - narrow) / lists : 1;
}

/*
 * Lanes of a message at most, equal on both ends: a block each, when a rank has all edges; of pairs so many that they fill a link, in
 * whole rounds where a list may have to share its blocks with many. No more than have slots worth their flags.
 */
static int most_lanes(const struct engine *e, int pairs)
{
	int all = blocks_of_lists(e, pairs, 2 * e->ranks - 1, 0), rounds = CODELET_LANES / all;
	uint64_t most = e->layout.slots_bytes / (SLOT_DEPTH * LEAST_SLOT_BYTES), lanes = (uint64_t)all;
	if (pairs)
		lanes = all < LEAST_SHARE ? FEW_LANES : rounds < 2 ? CODELET_LANES : (uint64_t)(all * rounds);
	most = most < 1 ? 1 : most < CODELET_LANES ? most : CODELET_LANES;
	return (int)(lanes < most ? lanes : most);
}

static void begin_edges(const struct engine *e, const struct codelet_args *args, int pairs,
			struct codelet_edges *g)
{
	g->group.args = *args;
	g->group.most_lanes = (uint16_t)most_lanes(e, pairs);
	use_slots(e, &g->group.args, g->group.most_lanes, 1, EDGE_SLOT_BYTES);
	g->group.pairs = (uint16_t)pairs;
	g->group.rings = (uint16_t)e->layout.pair_rings;
	g->group.depth = (uint16_t)e->layout.ring_depth;
	g->group.ring_ends = (uint32_t)e->layout.ring_ends;
	g->group.ring_slots = (uint32_t)e->layout.rings;
	g->group.lists = 0;
	g->group.blocks = 1;
	g->grants = (uint32_t)e->layout.grants;
	g->regions = e->gpu_peers;
	g->rooms = 0;
}

static void set_message(struct codelet_edges *g, int i, struct codelet_message m)
{
	uint32_t lanes = codelet_lanes(&g->group, m.bytes);
	g->group.blocks = (uint16_t)(lanes > g->group.blocks ? lanes : g->group.blocks);
	g->messages[i] = m;
}

/* The first `wide` lists share the blocks; each other one has one. Of few blocks that copy into the peers' memory a number that
 * divides evenly among the parts of the GPU from which a link is fed: with 10 to 15 a send is slower than with 8. */
static void share_blocks(const struct engine *e, struct codelet_edges *g, int wide)
{
	int narrow = g->group.lists - wide,
	    blocks = blocks_of_lists(e, g->group.pairs, wide ? wide : 1, narrow);
	if (narrow && blocks > FEW_COPYING && blocks < 2 * FEW_COPYING)
		blocks = FEW_COPYING;
	g->group.wide = (uint16_t)wide;
	if (g->group.blocks > blocks)
		g->group.blocks = (uint16_t)blocks;
}

/* A list of one message. */
static void add_message(struct codelet_edges *g, struct codelet_message m)
{
	g->first[g->group.lists] = g->group.lists;
	set_message(g, g->group.lists++, m);
}

/* Of an all_to_all_v: what goes to a rank, or comes from it. */
static void add_edge(const struct engine *e, const struct engine_call *c, int sending, int peer)
{
	size_t element = corale_type_bytes(c->type);
	unsigned char *data = sending ? (unsigned char *)(uintptr_t)c->send : c->recv;
	uint64_t bytes = (sending ? c->send_counts : c->recv_counts)[peer] * element;
	add_message(e->edges, (struct codelet_message){
				  .data = data + (sending ? c->send_displs : c->recv_displs)[peer] * element,
				  .bytes = bytes,
				  .peer = (int16_t)peer,
				  .sending = (uint8_t)sending,
				  .what_high = codelet_what_high((int)c->type, bytes) });
}

static void add_own(const struct engine *e, const struct engine_call *c)
{
	size_t element = corale_type_bytes(c->type), bytes = c->send_counts[e->rank] * element;
	const unsigned char *from = (const unsigned char *)c->send + c->send_displs[e->rank] * element;
	unsigned char *to = (unsigned char *)c->recv + c->recv_displs[e->rank] * element;
	if (from != to && bytes)
		add_message(e->edges,
			    (struct codelet_message){
				.data = to, .from = from, .bytes = bytes, .peer = (int16_t)e->rank });
}

static int run_edges(struct engine *e, const struct engine_call *c, cudaStream_t stream)
{
	struct codelet_args a;
	fill(e, c, &a);
	begin_edges(e, &a, 0, e->edges);
	for (int k = 1; k < e->ranks; k++) {
		add_edge(e, c, 1, (e->rank + k) % e->ranks);
		add_edge(e, c, 0, (e->rank + e->ranks - k) % e->ranks);
	}
	add_own(e, c);
	if (!e->edges->group.lists) /* one rank, and nothing to be copied */
		return 0;
	share_blocks(e, e->edges, e->edges->group.lists);
	return codelets_edges(e->edges, stream);
}

/* As engine_is_plain, asked once for each granule of a GPU's memory, which never holds another kind. */
static int is_plain(struct engine *e, const void *memory)
{
	uintptr_t granule = (uintptr_t)memory >> ENGINE_GRANULE_SHIFT;
	return !memory || e->known[granule % ENGINE_KNOWN] == granule ? 0 : engine_is_plain(e, memory);
}

static int launch_lowered(struct engine *e, const struct engine_call *c, cudaStream_t stream)
{
	struct codelet_args a;
	fill(e, c, &a);
	return engine_run_lowered(e, c, &a, stream);
}

static int launch_call(struct engine *e, const struct engine_call *c, cudaStream_t stream)
{
	switch (c->codelet) {
	case CODELET_NONE:
		return launch_lowered(e, c, stream);
	case CODELET_PACKETS:
	case CODELET_TWO_SHOT:
		return engine_check(e, run_packets(e, c, stream), "launching a kernel");
	case CODELET_SLOTS:
	case CODELET_SLOTS_TWO_SHOT:
		return engine_check(e, c->send_counts ? run_edges(e, c, stream) : run_slots(e, c, stream),
				    "launching a kernel");
	case CODELET_COPIES:
		return engine_run_copies(e, c, stream);
	default:
		return log_error(CORALE_ENOTSUP, e->rank, "%s: the CUDA engine has no codelet for it",
				 corale_coll_name(c->coll));
	}
}

int engine_run(struct engine *e, const struct engine_call *c, void *stream)
{
	int moves = c->bytes || c->send_counts, is_root = c->root == e->rank;
	int reads = is_root || !coll_table[c->coll].root_sends,
	    writes = is_root || !coll_table[c->coll].root_receives;
	if (engine_failed(e))
		return CORALE_ECOMM;
	int send = moves && reads ? is_plain(e, c->send) : 0,
	    recv = moves && writes ? is_plain(e, c->recv) : 0;
	if (send < 0 || recv < 0)
		return send < 0 ? send : recv;
	if (send || recv)
		return engine_stage_call(e, c, send, recv, stream, launch_call);
	int ret = engine_order(e, stream);
	return ret ? ret : launch_call(e, c, stream);
}

/* ---- Groups of sends and receives ------------------------------------------------------------------------ */

static int same_pair(const struct engine_message *a, const struct engine_message *b)
{
	return !a->from && !b->from && a->peer == b->peer && a->sending == b->sending;
}

/* The place of a message: peers may store straight into its buffer, or it has the next room. 1 if it needs that. */
static int set_place(struct codelet_edges *g, int i, const struct engine_message *m)
{
	int direct = m->target && (uintptr_t)m->data % DIRECT_UNIT == 0;
	g->places[i] = direct ? m->target : g->rooms;
	return !m->sending && !m->from && !direct && !codelet_in_long_lines(&g->group, m->bytes);
}

/* Whether all messages of a list come straight into their buffers, for which a block has only to wait. */
static int is_narrow(const struct codelet_edges *g, uint32_t first)
{
	uint32_t i = first;
	do
		if (g->messages[i].sending || g->messages[i].from || !codelet_is_target(g->places[i]) ||
		    codelet_in_lines(&g->group, g->messages[i].bytes))
			return 0;
	while (g->messages[i++].more);
	return 1;
}

/* Lists that need many blocks come first; how many they are. */
static int sort_lists(struct codelet_edges *g)
{
	uint32_t narrow[CODELET_MAX_LISTS];
	int wide = 0, n = 0;
	for (int i = 0; i < g->group.lists; i++) {
		if (is_narrow(g, g->first[i]))
			narrow[n++] = g->first[i];
		else
			g->first[wide++] = g->first[i];
	}
	memcpy(g->first + wide, narrow, (size_t)n * sizeof(*narrow));
	return wide;
}

/* All my slots, in equal rooms: by grants senders learn of it. */
static void share_slots(const struct engine *e, struct codelet_edges *g)
{
	struct codelet_args *a = &g->group.args;
	uint64_t all = e->layout.slots_bytes * (uint64_t)(e->ranks - 1), rooms = g->rooms ? g->rooms : 1;
	a->area_bytes = (uint32_t)(all / rooms / CODELET_LINE * CODELET_LINE);
	cut_slots(a, g->group.most_lanes, 1, EDGE_SLOT_BYTES);
}

/* Appends message i and all later ones of its pair and direction as one list; marks them as taken. */
static void add_list(struct codelet_edges *g, const struct engine_message *m, int n, int i,
		     unsigned char *taken, int *used)
{
	int needs_room = 0;
	g->first[g->group.lists++] = (uint32_t)*used;
	for (int k = i; k < n; k++) {
		if (taken[k] || (k != i && !same_pair(&m[i], &m[k])))
			continue;
		taken[k] = 1;
		if (k != i)
			g->messages[*used - 1].more = 1;
		needs_room |= set_place(g, *used, &m[k]);
		set_message(
		    g, (*used)++,
		    (struct codelet_message){ .data = m[k].data,
					      .from = m[k].from,
					      .bytes = m[k].bytes,
					      .peer = (int16_t)m[k].peer,
					      .sending = (uint8_t)m[k].sending,
					      .what_high = codelet_what_high((int)m[k].type, m[k].bytes) });
	}
	g->rooms += (uint32_t)needs_room;
}

static int launch_messages(struct engine *e, const struct engine_message *m, int n, cudaStream_t stream)
{
	unsigned char taken[CODELET_MAX_MESSAGES] = { 0 };
	struct codelet_args a;
	int used = 0;
	fill(e, &(struct engine_call){ .coll = CORALE_SEND, .number = m->number }, &a);
	begin_edges(e, &a, 1, e->edges);
	for (int i = 0; i < n; i++)
		if (!taken[i])
			add_list(e->edges, m, n, i, taken, &used);
	share_slots(e, e->edges);
	share_blocks(e, e->edges, sort_lists(e->edges));
	return engine_check(e, codelets_edges(e->edges, stream), "launching a kernel");
}

int engine_run_messages(struct engine *e, const struct engine_message *m, int n, void *stream)
{
	int plain = 0;
	if (n > CODELET_MAX_MESSAGES)
		return log_error(CORALE_ENOTSUP, e->rank,
				 "a group of %d sends and receives: at most %d on one GPU at a time", n,
				 CODELET_MAX_MESSAGES);
	if (engine_failed(e))
		return CORALE_ECOMM;
	for (int i = 0; plain >= 0 && i < n; i++) {
		int data = m[i].bytes ? is_plain(e, m[i].data) : 0;
		int from = m[i].bytes ? is_plain(e, m[i].from) : 0;
		plain = data < 0 ? data : from < 0 ? from : plain | data | from;
	}
	if (plain)
		return plain < 0 ? plain : engine_stage_messages(e, m, n, stream, launch_messages);
	int ret = engine_order(e, stream);
	return ret ? ret : launch_messages(e, m, n, stream);
}
