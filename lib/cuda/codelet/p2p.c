/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages between two ranks: sends and receives that start together, the edges of an all_to_all_v, or of an all_to_all over nodes. */
#include "cuda_codelet.h"

#include <string.h>

#include "base/log.h"

enum {
	FEW_COPYING = 8,
	/* Alignment of receive buffers. Into others peers would store parts of a vector, so these get slots. */
	DIRECT_UNIT = 16
};

_Static_assert(CORALE_NUM_TYPES <= 1 << (32 - CODELET_TYPE_SHIFT_IN_LINE), "lines say their message's type");
_Static_assert(CODELET_MAX_MESSAGES >= (int)ENGINE_MOST_GROUPED, "a launch has room for a group");
_Static_assert(CODELET_TARGET_SHIFT == (int)ENGINE_TARGET_SHIFT, "kernels read the engine's targets");

static void cut_slots(const struct gpu_machine *machine, struct codelet_group *g, uint64_t room)
{
	g->args.area_bytes = (uint32_t)room;
	g->args.slot_bytes = (uint32_t)launch_p2p_slot_bytes(machine, room, g->most_channels);
}

static void begin_p2p(const struct engine *e, const struct codelet_args *args, enum codelet_pairs pairs,
		      struct codelet_p2p *g)
{
	g->group.args = *args;
	g->group.most_channels = (uint16_t)launch_most_channels(&e->machine, pairs != CODELET_NO_PAIRS);
	g->group.pairs = (uint16_t)pairs;
	g->group.args.depth = (uint32_t)launch_p2p_depth(&e->machine);
	cut_slots(&e->machine, &g->group, e->layout.slots_bytes);
	g->group.rings = (uint16_t)e->layout.pair_rings;
	g->group.depth = (uint16_t)e->layout.ring_depth;
	g->group.rings_taken = (uint32_t)e->layout.rings_taken;
	g->group.ring_slots = (uint32_t)e->layout.rings;
	g->group.short_bytes = (uint32_t)launch_short_lines(&e->machine);
	g->group.long_bytes = (uint32_t)launch_long_lines(&e->machine);
	if (pairs == CODELET_WORD_PAIRS &&
	    e->remote.counts) /* kernels that send between nodes have no words */
		g->group.short_bytes = g->group.long_bytes = 0;
	g->group.read_bytes = launch_read_messages(&e->machine);
	g->group.lists = 0;
	g->group.blocks = 1;
	g->group.teams = g->group.sends_wait = 0;
	g->grants = (uint32_t)e->layout.grants;
	g->message_refs = (uint32_t)e->layout.message_refs;
	g->regions = e->gpu_peers;
	g->remote = e->remote;
	g->begins = g->ends = 1;
	g->rooms = 0;
}

static void set_message(struct codelet_p2p *g, int i, struct codelet_message m)
{
	uint32_t channels = codelet_channels(&g->group, m.bytes);
	g->group.blocks = (uint16_t)(channels > g->group.blocks ? channels : g->group.blocks);
	g->messages[i] = m;
}

/* The first `many_blocks` lists share the blocks; every other list has one. Few blocks that copy into peers' memory are rounded down to FEW_COPYING, which
 * divides evenly among the parts of the GPU that feed a link: a send by 10 to 15 blocks is slower than by 8. */
static void share_blocks(const struct engine *e, struct codelet_p2p *g, int many_blocks)
{
	int one_block = g->group.lists - many_blocks,
	    blocks = launch_blocks_of_lists(&e->machine, g->group.pairs != CODELET_NO_PAIRS,
					    many_blocks ? many_blocks : 1, one_block);
	if (one_block && blocks > FEW_COPYING && blocks < 2 * FEW_COPYING)
		blocks = FEW_COPYING;
	g->group.many_blocks = (uint16_t)many_blocks;
	if (g->group.blocks > blocks)
		g->group.blocks = (uint16_t)blocks;
}

/* ret: of the step before; nothing is launched if that failed. */
static int launch_lists(struct engine *e, int ret, cudaStream_t stream)
{
	if (ret)
		return ret;
	const struct codelet_p2p *g = e->p2p;
	const struct grid grid = { g->group.blocks, LAUNCH_BULK_THREADS };
	engine_count(e, codelet_group_blocks(&g->group));
	return engine_check(e, g->group.teams ? codelets_bulk_p2p(g, grid, stream) : codelets_p2p(g, stream),
			    "launching a kernel");
}

/* ---- By teams of warps ------------------------------------------------------------------------------------- */

enum {
	MOST_TEAM_LISTS = 32, /* in each direction: a lane each */
	MOST_SHORT_BYTES = 16 << 10 /* of a message beside long ones, which one warp of a block moves */
};

/* Ranks from this one to the peer as data travels. No two ranks begin with the same one. */
static int distance(const struct codelet_p2p *g, uint32_t first)
{
	const struct codelet_message *m = &g->messages[first];
	const int ranks = g->group.args.ranks, n = m->peer - g->group.args.rank;
	return ((m->sending ? n : -n) + ranks) % ranks;
}

static int is_in_lines(const struct codelet_p2p *g, uint32_t i)
{
	const struct codelet_message *m = &g->messages[i];
	return !m->from && codelet_in_lines(&g->group, m->bytes);
}

/* Teams have no words. */
static int is_in_words(const struct codelet_p2p *g, uint32_t i)
{
	return g->group.pairs == CODELET_WORD_PAIRS && is_in_lines(g, i);
}

static int comes_before(const struct codelet_p2p *g, uint32_t a, uint32_t b)
{
	const int sends = g->messages[a].sending, in_lines = is_in_lines(g, a);
	if (in_lines != is_in_lines(g, b))
		return !in_lines;
	return sends != g->messages[b].sending ? sends : distance(g, a) < distance(g, b);
}

/* Lists of long messages first, of these those that send, each direction by distance. Counts them. */
static void sort_lists_of_teams(struct codelet_p2p *g)
{
	g->group.sending = g->group.in_lines = 0;
	for (int i = 0; i < g->group.lists; i++) {
		const uint32_t list = g->first[i];
		const int is_short = is_in_lines(g, list);
		int at = i;
		for (; at && comes_before(g, list, g->first[at - 1]); at--)
			g->first[at] = g->first[at - 1];
		g->first[at] = list;
		g->group.in_lines += (uint16_t)is_short;
		g->group.sending += (uint16_t)(!is_short && g->messages[list].sending);
	}
}

/* What of a group teams can run. */
struct team_work {
	uint64_t longest; /* bytes of a message */
	int in_lines, sends, takes; /* lists: of short messages; of others that send, and that do not */
};

/* 0: teams can't run the list. */
static int add_team_list(const struct codelet_p2p *g, uint32_t i, struct team_work *work)
{
	const int in_lines = is_in_lines(g, i);
	const struct codelet_message *m = &g->messages[i];
	do {
		if (in_lines ? !is_in_lines(g, (uint32_t)(m - g->messages)) || m->bytes > MOST_SHORT_BYTES
			     : !m->from && codelet_in_long_lines(&g->group, m->bytes))
			return 0;
		work->longest = m->bytes > work->longest ? m->bytes : work->longest;
	} while (m++->more);
	work->in_lines += in_lines;
	work->sends += !in_lines && g->messages[i].sending;
	work->takes += !in_lines && !g->messages[i].sending;
	return 1;
}

/* Whether all long messages of a list lie in exports. */
static int is_exported(const struct codelet_p2p *g, uint32_t i)
{
	int all = 1;
	do
		all = all && codelet_may_be_read(&g->group, g->messages[i].bytes) && g->places[i];
	while (g->messages[i++].more);
	return all;
}

/* Of lists in order. */
static int all_sends_wait(const struct codelet_p2p *g)
{
	int all = 1;
	for (int i = 0; i < g->group.sending; i++)
		all = all && is_exported(g, g->first[i]);
	return all;
}

/* Whether teams run the launch. Then all blocks serve all lists. */
static int share_teams(const struct engine *e, struct codelet_p2p *g)
{
	struct team_work work = { 0 };
	if (e->remote.counts)
		return 0;
	for (int i = 0; i < g->group.lists; i++)
		if (is_in_words(g, g->first[i]) || !add_team_list(g, g->first[i], &work))
			return 0;
	if (!launch_p2p_by_teams(&e->machine, work.longest) || work.in_lines > g->group.blocks ||
	    work.in_lines == g->group.lists || work.sends > MOST_TEAM_LISTS || work.takes > MOST_TEAM_LISTS)
		return 0;
	sort_lists_of_teams(g);
	g->group.sends_wait = (uint16_t)all_sends_wait(g);
	g->group.teams = 1;
	return 1;
}

/* A list of one message. */
static void add_message(struct codelet_p2p *g, struct codelet_message m)
{
	g->first[g->group.lists] = g->group.lists;
	set_message(g, g->group.lists++, m);
}

/* Bytes of an edge, and their offset in the buffer: of an all_to_all or an all_to_all_v. */
static uint64_t edge_of(const struct call *c, int sending, int peer, uint64_t *at)
{
	const size_t element = corale_type_bytes(c->record.type);
	if (!c->send_counts) {
		const uint64_t bytes = call_bytes(c);
		*at = (uint64_t)peer * bytes;
		return bytes;
	}
	*at = (sending ? c->send_displs : c->recv_displs)[peer] * element;
	return (sending ? c->send_counts : c->recv_counts)[peer] * element;
}

static int index_of(const struct engine *e, int rank)
{
	return e->index_of ? e->index_of[rank] : rank;
}

/* Between this rank and another, at an offset of the call's buffer. */
static struct codelet_message message_at(const struct engine *e, const struct call *c, int sending, int peer,
					 uint64_t at, uint64_t bytes)
{
	unsigned char *data = sending ? (unsigned char *)(uintptr_t)c->send : c->recv;
	const uint32_t high = codelet_typed_bytes_high((int)c->record.type, bytes);
	return (struct codelet_message){ .data = data + at,
					 .bytes = bytes,
					 .peer = (int16_t)index_of(e, peer),
					 .sending = (uint8_t)sending,
					 .typed_bytes_high = high };
}

static void add_edge(const struct engine *e, const struct call *c, int sending, int peer)
{
	struct codelet_p2p *g = e->p2p;
	uint64_t at, bytes = edge_of(c, sending, peer, &at);
	const struct codelet_message m = message_at(e, c, sending, peer, at, bytes);
	const uint64_t lines = g->group.args.slot_bytes / CODELET_LINE; /* each sender has its room */
	g->places[g->group.lists] = sending ? 0 : lines << 32 | codelet_index(m.peer, e->rank);
	add_message(g, m);
}

static void add_own(const struct engine *e, const struct call *c)
{
	uint64_t sent_at, at;
	const uint64_t bytes = edge_of(c, 1, e->world_rank, &sent_at);
	edge_of(c, 0, e->world_rank, &at);
	const unsigned char *from = (const unsigned char *)c->send + sent_at;
	unsigned char *to = (unsigned char *)c->recv + at;
	if (from != to && bytes)
		add_message(e->p2p, (struct codelet_message){
					.data = to, .from = from, .bytes = bytes, .peer = (int16_t)e->rank });
}

/* Most bytes that go to one other rank. */
static uint64_t most_sent(const struct engine *e, const struct call *c)
{
	uint64_t most = 0;
	if (!c->send_counts)
		return call_bytes(c);
	for (int r = 0; r < e->world_ranks; r++)
		most = r != e->world_rank && c->send_counts[r] > most ? c->send_counts[r] : most;
	return most * corale_type_bytes(c->record.type);
}

/* Logs the launch, which is cut only now, from the counts of this rank's edges. */
static void log_edges(struct engine *e, const struct call *c)
{
	const struct codelet_group *g = &e->p2p->group;
	if (log_level < LOG_TRACE)
		return;
	const uint64_t bytes = most_sent(e, c);
	const struct launch l = { .machine = &e->machine,
				  .coll = c->record.coll,
				  .bytes = bytes,
				  .codelet = &p2p_codelet,
				  .zero_copy = g->args.zero_copy.exports != NULL,
				  .variant = g->teams || g->args.zero_copy.exports ? P2P_BULK : P2P_LISTS,
				  .grid = { codelet_group_blocks(g),
					    g->teams ? LAUNCH_BULK_THREADS : CODELET_THREADS },
				  .piece = bytes,
				  .pieces = 1,
				  .message = g->args.slot_bytes,
				  .depth = g->args.depth };
	engine_begin_launch(e, &l, 0);
}

/* A launch covers the same distances on all ranks, so both ends of an edge are in the same launch. */
static int launch_p2p(struct engine *e, const struct call *c, const struct codelet_args *a, int first,
		      cudaStream_t stream)
{
	const int me = e->world_rank, ranks = e->world_ranks,
		  end = ranks - first < e->edges_at_once ? ranks : first + e->edges_at_once;
	begin_p2p(e, a, CODELET_NO_PAIRS, e->p2p);
	e->p2p->begins = first == 1;
	e->p2p->ends = end == ranks;
	for (int k = first; k < end; k++) {
		add_edge(e, c, 1, (me + k) % ranks);
		add_edge(e, c, 0, (me + ranks - k) % ranks);
	}
	if (e->p2p->ends)
		add_own(e, c);
	if (!e->p2p->group.lists) /* one rank, and nothing to be copied */
		return 0;
	engine_name_messages(e, e->p2p, e->p2p->group.lists, c->admission.capture != 0);
	if (!share_teams(e, e->p2p))
		share_blocks(e, e->p2p, e->p2p->group.lists);
	log_edges(e, c);
	return launch_lists(e, engine_open_p2p(e), stream);
}

static int run(struct engine *e, const struct call *c, const struct gpu_launch *l, cudaStream_t stream)
{
	struct codelet_args a = l->args;
	engine_patch_args(e, c, &a);
	int ret = 0, first = 1;
	do {
		ret = launch_p2p(e, c, &a, first, stream);
		first += e->edges_at_once;
	} while (!ret && first < e->world_ranks);
	return ret;
}

static void fill(const struct engine *e, struct gpu_launch *l)
{
	l->args = e->args[AREA_SLOTS];
	l->args.bytes = l->cut.bytes;
}

static int load(void)
{
	const int error = codelets_load_p2p();
	return error ? error : codelets_load_bulk_p2p();
}

const struct cuda_codelet cuda_p2p = { load, fill, CODELET_OVERWRITES_REMOTE, run };

/* ---- Groups of sends and receives ------------------------------------------------------------------------ */

static int same_pair(const struct call *a, const struct call *b)
{
	return !(a->send && a->recv) && !(b->send && b->recv) && a->record.root == b->record.root &&
	       a->record.coll == b->record.coll;
}

/* Peers store straight into the message's buffer, or into the next room: 1 if the message needs that room. Messages from other nodes have slots of their
 * own. */
static int set_place(struct codelet_p2p *g, int i, uint64_t target)
{
	const struct codelet_message *m = &g->messages[i];
	const int direct = target && (uintptr_t)m->data % DIRECT_UNIT == 0,
		  local = m->peer < g->group.args.ranks;
	g->places[i] = direct ? target : m->sending ? 0 : g->rooms;
	return local && !m->sending && !m->from && !direct && !codelet_in_long_lines(&g->group, m->bytes);
}

static struct codelet_message message_of(const struct engine *e, const struct call *c)
{
	const int sends = engine_sends(c);
	struct codelet_message m = message_at(e, c, sends, c->record.root, 0, call_bytes(c));
	m.from = sends || engine_receives(c) ? NULL : c->send;
	return m;
}

/* 1 if all messages of a list come straight into their buffers: one block waits for them. */
static int needs_one_block(const struct codelet_p2p *g, uint32_t first)
{
	uint32_t i = first;
	do
		if (g->messages[i].sending || g->messages[i].from || !codelet_is_target(g->places[i]) ||
		    codelet_in_lines(&g->group, g->messages[i].bytes))
			return 0;
	while (g->messages[i++].more);
	return 1;
}

/* Puts lists that need many blocks first; returns their number. */
static int sort_lists(struct codelet_p2p *g)
{
	uint32_t one_block[CODELET_MAX_LISTS];
	int many_blocks = 0, n = 0;
	for (int i = 0; i < g->group.lists; i++) {
		if (needs_one_block(g, g->first[i]))
			one_block[n++] = g->first[i];
		else
			g->first[many_blocks++] = g->first[i];
	}
	memcpy(g->first + many_blocks, one_block, (size_t)n * sizeof(*one_block));
	return many_blocks;
}

/* Bytes of a message's slots, where it comes in slots. */
static void cut_message(const struct engine *e, struct codelet_p2p *g, int i)
{
	const struct codelet_message *m = &g->messages[i];
	if (m->sending || codelet_is_target(g->places[i]) || codelet_in_long_lines(&g->group, m->bytes))
		return;
	const uint64_t bytes = launch_p2p_message(
	    &e->machine, m->bytes, codelet_channels(&g->group, m->bytes), g->group.args.slot_bytes);
	g->places[i] |= bytes / CODELET_LINE << 32;
}

/* Cuts all of this rank's slots into equal rooms. Senders learn their room from a grant. */
static void share_slots(const struct engine *e, struct codelet_p2p *g, int messages)
{
	uint64_t all = e->layout.slots_bytes * (uint64_t)(e->ranks - 1), rooms = g->rooms ? g->rooms : 1;
	cut_slots(&e->machine, &g->group, all / rooms / CODELET_LINE * CODELET_LINE);
	for (int i = 0; i < messages; i++)
		cut_message(e, g, i);
}

/* Appends message i and all later ones of its pair and direction as one list; marks them as taken. */
static void add_list(const struct engine *e, const struct call *m, int n, int i, unsigned char *taken,
		     int *used)
{
	struct codelet_p2p *g = e->p2p;
	int needs_room = 0;
	g->first[g->group.lists++] = (uint32_t)*used;
	for (int k = i; k < n; k++) {
		if (taken[k] || (k != i && !same_pair(&m[i], &m[k])))
			continue;
		taken[k] = 1;
		if (k != i)
			g->messages[*used - 1].more = 1;
		set_message(g, *used, message_of(e, &m[k]));
		needs_room |= set_place(g, (*used)++, m[k].record.target);
	}
	g->rooms += (uint32_t)needs_room;
}

int p2p_run_messages(struct engine *e, const struct call *m, int n, cudaStream_t stream)
{
	unsigned char taken[CODELET_MAX_MESSAGES] = { 0 };
	const struct call first = { .record.coll = CORALE_SEND, .number = m->number };
	int used = 0;
	if (e->world_ranks == 1)
		return engine_send_one_rank(e, m, n, stream);
	struct codelet_args a = e->args[AREA_SLOTS];
	engine_patch_args(e, &first, &a);
	begin_p2p(e, &a, e->machine.words_only ? CODELET_WORD_PAIRS : CODELET_LINE_PAIRS, e->p2p);
	for (int i = 0; i < n; i++)
		if (!taken[i])
			add_list(e, m, n, i, taken, &used);
	share_slots(e, e->p2p, used);
	engine_name_messages(e, e->p2p, used, m->admission.capture != 0);
	if (!share_teams(e, e->p2p))
		share_blocks(e, e->p2p, sort_lists(e->p2p));
	return launch_lists(e, engine_open_p2p(e), stream);
}
