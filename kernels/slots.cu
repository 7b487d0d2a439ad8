/*
 * Folds through slots, for vectors too large for packets: reduce_scatter by one exchange, all_reduce by two. Block b
 * of a rank talks to block b of every other rank only. It sends a piece to one peer after the other, because long runs to
 * one peer are faster than interleaved ones, and keeps one message ahead of what it folds.
 */
#include <cuda_runtime.h>

#include "launch.cuh"
#include "slot.cuh"

struct fold_call {
	lane first, second; /* of the two exchanges */
	uint64_t steps;
	bool two_shot;
};

/* The part of the send buffer that a rank folds, as this block sees it. */
__device__ static range part_of(const codelet_args &a, int rank, bool two_shot)
{
	range part = two_shot ? cut(a.bytes, PLAN_UNIT_BYTES, (uint32_t)a.ranks, (uint32_t)rank)
			      : range{ (uint64_t)rank * a.send_block, a.bytes };
	range piece = cut(part.bytes, CODELET_LINE, gridDim.x, blockIdx.x);
	return { part.at + piece.at, piece.bytes };
}

/* One thread a peer waits for its word; all threads learn how that went. */
template <class Wait> __device__ static bool wait_all(const codelet_args &a, Wait wait)
{
	bool good = true;
	for (int k = 1 + (int)threadIdx.x; k < a.ranks; k += (int)blockDim.x)
		good = good && wait(peer_after(a, k));
	return __syncthreads_and(good);
}

template <class Store> __device__ static void tell_all(const codelet_args &a, Store store)
{
	__syncthreads();
	for (int k = 1 + (int)threadIdx.x; k < a.ranks; k += (int)blockDim.x)
		store(peer_after(a, k));
}

__device__ static bool wait_room(const codelet_args &a, lane *l, uint64_t c)
{
	return c < CODELET_DEPTH || wait_all(a, [&](int peer) {
		       return wait_flag(a, l, ack_of(a, *l, a.rank, peer), flag_value(*l, c - CODELET_DEPTH), peer);
	       });
}

__device__ static bool wait_data(const codelet_args &a, lane *l, uint64_t c)
{
	return wait_all(
	    a, [&](int peer) { return wait_flag(a, l, flag_of(a, *l, peer, a.rank), flag_value(*l, c), peer); });
}

template <int TYPE> __device__ static void put_premultiplied(const codelet_args &a, unsigned char *to,
							     const unsigned char *from, uint64_t bytes)
{
	for (uint64_t at = threadIdx.x * 16; at < bytes; at += blockDim.x * 16) {
		unsigned n = bytes - at < 16 ? (unsigned)(bytes - at) : 16;
		*(vector *)(to + at) = vector_premultiply<TYPE>(load_user<true>(from + at, n), a.scalar);
	}
}

template <int TYPE> __device__ static bool scatter(const codelet_args &a, fold_call *f, uint64_t c)
{
	if (!wait_room(a, &f->first, c))
		return false;
	for (int k = 1; k < a.ranks; k++) {
		int to = peer_after(a, k);
		range r = message(part_of(a, to, f->two_shot), a.slot_bytes, c);
		unsigned char *slot = slot_of(a, f->first, a.rank, to, c);
		if (a.op == CORALE_NUM_OPS)
			put_premultiplied<TYPE>(a, slot, a.send + r.at, r.bytes);
		else
			put(slot, a.send + r.at, r.bytes);
	}
	tell_all(a, [&](int peer) { sync_store_release(flag_of(a, f->first, a.rank, peer), flag_value(f->first, c)); });
	return true;
}

/* One vector of all ranks, in their order. */
template <int TYPE>
__device__ static vector fold_vector(const codelet_args &a, const fold_call &f, const unsigned char *mine, uint64_t at,
				     unsigned n, uint64_t c)
{
	vector_sum<TYPE> sum;
	for (int r = 0; r < a.ranks; r++) {
		vector v;
		if (r != a.rank)
			v = __ldcg((const vector *)(slot_of(a, f.first, r, a.rank, c) + at));
		else if (a.op == CORALE_NUM_OPS)
			v = vector_premultiply<TYPE>(load_user<true>(mine + at, n), a.scalar);
		else
			v = load_user<true>(mine + at, n);
		if (r == 0)
			sum.start(v);
		else
			sum.add(v, a.op);
	}
	return sum.finish(a.op, a.ranks);
}

/* Folds message c; the result goes to recv and, in a two-shot, into the first peer's slot, then from recv to the others'. */
template <int TYPE> __device__ static bool fold(const codelet_args &a, fold_call *f, uint64_t c)
{
	if (!wait_data(a, &f->first, c) || (f->two_shot && !wait_room(a, &f->second, c)))
		return false;
	range r = message(part_of(a, a.rank, f->two_shot), a.slot_bytes, c);
	const unsigned char *mine = a.send + r.at;
	unsigned char *to = a.recv + (f->two_shot ? r.at : r.at - (uint64_t)a.rank * a.send_block);
	unsigned char *next = f->two_shot ? slot_of(a, f->second, a.rank, peer_after(a, 1), c) : nullptr;
	for (uint64_t at = threadIdx.x * 16; at < r.bytes; at += blockDim.x * 16) {
		unsigned n = r.bytes - at < 16 ? (unsigned)(r.bytes - at) : 16;
		vector v = fold_vector<TYPE>(a, *f, mine, at, n, c);
		store_user<true>(to + at, v, n);
		if (next)
			*(vector *)(next + at) = v;
	}
	__syncthreads();
	for (int k = 2; f->two_shot && k < a.ranks; k++)
		put(slot_of(a, f->second, a.rank, peer_after(a, k), c), to, r.bytes);
	tell_all(a, [&](int peer) {
		sync_store_release(ack_of(a, f->first, peer, a.rank), flag_value(f->first, c));
		if (f->two_shot)
			sync_store_release(flag_of(a, f->second, a.rank, peer), flag_value(f->second, c));
	});
	return true;
}

__device__ static bool gather(const codelet_args &a, fold_call *f, uint64_t c)
{
	if (!wait_data(a, &f->second, c))
		return false;
	for (int k = 1; k < a.ranks; k++) {
		int from = peer_after(a, k);
		range r = message(part_of(a, from, true), a.slot_bytes, c);
		get(a.recv + r.at, slot_of(a, f->second, from, a.rank, c), r.bytes);
	}
	tell_all(a, [&](int peer) { sync_store_release(ack_of(a, f->second, peer, a.rank), flag_value(f->second, c)); });
	return true;
}

/* What comes next may cut the slots in another way: they must be empty. */
__device__ static bool drain(const codelet_args &a, lane *l, uint64_t steps)
{
	return wait_all(
	    a, [&](int peer) { return wait_flag(a, l, ack_of(a, *l, a.rank, peer), flag_value(*l, steps - 1), peer); });
}

template <int TYPE> __device__ static bool fold_steps(const codelet_args &a, fold_call *f)
{
	for (uint64_t c = 0; c < f->steps + 2; c++) {
		if (c < f->steps && !scatter<TYPE>(a, f, c))
			return false;
		if (c >= 1 && c <= f->steps && !fold<TYPE>(a, f, c - 1))
			return false;
		if (f->two_shot && c >= 2 && !gather(a, f, c - 2))
			return false;
	}
	return drain(a, &f->first, f->steps) && (!f->two_shot || drain(a, &f->second, f->steps));
}

template <int TYPE, bool TWO_SHOT>
__global__ __launch_bounds__(CODELET_THREADS, 1) void slot_folds(const __grid_constant__ codelet_args a)
{
	sync_previous_kernel();
	uint64_t epoch = call_epoch(a);
	send_headers(a, epoch);
	fold_call f = { { epoch, blockIdx.x, gridDim.x, CODELET_FIRST, 0 }, { epoch, blockIdx.x, gridDim.x, CODELET_SECOND, 0 }, 0, TWO_SHOT };
	uint64_t largest = TWO_SHOT ? cut(a.bytes, PLAN_UNIT_BYTES, (uint32_t)a.ranks, 0).bytes : a.bytes;
	largest = cut(largest, CODELET_LINE, gridDim.x, 0).bytes;
	f.steps = largest ? (largest + a.slot_bytes - 1) / a.slot_bytes : 1;
	if (hear_all(a, epoch, &f.first.start) && fold_steps<TYPE>(a, &f))
		call_end(a, epoch);
}

typedef void (*kernel)(codelet_args);

#define ROW(type) { slot_folds<type, false>, slot_folds<type, true> }
static const kernel rows[CORALE_NUM_TYPES][2] = {
	ROW(CORALE_INT8),    ROW(CORALE_UINT8),    ROW(CORALE_INT32),   ROW(CORALE_UINT32),
	ROW(CORALE_INT64),   ROW(CORALE_UINT64),   ROW(CORALE_FLOAT16), ROW(CORALE_BFLOAT16),
	ROW(CORALE_FLOAT32), ROW(CORALE_FLOAT64), ROW(CORALE_FLOAT8_E4M3), ROW(CORALE_FLOAT8_E5M2),
};
#undef ROW

int codelets_slots(const codelet_args *args, codelet_shape shape, int type, int two_shot, void *stream)
{
	return launch((const void *)rows[type][two_shot], shape, args, stream);
}

int codelets_load_slots(void)
{
	int error = 0;
	for (const kernel *row : rows)
		for (int i = 0; i < 2; i++)
			error = error ? error : load((const void *)row[i]);
	return error;
}
