/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Point to point: all_to_all_v, through slots, and groups of sends and receives, in lines (pair_lines.cuh) or where receivers grant it
 * (grants.cuh). Every list of messages has blocks of its own on both ends, so no list waits for another. A block runs a message's channels
 * in order, then the next message's: the first unfinished message of two ranks is under way on both, however many blocks each has.
 */
#include <cuda_runtime.h>

#include "edges.cuh"
#include "launch.cuh"
#include "pair_lines.cuh"
#include "remote.cuh"

/* A list of messages as one of its blocks sees it. */
struct list_block {
	const codelet_group *g;
	const codelet_p2p *all; /* NULL if all of them go in lines */
	uint32_t number, blocks; /* this block's, of how many */
	uint32_t aborted; /* messages_aborted */
};

/* A sender whose slots were granted waits for the first channel's first acknowledgement: the receiver has read the count line, which the next
 * message's count may then overwrite. */
__device__ static bool await_seen(edge *e)
{
	if (e->path.number)
		return true;
	return wait_one(*e->a, whole_block(), &e->path, ack_of(*e->a, e->path, e->a->rank, e->m->peer), 0, e->m->peer);
}

__device__ static bool send_edge(edge *e)
{
	const codelet_args &a = *e->a;
	const warp_group w = whole_block();
	const int to = e->m->peer;
	uint64_t *flag = flag_of(a, e->path, a.rank, to), *ack = ack_of(a, e->path, a.rank, to);
	const uint32_t messages = messages_of_edge(*e);
	for (uint32_t c = 0; c < messages; c++) {
		range r = message(e->piece, e->to.slot_bytes, c);
		if (c >= e->to.slots && !wait_one(a, w, &e->path, ack, c - e->to.slots, to))
			return false;
		copy(w, slot_of_edge(*e, c), e->m->data + r.at, r.bytes, true);
		signal_one(w, e->path, flag, c);
	}
	/* the next call in an all_to_all_v's slots waits for the headers of all ranks, which have taken this out by then */
	return e->path.ring != CODELET_PAIRS || await_seen(e);
}

__device__ static bool receive_edge(edge *e)
{
	const codelet_args &a = *e->a;
	const warp_group w = whole_block();
	const int from = e->m->peer;
	const uint64_t *flag = flag_of(a, e->path, from, a.rank);
	uint64_t *ack = ack_of(a, e->path, from, a.rank);
	const uint32_t messages = messages_of_edge(*e);
	for (uint32_t c = 0; c < messages; c++) {
		range r = message(e->piece, e->to.slot_bytes, c);
		if (!wait_one(a, w, &e->path, flag, c, from))
			return false;
		copy(w, e->m->data + r.at, slot_of_edge(*e, c), r.bytes, false);
		signal_one(w, e->path, ack, c);
	}
	return true;
}

/* ---- Counts of an edge ----------------------------------------------------------------------------------- */

__device__ static void send_count(const edge &e)
{
	if (threadIdx.x == 0)
		store_count(e);
}

__device__ static bool check_count(edge *e)
{
	edge_count count;
	return wait_ready(*e->a, &e->path, e->m->peer, [&] { return count_is_here(*e, &count); }) && count_agrees(*e, count);
}

/* ---- Into registered memory -------------------------------------------------------------------------------- */

/* Each block that has a channel copies a run of its own; then it signals its channels. */
__device__ static bool send_direct(edge *e, unsigned char *to, uint32_t blocks, uint32_t channels)
{
	const codelet_args &a = *e->a;
	const warp_group w = whole_block();
	const range run = cut(e->m->bytes, CODELET_LINE, blocks < channels ? blocks : channels, e->path.number);
	copy(w, to + run.at, e->m->data + run.at, run.bytes, false);
	warp_group_sync(w);
	connection conn = e->path;
	for (conn.number += w.thread * blocks; conn.number < channels; conn.number += w.threads * blocks)
		sync_store_release(flag_of(a, conn, a.rank, e->m->peer), flag_value(conn, 0));
	return await_seen(e);
}

/* All channels of this block, a thread each. */
__device__ static bool receive_direct(edge *e, uint32_t blocks, uint32_t channels)
{
	const codelet_args &a = *e->a;
	const warp_group w = whole_block();
	bool good = true;
	if (e->path.number == 0) /* whose sender waits until its count is looked at */
		signal_one(w, e->path, ack_of(a, e->path, e->m->peer, a.rank), 0);
	connection conn = e->path;
	for (conn.number += w.thread * blocks; good && conn.number < channels; conn.number += w.threads * blocks)
		good = wait_flag(a, &conn, flag_of(a, conn, e->m->peer, a.rank), flag_value(conn, 0), e->m->peer);
	return warp_group_agrees(w, good);
}

/* ---- Messages -------------------------------------------------------------------------------------------- */

/* Through slots: this block's channels of the message. */
__device__ static bool run_slots(const list_block &b, edge e, uint32_t channels)
{
	const codelet_message &m = *e.m;
	const bool is_pair = e.path.ring == CODELET_PAIRS, is_counted = is_pair && !b.g->pairs;
	bool good = true;
	for (e.path.number = b.number; good && e.path.number < channels; e.path.number += b.blocks) {
		uint64_t granted = 0;
		e.piece = cut(m.bytes, CODELET_LINE, channels, e.path.number);
		if (is_pair && !m.sending)
			granted = grant_of_channel(*b.all, m, offer_of_message(*b.all, &m), e.path.number);
		else if (is_pair && !await_grant(*b.all, m, &e.path, &granted))
			return false;
		if (granted == CHANNEL_IS_READ)
			continue;
		e.to = slots_of_channel(e, granted);
		good = m.sending ? send_edge(&e) : warp_group_agrees(whole_block(), threadIdx.x || is_counted || check_count(&e)) && receive_edge(&e);
	}
	return good;
}

/* What a launch may hold: messages no longer than the rings hold; none that goes through slots; none that goes in lines; any. */
enum holds { SMALL, IN_LINES, LONG, ANY };

/* A message longer than the rings hold. Each block reads the grant of its first channel, which stays until that channel's data has come. */
template <holds HOLDS> __device__ static bool run_long(const list_block &b, edge e, uint32_t channels)
{
	const codelet_message &m = *e.m;
	uint64_t granted = 0;
	if (!m.sending) {
		granted = offer_of_message(*b.all, &m);
		if (!b.aborted)
			say_channels(channels, b.number, b.blocks, [&](uint32_t channel) { grant_channel(*b.all, m, granted, channel, e.path); });
	} else {
		if (HOLDS != IN_LINES && codelet_may_be_read(b.g, m.bytes) && !b.aborted)
			say_channels(channels, b.number, b.blocks, [&](uint32_t channel) { store_ref(*b.all, m, channel, e.path); });
		if (!await_grant(*b.all, m, &e.path, &granted))
			return false;
	}
	if (codelet_is_target(granted) && m.sending)
		return send_direct(&e, target_of(*b.all, granted, m.peer), b.blocks, channels);
	if (codelet_is_target(granted))
		return warp_group_agrees(whole_block(), threadIdx.x || b.number || check_count(&e)) && receive_direct(&e, b.blocks, channels);
	if (HOLDS == LONG || (HOLDS == ANY && !codelet_in_long_lines(b.g, m.bytes)))
		return run_slots(b, e, channels);
	if (m.sending) /* all have read the grant before a warp sends: behind the message's last line the receiver grants the next one */
		warp_group_sync(whole_block());
	return run_lines<true>({ b.g, &m, e.path, b.aborted }, channels, b.blocks);
}

/* ---- To and from other nodes --------------------------------------------------------------------------------- */

/* One chunk of a message after the other, numbered from the channel's last message on. */
__device__ static bool run_remote_channel(edge e, const remote_port &port, uint64_t number, uint64_t seen)
{
	const codelet_args &a = *e.a;
	const warp_group w = whole_block();
	const codelet_message &m = *e.m;
	const uint64_t chunks = messages_of_edge(e), typed_bytes = codelet_typed_bytes(&m);
	for (uint64_t c = 0; c < chunks; c++, number++) {
		const range r = message(e.piece, e.to.slot_bytes, c);
		const bool good = w.thread || (m.sending ? port.has_room(a, &e.path, m.peer, number, &seen) :
							    port.arrived(a, &e.path, m.peer, number) &&
								    port.agrees(a, e.path, m.peer, number, typed_bytes));
		if (!warp_group_agrees(w, good))
			return false;
		if (m.sending)
			copy(w, port.data(number), m.data + r.at, r.bytes, true);
		else
			copy(w, m.data + r.at, port.data(number), r.bytes, false);
		warp_group_sync(w);
		if (w.thread == 0 && m.sending)
			port.post({ number + 1, a.signature, typed_bytes, r.bytes });
		else if (w.thread == 0)
			port.take(number);
	}
	return true;
}

/* Up to 8 bytes at any address. */
__device__ static uint64_t load_piece(const unsigned char *from, int bytes)
{
	const vector v = load_user<true>(from, bytes < 8 ? (unsigned)bytes : 8);
	return (uint64_t)v.y << 32 | v.x;
}

/* A message of few bytes: the first warp; all threads learn how it went. */
__device__ static bool run_remote_few(edge e, const remote_port &port, uint64_t number, uint64_t seen)
{
	const codelet_message &m = *e.m;
	const int at = remote_data_of(), left = at < 0 ? 0 : (int)m.bytes - at;
	const uint64_t typed_bytes = codelet_typed_bytes(&m);
	uint64_t data = 0;
	bool good = true;
	if (threadIdx.x < 32 && m.sending) {
		data = left > 0 ? load_piece(m.data + at, left) : 0;
		good = __all_sync(~0u, threadIdx.x || port.has_room(*e.a, &e.path, m.peer, number, &seen));
		if (good)
			remote_send_few(port, number, e.a->signature, typed_bytes, (uint32_t)m.bytes, data);
	} else if (threadIdx.x < 32) {
		good = remote_receive_few(*e.a, &e.path, port, m.peer, number, typed_bytes, (uint32_t)m.bytes, &data);
		__syncwarp();
		if (good && threadIdx.x == 0)
			port.take_few(number);
		if (good && left > 0)
			store_user<true>(m.data + at, make_uint4((uint32_t)data, (uint32_t)(data >> 32), 0, 0),
					 left < 8 ? (unsigned)left : 8);
	}
	return warp_group_agrees(whole_block(), good);
}

__device__ static bool run_remote(const list_block &b, edge e)
{
	const codelet_message &m = *e.m;
	const remote_calls &calls = b.all->remote;
	const uint32_t channels = remote_channels_of(&calls.remote, m.bytes);
	const int peer = m.peer - e.a->ranks;
	const remote_direction direction = m.sending ? REMOTE_OUT : REMOTE_IN;
	e.to.slot_bytes = calls.remote.slots[REMOTE_OF_PAIRS].bytes;
	for (e.path.number = b.number; e.path.number < channels; e.path.number += b.blocks) {
		const uint32_t index = remote_index(e.path.number, REMOTE_PAIRS);
		uint64_t *count = remote_count(calls, peer, direction, index);
		const uint64_t number = *count, seen = sync_load_relaxed(&calls.counts->peers[peer].free[index]);
		const remote_port port = { &calls, remote_offset_of(calls, peer, direction, index), peer, index };
		e.piece = cut(m.bytes, CODELET_LINE, channels, e.path.number);
		if (!(m.bytes <= REMOTE_FEW_BYTES ? run_remote_few(e, port, number, seen) : run_remote_channel(e, port, number, seen)))
			return false;
		if (threadIdx.x == 0)
			*count = number + messages_of_edge(e);
	}
	__syncthreads();
	return true;
}

template <holds HOLDS, bool REMOTE = false> __device__ static bool run_message(const list_block &b, const codelet_message *m, const connection &conn)
{
	const uint32_t channels = codelet_channels(b.g, m->bytes);
	edge e = { &b.g->args, m, conn };
	if (m->from) {
		range run = cut(m->bytes, CODELET_LINE, b.blocks, b.number);
		if (m->data != m->from)
			copy(whole_block(), m->data + run.at, m->from + run.at, run.bytes, false);
		return true;
	}
	if (REMOTE && m->peer >= b.g->args.ranks)
		return run_remote(b, e);
	if (b.number >= channels)
		return true;
	if (m->sending)
		send_count(e);
	if (HOLDS == ANY && conn.ring != CODELET_PAIRS)
		return run_slots(b, e, channels);
	if (HOLDS != LONG && (HOLDS == SMALL || codelet_in_lines(b.g, m->bytes)))
		return run_lines<false, !REMOTE>({ b.g, m, conn, b.aborted }, channels, b.blocks);
	return run_long<HOLDS>(b, e, channels);
}

/* A list of sends to one rank, or of receives from one. After the block's last barrier only its first warp does anything. */
template <holds HOLDS, bool REMOTE = false> __device__ static bool run_pairs(const list_block &b, const codelet_message *m, connection conn)
{
	const bool counted = !m->from && !(REMOTE && m->peer >= b.g->args.ranks); /* connections between nodes count for themselves */
	uint64_t count = counted ? *pair_counter(b.g->args, *m, conn.number) : 0;
	for (bool more = true; more; m++) {
		more = m->more;
		conn.epoch = ++count;
		if (!run_message<HOLDS, REMOTE>(b, m, conn))
			return false;
	}
	__syncthreads();
	if (counted && threadIdx.x < 32)
		count_pair(b.g->args, m[-1], b.number, b.blocks, threadIdx.x, 32, count);
	return true;
}

/* One of a collective, whose count is the call's: the other end may take it for a message that goes through slots. */
template <bool REMOTE> __device__ static bool run_edge(const list_block &b, const codelet_message *m, const connection &call)
{
	edge e = { &b.g->args, m, call };
	if (!is_pair_of_call(*b.g, *m))
		return run_message<ANY, REMOTE>(b, m, call);
	if (m->sending)
		send_count(e);
	else if (!warp_group_agrees(whole_block(), threadIdx.x || b.number || check_count(&e)))
		return false;
	return run_pairs<ANY, REMOTE>(b, m, { 0, b.number, b.g->most_channels, CODELET_PAIRS });
}

/* Which list this block works on. */
__device__ static uint32_t list_of_block(const codelet_group &g, list_block *b)
{
	const uint32_t many = g.many_blocks * g.blocks;
	b->blocks = blockIdx.x < many ? g.blocks : 1;
	b->number = blockIdx.x < many ? blockIdx.x % g.blocks : 0;
	return blockIdx.x < many ? blockIdx.x / g.blocks : g.many_blocks + (blockIdx.x - many);
}

__device__ static connection connection_of_block(const list_block &b)
{
	return { 0, b.number, b.g->most_channels, CODELET_PAIRS };
}

/* Of pairs alone, for each kind of messages: a kernel needs the registers of the way that needs most. */
template <holds HOLDS> __global__ __launch_bounds__(CODELET_THREADS, 2) void pairs(const __grid_constant__ codelet_p2p e)
{
	sync_previous_kernel();
	list_block b = { &e.group, &e, 0, 0, messages_aborted(e.group.args) };
	const codelet_message *m = &e.messages[e.first[list_of_block(e.group, &b)]];
	if (run_pairs<HOLDS>(b, m, connection_of_block(b)))
		call_count(e.group.args);
}

/* REMOTE: some ranks are on other nodes. */
template <bool REMOTE> __global__ __launch_bounds__(CODELET_THREADS, 2) void p2p(const __grid_constant__ codelet_p2p e)
{
	sync_previous_kernel();
	if (REMOTE && !remote_begin_call(e.group.args, e.remote, remote_abort_word(e.group.args), e.begins))
		return;
	const codelet_group &g = e.group;
	list_block b = { &g, &e, 0, 0, messages_aborted(g.args) };
	const codelet_message *m = &e.messages[e.first[list_of_block(g, &b)]];
	connection conn = connection_of_block(b);
	bool good;
	if (g.pairs) {
		good = run_pairs<ANY, REMOTE>(b, m, conn);
	} else {
		conn.ring = CODELET_FIRST;
		conn.epoch = call_epoch(g.args);
		send_headers(g.args, conn.epoch);
		good = wait_headers(g.args, whole_block(), &conn) && run_edge<REMOTE>(b, m, conn);
	}
	if (REMOTE && good)
		remote_end_call(e.remote, e.ends);
	if (good && g.pairs)
		call_count(g.args);
	else if (good)
		call_end(g.args, conn.epoch);
}

__global__ __launch_bounds__(CODELET_THREADS) void p2p_few(const __grid_constant__ codelet_few_messages f)
{
	sync_previous_kernel();
	list_block b = { &f.group, nullptr, 0, 0, messages_aborted(f.group.args) };
	const codelet_message *m = &f.messages[list_of_block(f.group, &b)];
	if (run_pairs<SMALL>(b, m, connection_of_block(b)))
		call_count(f.group.args);
}

/* Whether all messages are few, small, and the only ones of their pairs; then into *few. */
static int are_few(const codelet_p2p *e, codelet_few_messages *few, uint64_t *most_bytes)
{
	*most_bytes = 0;
	if (e->remote.counts || !e->group.pairs || e->group.lists > CODELET_FEW_MESSAGES)
		return 0;
	few->group = e->group;
	for (int i = 0; i < e->group.lists; i++) {
		const codelet_message *m = &e->messages[e->first[i]];
		if (m->more || !codelet_in_lines(&e->group, m->bytes))
			return 0;
		few->messages[i] = *m;
		*most_bytes = m->bytes > *most_bytes ? m->bytes : *most_bytes;
	}
	return 1;
}

/* The kernel for what a launch holds; a sender does not know its receiver's buffer. */
static const void *kernel_for(const codelet_p2p *e)
{
	const codelet_group *g = &e->group;
	bool in_lines = false, in_slots = !g->pairs;
	if (e->remote.counts)
		return (const void *)p2p<true>;
	for (int i = 0; i < g->lists; i++) {
		const codelet_message *m = &e->messages[e->first[i]];
		do {
			bool fits = codelet_in_long_lines(g, m->bytes);
			in_lines |= fits && !m->from;
			in_slots |= !fits && !m->from;
		} while (m++->more);
	}
	return !in_slots ? (const void *)pairs<IN_LINES> : in_lines || !g->pairs ? (const void *)p2p<false> : (const void *)pairs<LONG>;
}

int codelets_p2p(const codelet_p2p *args, void *stream)
{
	const codelet_group *g = &args->group;
	struct grid grid = { codelet_group_blocks(g), CODELET_THREADS };
	codelet_few_messages few;
	uint64_t bytes;
	if (!are_few(args, &few, &bytes))
		return launch(kernel_for(args), grid, args, stream);
	for (grid.threads = 32; grid.threads < CODELET_THREADS && (uint64_t)grid.threads < codelet_line_slots(g, bytes) * 32;)
		grid.threads *= 2;
	return launch((const void *)p2p_few, grid, &few, stream);
}

int codelets_load_p2p(void)
{
	int error = load((const void *)p2p<false>);
	error = error ? error : load((const void *)p2p<true>);
	error = error ? error : load((const void *)pairs<IN_LINES>);
	error = error ? error : load((const void *)pairs<LONG>);
	return error ? error : load((const void *)p2p_few);
}
