/*
 * Lowered plans: one kernel for every plan (lib/plan/lower.h). A block runs one program of one channel: operation after
 * operation, each by all of its threads. The list and where its spans begin are brought into shared memory first, an operation a
 * thread, so an operation itself costs no division.
 *
 * A lane is a ring, a channel and an ordered pair of ranks. Large messages go through slots as in slot.cuh: message c of a call lies in
 * slot c mod the ring's depth. Small ones are packets that carry their readiness, as in packet.cuh: each message has a place of its own in
 * each of two halves, so nobody waits for room.
 */
#include <cuda_runtime.h>

#include "launch.cuh"
#include "packet.cuh"
#include "shared.cuh"
#include "slot_fold.cuh"

enum { LOWERED_THREADS = CODELET_THREADS };
static_assert((int)LOWERED_THREADS / 2 >= (int)CODELET_MAX_RANKS, "a thread for each peer in both halves of a block");
static_assert((int)CODELET_CREWS >= (int)PLAN_MAX_RINGS, "the flags of a broadcast's crews are those of the rings");

struct prepared {
	lowered_op op;
	lowered_slice src, dst;
};

struct block_state {
	prepared ops[CODELET_LOWERED_OPS];
	lowered_peer peers[CODELET_LOWERED_PEERS];
	uint32_t sent[PLAN_MAX_RINGS][CODELET_MAX_RANKS], received[PLAN_MAX_RINGS][CODELET_MAX_RANKS]; /* messages of this call */
	/* of an operation, in the order of its fold */
	const unsigned char *sources[CODELET_MAX_RANKS + 1];
	unsigned char *targets[CODELET_MAX_RANKS + 1];
	int nsources, ntargets, own; /* own: the source that is this rank's contribution, to be premultiplied; -1: none */
	uint32_t aligned; /* all addresses are multiples of 16 */
};

struct run {
	const codelet_lowered *a;
	block_state *s;
	uint64_t epoch;
	uint32_t channel;
	uint32_t over; /* the communicator had failed before: nothing that is waited for comes */
};

__device__ static inline lane lane_of(const run &r, uint32_t ring)
{
	return { r.epoch, r.channel, r.a->channels, (uint32_t)CODELET_DEALT + ring, 0 };
}

__device__ static inline unsigned char *slot_at(const run &r, uint32_t ring, int sender, int receiver, uint32_t message)
{
	const uint32_t depth = r.a->depth[ring];
	return slots_of(r.a->args, sender, receiver) +
	       (uint64_t)(r.a->ring_at[ring] + r.channel * depth + message % depth) * r.a->args.slot_bytes;
}

/* ---- Waits and signals: one thread a peer ------------------------------------------------------------------ */

/* The rank that this thread waits for, or -1: of ALL the others, and oneself for a token. */
__device__ static inline int heard_by_me(const run &r, const lowered_op &op)
{
	const int t = (int)threadIdx.x;
	if (t >= op.from_count)
		return -1;
	int peer = r.s->peers[op.from_first + t].rank;
	return (op.flags & LOWERED_ALL) && peer == r.a->args.rank ? -1 : peer;
}

__device__ static inline int told_by_me(const run &r, const lowered_op &op)
{
	const int t = (int)threadIdx.x - (int)blockDim.x / 2;
	return t >= 0 && t < op.to_count ? r.s->peers[op.to_first + t].rank : -1;
}

__device__ static bool message_came(const run &r, uint32_t ring, int peer, uint32_t message)
{
	lane l = lane_of(r, ring);
	const codelet_args &a = r.a->args;
	return wait_flag(a, &l, flag_of(a, l, peer, a.rank), flag_value(l, message), peer);
}

__device__ static bool room_is_free(const run &r, uint32_t ring, int peer, uint32_t message)
{
	lane l = lane_of(r, ring);
	const codelet_args &a = r.a->args;
	const uint32_t depth = r.a->depth[ring];
	return message < depth || wait_flag(a, &l, ack_of(a, l, a.rank, peer), flag_value(l, message - depth), peer);
}

/* What one thread does for an operation beside its data: it looks after one peer, or none. */
struct duty {
	int from, to; /* rank, or -1 */
	uint32_t message; /* its number in this call */
};

__device__ static inline duty duty_of(const run &r, const lowered_op &op)
{
	duty d = { heard_by_me(r, op), told_by_me(r, op), 0 };
	if (d.from >= 0)
		d.message = r.s->received[op.from_ring][d.from];
	else if (d.to >= 0)
		d.message = r.s->sent[op.to_ring][d.to];
	return d;
}

__device__ static inline bool await_peer(const run &r, const lowered_op &op, const duty &d)
{
	if (d.from >= 0)
		return message_came(r, op.from_ring, d.from, d.message);
	return d.to < 0 || room_is_free(r, op.to_ring, d.to, d.message);
}

/* Between the two barriers of an operation, when nobody reads the numbers. */
__device__ static inline void count_message(const run &r, const lowered_op &op, const duty &d)
{
	if (d.from >= 0)
		r.s->received[op.from_ring][d.from] = d.message + 1;
	else if (d.to >= 0)
		r.s->sent[op.to_ring][d.to] = d.message + 1;
}

__device__ static void signal_peer(const run &r, const lowered_op &op, const duty &d)
{
	const codelet_args &a = r.a->args;
	if (d.from >= 0) {
		const lane l = lane_of(r, op.from_ring);
		sync_store_release(ack_of(a, l, d.from, a.rank), flag_value(l, d.message));
	} else if (d.to >= 0) {
		const lane l = lane_of(r, op.to_ring);
		sync_store_release(flag_of(a, l, a.rank, d.to), flag_value(l, d.message));
	}
}

/* ---- Data -------------------------------------------------------------------------------------------------- */

__device__ static unsigned char *place_in(const run &r, const lowered_span &span, size_t at, uint32_t element)
{
	if (span.space == PLAN_SCRATCH)
		return r.a->scratch + (uint64_t)r.channel * r.a->scratch_bytes + at * element;
	return (span.space == PLAN_SEND ? (unsigned char *)r.a->args.send : r.a->args.recv) + at * element;
}

__device__ static void add_source(block_state *s, const unsigned char *from)
{
	s->sources[s->nsources++] = from;
	s->aligned &= ((uintptr_t)from & 15) == 0;
}

__device__ static void add_target(block_state *s, unsigned char *to)
{
	s->targets[s->ntargets++] = to;
	s->aligned &= ((uintptr_t)to & 15) == 0;
}

__device__ static void add_local(const run &r, const lowered_op &op, size_t at, uint32_t element)
{
	if (op.src.space == PLAN_SEND)
		r.s->own = r.s->nsources;
	add_source(r.s, place_in(r, op.src, at, element));
}

/* One thread: where the data of a MOVE come from and go to; a token carries none. */
__device__ static void list_data(const run &r, const lowered_op &op, size_t src, size_t dst, uint32_t element)
{
	block_state *s = r.s;
	const int me = r.a->args.rank;
	bool placed = !op.src.space;
	s->nsources = s->ntargets = 0;
	s->own = -1;
	s->aligned = 1;
	for (int i = 0; i < op.from_count; i++) {
		int peer = r.s->peers[op.from_first + i].rank;
		if (peer != me) {
			add_source(s, slot_at(r, op.from_ring, peer, me, s->received[op.from_ring][peer]));
		} else if (!placed) {
			add_local(r, op, src, element);
			placed = true;
		}
	}
	if (!placed)
		add_local(r, op, src, element);
	if (op.dst.space)
		add_target(s, place_in(r, op.dst, dst, element));
	for (int i = 0; i < op.to_count; i++) {
		int peer = r.s->peers[op.to_first + i].rank;
		if (peer != me)
			add_target(s, slot_at(r, op.to_ring, me, peer, s->sent[op.to_ring][peer]));
	}
}

__device__ static inline void store_all(const block_state *s, uint64_t at, vector v, unsigned n)
{
	for (int k = 0; k < s->ntargets; k++)
		if (s->aligned && n == 16)
			*(vector *)(s->targets[k] + at) = v;
		else
			store_user<true>(s->targets[k] + at, v, n);
}

/* The bits as they are, to all targets. */
__device__ static void copy_data(const block_state *s, uint64_t bytes)
{
	const unsigned char *from = s->sources[0];
	const uint32_t t = threadIdx.x, threads = blockDim.x;
	uint64_t at = 0;
	if (s->aligned) {
		const uint32_t vectors = (uint32_t)(bytes / 16);
		for (uint32_t first = t; first < vectors; first += IN_FLIGHT * threads) {
			vector v[IN_FLIGHT];
#pragma unroll
			for (uint32_t u = 0; u < IN_FLIGHT; u++)
				if (first + u * threads < vectors)
					v[u] = __ldcg((const vector *)from + first + u * threads);
			for (int k = 0; k < s->ntargets; k++)
#pragma unroll
				for (uint32_t u = 0; u < IN_FLIGHT; u++)
					if (first + u * threads < vectors)
						((vector *)s->targets[k])[first + u * threads] = v[u];
		}
		at = (uint64_t)vectors * 16;
	}
	for (at += t * 16; at < bytes; at += threads * 16) {
		const unsigned n = bytes - at < 16 ? (unsigned)(bytes - at) : 16;
		store_all(s, at, load_user<true>(from + at, n), n);
	}
}

/* One vector of source k. */
template <int TYPE> __device__ static inline vector load_source(const run &r, int k, uint64_t at, unsigned n)
{
	const unsigned char *from = r.s->sources[k] + at;
	vector v = r.s->aligned && n == 16 ? __ldcg((const vector *)from) : load_user<true>(from, n);
	return k == r.s->own && r.a->args.op == CORALE_NUM_OPS ? vector_premultiply<TYPE>(v, r.a->args.scalar) : v;
}

/* What finishes a fold: partial sums of an average are not divided. */
__device__ static inline int last_op(int op, bool final)
{
	return !final && op == CORALE_AVG ? (int)CORALE_SUM : op;
}

/* A fold in the order of the sources. */
template <int TYPE> __device__ static void fold_data(const run &r, uint64_t bytes, bool final)
{
	const int op = r.a->args.op, n = r.s->nsources, last = last_op(op, final);
	for (uint64_t at = threadIdx.x * 16; at < bytes; at += blockDim.x * 16) {
		const unsigned fill = bytes - at < 16 ? (unsigned)(bytes - at) : 16;
		vector_sum<TYPE> sum;
		for (int first = 0; first < n; first += BATCH) {
			vector v[BATCH];
#pragma unroll
			for (int k = 0; k < BATCH; k++)
				if (first + k < n)
					v[k] = load_source<TYPE>(r, first + k, at, fill);
#pragma unroll
			for (int k = 0; k < BATCH; k++) {
				if (first + k == 0)
					sum.start(v[k]);
				else if (first + k < n)
					sum.add(v[k], op);
			}
		}
		store_all(r.s, at, sum.finish(last, r.a->args.ranks), fill);
	}
}

/* One input alone keeps its bits, unless the operator multiplies or divides it. */
__device__ static inline bool needs_fold(const codelet_args &a, const lowered_op &op, int sources, bool own_alone)
{
	const bool divides = op.flags & PLAN_FINAL && a.op == CORALE_AVG && a.ranks > 1;
	return sources > 1 || divides || (own_alone && a.op == CORALE_NUM_OPS);
}

template <int TYPE> __device__ static void move_data(const run &r, const lowered_op &op, uint64_t bytes)
{
	const block_state *s = r.s;
	if (needs_fold(r.a->args, op, s->nsources, s->own == 0))
		fold_data<TYPE>(r, bytes, op.flags & PLAN_FINAL);
	else if (s->nsources && (s->ntargets > 1 || s->sources[0] != s->targets[0])) /* not all in place */
		copy_data(s, bytes);
}

/* ---- Packets ------------------------------------------------------------------------------------------------ */

/* The two forms, told apart at run time: lines of packet.cuh, or two words {4 bytes of data, flag} a packet. */
struct packet_form {
	bool words;
	uint32_t flag, other; /* what a packet says: of a line epoch and tag, of words the epoch twice, the second time with its high bits */

	__device__ uint32_t at(uint32_t i) const
	{
		return words ? i * 8 : lines::at(i);
	}
	__device__ uint32_t fill(uint32_t i, uint32_t bytes) const
	{
		uint32_t left = at(i) < bytes ? bytes - at(i) : 0, most = words ? 8 : lines::most(i);
		return left < most ? left : most;
	}
	/* An empty message has one line. */
	__device__ uint32_t packets(uint32_t bytes) const
	{
		uint32_t n = words ? (bytes + 7) / 8 : lines::slots(bytes);
		return n < 8 ? 8 : n;
	}
	__device__ vector pack(vector v, uint32_t i) const
	{
		if (words)
			return make_uint4(v.x, flag, v.y, other);
		return i % 8 == 7 ? make_uint4(v.x, v.y, flag, other) : v;
	}
	__device__ bool ready(vector v, uint32_t i) const
	{
		return words ? v.y == flag && v.w == other : i % 8 != 7 || (v.z == flag && v.w == other);
	}
	__device__ vector data(vector v) const
	{
		return words ? make_uint4(v.x, v.z, 0, 0) : v;
	}
};

__device__ static inline packet_form form_of_call(const run &r)
{
	const bool words = r.a->form == CODELET_LL;
	return { words, (uint32_t)r.epoch, words ? (uint32_t)(r.epoch ^ r.epoch >> 32) : r.a->args.tag };
}

__device__ static inline unsigned char *packets_at(const run &r, uint32_t ring, int sender, int receiver, uint32_t message)
{
	return packets_of(r.a->args, sender, receiver, r.epoch & 1) +
	       (uint64_t)(r.a->ring_at[ring] + r.channel * r.a->depth[ring] + message) * r.a->args.slot_bytes;
}

/* An operation whose messages are packets; its local spans, or NULL. */
struct packet_op {
	const lowered_op *op;
	const unsigned char *src;
	unsigned char *dst;
	uint32_t bytes;
	packet_form form;
	bool multiplies; /* src */
};

template <int TYPE> __device__ static inline vector load_local(const run &r, const packet_op &p, uint32_t i)
{
	vector v = load_user<true>(p.src + p.form.at(i), p.form.fill(i, p.bytes));
	return p.multiplies ? vector_premultiply<TYPE>(v, r.a->args.scalar) : v;
}

/* Packet i of the messages of peers first, first + 1, ... of an operation; mine is where this rank's own span stands among them, or -1. */
__device__ static __forceinline__ bool take_packets(const run &r, const packet_op &p, int first, bool wanted, uint32_t i, vector got[BATCH],
						    int *mine)
{
	const codelet_args &a = r.a->args;
	const lowered_op &op = *p.op;
	unsigned mask = 0;
	const unsigned char *at[BATCH];
	*mine = -1;
#pragma unroll
	for (int k = 0; k < BATCH; k++) {
		if (first + k >= op.from_count)
			continue;
		const lowered_peer peer = r.s->peers[op.from_first + first + k];
		if (peer.rank == a.rank) {
			*mine = k;
			continue;
		}
		at[k] = packets_at(r, op.from_ring, peer.rank, a.rank, peer.number) + i * 16;
		mask |= (unsigned)wanted << k;
	}
	auto look = [&] {
		unsigned lacking = r.over != 0;
#pragma unroll
		for (int k = 0; k < BATCH; k++)
			if (mask >> k & 1)
				got[k] = sync_load_packet(at[k]);
#pragma unroll
		for (int k = 0; k < BATCH; k++)
			if ((mask >> k & 1) && !p.form.ready(got[k], i))
				lacking |= 1u << k;
		return lacking;
	};
	if (!await(a, r.epoch, look, [&](int k) { return r.s->peers[op.from_first + first + k].rank; }))
		return false;
#pragma unroll
	for (int k = 0; k < BATCH; k++)
		got[k] = p.form.data(got[k]);
	return true;
}

/* The fold, or the one source, of packet i; the whole warp together. False if the call has failed. */
template <int TYPE>
__device__ static __forceinline__ bool gather_packet(const run &r, const packet_op &p, bool folds, bool wanted, uint32_t i, vector *out)
{
	const codelet_args &a = r.a->args;
	vector_sum<TYPE> sum;
	bool begun = false, placed = !p.src;
	auto add = [&](vector v) {
		if (!folds)
			*out = v;
		else if (begun)
			sum.add(v, a.op);
		else
			sum.start(v);
		begun = true;
	};
	for (int first = 0; first < p.op->from_count; first += BATCH) {
		vector got[BATCH];
		int mine;
		if (!take_packets(r, p, first, wanted, i, got, &mine))
			return false;
#pragma unroll
		for (int k = 0; k < BATCH; k++) {
			if (first + k >= p.op->from_count || (k == mine && placed))
				continue;
			placed = placed || k == mine;
			add(k == mine ? load_local<TYPE>(r, p, i) : got[k]);
		}
	}
	if (!placed)
		add(load_local<TYPE>(r, p, i));
	if (folds)
		*out = sum.finish(last_op(a.op, p.op->flags & PLAN_FINAL), a.ranks);
	return true;
}

template <int TYPE> __device__ static bool exchange_packets(const run &r, const packet_op &p, int sources)
{
	const codelet_args &a = r.a->args;
	const lowered_op &op = *p.op;
	const bool folds = needs_fold(a, op, sources, p.multiplies && sources == 1);
	const uint32_t packets = p.form.packets(p.bytes), end = whole_warps(packets);
	for (uint32_t i = threadIdx.x; i < end; i += blockDim.x) {
		const bool wanted = i < packets;
		vector v = make_uint4(0, 0, 0, 0);
		if (!gather_packet<TYPE>(r, p, folds, wanted, i, &v))
			return false;
		if (p.dst && wanted)
			store_user<true>(p.dst + p.form.at(i), v, p.form.fill(i, p.bytes));
		__syncwarp(); /* the lanes of a line store it together */
		for (int k = 0; wanted && k < op.to_count; k++) {
			const lowered_peer to = r.s->peers[op.to_first + k];
			sync_store_packet(packets_at(r, op.to_ring, a.rank, to.rank, to.number) + i * 16, p.form.pack(v, i));
		}
	}
	return true;
}

/* All threads; false if the call has failed. */
template <int TYPE> __device__ static bool execute_packets(const run &r, const prepared &p)
{
	const lowered_op &op = p.op;
	const uint32_t element = (uint32_t)vector_element_bytes(TYPE);
	size_t src, dst;
	const ptrdiff_t in = lowered_piece(&r.a->call, &op.src, &p.src, 0, &src),
			out = lowered_piece(&r.a->call, &op.dst, &p.dst, 0, &dst);
	if (in < 0 || out < 0)
		return true;
	const packet_op o = { &op,
			      op.src.space ? place_in(r, op.src, src, element) : nullptr,
			      op.dst.space ? place_in(r, op.dst, dst, element) : nullptr,
			      (uint32_t)(op.src.space ? in : out) * element,
			      form_of_call(r),
			      op.src.space == PLAN_SEND && r.a->args.op == CORALE_NUM_OPS };
	const int heard = op.from_count - ((op.flags & LOWERED_ALL) != 0);
	/* what an operation stores is loaded by the next one in other threads */
	return __syncthreads_and(exchange_packets<TYPE>(r, o, heard + (op.src.space != PLAN_NOWHERE)));
}

/* ---- Operations --------------------------------------------------------------------------------------------- */

/* All threads; false if the call has failed. */
template <int TYPE> __device__ static bool execute(const run &r, const prepared &p, int trip)
{
	const lowered_op &op = p.op;
	const uint32_t element = (uint32_t)vector_element_bytes(TYPE);
	size_t src, dst;
	const ptrdiff_t in = lowered_piece(&r.a->call, &op.src, &p.src, trip, &src),
			out = lowered_piece(&r.a->call, &op.dst, &p.dst, trip, &dst);
	if (in < 0 || out < 0) /* the same for all threads */
		return true;
	const size_t count = (size_t)(op.src.space ? in : out);
	const duty d = duty_of(r, op);
	const bool good = await_peer(r, op, d), moves = op.op == PLAN_MOVE && count;
	if (moves && threadIdx.x == blockDim.x / 2 - 1)
		list_data(r, op, src, dst, element);
	if (!__syncthreads_and(good))
		return false;
	count_message(r, op, d);
	if (moves)
		move_data<TYPE>(r, op, (uint64_t)count * element);
	__syncthreads();
	signal_peer(r, op, d);
	return true;
}

/* Loops over chunks do not nest. */
template <int TYPE> __device__ static bool execute_all(const run &r, int nops)
{
	int trip = 0, trips = 0, body = 0;
	for (int pc = 0; pc < nops;) {
		const prepared &p = r.s->ops[pc++];
		if (p.op.op == PLAN_LOOP) {
			trips = lowered_count_trips(&r.a->call, &p.op);
			trip = 0;
			body = pc;
			while (trips <= 0 && r.s->ops[pc].op.op != PLAN_END)
				pc++;
		} else if (p.op.op == PLAN_END) {
			if (++trip < trips)
				pc = body;
			else
				trip = 0;
		} else if (r.a->form == CODELET_FIFO ? !execute<TYPE>(r, p, trip) : !execute_packets<TYPE>(r, p)) {
			return false;
		}
	}
	return true;
}

/* The list of this block's program into shared memory; how many operations it has. */
__device__ static int prepare(const codelet_lowered &a, block_state *s, uint32_t program, uint32_t channel)
{
	const int first = a.first[program], n = a.first[program + 1] - first;
	for (int i = (int)threadIdx.x; i < n; i += (int)blockDim.x) {
		s->ops[i].op = a.ops[first + i];
		lowered_cut(&a.call, &s->ops[i].op.src, (int)channel, &s->ops[i].src);
		lowered_cut(&a.call, &s->ops[i].op.dst, (int)channel, &s->ops[i].dst);
	}
	for (int i = (int)threadIdx.x; i < a.npeers; i += (int)blockDim.x)
		s->peers[i] = a.peers[i];
	for (int i = (int)threadIdx.x; i < (int)(PLAN_MAX_RINGS * CODELET_MAX_RANKS); i += (int)blockDim.x)
		(&s->sent[0][0])[i] = (&s->received[0][0])[i] = 0;
	return n;
}

template <int TYPE> __global__ __launch_bounds__(LOWERED_THREADS, 1) void lowered(const __grid_constant__ codelet_lowered a)
{
	block_state *s = shared_object<block_state>();
	const uint32_t program = blockIdx.x / a.channels, channel = blockIdx.x % a.channels;
	const int nops = prepare(a, s, program, channel);
	sync_previous_kernel();
	const uint64_t epoch = call_epoch(a.args);
	const run r = { &a, s, epoch, channel, call_over(a.args) };
	lane first = { epoch, blockIdx.x, gridDim.x, CODELET_FIRST, 0 };
	send_headers(a.args, epoch);
	/* No slot is filled before its owner has made the call: he may still use it for another one. Words don't carry the signature. Lines do:
	 * of them the block that ends the call hears of all ranks last. */
	bool good = a.form == CODELET_LL128 || hear_all(a.args, whole_block(), &first);
	if (a.form == CODELET_LL128)
		__syncthreads();
	good = good && execute_all<TYPE>(r, nops);
	if (a.form == CODELET_LL128)
		good = good && await_headers(a.args, epoch);
	if (__syncthreads_and(good))
		call_end(a.args, epoch);
}

typedef void (*kernel)(codelet_lowered);

static const kernel rows[CORALE_NUM_TYPES] = {
	lowered<CORALE_INT8>,	 lowered<CORALE_UINT8>,	  lowered<CORALE_INT32>,       lowered<CORALE_UINT32>,
	lowered<CORALE_INT64>,	 lowered<CORALE_UINT64>,  lowered<CORALE_FLOAT16>,     lowered<CORALE_BFLOAT16>,
	lowered<CORALE_FLOAT32>, lowered<CORALE_FLOAT64>, lowered<CORALE_FLOAT8_E4M3>, lowered<CORALE_FLOAT8_E5M2>,
};

int codelets_lowered(const codelet_lowered *args, int blocks, int type, void *stream)
{
	return launch((const void *)rows[type], { blocks, LOWERED_THREADS }, args, stream);
}

int codelets_load_lowered(void)
{
	int error = 0;
	for (const kernel row : rows)
		error = error ? error : load((const void *)row);
	return error;
}
