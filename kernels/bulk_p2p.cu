/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long messages between two ranks by few CUDA blocks (bulk.cuh): of sends and receives, and of an all_to_all_v. What travels is what p2p.cu sends and takes in, so each
 * end of a message chooses one of the two kernels for itself.
 *
 * All blocks serve all lists of messages, each block its channels of every message. One team of a block sends, the other takes in. The last warp of a team is its dispatcher,
 * with a lane for each list. It looks which lists can go on, hands the workers one move of data after the other, and signals the move before. So no list waits for
 * another, whatever the order in which peers start theirs. A list of short messages, which go in lines, has a warp of some blocks to itself.
 */
#include <cuda_runtime.h>

#include "launch.cuh"
#include "bulk.cuh"
#include "edges.cuh"
#include "pair_lines.cuh"

enum : uint32_t {
	LOOKS = 8, /* for the next move, while the workers have one */
	MOST_DIRECT = 128 << 10, /* bytes of a move that goes through no slot; */
	MOST_READ = 4 << 20, /* the same of one that is read over a link, which starts slowly */
	LANES = 32,
	MOVED_IN_FLIGHT = 6, /* vectors that a thread loads before it stores the first; more are spilled; */
	READ_IN_FLIGHT = 8 /* the same over a link */
};

enum { NO_LANE = -1, BEFORE_FIRST = LANES - 1 };

struct move {
	unsigned char *to;
	const unsigned char *from;
	uint64_t bytes;
	uint32_t whole; /* as of copy() */
	uint32_t reads; /* over a link */
	uint32_t ends; /* there is none, nor comes another */
};

/* In shared memory: of each team two in turn. The workers have one while the dispatcher looks for the next. */
struct block_moves {
	move of[2][2];
};

enum lane_stage {
	LANE_OPENS, /* its channel awaits the grant, or the count and the ref of what is sent to it */
	LANE_MOVES,
	LANE_UNSEEN, /* all is stored; the first channel waits until its count has been looked at */
	LANE_ENDED
};

/* What a lane does with its channel. Slots lie in the receiver's window. */
enum lane_kind {
	LANE_FILLS, /* sends through slots */
	LANE_EMPTIES, /* takes in from slots */
	LANE_PUSHES, /* sends this block's run of all channels into registered memory */
	LANE_AWAITS, /* such a sender: it moves nothing */
	LANE_READS, /* takes in from the sender's buffer */
	LANE_COPIES /* this block's run of a copy within the rank */
};

/* A list of messages as its lane of a dispatcher has it. */
struct list_lane {
	edge e; /* of the channel that it has come to; e.to: its slots, or the message's other end */
	uint64_t seen; /* how far the other end's word was known to be */
	uint32_t channels; /* of the message */
	uint32_t moves, handed, signalled; /* of the channel: all, those that the workers have had, those that are signalled */
	lane_stage stage;
	lane_kind kind;
	bool failed;
};

__device__ static inline bool is_pair(const list_lane &l)
{
	return l.e.path.ring == CODELET_PAIRS;
}

/* A copy within the rank. */
__device__ static inline bool is_own(const list_lane &l)
{
	return l.e.m->from != nullptr;
}

/* The receiver decides when it knows where the message lies. */
__device__ static inline bool awaits_ref(const codelet_p2p &all, const list_lane &l)
{
	const codelet_message &m = *l.e.m;
	return !m.sending && !is_own(l) && codelet_may_be_read(&all.group, m.bytes) && !codelet_is_target(offer_of_message(all, &m));
}

/* ---- Channels and messages of a lane -------------------------------------------------------------------------- */

__device__ static inline void set_piece(list_lane *l, lane_kind kind, const range &piece, const place &to)
{
	l->kind = kind;
	l->e.piece = piece;
	l->e.to = to;
	l->moves = messages_of_edge(l->e);
	l->stage = LANE_MOVES;
}

__device__ static inline void set_slots(list_lane *l, lane_kind kind, const place &slots)
{
	set_piece(l, kind, cut(l->e.m->bytes, CODELET_LINE, l->channels, l->e.path.number), slots);
}

/* One of n pieces of the message, to or from another place than slots. */
__device__ static inline void set_direct(list_lane *l, lane_kind kind, const unsigned char *other, uint32_t n)
{
	set_piece(l, kind, cut(l->e.m->bytes, CODELET_LINE, n, l->e.path.number),
		  { const_cast<unsigned char *>(other), kind == LANE_READS ? MOST_READ : MOST_DIRECT, 1 });
}

__device__ static inline void begin_channel(const codelet_p2p &all, list_lane *l)
{
	const codelet_message &m = *l->e.m;
	l->handed = l->signalled = 0;
	l->seen = 0;
	l->kind = m.sending ? LANE_FILLS : LANE_EMPTIES;
	l->stage = LANE_OPENS;
	if (is_own(*l))
		set_direct(l, LANE_COPIES, m.from, gridDim.x);
	else if (m.sending && !is_pair(*l))
		set_slots(l, LANE_FILLS, slots_of_channel(l->e, 0));
}

/* The count of a collective's edge is the call's, also where it goes as a message of its pair. */
__device__ static inline edge counted_edge(const codelet_p2p &all, const list_lane &l)
{
	edge e = l.e;
	if (!all.group.pairs) {
		e.path.epoch = call_epoch(all.group.args);
		e.path.ring = CODELET_FIRST;
	}
	return e;
}

/* What the other end of a pair awaits of a channel before it opens it. */
__device__ static inline void say_place(const codelet_p2p &all, const list_lane &l, uint32_t channel)
{
	const codelet_message &m = *l.e.m;
	if (m.sending && codelet_may_be_read(&all.group, m.bytes))
		store_ref(all, m, channel, l.e.path);
	else if (!m.sending && !awaits_ref(all, l))
		grant_channel(all, m, offer_of_message(all, &m), channel, l.e.path);
}

/* False: this block has no channel of the message. */
__device__ static inline bool begin_message(const codelet_p2p &all, list_lane *l)
{
	const codelet_message &m = *l->e.m;
	l->e.path.number = blockIdx.x;
	l->channels = is_own(*l) ? gridDim.x : codelet_channels(&all.group, m.bytes);
	if (blockIdx.x >= l->channels || (is_own(*l) && m.data == m.from))
		return false;
	if (m.sending)
		store_count(counted_edge(all, *l));
	if (is_pair(*l) && !is_own(*l) && !kernel_aborted(all.group.args))
		for (uint32_t channel = blockIdx.x; channel < l->channels; channel += gridDim.x)
			say_place(all, *l, channel);
	begin_channel(all, l);
	return true;
}

/* For all channels of this block. */
__device__ static inline void end_list(const codelet_p2p &all, list_lane *l)
{
	l->stage = LANE_ENDED;
	if (!is_pair(*l) || is_own(*l))
		return;
	count_pair(all.group.args, *l->e.m, blockIdx.x, gridDim.x, 0, 1, l->e.path.epoch);
}

/* The next message of which this block has a channel. */
__device__ static inline void next_message(const codelet_p2p &all, list_lane *l)
{
	while (l->e.m->more) {
		l->e.m++;
		l->e.path.epoch++;
		if (begin_message(all, l))
			return;
	}
	end_list(all, l);
}

__device__ static inline void next_channel(const codelet_p2p &all, list_lane *l)
{
	const bool is_run = l->kind == LANE_PUSHES || l->kind == LANE_COPIES;
	l->e.path.number = is_run ? l->channels : l->e.path.number + gridDim.x;
	if (l->e.path.number < l->channels)
		begin_channel(all, l);
	else
		next_message(all, l);
}

/* All moves of the channel are signalled. */
__device__ static inline void end_channel(const codelet_p2p &all, list_lane *l)
{
	if (l->e.m->sending && is_pair(*l) && l->e.path.number == 0)
		l->stage = LANE_UNSEEN;
	else
		next_channel(all, l);
}

__device__ static inline list_lane no_list(uint64_t epoch)
{
	list_lane l = {};
	l.e.path.epoch = epoch;
	l.stage = LANE_ENDED;
	return l;
}

__device__ static inline list_lane begin_list(const codelet_p2p &all, uint64_t epoch, bool sends)
{
	const codelet_group &g = all.group;
	const uint32_t lane = bulk_lane(), list = sends ? lane : g.sending + lane, end = sends ? g.sending : g.lists - g.in_lines;
	list_lane l = no_list(epoch);
	if (list >= end)
		return l;
	const codelet_message *m = &all.messages[all.first[list]];
	const bool is_pairs = g.pairs || is_pair_of_call(g, *m);
	l.e = { &g.args, m, { epoch, blockIdx.x, g.most_channels, (uint32_t)(is_pairs ? CODELET_PAIRS : CODELET_FIRST) } };
	if (is_pairs && !is_own(l))
		l.e.path.epoch = *pair_counter(g.args, *m, blockIdx.x) + 1;
	if (!begin_message(all, &l))
		next_message(all, &l);
	return l;
}

/* ---- What a lane waits for ------------------------------------------------------------------------------------- */

/* The other end's word of this channel has come so far. */
__device__ static inline bool has_come(list_lane *l, uint64_t message)
{
	const codelet_args &a = *l->e.a;
	const codelet_message &m = *l->e.m;
	const uint64_t value = flag_value(l->e.path, message);
	if (l->seen < value)
		l->seen = sync_load_acquire(m.sending ? ack_of(a, l->e.path, a.rank, m.peer) : flag_of(a, l->e.path, m.peer, a.rank));
	return l->seen >= value;
}

__device__ static inline void open_to_send(const codelet_p2p &all, list_lane *l)
{
	const codelet_args &a = all.group.args;
	const codelet_message &m = *l->e.m;
	const codelet_channel_words *grant = grant_here(all, m, l->e.path.number);
	if (codelet_may_be_read(&all.group, m.bytes) && has_come(l, READ_NUMBER)) {
		next_channel(all, l);
		return;
	}
	uint64_t granted;
	if (!is_granted(a, m, l->e.path, grant, &granted))
		return;
	if (codelet_is_target(granted))
		set_direct(l, LANE_PUSHES, target_of(all, granted, m.peer), gridDim.x < l->channels ? gridDim.x : l->channels);
	else
		set_slots(l, LANE_FILLS, slots_of_channel(l->e, granted));
}

/* Of a message that may be read: this channel is, or it is granted slots. */
__device__ static inline bool open_to_read(const codelet_p2p &all, list_lane *l)
{
	const codelet_message &m = *l->e.m;
	const unsigned char *source;
	if (!ref_is_here(all, m, l->e.path, &source))
		return false;
	if (source)
		set_direct(l, LANE_READS, source, l->channels);
	else
		grant_channel(all, m, offer_of_message(all, &m), l->e.path.number, l->e.path);
	return true;
}

/* In registered memory what comes is where it belongs: the channel waits for its flag alone. */
__device__ static inline void open_to_take(const codelet_p2p &all, list_lane *l)
{
	const codelet_args &a = all.group.args;
	const codelet_message &m = *l->e.m;
	const uint64_t offered = is_pair(*l) ? offer_of_message(all, &m) : 0;
	const bool direct = codelet_is_target(offered);
	edge_count count;
	if (!direct || l->e.path.number == 0) {
		const edge e = counted_edge(all, *l);
		if (!count_is_here(e, &count))
			return;
		l->failed = !count_agrees(e, count);
		if (l->failed)
			return;
	}
	if (awaits_ref(all, *l) && (!open_to_read(all, l) || l->kind == LANE_READS))
		return;
	if (direct) {
		if (l->e.path.number == 0) /* its sender waits until its count is looked at */
			sync_store_release(ack_of(a, l->e.path, m.peer, a.rank), flag_value(l->e.path, 0));
		set_piece(l, LANE_AWAITS, { 0, 0 }, { nullptr, MOST_DIRECT, 0 });
	} else {
		set_slots(l, LANE_EMPTIES, slots_of_channel(l->e, is_pair(*l) ? grant_of_channel(all, m, offered, l->e.path.number) : 0));
	}
}

/* Of a channel with moves left. */
__device__ static inline bool may_move(list_lane *l)
{
	switch (l->kind) {
	case LANE_FILLS:
		return l->handed < l->e.to.slots || has_come(l, l->handed - l->e.to.slots);
	case LANE_EMPTIES:
	case LANE_AWAITS:
		return has_come(l, l->handed);
	default:
		return true;
	}
}

/* Whether this lane has a move for the workers; if not, it goes as far as it can without. */
__device__ static inline bool has_move(const codelet_p2p &all, list_lane *l)
{
	if (l->stage == LANE_OPENS && l->e.m->sending)
		open_to_send(all, l);
	else if (l->stage == LANE_OPENS)
		open_to_take(all, l);
	if (l->stage == LANE_UNSEEN && has_come(l, 0))
		next_channel(all, l);
	if (l->stage != LANE_MOVES || l->handed == l->moves || !may_move(l))
		return false;
	if (l->kind != LANE_AWAITS)
		return true;
	end_channel(all, l);
	return false;
}

/* ---- Moves ---------------------------------------------------------------------------------------------------- */

__device__ static inline move next_move(list_lane *l)
{
	const codelet_message &m = *l->e.m;
	const uint32_t number = l->handed++;
	const range r = message(l->e.piece, l->e.to.slot_bytes, number);
	const bool by_slots = l->kind == LANE_FILLS || l->kind == LANE_EMPTIES;
	unsigned char *own = m.data + r.at, *other = by_slots ? slot_of_edge(l->e, number) : l->e.to.begin + r.at;
	return { m.sending ? other : own, m.sending ? own : other, r.bytes, l->kind == LANE_FILLS, l->kind == LANE_READS };
}

/* A run is signalled once, for all of its channels. */
__device__ static inline void signal_run(const list_lane &l)
{
	connection path = l.e.path;
	sync_fence();
	for (; path.number < l.channels; path.number += gridDim.x)
		sync_store_relaxed(flag_of(*l.e.a, path, l.e.a->rank, l.e.m->peer), flag_value(path, 0));
}

/* All of a channel's data are loaded. They count unless the sender has given up, which it says before its program may change them. */
__device__ static inline void signal_read(list_lane *l)
{
	const codelet_args &a = *l->e.a;
	l->failed = abort_word(a) != 0;
	if (l->failed)
		call_explain(a, l->e.m->peer, l->e.path.epoch, false);
	else
		sync_store_after_loads(ack_of(a, l->e.path, l->e.m->peer, a.rank), flag_value(l->e.path, READ_NUMBER));
}

/* The workers are done with this lane's next unsignalled move. */
__device__ static inline void signal_move(const codelet_p2p &all, list_lane *l)
{
	const codelet_args &a = *l->e.a;
	const codelet_message &m = *l->e.m;
	const uint64_t value = flag_value(l->e.path, l->signalled++);
	const bool last = l->signalled == l->moves;
	switch (l->kind) {
	case LANE_FILLS:
		sync_store_release(flag_of(a, l->e.path, a.rank, m.peer), value);
		break;
	case LANE_EMPTIES:
		sync_store_after_loads(ack_of(a, l->e.path, m.peer, a.rank), value);
		break;
	case LANE_PUSHES:
		if (last)
			signal_run(*l);
		break;
	case LANE_READS:
		if (last)
			signal_read(l);
		break;
	default:
		break;
	}
	if (last && !l->failed)
		end_channel(all, l);
}

/* ---- Teams: the dispatcher's warp, and the workers --------------------------------------------------------------- */

/* The next lane behind the last one that has a move. */
__device__ static inline int choose(const codelet_p2p &all, list_lane *l, int last)
{
	const unsigned ready = __ballot_sync(~0u, has_move(all, l)), later = ready & ~((2u << last) - 1);
	return __ffs((int)(later ? later : ready)) - 1;
}

/* While the workers have no move: until a lane has one, or all have ended. */
__device__ static inline bool await_move(const codelet_p2p &all, list_lane *l, uint64_t epoch, int last, int *next)
{
	const codelet_args &a = all.group.args;
	auto ready = [&] {
		*next = choose(all, l, last);
		return *next != NO_LANE || __all_sync(~0u, l->stage == LANE_ENDED) || __any_sync(~0u, l->failed);
	};
	return wait_until<one_warp>(a, all.group.pairs ? l->e.path.epoch : epoch, !all.group.pairs, ready, [&] { return l->stage == LANE_ENDED ? -1 : (int)l->e.m->peer; });
}

__device__ static bool dispatch(const codelet_p2p &all, const bulk_team &t, move *moves, uint64_t epoch, bool sends)
{
	bool good = all.group.pairs || warp_wait_headers(all.group.args, epoch);
	list_lane l = good ? begin_list(all, epoch, sends) : no_list(epoch);
	__syncwarp();
	int last = BEFORE_FIRST, handed = NO_LANE;
	for (uint32_t k = 0;; k++) {
		int next = NO_LANE;
		for (uint32_t looks = 0; handed != NO_LANE && next == NO_LANE && looks < LOOKS; looks++)
			next = choose(all, &l, last);
		if (handed == NO_LANE)
			good = good && await_move(all, &l, epoch, last, &next);
		const bool ends = handed == NO_LANE && next == NO_LANE;
		if ((int)bulk_lane() == (next == NO_LANE ? 0 : next))
			moves[k % 2] = next == NO_LANE ? move{ nullptr, nullptr, 0, 0, 0, ends } : next_move(&l);
		if (!sync_warps_and(t.workers.barrier, t.threads, good && !l.failed))
			return false;
		if (ends)
			return true;
		if ((int)bulk_lane() == handed)
			signal_move(all, &l);
		__syncwarp();
		last = next == NO_LANE ? last : next;
		handed = next;
	}
}

/* A function of its own, so that all registers are for what it loads. */
__device__ static bool work(const bulk_team &t, const move *moves)
{
	for (uint32_t k = 0;; k++) {
		if (!sync_warps_and(t.workers.barrier, t.threads, true))
			return false;
		const move m = moves[k % 2];
		if (m.ends)
			return true;
		sync_assume_global(m.to);
		if (m.reads)
			bulk_copy_far<READ_IN_FLIGHT>(t.workers.thread, t.workers.threads, m.to, m.from, m.bytes);
		else
			copy<MOVED_IN_FLIGHT>(t.workers, m.to, m.from, m.bytes, m.whole);
	}
}

/* A rank that has lists of one direction alone has one team a block. */
__device__ static bool run_team(const codelet_p2p &all, block_moves *moves, uint64_t epoch, uint32_t warps)
{
	const codelet_group &g = all.group;
	const uint32_t some = g.sends_wait ? 2 + warps / 8 : (warps + 1) / 2; /* who waits moves what is not read, and no more */
	const uint32_t senders = g.sending + g.in_lines == g.lists ? warps : g.sending ? some : 0;
	const bool sends = threadIdx.x / 32 < senders;
	const bulk_team t = sends ? bulk_team_of(0, senders, true, 1) : bulk_team_of(senders, warps - senders, true, 2);
	move *of_team = moves->of[sends];
	return t.workers.thread < t.workers.threads ? work(t, of_team) : dispatch(all, t, of_team, epoch, sends);
}

/* ---- Lists of short messages: a warp ----------------------------------------------------------------------------- */

/* The rings of this block's channels, one after the other as at the other end. */
__device__ static bool run_short(const pair_lines &p, uint32_t blocks)
{
	const codelet_message &m = *p.m;
	const uint32_t slots = (uint32_t)codelet_line_slots(p.g, m.bytes), rings = p.g->rings, most = slots < rings ? slots : rings;
	const uint32_t channels = codelet_channels(p.g, m.bytes);
	if (m.sending && bulk_lane() == 0)
		store_count({ &p.g->args, &m, p.path });
	for (uint32_t channel = p.path.number; channel < channels; channel += blocks) {
		const uint32_t first = channel * CODELET_CHANNEL_RINGS, end = most < first + CODELET_CHANNEL_RINGS ? most : first + CODELET_CHANNEL_RINGS;
		for (uint32_t number = first; number < end; number++) {
			line_ring r = ring_of(p, number);
			if (!pass_slots<1, LINES>(p, &r, number, slots))
				return false;
			keep_ring(p, r);
		}
	}
	__syncwarp(); /* what comes next reads the rings' ends */
	return true;
}

/* Blocks serve these lists in turn, each block one. */
__device__ static bool run_short_list(const codelet_p2p &all)
{
	const codelet_group &g = all.group;
	const codelet_args &a = g.args;
	const uint32_t list = blockIdx.x % g.in_lines, number = blockIdx.x / g.in_lines, blocks = (gridDim.x - list + g.in_lines - 1) / g.in_lines;
	const codelet_message *m = &all.messages[all.first[g.lists - g.in_lines + list]];
	pair_lines p = { &g, m, { *pair_counter(a, *m, number), number, g.most_channels, CODELET_PAIRS }, messages_aborted(a) };
	for (bool more = true; more; p.m++) {
		more = p.m->more;
		p.path.epoch++;
		if (!run_short(p, blocks))
			return false;
	}
	count_pair(a, *m, number, blocks, bulk_lane(), 32, p.path.epoch);
	return true;
}

__device__ static bool run_warp(const codelet_p2p &all, block_moves *moves, uint64_t epoch)
{
	const uint32_t warps = blockDim.x / 32 - (all.group.in_lines != 0);
	return threadIdx.x / 32 < warps ? run_team(all, moves, epoch, warps) : run_short_list(all);
}

__global__ __launch_bounds__(CODELET_BULK_THREADS, 1) void bulk_p2p(const __grid_constant__ codelet_p2p all)
{
	sync_previous_kernel();
	const codelet_args &a = all.group.args;
	const uint64_t epoch = all.group.pairs ? 0 : call_epoch(a);
	if (!all.group.pairs)
		send_headers(a, epoch);
	const bool good = run_warp(all, shared_object<block_moves>(), epoch);
	if (!__syncthreads_and(good))
		return;
	if (all.group.pairs)
		call_count(a);
	else
		call_end(a, epoch);
}

int codelets_bulk_p2p(const codelet_p2p *args, struct grid grid, void *stream)
{
	return launch((const void *)bulk_p2p, grid, args, stream);
}

int codelets_load_bulk_p2p(void)
{
	return load((const void *)bulk_p2p, LITTLE_SHARED_PERCENT);
}
