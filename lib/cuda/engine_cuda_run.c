/* From a call to the launch of its codelet. */
#include "engine_cuda.h"

#include <string.h>

#include "base/log.h"
#include "base/collectives.h"
#include "base/status.h"

enum {
	FEW_COPYING = 8,
	/* Of receive buffers' addresses: peers store into others in parts of a vector, so these get slots. */
	DIRECT_UNIT = 16
};

static void fill(struct engine *e, const struct engine_call *c, struct codelet_args *a)
{
	*a = engine_args(e);
	a->send = c->send;
	a->recv = c->recv;
	a->send_block = coll_sends_each(c->coll) ? c->bytes : 0;
	a->recv_block = coll_receives_each(c->coll) ? c->bytes : 0;
	a->bytes = c->bytes;
	a->signature = c->signature;
	a->depth = SHAPE_SLOT_DEPTH;
	a->tag = (uint32_t)(c->signature >> 32) ^ (uint32_t)c->signature;
	a->scalar = c->scalar;
	a->number = c->number;
	a->root = coll_is_rooted(c->coll) ? c->root : -1;
	a->op = c->op;
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

static int run_packets(struct engine *e, const struct engine_call *c, cudaStream_t stream)
{
	struct codelet_args a;
	struct plan_node node = { 0 };
	struct plan_shape s;
	int two_shot = c->codelet == CODELET_TWO_SHOT, folds = coll_folds(c->coll);
	int words = two_shot && folds && codelets_words(c->type);
	engine_describe(e, &node);
	fill(e, c, &a);
	a.area = (uint32_t)(words ? e->layout.words : e->layout.lines);
	a.area_bytes = (uint32_t)(words ? e->layout.words_bytes : e->layout.lines_bytes);
	struct plan_launch l = engine_launch_of(c, &node);
	l.odd = codelet_is_odd(&a);
	engine_shape(e, &l, &s);
	a.piece = (uint32_t)s.piece;
	a.pieces = (uint32_t)s.pieces;
	engine_count(e, s.kernel == KERNEL_NEAR ? s.grid.blocks * (s.grid.threads / 32) : s.grid.blocks);
	switch (s.kernel) {
	case KERNEL_NEAR:
		fill_near(e, &a);
		return codelets_near(&a, s.grid, c->type, folds, stream);
	case KERNEL_NEAR_LONG:
		fill_near(e, &a);
		return codelets_near_long(&a, s.grid, c->type, folds, stream);
	case KERNEL_NEAR_TWO_SHOT:
		fill_near(e, &a);
		return codelets_near_two_shot(&a, s.grid, c->type, stream);
	case KERNEL_TWO_SHOT:
		return codelets_two_shot(&a, s.grid, c->type, stream);
	default:
		return codelets_packets(&a, s.grid, c->type, folds, stream);
	}
}

/* ---- Slots ---------------------------------------------------------------------------------------------- */

_Static_assert(CORALE_NUM_TYPES <= 1 << (32 - CODELET_WHAT_IN_LINE), "lines say their message's type");
_Static_assert(CODELET_MAX_MESSAGES >= (int)ENGINE_MOST_GROUPED, "a launch has room for a group");
_Static_assert(CODELET_TARGET_SHIFT == (int)ENGINE_TARGET_SHIFT, "kernels read the engine's targets");

/* One sender's: of scratch, or of the window. */
static void use_slots(const struct engine *e, const struct plan_launch *l, struct codelet_args *a)
{
	if (l->scratch) {
		a->slots = e->regions[e->scratch_region].gpu_peers;
		a->area_bytes = (uint32_t)l->node->scratch_bytes;
	} else {
		a->area = (uint32_t)e->layout.slots;
		a->area_bytes = (uint32_t)e->layout.slots_bytes;
	}
}

/* Folds by one exchange or two, blocks, and broadcasts: straight into the peers' memory where it is registered. */
static int run_slots(struct engine *e, const struct engine_call *c, cudaStream_t stream)
{
	struct codelet_args a;
	struct plan_node node = { 0 };
	struct plan_shape s;
	engine_describe(e, &node);
	fill(e, c, &a);
	const struct plan_launch l = engine_launch_of(c, &node);
	engine_shape(e, &l, &s);
	if (c->target) {
		a.peers = engine_region_of(e, c->target)->gpu_peers;
		a.peers_at = engine_offset_of(c->target);
	}
	use_slots(e, &l, &a);
	a.slot_bytes = (uint32_t)s.message;
	a.depth = s.depth;
	engine_count(e, s.grid.blocks);
	switch (s.kernel) {
	case KERNEL_DEALT:
		return codelets_dealt(&a, s.grid, stream);
	case KERNEL_RUNS:
		return codelets_runs(&a, s.grid, c->type, stream);
	case KERNEL_SLOTS:
		return codelets_slots(&a, s.grid, c->type, stream);
	default:
		return codelets_moves(&a, s.grid, stream);
	}
}

/* ---- Edges ---------------------------------------------------------------------------------------------- */

static void cut_slots(struct codelet_group *g, uint64_t room)
{
	g->args.area_bytes = (uint32_t)room;
	g->args.slot_bytes = (uint32_t)shape_edge_slot_bytes(room, g->most_lanes);
}

static void begin_edges(const struct engine *e, const struct codelet_args *args, enum codelet_pairs pairs,
			struct codelet_edges *g)
{
	struct plan_node node = { 0 };
	engine_describe(e, &node);
	g->group.args = *args;
	g->group.args.area = (uint32_t)e->layout.slots;
	g->group.most_lanes = (uint16_t)shape_most_lanes(&node, pairs != CODELET_NO_PAIRS);
	cut_slots(&g->group, e->layout.slots_bytes);
	g->group.pairs = (uint16_t)pairs;
	g->group.rings = (uint16_t)e->layout.pair_rings;
	g->group.depth = (uint16_t)e->layout.ring_depth;
	g->group.ring_ends = (uint32_t)e->layout.ring_ends;
	g->group.ring_slots = (uint32_t)e->layout.rings;
	g->group.lists = 0;
	g->group.blocks = 1;
	g->grants = (uint32_t)e->layout.grants;
	g->regions = e->gpu_peers;
	g->remote = e->remote;
	g->begins = g->ends = 1;
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
	struct plan_node node = { 0 };
	engine_describe(e, &node);
	int narrow = g->group.lists - wide,
	    blocks =
		shape_blocks_of_lists(&node, g->group.pairs != CODELET_NO_PAIRS, wide ? wide : 1, narrow);
	if (narrow && blocks > FEW_COPYING && blocks < 2 * FEW_COPYING)
		blocks = FEW_COPYING;
	g->group.wide = (uint16_t)wide;
	if (g->group.blocks > blocks)
		g->group.blocks = (uint16_t)blocks;
}

/* ret: of what must come first. */
static int launch_lists(struct engine *e, int ret, cudaStream_t stream)
{
	if (ret)
		return ret;
	engine_count(e, codelet_group_blocks(&e->edges->group));
	return engine_check(e, codelets_edges(e->edges, stream), "launching a kernel");
}

/* A list of one message. */
static void add_message(struct codelet_edges *g, struct codelet_message m)
{
	g->first[g->group.lists] = g->group.lists;
	set_message(g, g->group.lists++, m);
}

/* Bytes of an edge, and where they begin: of an all_to_all, or of an all_to_all_v. */
static uint64_t edge_of(const struct engine_call *c, int sending, int peer, uint64_t *at)
{
	const size_t element = corale_type_bytes(c->type);
	if (!c->send_counts) {
		*at = (uint64_t)peer * c->bytes;
		return c->bytes;
	}
	*at = (sending ? c->send_displs : c->recv_displs)[peer] * element;
	return (sending ? c->send_counts : c->recv_counts)[peer] * element;
}

/* What goes to a rank, or comes from it, by its rank among all. */
static void add_edge(const struct engine *e, const struct engine_call *c, int sending, int peer)
{
	uint64_t at, bytes = edge_of(c, sending, peer, &at);
	unsigned char *data = sending ? (unsigned char *)(uintptr_t)c->send : c->recv;
	add_message(e->edges,
		    (struct codelet_message){ .data = data + at,
					      .bytes = bytes,
					      .peer = (int16_t)(c->place_of ? c->place_of[peer] : peer),
					      .sending = (uint8_t)sending,
					      .what_high = codelet_what_high((int)c->type, bytes) });
}

static void add_own(const struct engine *e, const struct engine_call *c)
{
	uint64_t sent_at, at;
	const uint64_t bytes = edge_of(c, 1, e->world_rank, &sent_at);
	edge_of(c, 0, e->world_rank, &at);
	const unsigned char *from = (const unsigned char *)c->send + sent_at;
	unsigned char *to = (unsigned char *)c->recv + at;
	if (from != to && bytes)
		add_message(e->edges,
			    (struct codelet_message){
				.data = to, .from = from, .bytes = bytes, .peer = (int16_t)e->rank });
}

/* Each launch has the same distances on all ranks, so both ends of an edge are in one. */
static int launch_edges(struct engine *e, const struct engine_call *c, const struct codelet_args *a,
			int first, cudaStream_t stream)
{
	const int me = e->world_rank, ranks = e->world_ranks,
		  end = ranks - first < e->edges_at_once ? ranks : first + e->edges_at_once;
	begin_edges(e, a, CODELET_NO_PAIRS, e->edges);
	e->edges->begins = first == 1;
	e->edges->ends = end == ranks;
	for (int k = first; k < end; k++) {
		add_edge(e, c, 1, (me + k) % ranks);
		add_edge(e, c, 0, (me + ranks - k) % ranks);
	}
	if (e->edges->ends)
		add_own(e, c);
	if (!e->edges->group.lists) /* one rank, and nothing to be copied */
		return 0;
	share_blocks(e, e->edges, e->edges->group.lists);
	engine_tell_edges(e, c);
	return launch_lists(e, engine_open_edges(e), stream);
}

static int run_edges(struct engine *e, const struct engine_call *c, cudaStream_t stream)
{
	struct codelet_args a;
	int ret = 0, first = 1;
	fill(e, c, &a);
	do {
		ret = launch_edges(e, c, &a, first, stream);
		first += e->edges_at_once;
	} while (!ret && first < e->world_ranks);
	return ret;
}

static int launch_lowered(struct engine *e, const struct engine_call *c, cudaStream_t stream)
{
	struct codelet_args a;
	fill(e, c, &a);
	engine_tell_lowered(e, c);
	return engine_run_lowered(e, c, &a, stream);
}

static int launch_call(struct engine *e, const struct engine_call *c, cudaStream_t stream)
{
	if (engine_is_alone(e, c))
		return engine_run_alone(e, c, stream);
	switch (c->codelet) {
	case CODELET_NONE:
		return launch_lowered(e, c, stream);
	case CODELET_PACKETS:
	case CODELET_TWO_SHOT:
		return engine_check(e, run_packets(e, c, stream), "launching a kernel");
	case CODELET_SLOTS:
	case CODELET_SLOTS_TWO_SHOT:
		if (c->send_counts || e->remote.remote.memory)
			return run_edges(e, c, stream);
		return engine_check(e, run_slots(e, c, stream), "launching a kernel");
	case CODELET_COPIES:
		return engine_run_copies(e, c, stream);
	default:
		return log_error(CORALE_ENOTSUP, e->world_rank, "%s: the CUDA engine has no codelet for it",
				 corale_coll_name(c->coll));
	}
}

int engine_run(struct engine *e, const struct engine_call *c, void *stream)
{
	if (engine_failed(e))
		return CORALE_ECOMM;
	if (c->admission.plain)
		return engine_stage_call(e, c, stream, launch_call);
	int ret = engine_order(e, stream, c->admission.capture);
	return ret ? ret : launch_call(e, c, stream);
}

/* ---- Groups of sends and receives ------------------------------------------------------------------------ */

static int same_pair(const struct engine_message *a, const struct engine_message *b)
{
	return !a->from && !b->from && a->peer == b->peer && a->sending == b->sending;
}

/* The place of a message: peers may store straight into its buffer, or it has the next room. 1 if it needs that. What comes from other
 * nodes has slots of its own. */
static int set_place(struct codelet_edges *g, int i, const struct engine_message *m)
{
	const int direct = m->target && (uintptr_t)m->data % DIRECT_UNIT == 0,
		  local = m->peer < g->group.args.ranks;
	g->places[i] = direct ? m->target : g->rooms;
	return local && !m->sending && !m->from && !direct && !codelet_in_long_lines(&g->group, m->bytes);
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
	uint64_t all = e->layout.slots_bytes * (uint64_t)(e->ranks - 1), rooms = g->rooms ? g->rooms : 1;
	cut_slots(&g->group, all / rooms / CODELET_LINE * CODELET_LINE);
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
	if (e->world_ranks == 1)
		return engine_send_alone(e, m, n, stream);
	fill(e, &(struct engine_call){ .coll = CORALE_SEND, .number = m->number }, &a);
	begin_edges(e, &a, e->words_only ? CODELET_SLOT_PAIRS : CODELET_LINE_PAIRS, e->edges);
	for (int i = 0; i < n; i++)
		if (!taken[i])
			add_list(e->edges, m, n, i, taken, &used);
	share_slots(e, e->edges);
	share_blocks(e, e->edges, sort_lists(e->edges));
	return launch_lists(e, engine_open_edges(e), stream);
}

int engine_run_messages(struct engine *e, const struct engine_message *m, int n, void *stream)
{
	int plain = 0;
	if (engine_failed(e))
		return CORALE_ECOMM;
	for (int i = 0; i < n; i++)
		plain |= m[i].admission.plain;
	if (plain)
		return engine_stage_messages(e, m, n, stream, launch_messages);
	int ret = engine_order(e, stream, m->admission.capture);
	return ret ? ret : launch_messages(e, m, n, stream);
}
