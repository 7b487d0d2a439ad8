/*
 * Messages between pairs of ranks: all_to_all_v, through slots, and groups of sends and receives, into what receivers grant
 * (grants.cuh). Every list of messages has blocks of its own on both ends, so that no edge waits for another. A block runs a
 * message's lanes in their order, then the next message's: of all that two ranks have not ended the first is under way on both,
 * however many blocks each has for it.
 */
#include <cuda_runtime.h>

#include "grants.cuh"
#include "launch.cuh"
#include "pair_lines.cuh"
#include "slot.cuh"

/* Where a lane's data goes: slots in turn, or the places of a buffer one behind the other. */
struct place {
	unsigned char *begin;
	uint32_t slot_bytes, slots; /* slots: ALL of a buffer */
};

enum : uint32_t { ALL = UINT32_MAX };

struct edge {
	const codelet_args *a;
	const codelet_message *m;
	lane path;
	range piece; /* of the message, for this lane */
	place to;
};

__device__ static unsigned char *slot_of_edge(const edge &e, uint32_t c)
{
	return e.to.begin + (uint64_t)(c % e.to.slots) * e.to.slot_bytes;
}

/* Through this lane; 1 at least. */
__device__ static uint32_t messages_of_edge(const edge &e)
{
	uint64_t n = (e.piece.bytes + e.to.slot_bytes - 1) / e.to.slot_bytes;
	return n ? (uint32_t)n : 1;
}

/*
 * A sender ends when all is taken out, as what comes next may cut the slots in another way. Not where they were granted: then it
 * ends when its count of bytes was looked at, which the first lane's first acknowledgement tells, as the next count takes its place.
 */
__device__ static bool await_end(edge *e, const uint64_t *ack)
{
	const bool granted = e->path.ring == CODELET_PAIRS;
	if (granted && e->path.number)
		return true;
	return wait_one(*e->a, whole_block(), &e->path, ack, granted ? 0 : messages_of_edge(*e) - 1, e->m->peer);
}

__device__ static bool send_edge(edge *e)
{
	const codelet_args &a = *e->a;
	const crew w = whole_block();
	const int to = e->m->peer;
	uint64_t *flag = flag_of(a, e->path, a.rank, to), *ack = ack_of(a, e->path, a.rank, to);
	const uint32_t messages = messages_of_edge(*e);
	for (uint32_t c = 0; c < messages; c++) {
		range r = message(e->piece, e->to.slot_bytes, c);
		if (c >= e->to.slots && !wait_one(a, w, &e->path, ack, c - e->to.slots, to))
			return false;
		copy(w, slot_of_edge(*e, c), e->m->data + r.at, r.bytes, e->to.slots != ALL);
		tell_one(w, e->path, flag, c);
	}
	return await_end(e, ack);
}

__device__ static bool receive_edge(edge *e)
{
	const codelet_args &a = *e->a;
	const crew w = whole_block();
	const int from = e->m->peer;
	const uint64_t *flag = flag_of(a, e->path, from, a.rank);
	uint64_t *ack = ack_of(a, e->path, from, a.rank);
	if (e->to.slots == ALL) {
		if (e->path.number == 0) /* whose sender waits until its count is looked at */
			tell_one(w, e->path, ack, 0);
		return wait_one(a, w, &e->path, flag, messages_of_edge(*e) - 1, from);
	}
	const uint32_t messages = messages_of_edge(*e);
	for (uint32_t c = 0; c < messages; c++) {
		range r = message(e->piece, e->to.slot_bytes, c);
		if (!wait_one(a, w, &e->path, flag, c, from))
			return false;
		copy(w, e->m->data + r.at, slot_of_edge(*e, c), r.bytes, false);
		tell_one(w, e->path, ack, c);
	}
	return true;
}

/* ---- Counts of an edge ----------------------------------------------------------------------------------- */

/* The second packet of a header line holds the bytes of one edge; its epoch is the lane's. */
__device__ static void send_count(const edge &e)
{
	const codelet_args &a = *e.a;
	if (e.path.number || threadIdx.x)
		return;
	vector packet = make_uint4((uint32_t)e.m->bytes, (uint32_t)e.path.epoch, (uint32_t)(e.m->bytes >> 32),
				   (uint32_t)e.path.epoch);
	sync_store_packet((unsigned char *)header_of(a, a.rank, e.m->peer, e.path.ring == CODELET_PAIRS) + 16, packet);
}

__device__ static bool check_count(edge *e)
{
	const codelet_args &a = *e->a;
	int from = e->m->peer;
	for (uint32_t spins = 1;; spins++) {
		vector h = sync_load_packet((unsigned char *)header_of(a, from, a.rank, e->path.ring == CODELET_PAIRS) + 16);
		uint64_t bytes = (uint64_t)h.z << 32 | h.x;
		int32_t ahead = (int32_t)(h.y - (uint32_t)e->path.epoch);
		if (ahead > 0 && e->path.number) /* the first lane has checked this one, and the sender went on */
			return true;
		if (ahead >= 0 && h.w == h.y) { /* ahead: it was sent in lines, as fewer bytes */
			bool same = ahead == 0 && bytes == e->m->bytes;
			if (!same)
				call_fail(a, CORALE_EMISMATCH, from, e->path.epoch, e->m->bytes, bytes);
			return same;
		}
		const bool headers = e->path.ring != CODELET_PAIRS;
		if (spins % CALL_SPINS_PER_LOOK || !call_look(a, spins, &e->path.start, e->path.epoch, headers))
			continue;
		call_explain(a, from, e->path.epoch, headers);
		return false;
	}
}

/* ---- Kernels --------------------------------------------------------------------------------------------- */

__device__ static void copy_own(const codelet_message &m, range piece)
{
	if (m.data != m.from)
		copy(whole_block(), m.data + piece.at, m.from + piece.at, piece.bytes, false);
}

/* Whether a message goes where its receiver says. */
__device__ static bool is_granted(const codelet_group &g, const codelet_message &m)
{
	return g.pairs && !m.from && !codelet_in_lines(&g, m.bytes);
}

/* What the host said of a message that is received here. */
__device__ static uint64_t place_of_message(const codelet_edges &all, const codelet_message *m)
{
	return all.places[m - all.messages];
}

/* What a grant says; receiver: whose it is. */
__device__ static place place_of_grant(const codelet_edges &all, uint64_t granted, int receiver, uint64_t at)
{
	const codelet_args &a = all.group.args;
	const uint32_t region = (uint32_t)(granted >> CODELET_TARGET_SHIFT);
	if (!region)
		return { window_of(a, receiver) + a.area + (uint64_t)(uint32_t)granted * CODELET_LINE,
			 (uint32_t)(granted >> 32) * CODELET_LINE, a.depth };
	/* regions may be younger than this kernel */
	const uint64_t *memory = (const uint64_t *)(all.regions + ((region - 1) * (uint32_t)a.ranks + (uint32_t)receiver));
	uint64_t offset = granted - ((uint64_t)region << CODELET_TARGET_SHIFT);
	return { (unsigned char *)sync_load_relaxed(memory) + offset + at, CODELET_WHOLE_PIECE, ALL };
}

__device__ static bool find_place(const codelet_edges &all, edge *e)
{
	const codelet_message &m = *e->m;
	const int sender = m.sending ? e->a->rank : m.peer, receiver = m.sending ? m.peer : e->a->rank;
	uint64_t granted;
	if (!is_granted(all.group, m)) { /* an all_to_all_v, in which each sender has slots of its own */
		e->to = { slot_of(*e->a, e->path, sender, receiver, 0), e->a->slot_bytes, e->a->depth };
		return true;
	}
	if (!m.sending)
		granted = place_of_lane(all, place_of_message(all, &m), e->path.number);
	else if (!await_grant(all, m, &e->path, &granted))
		return false;
	e->to = place_of_grant(all, granted, receiver, e->piece.at);
	return true;
}

/* all: NULL if all that is sent and received goes in lines. */
template <bool SMALL>
__device__ static bool run_lane(const codelet_group &g, const codelet_edges *all, const codelet_message *m, uint32_t lanes, lane l)
{
	edge e = { &g.args, m, l, cut(m->bytes, CODELET_LINE, lanes, l.number) };
	if (m->from) {
		copy_own(*m, e.piece);
		return true;
	}
	if (m->sending)
		send_count(e);
	if (SMALL || codelet_in_lines(&g, m->bytes))
		return run_lines({ &g, m, l, lanes, 0 });
	if (!find_place(*all, &e))
		return false;
	if (m->sending)
		return send_edge(&e);
	return crew_agrees(whole_block(), threadIdx.x || check_count(&e)) && receive_edge(&e);
}

template <bool SMALL>
__device__ static bool run_message(const codelet_group &g, const codelet_edges *all, const codelet_message *m, lane l)
{
	const uint32_t lanes = codelet_lanes(&g, m->bytes);
	bool good = true;
	if (!SMALL && !m->sending && is_granted(g, *m))
		grant_lanes(*all, *m, place_of_message(*all, m), lanes, l);
	for (; good && l.number < lanes; l.number += g.blocks)
		good = run_lane<SMALL>(g, all, m, lanes, l);
	return good;
}

/* The counter of a pair and direction, as this lane keeps it. */
__device__ static uint64_t *pair_counter(const codelet_args &a, const codelet_message &m, uint32_t lane)
{
	codelet_state *s = a.state;
	return m.sending ? &s->pair_sent[lane][m.peer] : &s->pair_received[lane][m.peer];
}

/* For all lanes of this block. */
__device__ static void count_pair(const codelet_group &g, const codelet_message &m, uint32_t number, uint64_t count)
{
	__syncthreads();
	for (uint32_t lane = number + threadIdx.x * g.blocks; lane < CODELET_LANES; lane += blockDim.x * g.blocks)
		*pair_counter(g.args, m, lane) = count;
}

/* A list of sends to one rank, or of receives from one. */
__device__ static bool run_pairs(const codelet_edges &e, uint32_t first, lane l)
{
	const codelet_message *m = &e.messages[first];
	if (m->from)
		return run_message<false>(e.group, &e, m, l);
	uint64_t count = *pair_counter(e.group.args, *m, l.number);
	for (bool more = true; more; m++) {
		more = m->more;
		l.epoch = ++count;
		if (!run_message<false>(e.group, &e, m, l))
			return false;
	}
	count_pair(e.group, m[-1], l.number, count);
	return true;
}

__global__ __launch_bounds__(CODELET_THREADS, 2) void edges(const __grid_constant__ codelet_edges e)
{
	sync_previous_kernel();
	const codelet_group &g = e.group;
	const uint32_t list = blockIdx.x / g.blocks;
	lane l = { 0, blockIdx.x % g.blocks, g.most_lanes, CODELET_PAIRS, 0 };
	if (g.pairs) {
		run_pairs(e, e.first[list], l);
		return;
	}
	l.ring = CODELET_FIRST;
	l.epoch = call_epoch(g.args);
	send_headers(g.args, l.epoch);
	if (!hear_all(g.args, whole_block(), &l) || !run_message<false>(g, &e, &e.messages[e.first[list]], l))
		return;
	call_end(g.args, l.epoch);
}

__global__ __launch_bounds__(CODELET_THREADS) void few_lines(const __grid_constant__ codelet_few f)
{
	sync_previous_kernel();
	const codelet_group &g = f.group;
	const codelet_message &m = f.messages[blockIdx.x / g.blocks];
	lane l = { 0, blockIdx.x % g.blocks, g.most_lanes, CODELET_PAIRS, 0 };
	if (!m.from)
		l.epoch = *pair_counter(g.args, m, l.number) + 1;
	if (run_message<true>(g, nullptr, &m, l) && !m.from)
		count_pair(g, m, l.number, l.epoch);
}

/* Whether all messages are few, small, and the only ones of their pairs; then into *few. */
static int are_few(const codelet_edges *e, codelet_few *few, uint64_t *most_bytes)
{
	*most_bytes = 0;
	if (!e->group.pairs || e->group.lists > CODELET_FEW)
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

int codelets_edges(const codelet_edges *args, void *stream)
{
	codelet_shape shape = { args->group.lists * args->group.blocks, CODELET_THREADS };
	codelet_few few;
	uint64_t bytes;
	if (!are_few(args, &few, &bytes))
		return launch((const void *)edges, shape, args, stream);
	for (shape.threads = 32; shape.threads < CODELET_THREADS && (uint64_t)shape.threads < codelet_lines(bytes) * 8;)
		shape.threads *= 2;
	return launch((const void *)few_lines, shape, &few, stream);
}

int codelets_load_edges(void)
{
	int error = load((const void *)edges);
	return error ? error : load((const void *)few_lines);
}
