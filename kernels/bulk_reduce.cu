/*
 * Folds by few CUDA blocks (bulk.cuh): reduce_scatter by one exchange; all_reduce and reduce by two. One team of a block scatters, one folds what has come for
 * this rank, in rank order, and sends the result on, and one gathers the results of the others.
 */
#include <cuda_runtime.h>

#include "launch.cuh"
#include "bulk_parts.cuh"
#include "fifo_reduce.cuh"

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

template <int TYPE> __device__ static bool scatter(const codelet_args &a, const bulk_team &t, const bulk_call *b)
{
	return bulk_scatter(a, t, b, false, [&](int to) { return owns(a, to) && to != a.rank; }, [&](int to, uint32_t m, const range &part) {
		put_input<TYPE, BULK_IN_FLIGHT>(a, t.workers, bulk_slot_there(a, b, 0, to, m), a.send + part.at, part.bytes);
	});
}

/* ---- The fold of a message ---------------------------------------------------------------------------------- */

/* What the workers fold, and where the result goes: into recv, unless that is NULL, and to the peers, so far behind their receive buffers' begin or their first slots. */
struct folded {
	inputs in;
	unsigned char *to;
	uint64_t there, bytes;
	warp_group w;
};

/*
 * Beside fold_ranks, which folds one vector: arrays of them that its functions would pass on spill ten times as much. Vectors at `at`, `apart` bytes further on and so on, that begin before `end`, of all ranks in their order. OP: what add() does, known here, so that no lane decides it for each vector; own_scalar: of a
 * premultiplied sum.
 */
template <int TYPE, int OP> __device__ static inline void fold_together(const codelet_args &a, const inputs &in, uint64_t at, uint64_t end, uint32_t apart, uint64_t own_scalar, vector *result)
{
	constexpr int N = folded_together<TYPE>;
	vector_sum<TYPE> sum[N] = {};
	for (int first = 0; first < a.ranks; first += BATCH) {
		vector v[BATCH][N];
#pragma unroll
		for (int k = 0; k < BATCH; k++) {
			const int rank = first + k;
			const unsigned char *from = rank == a.rank ? in.own : in.others + codelet_index(rank, a.rank) * in.stride;
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

/* Calls store(address) for each rank that gets the result. */
template <class Store> __device__ static inline void send_on(const codelet_args &a, const bulk_call *b, uint64_t there, Store store)
{
	for (int k = 1; k < a.ranks; k++) {
		const int to = peer_after(a, k);
		if (is_result_edge(a, a.rank, to))
			store(result_at(a, b, to, there));
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
		fold_together<TYPE, OP>(a, d.in, at, bytes, apart, scalar, v);
		auto store = [&](unsigned char *to) {
#pragma unroll
			for (int u = 0; u < N; u++)
				if (at + u * apart < bytes)
					*(vector *)(to + u * apart) = v[u];
		};
		send_on(a, b, d.there + at, store);
		if (d.to)
			store(d.to + at);
	}
}

/* Where the result goes for a rank: NULL if nowhere. */
__device__ static inline unsigned char *result_target(const codelet_args &a, const bulk_call *b, const folded &d, int to)
{
	if (to == a.rank)
		return d.to;
	return to < a.ranks && is_result_edge(a, a.rank, to) ? result_at(a, b, to, d.there) : nullptr;
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
		from[k] = k == a.rank ? d.in.own : d.in.others + codelet_index(k, a.rank) * d.in.stride;
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
template <int TYPE> __device__ static inline uint32_t sum_fast(const codelet_args &a, const bulk_call *b, const folded &d, uint64_t bytes)
{
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

/* Any address and operator. */
template <int TYPE> __device__ static __noinline__ void fold_rest(const codelet_args &a, const bulk_call *b, const folded &d, uint64_t done)
{
	for (uint64_t at = done + d.w.thread * 16; at < d.bytes; at += d.w.threads * 16) {
		const unsigned n = d.bytes - at < 16 ? (unsigned)(d.bytes - at) : 16;
		const vector v = fold_vector<TYPE>(a, d.in, at, n);
		send_on(a, b, d.there + at, [&](unsigned char *to) { store_user<true>(to, v, a.peers ? n : 16); });
		if (d.to)
			store_user<true>(d.to + at, v, n);
	}
}

template <int TYPE> __device__ static void fold_message(const codelet_args &a, const bulk_team &t, const bulk_call *b, uint32_t m)
{
	const range part = bulk_message(a, b->peers[a.rank].part, m);
	unsigned char *to = a.recv + (a.send_block ? part.at - (uint64_t)a.rank * a.send_block : part.at);
	const folded d = { { a.send + part.at, bulk_slot_here(a, b, 0, a.rank ? 0 : 1, m), a.area_bytes },
			   a.root < 0 || a.rank == a.root ? to : nullptr,
			   a.peers ? part.at : (uint64_t)(m % a.depth) * a.slot_bytes,
			   part.bytes,
			   t.workers };
	const bool aligned = !(((uintptr_t)d.in.own | (uintptr_t)d.to) & 15);
	const uint64_t whole = aligned ? part.bytes / 16 * 16 : 0;
	fold_aligned<TYPE>(a, b, d, whole);
	fold_rest<TYPE>(a, b, d, whole);
}

/* ---- Teams -------------------------------------------------------------------------------------------------- */

template <int TYPE> __device__ static bool fold(const codelet_args &a, const bulk_team &t, const bulk_call *b)
{
	auto others = [&](int rank) { return rank != a.rank; };
	auto wanting = [&](int to) { return is_result_edge(a, a.rank, to); };
	uint64_t here = 0, room = 0;
	auto ready = [&](uint32_t m) { return bulk_wait_data(a, b, 0, m, &here, others) && bulk_wait_room(a, b, 1, m, &room, a.peers, wanting); };
	return !owns(a, a.rank) || bulk_each(b, t, ready, [&](uint32_t m) { fold_message<TYPE>(a, t, b, m); }, [&](uint32_t m) {
		       bulk_signal_taken(a, b, 0, m, others);
		       if (!a.send_block)
			       bulk_signal_data(a, b, 1, m, wanting);
	       });
}

__device__ static bool gather(const codelet_args &a, const bulk_team &t, const bulk_call *b)
{
	return bulk_gather(a, t, b, [&](int from) { return is_result_edge(a, from, a.rank); });
}

template <int TYPE> __device__ static bool run_warp(const codelet_args &a, const bulk_call *b)
{
	const bool two = !a.send_block; /* exchanges */
	const uint32_t warp = threadIdx.x / 32, warps = blockDim.x / 32;
	uint32_t scatterers = two ? (warps + 1) * 3 / 10 : warps * 2 / 5, folders = two ? (warps + 1) * 9 / 20 : warps - scatterers;
	if (root_folds(a)) {
		scatterers = owns(a, a.rank) ? 0 : warps;
		folders = warps - scatterers;
	}
	if (warp < scatterers)
		return scatter<TYPE>(a, bulk_team_of(0, scatterers, true, 1), b);
	if (warp < scatterers + folders)
		return fold<TYPE>(a, bulk_team_of(scatterers, folders, two, 2), b);
	return gather(a, bulk_team_of(scatterers + folders, warps - scatterers - folders, false, 3), b);
}

template <int TYPE> __global__ __launch_bounds__(CODELET_BULK_THREADS, 1) void bulk_reduce(const __grid_constant__ codelet_args a)
{
	sync_previous_kernel();
	const uint64_t epoch = call_epoch(a);
	send_headers(a, epoch);
	const bool good = run_warp<TYPE>(a, bulk_begin_parts(a, epoch, true));
	if (__syncthreads_and(good))
		call_end(a, epoch);
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
