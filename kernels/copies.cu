/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What SMs do in calls whose data copy engines move: the barriers that begin rounds, and the work beside the copies: folds
 * of what the others copied here, and copies within the GPU. A barrier is one warp, which finds room beside a kernel that fills
 * the GPU; it can time out, as a wait in a stream can not, and holds no hardware channel. Work is a kernel of few blocks for all folds
 * of a round and one for all copies, which wait for each job's data themselves: a kernel a job would have to find room on a
 * busy GPU each time. Copies have blocks of one warp, too.
 *
 * Copies before a step on a stream are complete when it runs, so its words say that they have arrived; copies behind a barrier start
 * when all have signalled, those of a broadcast when a neighbour has signalled their chunk. All steps of a call share one epoch, which
 * the last of them ends, or the work: a replayed graph needs nothing of the host.
 */
#include <cuda_runtime.h>

#include "call.cuh"
#include "launch.cuh"
#include "ring.cuh"
#include "fifo.cuh"
#include "tile.cuh"

enum { WARP = 32, ROW = WARP * sizeof(vector), LINE = 128 };

/* What is waited for. */
struct awaited {
	uint64_t epoch;
	uint32_t sequence, step; /* 0: none */
	int32_t of; /* rank + 1; 0: all */
	bool headers;
};

__device__ static inline uint64_t *step_of(const codelet_args &a, uint32_t sequence, int sender, int receiver)
{
	return &header_of(a, sender, receiver, 0)->steps[sequence];
}

/* Each lane looks after some ranks. */
__device__ static inline void signal_step(const codelet_step &s, uint64_t epoch)
{
	const codelet_args &a = s.args;
	const uint32_t aborted = call_aborted(a);
	for (int k = (int)threadIdx.x; s.signal && !aborted && k < a.ranks; k += WARP)
		sync_store_release(step_of(a, s.sequence, a.rank, peer_after(a, k)), call_word(epoch, s.signal));
	if (s.headers)
		send_headers(a, epoch);
}

/* The first of this lane's ranks that has not come as far as this; -1: none. Nobody has where the communicator has failed. */
__device__ static inline int missing(const codelet_args &a, const awaited &w)
{
	int peer = call_aborted(a) ? a.rank : -1;
	for (int r = (int)threadIdx.x; w.step && r < a.ranks; r += WARP)
		if ((!w.of || w.of == r + 1) && sync_load_relaxed(step_of(a, w.sequence, r, a.rank)) < call_word(w.epoch, w.step))
			peer = r;
	return !w.headers || headers_arrived(a, w.epoch) ? peer : a.rank;
}

/* A whole warp. */
__device__ static inline bool wait_step(const codelet_args &a, const awaited &w)
{
	int lacking = -1;
	auto name_absent = [&] { /* ranks that have not made the call, rather than those that wait for them too */
		const int absent = rank_without_header(a, w.epoch);
		lacking = __any_sync(~0u, absent >= 0) ? absent : lacking;
		return true;
	};
	const bool good = wait_until<one_warp>(
		a, w.epoch, true, [&] { return (lacking = missing(a, w)) < 0; }, [&] { return lacking; }, name_absent);
	sync_fence();
	return good;
}

__device__ static inline bool wait_job(const codelet_args &a, uint64_t epoch, const codelet_job &job)
{
	return wait_step(a, { epoch, job.sequence, job.arrival, job.of, false });
}

/* The same where a kernel has other need of its registers. */
__device__ static __noinline__ bool wait_job_apart(const codelet_args &a, uint64_t epoch, const codelet_job &job)
{
	return wait_job(a, epoch, job);
}

/* At most 32 registers where a multiprocessor holds 2,048 threads. */
__global__ __launch_bounds__(CODELET_THREADS, SM_THREADS / CODELET_THREADS) void step(const __grid_constant__ codelet_step s)
{
	const awaited w = { call_epoch(s.args), s.sequence, s.wait, s.of, s.headers != 0 };
	__syncwarp(); /* all lanes read the epoch before any signals: the signal lets a concurrent kernel end the call, which advances it */
	signal_step(s, w.epoch);
	if ((s.wait || s.headers) && !wait_step(s.args, w))
		return;
	if (s.last)
		call_end(s.args, w.epoch);
	else
		call_count(s.args);
}

/* ---- Folds ----------------------------------------------------------------------------------------------- */

/* Ranks whose vectors are under way at a time; a thread's places of them, as registers allow. */
enum { BATCH = 2 };
template <int TYPE> static constexpr int places = sizeof(vector_sum<TYPE>) > sizeof(vector) ? 2 : 4;

__device__ static inline const unsigned char *input_of(const codelet_args &a, const codelet_job &job, int r)
{
	return r == a.rank ? job.own : job.others + (uint64_t)codelet_index(r, a.rank) * job.stride;
}

/* Up to 16 bytes of a rank. */
__device__ static inline vector load_input(const codelet_args &a, const codelet_job &job, int r, uint64_t at, unsigned bytes)
{
	const unsigned char *from = input_of(a, job, r) + at;
	return r == a.rank ? load_user<true>(from, bytes) : __ldcg((const vector *)from);
}

/* As fold_ranks does, but several vectors of each rank at a time, and ranks in a loop that is not unrolled. Blocks take turns at chunks, which are at aligned addresses. */
template <int TYPE, bool PLAIN> __device__ static inline void fold_chunks(const codelet_args &a, const codelet_job &job, uint32_t chunks)
{
	constexpr int AT_ONCE = places<TYPE>;
	const uint32_t chunk_bytes = blockDim.x * AT_ONCE * (uint32_t)sizeof(vector);
#pragma unroll 1
	for (uint32_t chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x) {
		const uint64_t at = (uint64_t)chunk * chunk_bytes + threadIdx.x * sizeof(vector);
		vector_sum<TYPE> sums[AT_ONCE];
#pragma unroll 1
		for (int batch = 0; batch < a.ranks; batch += BATCH) {
			vector v[BATCH][AT_ONCE];
#pragma unroll
			for (int k = 0; k < BATCH; k++)
				if (batch + k < a.ranks) {
					const vector *from = (const vector *)(input_of(a, job, batch + k) + at);
#pragma unroll
					for (int u = 0; u < AT_ONCE; u++)
						v[k][u] = __ldcg(from + u * blockDim.x);
				}
#pragma unroll
			for (int k = 0; k < BATCH; k++)
#pragma unroll
				for (int u = 0; u < AT_ONCE; u++)
					if (batch + k == 0)
						sums[u].start(v[k][u]);
					else if (batch + k < a.ranks)
						sums[u].add(v[k][u], PLAIN ? (int)CORALE_SUM : a.op);
		}
		vector *to = (vector *)(job.to + at);
#pragma unroll
		for (int u = 0; u < AT_ONCE; u++)
			to[u * blockDim.x] = sums[u].finish(PLAIN ? (int)CORALE_SUM : a.op, a.ranks);
	}
}

/* From an offset on, at any addresses. Not by fold_ranks, with which the kernel spills twice as much. */
template <int TYPE> __device__ static __noinline__ void fold_rest(const codelet_args &a, const codelet_job &job, uint64_t begin)
{
	const uint64_t thread = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x, turn = (uint64_t)gridDim.x * blockDim.x * 16;
	for (uint64_t at = begin + thread * 16; at < job.bytes; at += turn) {
		const unsigned bytes = job.bytes - at < 16 ? (unsigned)(job.bytes - at) : 16;
		vector_sum<TYPE> sum;
		sum.start(load_input(a, job, 0, at, bytes));
		for (int r = 1; r < a.ranks; r++)
			sum.add(load_input(a, job, r, at, bytes), a.op);
		store_user<true>(job.to + at, sum.finish(a.op, a.ranks), bytes);
	}
}

__device__ static inline bool is_aligned(const codelet_job &job)
{
	return ((uintptr_t)job.own | (uintptr_t)job.to) % sizeof(vector) == 0;
}

template <int TYPE> __device__ static inline void fold(const codelet_args &a, const codelet_job &job)
{
	const uint32_t chunk_bytes = blockDim.x * places<TYPE> * (uint32_t)sizeof(vector);
	const uint32_t chunks = is_aligned(job) ? (uint32_t)(job.bytes / chunk_bytes) : 0;
	if (a.op == CORALE_SUM)
		fold_chunks<TYPE, true>(a, job, chunks);
	else
		fold_chunks<TYPE, false>(a, job, chunks);
	fold_rest<TYPE>(a, job, (uint64_t)chunks * chunk_bytes);
}

/* ---- Copies ---------------------------------------------------------------------------------------------- */

/* By blocks of any shape, at any addresses. */
__device__ static __noinline__ void copy_job(const codelet_job &job)
{
	const warp_group all = { blockIdx.x * blockDim.x + threadIdx.x, gridDim.x * blockDim.x, 0 };
	copy(all, job.to, job.own, job.bytes, false);
}

/* From a place on. */
__device__ static inline void copy_from(const codelet_job &job, uint64_t at)
{
	codelet_job rest = {};
	rest.own = job.own + at;
	rest.to = job.to + at;
	rest.bytes = job.bytes - at;
	copy_job(rest);
}

/* What a warp takes in turn with all others: rows of a vector a lane. */
struct chunks {
	static constexpr uint32_t ROWS = 2, BYTES = ROWS * ROW, BATCHES = RING_SLOTS / ROWS;
	static constexpr uint32_t AHEAD = 16; /* of a warp's chunks, from what is requested to what is prefetched */

	const unsigned char *from; /* this lane's next one */
	uint64_t turn; /* bytes to the next but that */
	uint32_t left; /* to be requested */
	ring under_way;
};

__device__ static inline void request(chunks *c, uint32_t batch)
{
	if (c->left) {
#pragma unroll
		for (uint32_t u = 0; u < chunks::ROWS; u++)
			ring_request(&c->under_way, batch * chunks::ROWS + u, c->from + u * ROW);
		if ((uintptr_t)c->from % LINE < sizeof(vector) && c->left > chunks::AHEAD)
#pragma unroll
			for (uint32_t u = 0; u < chunks::ROWS; u++)
				ring_prefetch(c->from + u * ROW + c->turn * chunks::AHEAD);
		c->from += c->turn;
		c->left--;
	}
	ring_end_batch(&c->under_way);
}

/* By blocks of one warp, with few registers, at aligned addresses: all lanes request and store. */
__device__ static inline void copy_chunks(const codelet_job &job)
{
	const uint32_t all = (uint32_t)(job.bytes / chunks::BYTES);
	const uint32_t mine = blockIdx.x < all ? (all - blockIdx.x - 1) / gridDim.x + 1 : 0;
	const uint64_t at = (uint64_t)blockIdx.x * chunks::BYTES + threadIdx.x * sizeof(vector);
	chunks c = { job.own + at, (uint64_t)gridDim.x * chunks::BYTES, mine, ring_open() };
	unsigned char *to = job.to + at;
	uint32_t batch = 0;
	for (uint32_t b = 0; b < chunks::BATCHES; b++)
		request(&c, b);
	for (uint32_t n = 0; n < mine; n++, to += c.turn, batch = (batch + 1) % chunks::BATCHES) {
		vector v[chunks::ROWS];
		ring_await<chunks::BATCHES - 1>(&c.under_way);
#pragma unroll
		for (uint32_t u = 0; u < chunks::ROWS; u++)
			v[u] = ring_take(&c.under_way, batch * chunks::ROWS + u);
		request(&c, batch);
#pragma unroll
		for (uint32_t u = 0; u < chunks::ROWS; u++)
			*(vector *)(to + u * ROW) = v[u];
	}
	copy_from(job, (uint64_t)all * chunks::BYTES);
}

/* The same by the copy unit, for one lane: blocks take turns at tiles. */
__device__ static inline void copy_tiles(const codelet_job &job)
{
	enum { AHEAD = 2 }; /* of a block's tiles, from what is loaded to what is prefetched */
	const uint64_t whole = job.bytes / sizeof(vector) * sizeof(vector), turn = (uint64_t)gridDim.x * TILE_BYTES;
	if (threadIdx.x == 0) {
		tile t = tile_open();
		for (uint64_t at = (uint64_t)blockIdx.x * TILE_BYTES; at < whole; at += turn) {
			const uint32_t bytes = whole - at < TILE_BYTES ? (uint32_t)(whole - at) : (uint32_t)TILE_BYTES;
			tile_load(&t, job.own + at, bytes);
			if (at + AHEAD * turn + TILE_BYTES <= whole)
				tile_prefetch(job.own + at + AHEAD * turn, TILE_BYTES);
			tile_await(&t);
			tile_store(&t, job.to + at, bytes);
		}
		tile_close(&t);
	}
	copy_from(job, whole);
}

/* ---- Work ------------------------------------------------------------------------------------------------ */

/* The last block that has ended the job signals this rank's own stream. */
__device__ static void signal_done(const codelet_args &a, uint64_t epoch, uint32_t done)
{
	__syncthreads();
	if (threadIdx.x)
		return;
	sync_fence();
	uint32_t *worked = &a.state->worked[done % 2]; /* some blocks may have ended the next such job by now */
	if (atomicAdd(worked, 1u) + 1 != gridDim.x)
		return;
	atomicAdd(worked, 0u - gridDim.x);
	sync_store_release(step_of(a, CODELET_WORKED, a.rank, a.rank), call_word(epoch, done));
}

/* Calls run(job) for each job when wait says that its data is there. */
template <class Wait, class Run> __device__ static __forceinline__ void run_jobs(const codelet_work &w, Wait wait, Run run)
{
	const codelet_args &a = w.args;
	const uint64_t epoch = call_epoch(a);
	for (uint32_t j = 0; j < w.jobs; j++) {
		const codelet_job &job = w.job[j];
		if (!__syncthreads_and(threadIdx.x >= WARP || !job.arrival || wait(a, epoch, job)))
			return;
		run(job);
		if (job.done)
			signal_done(a, epoch, job.done);
	}
	if (w.last) {
		call_end(a, epoch);
		return;
	}
	__syncthreads();
	call_count(a);
}

/* At most 32 registers where a multiprocessor holds 2,048 threads: blocks of a warp find room beside a kernel that fills the GPU. */
__global__ __launch_bounds__(CODELET_WORK_THREADS, SM_THREADS / CODELET_WORK_THREADS) void copying_lean(const __grid_constant__ codelet_work w)
{
	run_jobs(w, wait_job, [&](const codelet_job &job) {
		if (!is_aligned(job))
			copy_job(job);
		else if (TILE_IS_HERE && w.tiles)
			copy_tiles(job);
		else
			copy_chunks(job);
	});
}

__global__ __launch_bounds__(CODELET_WORK_THREADS) void copying(const __grid_constant__ codelet_work w)
{
	run_jobs(w, wait_job_apart, [](const codelet_job &job) { copy_job(job); });
}

template <int TYPE> __global__ __launch_bounds__(CODELET_WORK_THREADS) void folding(const __grid_constant__ codelet_work w)
{
	run_jobs(w, wait_job_apart, [&](const codelet_job &job) { fold<TYPE>(w.args, job); });
}

typedef void (*kernel)(codelet_work);

static constexpr auto rows = vector_table_of<kernel>([](auto type) { return folding<type.value>; });

int codelets_step(const codelet_step *args, void *stream)
{
	return launch_behind((const void *)step, { 1, WARP }, 0, args, stream);
}

static constexpr int RING_SHARED = WARP * RING_BYTES, LEAN_SHARED = RING_SHARED > (int)TILE_SHARED ? RING_SHARED : (int)TILE_SHARED;

int codelets_work(const codelet_work *args, struct grid grid, int type, void *stream)
{
	asm(".set dynamic_shared.copying_lean, %c0" : : "i"(LEAN_SHARED)); /* a symbol for test/kernels/kernels.sh: ptxas does not see what a launch gives */
	if (type < 0 && grid.threads == WARP)
		return launch_behind((const void *)copying_lean, grid, args->tiles ? (int)TILE_SHARED : RING_SHARED, args, stream);
	return launch_behind((const void *)(type < 0 ? copying : rows[type]), grid, 0, args, stream);
}

int codelets_load_copies(void)
{
	int error = load_lean((const void *)step);
	error = error ? error : load_lean((const void *)copying_lean);
	error = error ? error : load((const void *)copying);
	return error ? error : load_all(rows);
}
