/*
 * What SMs do in calls whose data copy engines move: the barriers that keep the ranks in step, and the work beside the copies: folds
 * of what the others copied here, and copies within the GPU. A barrier is one warp, which finds room beside a kernel that fills
 * the GPU; it can time out, as a wait in a stream can not, and holds no hardware channel. The work of a call is one kernel of few
 * blocks, which waits for each job's data itself: a kernel a job would have to find room on a busy GPU each time.
 *
 * Copies before a step on a stream are complete when it runs, so its words say that they have arrived; copies behind a barrier start
 * when it has heard from all. All steps of a call share one epoch, which the last of them ends, or the work: a replayed
 * graph needs nothing of the host.
 */
#include <cuda_runtime.h>

#include "call.cuh"
#include "launch.cuh"
#include "slot.cuh"

enum { WARP = 32 };

/* Ranks whose vectors are under way at a time; a thread's places of them, as registers allow. */
enum { BATCH = 4 };
template <int TYPE> static constexpr int places = sizeof(vector_sum<TYPE>) > 32 ? 1 : 2;

struct meeting {
	uint64_t epoch, start; /* start: of a wait that lasts */
	uint32_t sequence, step;
	bool own; /* this rank alone */
};

__device__ static inline uint64_t *step_of(const codelet_args &a, const meeting &m, int sender, int receiver)
{
	return &header_of(a, sender, receiver, 0)->steps[m.sequence];
}

/* Each lane looks after some ranks. */
__device__ static inline void tell(const codelet_args &a, const meeting &m)
{
	const int first = m.sequence == CODELET_ARRIVALS ? 0 : 1;
	for (int k = first + (int)threadIdx.x; m.step && k < a.ranks; k += WARP)
		sync_store_release(step_of(a, m, a.rank, peer_after(a, k)), call_word(m.epoch, m.step));
	if (!m.step)
		send_headers(a, m.epoch);
}

/* Whether the ranks hear this one's steps. */
__device__ static inline bool listens(const codelet_args &a, const meeting &m, int r)
{
	return m.own ? r == a.rank : r != a.rank || m.sequence == CODELET_ARRIVALS;
}

/* The first of this lane's ranks that has not come as far as this; -1: none. */
__device__ static inline int missing(const codelet_args &a, const meeting &m)
{
	int peer = -1;
	for (int r = (int)threadIdx.x; m.step && r < a.ranks; r += WARP)
		if (listens(a, m, r) && sync_load_relaxed(step_of(a, m, r, a.rank)) < call_word(m.epoch, m.step))
			peer = r;
	return m.step || headers_heard(a, m.epoch) ? peer : a.rank;
}

/* A whole warp. */
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
__global__ __launch_bounds__(CODELET_THREADS, 4) void step(const __grid_constant__ codelet_step s)
{
	meeting m = { call_epoch(s.args), 0, s.sequence, s.step, s.own != 0 };
	if (!s.own)
		tell(s.args, m);
	if (s.sequence == CODELET_BARRIERS && hear(s.args, &m) && s.last)
		call_end(s.args, m.epoch);
}

/* ---- Folds ----------------------------------------------------------------------------------------------- */

__device__ static inline const unsigned char *input_of(const codelet_args &a, const codelet_job &job, int r)
{
	return r == a.rank ? job.own : job.others + (uint64_t)codelet_index(r, a.rank) * job.stride;
}

__device__ static inline unsigned left_of(const codelet_job &job, uint64_t i)
{
	uint64_t at = i * 16;
	return at >= job.bytes ? 0 : job.bytes - at < 16 ? (unsigned)(job.bytes - at) : 16;
}

/* Vector i of a rank. */
__device__ static inline vector load_input(const codelet_args &a, const codelet_job &job, int r, uint64_t i)
{
	const unsigned char *from = input_of(a, job, r) + i * 16;
	if (r == a.rank)
		return load_user<true>(from, left_of(job, i));
	return left_of(job, i) ? __ldcg((const vector *)from) : make_uint4(0, 0, 0, 0);
}

/* In the order of ranks, as every other codelet folds. */
template <int TYPE> __device__ static void fold(const codelet_args &a, const codelet_job &job)
{
	constexpr int AT_ONCE = places<TYPE>;
	const uint64_t stride = (uint64_t)gridDim.x * blockDim.x, vectors = (job.bytes + 15) / 16;
	for (uint64_t first = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; first < vectors; first += AT_ONCE * stride) {
		vector_sum<TYPE> sums[AT_ONCE];
		for (int batch = 0; batch < a.ranks; batch += BATCH) {
			vector v[BATCH][AT_ONCE];
#pragma unroll
			for (int k = 0; k < BATCH; k++)
#pragma unroll
				for (int u = 0; u < AT_ONCE; u++)
					if (batch + k < a.ranks)
						v[k][u] = load_input(a, job, batch + k, first + u * stride);
#pragma unroll
			for (int k = 0; k < BATCH; k++)
#pragma unroll
				for (int u = 0; u < AT_ONCE; u++)
					if (batch + k == 0)
						sums[u].start(v[k][u]);
					else if (batch + k < a.ranks)
						sums[u].add(v[k][u], a.op);
		}
#pragma unroll
		for (int u = 0; u < AT_ONCE; u++) {
			uint64_t i = first + u * stride;
			if (left_of(job, i))
				store_user<true>(job.to + i * 16, sums[u].finish(a.op, a.ranks), left_of(job, i));
		}
	}
}

/* ---- Work ------------------------------------------------------------------------------------------------ */

/* The last block that has ended the job tells this rank's own stream. */
__device__ static void tell_done(const codelet_args &a, const meeting &m, uint32_t done)
{
	const meeting own = { m.epoch, 0, CODELET_BARRIERS, done, true };
	__syncthreads();
	if (threadIdx.x)
		return;
	sync_fence();
	uint32_t *worked = &a.state->worked[done % 2]; /* some blocks may have ended the next such job by now */
	if (atomicAdd(worked, 1u) + 1 != gridDim.x)
		return;
	atomicAdd(worked, 0u - gridDim.x);
	sync_store_release(step_of(a, own, a.rank, a.rank), call_word(m.epoch, done));
}

/* Calls run(job) for each job when its data is there. */
template <class Run> __device__ static __forceinline__ void run_jobs(const codelet_work &w, Run run)
{
	const codelet_args &a = w.args;
	meeting m = { call_epoch(a), 0, CODELET_ARRIVALS, 0, false };
	for (uint32_t j = 0; j < w.jobs; j++) {
		const codelet_job &job = w.job[j];
		m.step = job.arrival;
		if (!__syncthreads_and(threadIdx.x >= WARP || !m.step || hear(a, &m)))
			return;
		run(job);
		if (job.done)
			tell_done(a, m, job.done);
	}
	if (w.last)
		call_end(a, m.epoch);
}

__device__ static inline void copy_job(const codelet_job &job)
{
	const crew all = { blockIdx.x * blockDim.x + threadIdx.x, gridDim.x * blockDim.x, 0 };
	copy(all, job.to, job.own, job.bytes, false);
}

__global__ __launch_bounds__(CODELET_WORK_THREADS) void copying(const __grid_constant__ codelet_work w)
{
	run_jobs(w, [](const codelet_job &job) { copy_job(job); });
}

/* At most 32 registers: blocks of a warp find room beside a kernel that fills the GPU. */
__global__ __launch_bounds__(CODELET_WORK_THREADS, 2) void copying_lean(const __grid_constant__ codelet_work w)
{
	run_jobs(w, [](const codelet_job &job) { copy_job(job); });
}

template <int TYPE> __global__ __launch_bounds__(CODELET_WORK_THREADS) void folding(const __grid_constant__ codelet_work w)
{
	run_jobs(w, [&](const codelet_job &job) {
		if (job.others)
			fold<TYPE>(w.args, job);
		else
			copy_job(job);
	});
}

typedef void (*kernel)(codelet_work);

static const kernel rows[CORALE_NUM_TYPES] = {
	folding<CORALE_INT8>,    folding<CORALE_UINT8>,    folding<CORALE_INT32>,   folding<CORALE_UINT32>,
	folding<CORALE_INT64>,   folding<CORALE_UINT64>,   folding<CORALE_FLOAT16>, folding<CORALE_BFLOAT16>,
	folding<CORALE_FLOAT32>, folding<CORALE_FLOAT64>, folding<CORALE_FLOAT8_E4M3>, folding<CORALE_FLOAT8_E5M2>,
};

int codelets_step(const codelet_step *args, void *stream)
{
	return launch_behind((const void *)step, { 1, WARP }, args, stream);
}

int codelets_work(const codelet_work *args, codelet_shape shape, int type, void *stream)
{
	const kernel copies = shape.threads == WARP ? copying_lean : copying;
	return launch_behind((const void *)(type < 0 ? copies : rows[type]), shape, args, stream);
}

int codelets_load_copies(void)
{
	int error = load_lean((const void *)step);
	error = error ? error : load_lean((const void *)copying_lean);
	error = error ? error : load((const void *)copying);
	for (const kernel row : rows)
		error = error ? error : load((const void *)row);
	return error;
}
