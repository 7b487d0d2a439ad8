/*
 * What SMs do in calls whose data copy engines move: the barrier that keeps the ranks in step, the fold of a chunk that the
 * others copied here, and copies within the GPU. The barrier is one warp, which finds room beside a kernel that fills the GPU; it can time out, as a
 * wait in a stream can not, and holds no hardware channel.
 *
 * Copies before a barrier on a stream are complete when it runs, so its flags say that they have arrived; copies behind it start
 * when it has heard from all. Step 0 is told by the headers, the others by words {epoch, step} in the header's line,
 * which only grow. All barriers of a call share one epoch, which the last one ends: a replayed graph needs nothing of the host.
 */
#include <cuda_runtime.h>

#include "call.cuh"
#include "launch.cuh"
#include "slot.cuh"

enum { WARP = 32, FOLD_THREADS = CODELET_CHUNK_THREADS };

/* Ranks whose vectors are under way at a time; a thread's places of them, as registers allow. */
enum { BATCH = 4 };
template <int TYPE> static constexpr int places = sizeof(vector_sum<TYPE>) > 32 ? 1 : 2;

struct meeting {
	uint64_t epoch, start; /* start: of a wait that lasts */
	uint32_t sequence, step;
};

__device__ static inline uint64_t *step_of(const codelet_args &a, const meeting &m, int sender, int receiver)
{
	return &header_of(a, sender, receiver, 0)->steps[m.sequence];
}

/* Each lane looks after some ranks. */
__device__ static inline void tell(const codelet_args &a, const meeting &m)
{
	for (int k = 1 + (int)threadIdx.x; m.step && k < a.ranks; k += WARP)
		sync_store_release(step_of(a, m, a.rank, peer_after(a, k)), call_word(m.epoch, m.step));
	if (!m.step)
		send_headers(a, m.epoch);
}

/* The first of this lane's ranks that has not come as far as this; -1: none. */
__device__ static inline int missing(const codelet_args &a, const meeting &m)
{
	int peer = -1;
	for (int r = (int)threadIdx.x; m.step && r < a.ranks; r += WARP)
		if (r != a.rank && sync_load_relaxed(step_of(a, m, r, a.rank)) < call_word(m.epoch, m.step))
			peer = r;
	return m.step || headers_heard(a, m.epoch) ? peer : a.rank;
}

__device__ static bool hear(const codelet_args &a, meeting *m)
{
	for (uint32_t spins = 1;; spins++) {
		int peer = missing(a, *m);
		unsigned lacking = __ballot_sync(~0u, peer >= 0);
		if (!lacking)
			break;
		if (spins % CALL_SPINS_PER_LOOK || !__any_sync(~0u, call_look(a, spins, &m->start, m->epoch, true)))
			continue;
		if (threadIdx.x + 1 == (unsigned)__ffs((int)lacking))
			call_explain(a, peer, m->epoch, true);
		return false;
	}
	sync_fence();
	return true;
}

/* At most 32 registers. */
__global__ __launch_bounds__(CODELET_THREADS, 4) void barrier(const __grid_constant__ codelet_barrier b)
{
	meeting m = { call_epoch(b.args), 0, b.sequence, b.step };
	tell(b.args, m);
	if (hear(b.args, &m) && b.last)
		call_end(b.args, m.epoch);
}

/* ---- Folds ----------------------------------------------------------------------------------------------- */

__device__ static inline const unsigned char *input_of(const codelet_chunk &c, int r)
{
	return r == c.rank ? c.own : c.others + (uint64_t)codelet_index(r, c.rank) * c.stride;
}

__device__ static inline unsigned left_of(const codelet_chunk &c, uint64_t i)
{
	uint64_t at = i * 16;
	return at >= c.bytes ? 0 : c.bytes - at < 16 ? (unsigned)(c.bytes - at) : 16;
}

/* Vector i of a rank. */
__device__ static inline vector load_input(const codelet_chunk &c, int r, uint64_t i)
{
	const unsigned char *from = input_of(c, r) + i * 16;
	if (r == c.rank)
		return load_user<true>(from, left_of(c, i));
	return left_of(c, i) ? __ldcg((const vector *)from) : make_uint4(0, 0, 0, 0);
}

/* In the order of ranks, as every other codelet folds. */
template <int TYPE> __global__ __launch_bounds__(FOLD_THREADS) void fold_chunk(const __grid_constant__ codelet_chunk c)
{
	constexpr int AT_ONCE = places<TYPE>;
	const uint64_t stride = (uint64_t)gridDim.x * blockDim.x, vectors = (c.bytes + 15) / 16;
	for (uint64_t first = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; first < vectors; first += AT_ONCE * stride) {
		vector_sum<TYPE> sums[AT_ONCE];
		for (int batch = 0; batch < c.ranks; batch += BATCH) {
			vector v[BATCH][AT_ONCE];
#pragma unroll
			for (int k = 0; k < BATCH; k++)
#pragma unroll
				for (int u = 0; u < AT_ONCE; u++)
					if (batch + k < c.ranks)
						v[k][u] = load_input(c, batch + k, first + u * stride);
#pragma unroll
			for (int k = 0; k < BATCH; k++)
#pragma unroll
				for (int u = 0; u < AT_ONCE; u++)
					if (batch + k == 0)
						sums[u].start(v[k][u]);
					else if (batch + k < c.ranks)
						sums[u].add(v[k][u], c.op);
		}
#pragma unroll
		for (int u = 0; u < AT_ONCE; u++) {
			uint64_t i = first + u * stride;
			if (left_of(c, i))
				store_user<true>(c.to + i * 16, sums[u].finish(c.op, c.ranks), left_of(c, i));
		}
	}
}

/* ---- Copies ---------------------------------------------------------------------------------------------- */

/* At most 32 registers: small blocks find room beside a kernel that fills the GPU. */
__global__ __launch_bounds__(FOLD_THREADS, 2) void copy_chunk(const __grid_constant__ codelet_chunk c)
{
	const crew all = { blockIdx.x * blockDim.x + threadIdx.x, gridDim.x * blockDim.x, 0 };
	copy(all, c.to, c.own, c.bytes, false);
}

typedef void (*kernel)(codelet_chunk);

static const kernel rows[CORALE_NUM_TYPES] = {
	fold_chunk<CORALE_INT8>,    fold_chunk<CORALE_UINT8>,    fold_chunk<CORALE_INT32>,   fold_chunk<CORALE_UINT32>,
	fold_chunk<CORALE_INT64>,   fold_chunk<CORALE_UINT64>,   fold_chunk<CORALE_FLOAT16>, fold_chunk<CORALE_BFLOAT16>,
	fold_chunk<CORALE_FLOAT32>, fold_chunk<CORALE_FLOAT64>, fold_chunk<CORALE_FLOAT8_E4M3>, fold_chunk<CORALE_FLOAT8_E5M2>,
};

int codelets_barrier(const codelet_barrier *args, void *stream)
{
	return launch_behind((const void *)barrier, { 1, WARP }, args, stream);
}

int codelets_fold_chunk(const codelet_chunk *args, int blocks, int type, void *stream)
{
	return launch_behind((const void *)rows[type], { blocks, FOLD_THREADS }, args, stream);
}

int codelets_copy_chunk(const codelet_chunk *args, codelet_shape shape, void *stream)
{
	return launch_behind((const void *)copy_chunk, shape, args, stream);
}

int codelets_load_copies(void)
{
	int error = load_lean((const void *)barrier);
	error = error ? error : load_lean((const void *)copy_chunk);
	for (const kernel row : rows)
		error = error ? error : load((const void *)row);
	return error;
}
