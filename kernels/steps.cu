/*
 * The step executor: any plan, one block per program and channel. Thread 0 walks the program and tells the
 * block what to do through shared memory; the first threads look after one peer each (header, credit); all
 * threads move the data. Blocks of a launch wait for each other and for those of peers, so all must be resident.
 */
#include <cuda_runtime.h>

#include "corale.h"
#include "kernels.h"
#include "sync.cuh"

static constexpr int THREADS = 512;
static_assert(THREADS >= (int)KERNELS_MAX_PEERS, "a thread for each peer");

struct walk {
	struct plan_cursor cursor;
	struct plan_env env;
	struct plan_action action;
	int program, go;
	int nfrom, nto; /* peers to hear from and to send to */
	int from[KERNELS_MAX_PEERS], to[KERNELS_MAX_PEERS]; /* window indices, in the group's order; mine too in from */
	int nsources, ntargets;
	const unsigned char *sources[KERNELS_MAX_PEERS + 1];
	unsigned char *targets[KERNELS_MAX_PEERS + 1];
	int source_is_mine[KERNELS_MAX_PEERS]; /* from[i] stands for the place of the local span in the fold */
};

/* ---- Folding ------------------------------------------------------------------------------------------ */

/* An operator on a type: element as stored, partial as accumulated. */
struct float_sum {
	typedef float element;
	typedef float partial;
	__device__ static partial load(element e)
	{
		return e;
	}
	__device__ static partial combine(partial a, partial b)
	{
		return __fadd_rn(a, b);
	}
	__device__ static element finish(partial p)
	{
		return p == p ? p : __uint_as_float(0x7fc00000); /* every NaN comes out as the canonical one */
	}
};

struct alignas(16) vector {
	unsigned char bytes[16];
};

template <class Op, int N> struct pack {
	typename Op::element e[N];
};

/* Access is the unit of loads and stores: one element, or as many as fill 16 bytes. */
template <class Op, int N> __device__ static void fold_units(const struct walk *w, size_t begin, size_t units)
{
	typedef pack<Op, N> unit __attribute__((aligned(sizeof(typename Op::element) * N)));
	for (size_t i = threadIdx.x; i < units; i += blockDim.x) {
		typename Op::partial sum[N];
		for (int k = 0; k < w->nsources; k++) {
			unit in = ((const unit *)(w->sources[k] + begin))[i];
			for (int j = 0; j < N; j++)
				sum[j] = k ? Op::combine(sum[j], Op::load(in.e[j])) : Op::load(in.e[j]);
		}
		unit out;
		for (int j = 0; j < N; j++)
			out.e[j] = Op::finish(sum[j]);
		for (int k = 0; k < w->ntargets; k++)
			((unit *)(w->targets[k] + begin))[i] = out;
	}
}

template <class Unit> __device__ static void copy_units(const struct walk *w, size_t begin, size_t units)
{
	for (int k = 0; k < w->ntargets; k++) {
		const Unit *from = (const Unit *)(w->sources[0] + begin);
		Unit *to = (Unit *)(w->targets[k] + begin);
		for (size_t i = threadIdx.x; to != from && i < units; i += blockDim.x)
			to[i] = from[i];
	}
}

/* True if every pointer of the action is a multiple of bytes. */
__device__ static bool aligned(const struct walk *w, unsigned bytes)
{
	uintptr_t all = 0;
	for (int k = 0; k < w->nsources; k++)
		all |= (uintptr_t)w->sources[k];
	for (int k = 0; k < w->ntargets; k++)
		all |= (uintptr_t)w->targets[k];
	return all % bytes == 0;
}

template <class Op> __device__ static void move(const struct walk *w)
{
	const size_t element = sizeof(typename Op::element), bytes = w->action.count * element;
	const size_t bulk = aligned(w, sizeof(vector)) ? bytes / sizeof(vector) * sizeof(vector) : 0;
	if (w->nsources == 1) { /* bits are kept */
		copy_units<vector>(w, 0, bulk / sizeof(vector));
		copy_units<typename Op::element>(w, bulk, (bytes - bulk) / element);
	} else if (w->nsources > 1) {
		fold_units<Op, sizeof(vector) / sizeof(typename Op::element)>(w, 0, bulk / sizeof(vector));
		fold_units<Op, 1>(w, bulk, (bytes - bulk) / element);
	}
}

/* ---- Peers -------------------------------------------------------------------------------------------- */

__device__ static size_t lane(const struct kernels_steps *a, const struct walk *w, int peer, int ring)
{
	return kernels_lane(&a->layout, peer, w->env.channel, ring);
}

__device__ static int mine(const struct kernels_steps *a)
{
	return a->peer_of[a->env.rank];
}

/* Fills list with the windows of the ranks that who names; returns how many. */
__device__ static int list_peers(const struct kernels_steps *a, const struct walk *w, int who, int group, int *list,
				 int *is_mine)
{
	const struct plan_map *map = &w->env.map;
	if (who == PLAN_NONE)
		return 0;
	int n = who == PLAN_ALL ? plan_group_size(map, group, w->env.rank) : 1, used = 0;
	for (int i = 0; i < n; i++) {
		int rank = who == PLAN_ALL ? plan_group_member(map, group, w->env.rank, w->action.rail, i) : who;
		bool self = who == PLAN_ALL && rank == w->env.rank; /* ALL means the others; a token names me */
		if (self && !is_mine)
			continue;
		list[used] = a->peer_of[rank];
		if (is_mine)
			is_mine[used] = self;
		used++;
	}
	return used;
}

__device__ static const unsigned char *place(const struct kernels_steps *a, const struct walk *w,
					     const struct plan_place *p, size_t element)
{
	if (p->space == PLAN_SCRATCH) {
		size_t channel = (size_t)a->plan.scratch_cells * a->plan.chunk_bytes * (size_t)w->env.channel;
		return a->scratch + channel + p->offset * element;
	}
	return (const unsigned char *)(p->space == PLAN_SEND ? a->send : a->recv) + p->offset * element;
}

/* Thread 0: who is concerned by the action. */
__device__ static void list_action(const struct kernels_steps *a, struct walk *w)
{
	const struct plan_action *action = &w->action;
	w->nfrom = list_peers(a, w, action->from, action->from_group, w->from, w->source_is_mine);
	w->nto = list_peers(a, w, action->to, action->to_group, w->to, NULL);
}

/* Thread 0: where the data comes from and goes to; messages of the group and the local span in the group's order. */
__device__ static void list_data(const struct kernels_steps *a, struct walk *w, size_t element)
{
	const struct plan_action *action = &w->action;
	w->nsources = w->ntargets = 0;
	if (action->op != PLAN_MOVE || !action->count)
		return;
	bool placed = !action->src.space;
	for (int i = 0; i < w->nfrom; i++) {
		if (w->source_is_mine[i]) {
			if (!placed)
				w->sources[w->nsources++] = place(a, w, &action->src, element);
			placed = true;
			continue;
		}
		if (w->from[i] == mine(a)) /* a token carries nothing */
			continue;
		size_t l = lane(a, w, w->from[i], action->from_ring);
		w->sources[w->nsources++] =
			kernels_payload(&a->layout, a->windows[mine(a)], l, a->counters.received[l]);
	}
	if (!placed)
		w->sources[w->nsources++] = place(a, w, &action->src, element);
	if (action->dst.space)
		w->targets[w->ntargets++] = (unsigned char *)place(a, w, &action->dst, element);
	for (int i = 0; i < w->nto; i++) {
		if (w->to[i] == mine(a))
			continue;
		size_t l = lane(a, w, mine(a), action->to_ring);
		uint64_t message = a->counters.sent[lane(a, w, w->to[i], action->to_ring)];
		w->targets[w->ntargets++] = kernels_payload(&a->layout, a->windows[w->to[i]], l, message);
	}
}

/* ---- Failure ------------------------------------------------------------------------------------------ */

/* The first failure of this GPU is recorded for the host, and all peers are told. */
__device__ static void fail(const struct kernels_steps *a, const struct walk *w, int code, int peer, int sending,
			    uint64_t message, uint64_t expected, uint64_t got)
{
	struct kernels_control *control = (struct kernels_control *)a->windows[mine(a)];
	unsigned long long word = (unsigned long long)(mine(a) + 1) << 32 | (unsigned long long)-code;
	unsigned long long first = atomicCAS_system((unsigned long long *)&control->abort, 0ull, word);
	struct kernels_failure *f = a->failure;
	if (code == CORALE_EABORTED && first) /* told by a peer, or by another block that has recorded already */
		got = first;
	else if (first)
		return;
	if (first && (int)(first >> 32) == mine(a) + 1)
		return;
	f->program = w->program;
	f->channel = w->env.channel;
	f->op = w->action.op;
	f->peer = peer;
	f->ring = sending ? w->action.to_ring : w->action.from_ring;
	f->sending = sending;
	f->message = message;
	f->expected = expected;
	f->got = got;
	sync_fence();
	*(volatile int32_t *)&f->code = code;
	for (int i = 0; !first && i < a->layout.peers; i++) {
		if (!a->windows[i] || i == mine(a))
			continue;
		struct kernels_control *theirs = (struct kernels_control *)a->windows[i];
		sync_store_relaxed(&theirs->abort, word);
	}
}

__device__ static int outcome_code(int outcome)
{
	return outcome == SYNC_TIMED_OUT ? CORALE_ETIMEDOUT : CORALE_EABORTED;
}

/* ---- Messages ----------------------------------------------------------------------------------------- */

/* One thread a peer: waits for its message and checks it. Returns 0 when all is well. */
__device__ static int hear(const struct kernels_steps *a, const struct walk *w, const struct sync_limits *limits,
			   int i, size_t element)
{
	size_t l = lane(a, w, w->from[i], w->action.from_ring);
	uint64_t message = a->counters.received[l];
	struct kernels_header *header = kernels_header(&a->layout, a->windows[mine(a)], l, message);
	int outcome = sync_wait(&header->sequence, message + 1, limits);
	if (outcome) {
		fail(a, w, outcome_code(outcome), w->from[i], 0, message, message + 1,
		     sync_load_relaxed(&header->sequence));
		return 1;
	}
	uint64_t bytes = w->action.op == PLAN_MOVE ? w->action.count * element : 0;
	uint64_t signature = sync_load_relaxed(&header->signature), got = sync_load_relaxed(&header->bytes);
	bool token = w->from[i] == mine(a);
	if (signature == a->signature && (token || got == bytes))
		return 0;
	bool differs = signature != a->signature;
	fail(a, w, CORALE_EMISMATCH, w->from[i], 0, message, differs ? a->signature : bytes, differs ? signature : got);
	return 1;
}

/*
 * One thread a peer: waits until a slot is free. A parity ring needs no credits against its own messages, but the
 * lane may still hold those of an earlier call by another plan.
 */
__device__ static int gain(const struct kernels_steps *a, const struct walk *w, const struct sync_limits *limits, int i)
{
	const struct plan_ring *ring = &a->plan.rings[w->action.to_ring];
	size_t l = lane(a, w, w->to[i], w->action.to_ring);
	uint64_t message = a->counters.sent[l];
	uint64_t depth = ring->sync == PLAN_PARITY ? (uint64_t)a->layout.slots : ring->depth;
	if (message < depth)
		return 0;
	const uint64_t *consumed = kernels_consumed(&a->layout, a->windows[mine(a)], l);
	int outcome = sync_wait(consumed, message + 1 - depth, limits);
	if (!outcome)
		return 0;
	fail(a, w, outcome_code(outcome), w->to[i], 1, message, message + 1 - depth, sync_load_relaxed(consumed));
	return 1;
}

/* After the block's barrier, one thread a peer: publishes the message. */
__device__ static void publish(const struct kernels_steps *a, const struct walk *w, int i, size_t element)
{
	size_t out = lane(a, w, w->to[i], w->action.to_ring), in = lane(a, w, mine(a), w->action.to_ring);
	uint64_t message = a->counters.sent[out]++;
	struct kernels_header *header = kernels_header(&a->layout, a->windows[w->to[i]], in, message);
	bool token = w->to[i] == mine(a);
	sync_store_relaxed(&header->signature, a->signature);
	sync_store_relaxed(&header->bytes, w->action.op == PLAN_MOVE && !token ? w->action.count * element : 0);
	sync_store_release(&header->sequence, message + 1);
}

/* After the block's barrier, one thread a peer: gives the slot back. */
__device__ static void release(const struct kernels_steps *a, const struct walk *w, int i)
{
	size_t in = lane(a, w, w->from[i], w->action.from_ring), out = lane(a, w, mine(a), w->action.from_ring);
	uint64_t read = ++a->counters.received[in];
	sync_store_release(kernels_consumed(&a->layout, a->windows[w->from[i]], out), read);
}

/* ---- The executor ------------------------------------------------------------------------------------- */

/* Executes w->action with the whole block; 0 when it failed. */
template <class Op>
__device__ static int execute(const struct kernels_steps *a, struct walk *w, const struct sync_limits *limits)
{
	const size_t element = sizeof(typename Op::element);
	const int t = (int)threadIdx.x;
	int bad = 0;
	const bool hears = t < w->nfrom && !w->source_is_mine[t];
	if (hears)
		bad = hear(a, w, limits, t, element);
	if (!bad && t < w->nto)
		bad = gain(a, w, limits, t);
	if (__syncthreads_or(bad))
		return 0;
	if (t == 0)
		list_data(a, w, element);
	__syncthreads();
	move<Op>(w);
	__syncthreads();
	if (t < w->nto)
		publish(a, w, t, element);
	if (hears)
		release(a, w, t);
	return 1;
}

__device__ static int nth_program(uint32_t mask, int n)
{
	int p = 0;
	for (;; p++)
		if (mask >> p & 1 && n-- == 0)
			return p;
}

template <class Op>
__global__ void __launch_bounds__(THREADS, 1) steps_kernel(const __grid_constant__ struct kernels_steps a)
{
	__shared__ struct walk w;
	const int programs = __popc(a.programs);
	const struct sync_limits limits = { &((const struct kernels_control *)a.windows[mine(&a)])->abort, a.abort,
					    a.timeout_ns };
	if (sync_load_relaxed(limits.abort)) /* this communicator has failed */
		return;
	if (threadIdx.x == 0) {
		w.program = nth_program(a.programs, (int)blockIdx.x % programs);
		w.env = a.env;
		w.env.channel = (int)blockIdx.x / programs;
		w.action.op = PLAN_WAIT;
		plan_cursor_start(&w.cursor, &a.plan, w.program);
	}
	for (;;) {
		__syncthreads();
		if (threadIdx.x == 0) {
			w.go = plan_cursor_next(&w.cursor, &a.plan, &w.env, &w.action);
			if (w.go)
				list_action(&a, &w);
		}
		__syncthreads();
		if (!w.go || !execute<Op>(&a, &w, &limits))
			return;
	}
}

/* ---- Launchers ---------------------------------------------------------------------------------------- */

int kernels_load(void)
{
	struct cudaFuncAttributes attributes;
	return (int)cudaFuncGetAttributes(&attributes, steps_kernel<float_sum>);
}

int kernels_offer(int type, int op, int wire_type)
{
	return type == CORALE_FLOAT32 && op == CORALE_SUM && wire_type == CORALE_FLOAT32;
}

int kernels_launch_steps(const struct kernels_steps *args, void *stream)
{
	const int blocks = __builtin_popcount(args->programs) * args->plan.channels;
	steps_kernel<float_sum><<<blocks, THREADS, 0, (cudaStream_t)stream>>>(*args);
	return (int)cudaGetLastError();
}
