/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Folds through slots (bulk.cuh): reduce_scatter by one exchange; all_reduce and reduce by two. One team of a block scatters, one folds what has come for
 * this rank, in rank order, and sends the result on, and one gathers the results of the others.
 */
#include <cuda_runtime.h>

#include "launch.cuh"
#include "bulk_parts.cuh"
#include "zero_copy.cuh"

enum { BATCH = 4 }; /* ranks whose vectors a thread loads at a time */

/* Vectors of each rank that a lane loads before it folds the first: sums of 8-bit floats take many registers. */
template <int TYPE> static constexpr int folded_together = vector_is_float<TYPE> && vector_element_bytes<TYPE> == 1 ? 1 : 2;

/* Whether a rank has a part. */
__device__ static inline bool owns(const codelet_args &a, int rank)
{
	return (rank == a.root) == root_folds(a);
}

/* Whether the result of one rank goes to another one. */
__device__ static inline bool is_result_edge(const codelet_args &a, int from, int to)
{
	const bool wanted = a.root < 0 ? !a.send_block : to == a.root;
	return owns(a, from) && wanted && from != to;
}

/* Of a reduce: the owners' results go through the root's slots, wherever they read. */
__device__ static inline bool folds_for_root(const codelet_args &a)
{
	return a.root >= 0 && !root_folds(a);
}

/* What a rank has for another one, into a slot. */
template <int TYPE>
__device__ static void put_input(const codelet_args &a, const warp_group &w, unsigned char *to, const unsigned char *from, uint64_t bytes)
{
	if (a.op != CORALE_NUM_OPS) {
		copy<BULK_IN_FLIGHT>(w, to, from, bytes, true);
		return;
	}
	for (uint64_t at = w.thread * 16; at < bytes; at += w.threads * 16) {
		unsigned n = bytes - at < 16 ? (unsigned)(bytes - at) : 16;
		*(vector *)(to + at) = premultiply<TYPE>(a, load_user<true>(from + at, n));
	}
}

template <int TYPE> __device__ static bool scatter(const codelet_args &a, const bulk_team &t, const bulk_call *b)
{
	return bulk_scatter(a, t, b, false, [&](int to) { return owns(a, to) && to != a.rank; }, [&](int to, uint32_t m, const range &part) {
		put_input<TYPE>(a, t.workers, bulk_slot_there(a, b, 0, to, m), a.send + part.at, part.bytes);
	});
}

/* ---- The fold of a message ---------------------------------------------------------------------------------- */

enum : uint64_t { NOWHERE = ~(uint64_t)0 };
enum { MOST_FOLDED = 1 << 30 /* bytes of a message of what is read in place */ };

/* A message of every rank. */
struct inputs {
	const unsigned char *own, *others; /* others: in rank order, */
	uint64_t stride; /* so many bytes from each other */
};

/*
 * What the workers fold, and where the result goes: into recv, unless that is NULL, and to the peers, so far behind their receive buffers' begin or their first slots, unless
 * that is NOWHERE. in.others is NULL where the ranks' buffers are read in place.
 */
struct folded {
	inputs in;
	unsigned char *to;
	uint64_t there, bytes;
	uint32_t summed; /* bytes that sum_in_place has done */
	warp_group w;
};

__device__ static inline const unsigned char *input_of(const codelet_args &a, const bulk_call *b, const inputs &in, int rank)
{
	if (!in.others)
		return b->send[rank] + (in.own - a.send);
	return rank == a.rank ? in.own : in.others + codelet_index(rank, a.rank) * in.stride;
}

/*
 * Beside fold_ranks, which folds one vector: arrays of them that its functions would pass on spill ten times as much. Vectors at `at`, `apart` bytes further on and so on, that begin before `end`, of all ranks in their order. OP: what add() does, known here, so that no lane decides it for each vector; own_scalar: of a
 * premultiplied sum.
 */
template <int TYPE, int OP>
__device__ static inline void fold_together(const codelet_args &a, const bulk_call *b, const inputs &in, uint64_t at, uint64_t end, uint32_t apart,
					    uint64_t own_scalar, vector *result)
{
	constexpr int N = folded_together<TYPE>;
	vector_sum<TYPE> sum[N] = {};
	for (int first = 0; first < a.ranks; first += BATCH) {
		vector v[BATCH][N];
#pragma unroll
		for (int k = 0; k < BATCH; k++) {
			const int rank = first + k;
			const unsigned char *from = rank < a.ranks ? input_of(a, b, in, rank) : nullptr;
#pragma unroll
			for (int u = 0; u < N; u++)
				if (rank < a.ranks && at + u * apart < end)
					v[k][u] = __ldcg((const vector *)(from + at + u * apart));
		}
#pragma unroll
		for (int k = 0; k < BATCH; k++)
#pragma unroll
			for (int u = 0; u < N; u++) {
				if (OP == CORALE_NUM_OPS && first + k == a.rank)
					v[k][u] = vector_premultiply<TYPE>(v[k][u], own_scalar);
				if (first + k == 0)
					sum[u].start(v[k][u]);
				else if (first + k < a.ranks)
					sum[u].add(v[k][u], OP);
			}
	}
#pragma unroll
	for (int u = 0; u < N; u++)
		result[u] = sum[u].finish(a.op, a.ranks);
}

/* What lies so far behind the begin of a rank's receive buffer, or of its slots for this rank's results. */
__device__ static inline unsigned char *result_at(const codelet_args &a, const bulk_call *b, int to, uint64_t there)
{
	return (a.peers ? recv_address(a, to, 0) : b->peers[to].slots[1]) + there;
}

/* Calls store(address) for each rank that gets the result, so far behind its begin. */
template <class Store> __device__ static inline void send_on(const codelet_args &a, const bulk_call *b, const folded &d, uint64_t at, Store store)
{
	for (int k = 1; d.there != NOWHERE && k < a.ranks; k++) {
		const int to = peer_after(a, k);
		if (is_result_edge(a, a.rank, to))
			store(result_at(a, b, to, d.there + at));
	}
}

/* Whole vectors, from `begin` on. */
template <int TYPE, int OP>
__device__ static void fold_vectors(const codelet_args &a, const bulk_call *b, const folded &d, uint64_t begin, uint64_t bytes)
{
	constexpr int N = folded_together<TYPE>;
	const uint32_t apart = d.w.threads * 16;
	const uint64_t scalar = OP == CORALE_NUM_OPS ? scalar_of<TYPE>(a) : 0;
	for (uint64_t at = begin + d.w.thread * 16; at < bytes; at += N * apart) {
		vector v[N];
		fold_together<TYPE, OP>(a, b, d.in, at, bytes, apart, scalar, v);
		auto store = [&](unsigned char *to) {
#pragma unroll
			for (int u = 0; u < N; u++)
				if (at + u * apart < bytes)
					*(vector *)(to + u * apart) = v[u];
		};
		send_on(a, b, d, at, store);
		if (d.to)
			store(d.to + at);
	}
}

/* Where the result goes for a rank: NULL if nowhere. */
__device__ static inline unsigned char *result_target(const codelet_args &a, const bulk_call *b, const folded &d, int to)
{
	if (to == a.rank)
		return d.to;
	return d.there != NOWHERE && to < a.ranks && is_result_edge(a, a.rank, to) ? result_at(a, b, to, d.there) : nullptr;
}

/*
 * Most of a message's whole vectors where they are summed, of at most RANKS ranks. A warp takes N vectors a lane at a time, which lie one behind the other, so that
 * one address a rank serves all of them: addresses in memory, as fold_together has, cost a third of the bandwidth. Returns how many bytes are done.
 */
template <int TYPE, int OP, int RANKS, int N>
__device__ static inline uint32_t sum_few(const codelet_args &a, const bulk_call *b, const folded &d, uint64_t bytes)
{
	const uint32_t apart = d.w.threads * N * 16, whole = (uint32_t)bytes / apart * apart, first = (d.w.thread / 32 * N * 32 + d.w.thread % 32) * 16;
	const unsigned char *from[RANKS];
	unsigned char *to[RANKS];
#pragma unroll
	for (int k = 0; k < RANKS; k++) {
		from[k] = k < a.ranks ? input_of(a, b, d.in, k) : nullptr;
		to[k] = result_target(a, b, d, k);
	}
	for (uint32_t at = first; at < whole; at += apart) {
		vector v[RANKS][N];
#pragma unroll
		for (int k = 0; k < RANKS; k++)
#pragma unroll
			for (int u = 0; u < N; u++)
				if (k < 2 || k < a.ranks)
					v[k][u] = __ldcg((const vector *)(from[k] + at) + u * 32);
		vector result[N];
#pragma unroll
		for (int u = 0; u < N; u++) {
			vector_sum<TYPE> sum;
			sum.start(v[0][u]);
#pragma unroll
			for (int k = 1; k < RANKS; k++)
				if (k < 2 || k < a.ranks)
					sum.add(v[k][u], CORALE_SUM);
			result[u] = sum.finish(OP, a.ranks);
		}
#pragma unroll
		for (int k = 0; k < RANKS; k++)
#pragma unroll
			for (int u = 0; u < N; u++)
				if (to[k])
					((vector *)(to[k] + at))[u * 32] = result[u];
	}
	return whole;
}

/* OP: a sum, or their average. */
template <int TYPE, int OP> __device__ static inline uint32_t sum_of_few(const codelet_args &a, const bulk_call *b, const folded &d, uint64_t bytes)
{
	constexpr int N = folded_together<TYPE>;
	if (a.ranks == 2)
		return sum_few<TYPE, OP, 2, 2 * N>(a, b, d, bytes);
	return a.ranks <= BATCH ? sum_few<TYPE, OP, BATCH, N>(a, b, d, bytes) : 0;
}

/* What training calls: sums of all types, and averages of floats. */
template <int TYPE> __device__ static inline bool is_fast(const codelet_args &a)
{
	return a.op == CORALE_SUM || (vector_is_float<TYPE> && a.op == CORALE_AVG);
}

template <int TYPE> __device__ static inline uint32_t sum_fast(const codelet_args &a, const bulk_call *b, const folded &d, uint64_t bytes)
{
	if (!d.in.others && d.there == NOWHERE)
		return d.summed;
	if (a.op == CORALE_SUM)
		return sum_of_few<TYPE, CORALE_SUM>(a, b, d, bytes);
	return vector_is_float<TYPE> && a.op == CORALE_AVG ? sum_of_few<TYPE, CORALE_AVG>(a, b, d, bytes) : 0;
}

template <int TYPE> __device__ static void fold_aligned(const codelet_args &a, const bulk_call *b, const folded &d, uint64_t bytes)
{
	switch (a.op) {
	case CORALE_PROD:
		return fold_vectors<TYPE, CORALE_PROD>(a, b, d, 0, bytes);
	case CORALE_MIN:
		return fold_vectors<TYPE, CORALE_MIN>(a, b, d, 0, bytes);
	case CORALE_MAX:
		return fold_vectors<TYPE, CORALE_MAX>(a, b, d, 0, bytes);
	case CORALE_MIN | CODELET_UNSIGNED:
		return fold_vectors<TYPE, CORALE_MIN | (vector_shares_kernels<TYPE> ? (int)CODELET_UNSIGNED : 0)>(a, b, d, 0, bytes);
	case CORALE_MAX | CODELET_UNSIGNED:
		return fold_vectors<TYPE, CORALE_MAX | (vector_shares_kernels<TYPE> ? (int)CODELET_UNSIGNED : 0)>(a, b, d, 0, bytes);
	case CORALE_NUM_OPS:
		return fold_vectors<TYPE, CORALE_NUM_OPS>(a, b, d, 0, bytes);
	default:
		return fold_vectors<TYPE, CORALE_SUM>(a, b, d, sum_fast<TYPE>(a, b, d, bytes), bytes);
	}
}

/* One vector of all ranks; so many of its bytes are there. Slots are aligned, and hold whole vectors. */
template <int TYPE>
__device__ static __forceinline__ vector fold_any_vector(const codelet_args &a, const bulk_call *b, const inputs &in, uint64_t at, unsigned n)
{
	vector_sum<TYPE> sum;
	auto load = [&](int rank) {
		const unsigned char *from = input_of(a, b, in, rank) + at;
		if (in.others && rank != a.rank)
			return __ldcg((const vector *)from);
		const vector v = load_user<true>(from, n);
		return a.op == CORALE_NUM_OPS && rank == a.rank ? premultiply<TYPE>(a, v) : v;
	};
	fold_ranks<BATCH>(&sum, a.ranks, a.op, load);
	return sum.finish(a.op, a.ranks);
}

/* Any address and operator. */
template <int TYPE> __device__ static __noinline__ void fold_rest(const codelet_args &a, const bulk_call *b, const folded &d, uint64_t done)
{
	for (uint64_t at = done + d.w.thread * 16; at < d.bytes; at += d.w.threads * 16) {
		const unsigned n = d.bytes - at < 16 ? (unsigned)(d.bytes - at) : 16;
		const vector v = fold_any_vector<TYPE>(a, b, d.in, at, n);
		send_on(a, b, d, at, [&](unsigned char *to) { store_user<true>(to, v, a.peers ? n : 16); });
		if (d.to)
			store_user<true>(d.to + at, v, n);
	}
}

/* What vectors are loaded from and the result is stored to is aligned for them; slots are. */
__device__ static inline bool is_aligned(const codelet_args &a, const bulk_call *b, const folded &d)
{
	uintptr_t all = (uintptr_t)d.to | (uintptr_t)d.in.own;
	for (int rank = 0; !d.in.others && rank < a.ranks; rank++)
		all |= (uintptr_t)input_of(a, b, d.in, rank);
	return !(all & 15);
}

/* Where this rank has the result of a piece of its part. */
__device__ static inline unsigned char *result_of(const codelet_args &a, const range &part)
{
	return a.recv + (a.send_block ? part.at - (uint64_t)a.rank * a.send_block : part.at);
}

template <int TYPE> __device__ static void fold_message(const codelet_args &a, const bulk_team &t, const bulk_call *b, uint32_t m)
{
	const bool in_place = b->form == ZERO_COPY_IN_PLACE;
	const range part = message(b->peers[a.rank].part, b->message_bytes, m);
	unsigned char *to = result_of(a, part);
	const uint64_t there = a.peers ? part.at : (uint64_t)(m % a.depth) * a.slot_bytes;
	const folded d = { { a.send + part.at, in_place ? nullptr : bulk_slot_here(a, b, 0, a.rank ? 0 : 1, m), a.area_bytes },
			   a.root < 0 || a.rank == a.root ? to : nullptr,
			   in_place && !folds_for_root(a) ? (uint64_t)NOWHERE : there,
			   part.bytes,
			   m ? 0 : b->summed,
			   t.workers };
	const uint64_t whole = is_aligned(a, b, d) ? part.bytes / 16 * 16 : 0;
	fold_aligned<TYPE>(a, b, d, whole);
	fold_rest<TYPE>(a, b, d, whole);
}

/* ---- Teams -------------------------------------------------------------------------------------------------- */

template <int TYPE> __device__ static bool fold(const codelet_args &a, const bulk_team &t, const bulk_call *b)
{
	const bool by_slots = b->form == ZERO_COPY_SLOTS, sends_on = !a.send_block && (by_slots || folds_for_root(a));
	auto others = [&](int rank) { return rank != a.rank; };
	auto wanting = [&](int to) { return is_result_edge(a, a.rank, to); };
	uint64_t here = 0, room = 0;
	auto ready = [&](uint32_t m) {
		return (!by_slots || bulk_wait_data(a, b, 0, m, &here, others)) && bulk_wait_room(a, b, 1, m, &room, a.peers || !sends_on, wanting);
	};
	return !owns(a, a.rank) || bulk_each(
					   b, t, ready, [&](uint32_t m) { fold_message<TYPE>(a, t, b, m); },
					   [&](uint32_t m) {
						   if (by_slots)
							   bulk_signal_taken(a, b, 0, m, others);
						   if (sends_on)
							   bulk_signal_data(a, b, 1, m, wanting);
					   });
}

__device__ static bool gather(const codelet_args &a, const bulk_team &t, const bulk_call *b)
{
	return bulk_gather(a, t, b, [&](int from) { return is_result_edge(a, from, a.rank); });
}

template <int TYPE> __device__ static bool run_warp(const codelet_args &a, const bulk_call *b)
{
	const bool in_place = b->form == ZERO_COPY_IN_PLACE, two = in_place ? folds_for_root(a) : !a.send_block; /* exchanges */
	const uint32_t warp = threadIdx.x / 32, warps = blockDim.x / 32;
	uint32_t scatterers = two ? (warps + 1) * 3 / 10 : warps * 2 / 5, folders = two ? (warps + 1) * 9 / 20 : warps - scatterers;
	if (root_folds(a) || in_place) {
		scatterers = owns(a, a.rank) || in_place ? 0 : warps;
		folders = owns(a, a.rank) ? warps : 0;
	}
	if (warp < scatterers)
		return scatter<TYPE>(a, bulk_team_of(0, scatterers, true, 1), b);
	if (warp < scatterers + folders)
		return fold<TYPE>(a, bulk_team_of(scatterers, folders, two, 2), b);
	return gather(a, bulk_team_of(scatterers + folders, warps - scatterers - folders, false, 3), b);
}

/* ---- In place ------------------------------------------------------------------------------------------------- */

/*
 * Most of what is summed of so many ranks, N vectors a thread at a time, which lie one behind the other for a warp, so one address a rank serves all of them. A function of its own,
 * which is called where few registers are held, so that all are for what it loads over a link: where ptxas spills some of that, it waits for it before the next load.
 */
template <int TYPE, int RANKS, int N> __device__ static __noinline__ uint32_t sum_buffers(const bulk_call *b, uint64_t part, unsigned char *to, uint32_t bytes, int op)
{
	const uint32_t apart = blockDim.x * N * 16, whole = bytes / apart * apart;
	const unsigned char *from[RANKS];
#pragma unroll
	for (int k = 0; k < RANKS; k++)
		from[k] = b->send[k] + part;
	for (uint32_t at = (threadIdx.x / 32 * N * 32 + threadIdx.x % 32) * 16; at < whole; at += apart) {
		vector v[N][RANKS];
#pragma unroll
		for (int u = 0; u < N; u++)
#pragma unroll
			for (int k = 0; k < RANKS; k++)
				v[u][k] = sync_load_packet(from[k] + at + u * 512);
#pragma unroll
		for (int u = 0; u < N; u++) {
			vector_sum<TYPE> sum;
			sum.start(v[u][0]);
#pragma unroll
			for (int k = 1; k < RANKS; k++)
				sum.add(v[u][k], CORALE_SUM);
			*(vector *)(to + at + u * 512) = sum.finish(op, RANKS);
		}
	}
	return whole;
}

/* All threads of a block, of a part that this rank owns and keeps: how many bytes of its first message are done. */
template <int TYPE> __device__ static inline uint32_t sum_in_place(const codelet_args &a, const bulk_call *b)
{
	const range part = message(b->peers[a.rank].part, MOST_FOLDED, 0);
	unsigned char *to = result_of(a, part);
	uintptr_t all = (uintptr_t)to | part.at;
	for (int rank = 0; rank < a.ranks; rank++)
		all |= (uintptr_t)b->send[rank];
	if (all & 15 || !is_fast<TYPE>(a))
		return 0;
	switch (a.ranks) {
	case 2:
		return sum_buffers<TYPE, 2, 7>(b, part.at, to, (uint32_t)part.bytes, a.op);
	case 3:
		return sum_buffers<TYPE, 3, 4>(b, part.at, to, (uint32_t)part.bytes, a.op);
	case 4:
		return sum_buffers<TYPE, 4, 3>(b, part.at, to, (uint32_t)part.bytes, a.op);
	case 8:
		return sum_buffers<TYPE, 8, 1>(b, part.at, to, (uint32_t)part.bytes, a.op);
	default:
		return 0;
	}
}

/* All get the parts that their owners have folded. */
__device__ static inline bool shares_parts(const codelet_args &a)
{
	return a.root < 0 && !a.send_block;
}

/* Where no message goes through slots its bytes are as many as can be. */
__device__ static inline uint32_t bytes_of_message(const codelet_args &a, bool in_place)
{
	return in_place && !folds_for_root(a) ? (uint32_t)MOST_FOLDED : a.slot_bytes;
}

/* All threads of a block, which have folded. */
__device__ static bool finish_in_place(const codelet_args &a, const bulk_call *b)
{
	if (shares_parts(a)) {
		if (!zero_copy_meet<false>(a, b, 0))
			return false;
		zero_copy_fetch_parts(a, b);
	}
	return zero_copy_meet<true>(a, b, 1);
}

template <int TYPE> __global__ __launch_bounds__(CODELET_BULK_THREADS, 1) void bulk_reduce(const __grid_constant__ codelet_args a)
{
	sync_previous_kernel();
	auto begin = [&](bulk_call *b, const bulk_channel &c, bool in_place) { bulk_begin_parts(a, b, c, bytes_of_message(a, in_place), true); };
	zero_copy_run(a, begin, [&](bulk_call *b) {
		const bool sums = b->form == ZERO_COPY_IN_PLACE && owns(a, a.rank) && !folds_for_root(a);
		const uint32_t summed = sums ? sum_in_place<TYPE>(a, b) : 0;
		if (threadIdx.x == 0)
			b->summed = summed;
		__syncthreads();
		const bool good = __syncthreads_and(run_warp<TYPE>(a, b));
		return good && (b->form != ZERO_COPY_IN_PLACE || finish_in_place(a, b));
	}, no_rest{});
}

typedef void (*kernel)(codelet_args);

static constexpr auto rows = vector_table_of<kernel>([](auto type) { return bulk_reduce<type.value>; });

int codelets_bulk_reduce(const codelet_args *args, struct grid grid, int type, void *stream)
{
	return launch((const void *)rows[type], grid, args, stream);
}

int codelets_load_bulk_reduce(void)
{
	return load_all(rows);
}
