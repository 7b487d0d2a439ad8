/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lowered plans of small calls: messages are packets that carry their readiness, as in packet.cuh, with a place for each message of a call in
 * each of two halves. So nobody waits for room, and nothing but the data is sent. A block runs one program of one channel.
 */
#include <cuda_runtime.h>

#include "launch.cuh"
#include "lowered.cuh"
#include "packet.cuh"
#include "shared.cuh"

enum { BATCH = 4 /* packets that a thread waits for at a time */, TINY_THREADS = 320 };

/* The forms, distinguished at run time: lines of packet.cuh, two words {4 bytes of data, flag} a packet, or (far) data alone, behind a packet that is two words without data. */
struct packet_form {
	bool words, far;
	uint32_t flag, other; /* what a packet says: of a line epoch and tag; of words the epoch twice, the second time with its high bits and the tag */

	__device__ uint32_t at(uint32_t i) const
	{
		return far ? i * 16 : words ? i * 8 : lines::at(i);
	}
	__device__ uint32_t fill(uint32_t i, uint32_t bytes) const
	{
		uint32_t left = at(i) < bytes ? bytes - at(i) : 0, most = far ? 16 : words ? 8 : lines::most(i);
		return left < most ? left : most;
	}
	/* An empty message has one line, or one packet. */
	__device__ uint32_t packets(uint32_t bytes) const
	{
		const uint32_t n = far ? (bytes + 15) / 16 : words ? (bytes + 7) / 8 : lines::packets(bytes), least = far || words ? 1 : 8;
		return n < least ? least : n;
	}
	__device__ vector pack(vector v, uint32_t i) const
	{
		if (far)
			return v;
		if (words)
			return make_uint4(v.x, flag, v.y, other);
		return i % 8 == 7 ? make_uint4(v.x, v.y, flag, other) : v;
	}
	__device__ bool ready(vector v, uint32_t i) const
	{
		return far || (words ? v.y == flag && v.w == other : i % 8 != 7 || (v.z == flag && v.w == other));
	}
	__device__ vector data(vector v) const
	{
		return words && !far ? make_uint4(v.x, v.z, 0, 0) : v;
	}
};

/* ---- Operations: each in one go, as every loop over chunks runs once ----------------------------------------- */

/* One operation, resolved when the kernel starts. */
struct packet_op {
	const unsigned char *src; /* this rank's own spans, or NULL */
	unsigned char *dst;
	uint32_t bytes;
	uint16_t from_first, to_first, from_count, to_count; /* among the peers */
	uint8_t from_queue, to_queue;
	bool runs, folds, multiplies; /* multiplies: what is loaded from src, by the operator's scalar */
	int8_t last; /* the operator that finishes a fold */
};

struct packets_state {
	packet_op ops[CODELET_LOWERED_OPS];
	lowered_peer peers[CODELET_LOWERED_PEERS];
};

struct packets_run {
	const codelet_lowered &a;
	const packets_state *s;
	packet_form form;
	uint64_t epoch;
	uint32_t channel;
	uint32_t aborted; /* the communicator had failed before: nothing that is waited for comes */
};

__device__ static inline unsigned char *packets_at(const packets_run &r, uint32_t ring, int sender, int receiver, uint32_t message)
{
	return packets_of(r.a.args, sender, receiver, r.epoch & 1) +
	       (uint64_t)(r.a.ring_at[ring] + r.channel * r.a.depth[ring] + message) * r.a.args.slot_bytes;
}

template <int TYPE> __device__ static inline vector load_local(const packets_run &r, const packet_op &p, uint32_t i)
{
	vector v = load_user<true>(p.src + r.form.at(i), r.form.fill(i, p.bytes));
	return p.multiplies ? premultiply<TYPE>(r.a.args, v) : v;
}

/* Packet i of the messages of peers first, first + 1, ... of an operation; mine is where this rank's own span stands among them, or -1. */
__device__ static __forceinline__ bool take_packets(const packets_run &r, const packet_op &p, int first, bool wanted, uint32_t i, vector got[BATCH],
						    int *mine)
{
	const codelet_args &a = r.a.args;
	const lowered_peer *peers = r.s->peers + p.from_first + first;
	unsigned mask = 0;
	const unsigned char *at[BATCH];
	*mine = -1;
#pragma unroll
	for (int k = 0; k < BATCH; k++) {
		if (first + k >= p.from_count)
			continue;
		if (peers[k].rank == a.rank) {
			*mine = k;
			continue;
		}
		at[k] = packets_at(r, p.from_queue, peers[k].rank, a.rank, peers[k].number) + i * 16;
		mask |= (unsigned)wanted << k;
	}
	auto look = [&] {
		unsigned lacking = r.aborted != 0;
#pragma unroll
		for (int k = 0; k < BATCH; k++)
			if (mask >> k & 1)
				got[k] = sync_load_packet(at[k]);
#pragma unroll
		for (int k = 0; k < BATCH; k++)
			if ((mask >> k & 1) && !r.form.ready(got[k], i))
				lacking |= 1u << k;
		return lacking;
	};
	if (!await(a, r.epoch, look, [&](int k) { return peers[k].rank; }))
		return false;
#pragma unroll
	for (int k = 0; k < BATCH; k++)
		got[k] = r.form.data(got[k]);
	return true;
}

/* The fold, or the one source, of packet i; the whole warp together. False if the call has failed. Not by fold_ranks: where the own span stands among
 * the sources shows when the list is read. */
template <int TYPE> __device__ static __forceinline__ bool gather_packet(const packets_run &r, const packet_op &p, bool wanted, uint32_t i, vector *out)
{
	vector_sum<TYPE> sum;
	bool begun = false, placed = !p.src;
	auto add = [&](vector v) {
		if (!p.folds)
			*out = v;
		else if (begun)
			sum.add(v, r.a.args.op);
		else
			sum.start(v);
		begun = true;
	};
	for (int first = 0; first < p.from_count; first += BATCH) {
		vector got[BATCH];
		int mine;
		if (!take_packets(r, p, first, wanted, i, got, &mine))
			return false;
#pragma unroll
		for (int k = 0; k < BATCH; k++) {
			if (first + k >= p.from_count || (k == mine && placed))
				continue;
			placed = placed || k == mine;
			add(k == mine ? load_local<TYPE>(r, p, i) : got[k]);
		}
	}
	if (!placed)
		add(load_local<TYPE>(r, p, i));
	if (p.folds)
		*out = sum.finish(p.last, r.a.world);
	return true;
}

/* ---- One flag a message: in a slot's last packet ---------------------------------------------------------------- */

__device__ static inline unsigned char *flag_at(const packets_run &r, uint32_t ring, int sender, int receiver, uint32_t message)
{
	return packets_at(r, ring, sender, receiver, message) + r.a.args.slot_bytes - 16;
}

/* All threads: the first warp waits for an operation's messages, a lane a message. */
__device__ static bool await_flags(const packets_run &r, const packet_op &p)
{
	const codelet_args &a = r.a.args;
	bool good = true;
	for (uint32_t first = 0; threadIdx.x < 32 && good && first < p.from_count; first += 32) {
		const uint32_t k = first + threadIdx.x;
		const lowered_peer peer = k < p.from_count ? r.s->peers[p.from_first + k] : lowered_peer{};
		const bool waits = k < p.from_count && peer.rank != a.rank;
		auto missing = [&] {
			const vector v = waits ? sync_load_packet(flag_at(r, p.from_queue, peer.rank, a.rank, peer.number)) : make_uint4(0, 0, 0, 0);
			return (unsigned)(r.aborted || (waits && (v.y != r.form.flag || v.w != r.form.other)));
		};
		good = await(a, r.epoch, missing, [&](int) { return (int)peer.rank; });
	}
	if (threadIdx.x < 32)
		sync_fence();
	return __syncthreads_and(good);
}

/* All threads: after the stores of all. */
__device__ static void send_flags(const packets_run &r, const packet_op &p)
{
	__syncthreads();
	for (uint32_t k = threadIdx.x; k < p.to_count; k += blockDim.x) {
		const lowered_peer to = r.s->peers[p.to_first + k];
		sync_fence();
		sync_store_packet(flag_at(r, p.to_queue, r.a.args.rank, to.rank, to.number), make_uint4(0, r.form.flag, 0, r.form.other));
	}
}

template <int TYPE> __device__ static bool execute(const packets_run &r, const packet_op &p)
{
	const codelet_args &a = r.a.args;
	const uint32_t packets = r.form.packets(p.bytes), end = whole_warps(packets);
	if (r.form.far && !await_flags(r, p))
		return false;
	for (uint32_t i = threadIdx.x; i < end; i += blockDim.x) {
		const bool wanted = i < packets;
		vector v = make_uint4(0, 0, 0, 0);
		if (!gather_packet<TYPE>(r, p, wanted, i, &v))
			return false;
		__syncwarp(); /* the lanes of a line store it together */
		for (int k = 0; wanted && k < p.to_count; k++) {
			const lowered_peer to = r.s->peers[p.to_first + k];
			sync_store_packet(packets_at(r, p.to_queue, a.rank, to.rank, to.number) + i * 16, r.form.pack(v, i));
		}
		if (p.dst && wanted)
			store_user<true>(p.dst + r.form.at(i), v, r.form.fill(i, p.bytes));
	}
	if (r.form.far)
		send_flags(r, p);
	return true;
}

/* ---- The list ----------------------------------------------------------------------------------------------- */

__device__ static packet_op resolve(const codelet_lowered &a, const lowered_op &op, uint32_t channel, uint32_t element)
{
	lowered_slice from, to;
	size_t src = 0, dst = 0;
	packet_op p = {};
	if (op.op == PLAN_LOOP || op.op == PLAN_END)
		return p;
	lowered_cut(&a.call, &op.src, (int)channel, &from);
	lowered_cut(&a.call, &op.dst, (int)channel, &to);
	const ptrdiff_t in = lowered_piece(&a.call, &op.src, &from, 0, &src), out = lowered_piece(&a.call, &op.dst, &to, 0, &dst);
	const int sources = op.from_count - ((op.flags & LOWERED_ALL) != 0) + (op.src.space != PLAN_NOWHERE);
	p.runs = in >= 0 && out >= 0;
	p.bytes = (uint32_t)(op.src.space ? in : out) * element;
	p.src = op.src.space ? lowered_address(a, channel, op.src, src, element) : nullptr;
	p.dst = op.dst.space ? lowered_address(a, channel, op.dst, dst, element) : nullptr;
	p.multiplies = op.src.space == PLAN_SEND && a.args.op == CORALE_NUM_OPS;
	p.folds = lowered_folds<true>(a, op, sources, p.multiplies && sources == 1);
	p.last = (int8_t)lowered_last_op<true>(a.args.op, op);
	p.from_first = op.from_first;
	p.to_first = op.to_first;
	p.from_count = op.from_count;
	p.to_count = op.to_count;
	p.from_queue = op.from_queue;
	p.to_queue = op.to_queue;
	return p;
}

template <int TYPE> __global__ __launch_bounds__(LOWERED_THREADS, 1) void lowered_packets(const __grid_constant__ codelet_lowered a)
{
	packets_state *s = shared_object<packets_state>();
	const uint32_t program = blockIdx.x / a.channels, channel = blockIdx.x % a.channels;
	const int begin = a.first[program], nops = a.first[program + 1] - begin;
	const bool words = a.form != LOWERED_LL128;
	for (int i = (int)threadIdx.x; i < nops; i += (int)blockDim.x)
		s->ops[i] = resolve(a, a.ops[begin + i], channel, (uint32_t)vector_element_bytes<TYPE>);
	for (int i = (int)threadIdx.x; i < a.npeers; i += (int)blockDim.x)
		s->peers[i] = a.peers[i];
	sync_previous_kernel();
	/* One tiny block more does not keep out what this one waits for: several, or before this line, kernel after kernel would. */
	if (gridDim.x == 1 && blockDim.x <= TINY_THREADS)
		sync_next_kernel();
	const uint64_t epoch = call_epoch(a.args);
	const uint32_t aborted = kernel_aborted(a.args);
	if (!a.all_receive_from_all) /* a rank knows of all others by what it receives, or by headers */
		send_headers(a.args, epoch);
	const packet_form form = { words, a.form == LOWERED_FAR, (uint32_t)epoch, words ? (uint32_t)(epoch ^ epoch >> 32) ^ a.args.tag : a.args.tag };
	const packets_run r = { a, s, form, epoch, channel, aborted };
	bool good = true;
	__syncthreads(); /* the list is here */
	for (int i = 0; good && i < nops; i++) /* what one stores is loaded by the next one in other threads */
		good = !s->ops[i].runs || __syncthreads_and(execute<TYPE>(r, s->ops[i]));
	if (!a.receives_from_all)
		good = good && await_headers<false, true>(a.args, epoch);
	if (__syncthreads_and(good))
		call_end(a.args, epoch);
}

typedef void (*kernel)(codelet_lowered);

static constexpr auto rows = vector_table_of<kernel>([](auto type) { return lowered_packets<type.value>; });

int codelets_lowered_packets(const codelet_lowered *args, int blocks, int type, void *stream)
{
	return launch((const void *)rows[type], { blocks, (int)args->threads }, args, stream);
}

int lowered_load_packets(void)
{
	return load_all(rows);
}
