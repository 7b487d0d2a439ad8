/*
 * The step executor: any plan, a block per program and channel, or a team of blocks. Thread 0 walks the program
 * and tells the block what to do through shared memory; the first threads look after one peer each (header,
 * credit); all threads move the data. A team's blocks walk the same program, share the elements of each action and
 * meet after it; the first of them speaks to peers. Blocks of a launch wait for each other and for those of peers,
 * so all must be resident.
 */
#include <cuda_runtime.h>

#include "corale.h"
#include "fold.cuh"
#include "kernels.h"
#include "launch.cuh"
#include "sync.cuh"

static constexpr int THREADS = 512;
static_assert(THREADS >= (int)KERNELS_MAX_PEERS, "a thread for each peer");

struct walk {
	struct plan_cursor cursor;
	struct plan_env env;
	struct plan_action action;
	int program, go;
	uint64_t actions;  /* executed in this call */
	/* messages of this call, by window: what the counters lack until it ends */
	uint32_t sent[PLAN_MAX_RINGS][KERNELS_MAX_PEERS], received[PLAN_MAX_RINGS][KERNELS_MAX_PEERS];
	int nfrom, nto; /* peers to hear from and to send to */
	int from[KERNELS_MAX_PEERS], to[KERNELS_MAX_PEERS]; /* window indices, in the group's order; mine too in from */
	struct fold fold;
	int source_is_mine[KERNELS_MAX_PEERS]; /* from[i] stands for the place of the local span in the fold */
};

/* ---- Peers -------------------------------------------------------------------------------------------- */

__device__ static size_t lane(const struct kernels_steps *a, const struct walk *w, int peer, int ring)
{
	return kernels_lane(&a->layout, peer, w->env.channel, ring);
}

__device__ static int mine(const struct kernels_steps *a)
{
	return a->peer_of[a->env.rank];
}

/* Number of the next message to a window, or from one. */
__device__ static uint64_t next_sent(const struct kernels_steps *a, const struct walk *w, int peer)
{
	int ring = w->action.to_ring;
	return a->counters.sent[lane(a, w, peer, ring)] + w->sent[ring][peer];
}

__device__ static uint64_t next_received(const struct kernels_steps *a, const struct walk *w, int peer)
{
	int ring = w->action.from_ring;
	return a->counters.received[lane(a, w, peer, ring)] + w->received[ring][peer];
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
	w->fold.nsources = w->fold.ntargets = 0;
	w->fold.count = action->count;
	if (action->op != PLAN_MOVE || !action->count)
		return;
	bool placed = !action->src.space;
	for (int i = 0; i < w->nfrom; i++) {
		if (w->source_is_mine[i]) {
			if (!placed)
				w->fold.sources[w->fold.nsources++] = place(a, w, &action->src, element);
			placed = true;
			continue;
		}
		if (w->from[i] == mine(a)) /* a token carries nothing */
			continue;
		size_t l = lane(a, w, w->from[i], action->from_ring);
		w->fold.sources[w->fold.nsources++] =
			kernels_payload(&a->layout, a->windows[mine(a)], l, next_received(a, w, w->from[i]));
	}
	if (!placed)
		w->fold.sources[w->fold.nsources++] = place(a, w, &action->src, element);
	if (action->dst.space)
		w->fold.targets[w->fold.ntargets++] = (unsigned char *)place(a, w, &action->dst, element);
	for (int i = 0; i < w->nto; i++) {
		if (w->to[i] == mine(a))
			continue;
		size_t l = lane(a, w, mine(a), action->to_ring);
		uint64_t message = next_sent(a, w, w->to[i]);
		w->fold.targets[w->fold.ntargets++] = kernels_payload(&a->layout, a->windows[w->to[i]], l, message);
	}
}

/* ---- Failure ------------------------------------------------------------------------------------------ */

/* The first failure that a block of this GPU meets is recorded for the host, and all peers are told. */
__device__ static void fail(const struct kernels_steps *a, const struct walk *w, int code, int peer, int sending,
			    uint64_t message, uint64_t expected, uint64_t got)
{
	struct kernels_control *control = (struct kernels_control *)a->windows[mine(a)];
	unsigned long long word = (unsigned long long)(mine(a) + 1) << 32 | (unsigned long long)-code;
	unsigned long long first = atomicCAS_system((unsigned long long *)&control->abort, 0ull, word);
	if (atomicExch(&control->recorded, 1))
		return;
	struct kernels_failure *f = a->failure;
	f->program = w->program;
	f->channel = w->env.channel;
	f->op = w->action.op;
	/* of an abort, who says so matters more than whom we waited for */
	f->peer = code == CORALE_EABORTED && first ? (int)(first >> 32) - 1 : peer;
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
	uint64_t message = next_received(a, w, w->from[i]);
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
	uint64_t message = next_sent(a, w, w->to[i]);
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
	size_t in = lane(a, w, mine(a), w->action.to_ring);
	uint64_t message = next_sent(a, w, w->to[i]);
	struct kernels_header *header = kernels_header(&a->layout, a->windows[w->to[i]], in, message);
	bool token = w->to[i] == mine(a);
	sync_store_relaxed(&header->signature, a->signature);
	sync_store_relaxed(&header->bytes, w->action.op == PLAN_MOVE && !token ? w->action.count * element : 0);
	sync_store_release(&header->sequence, message + 1);
}

/* After the block's barrier, one thread a peer: gives the slot back. */
__device__ static void release(const struct kernels_steps *a, const struct walk *w, int i)
{
	size_t out = lane(a, w, mine(a), w->action.from_ring);
	uint64_t read = next_received(a, w, w->from[i]) + 1;
	sync_store_release(kernels_consumed(&a->layout, a->windows[w->from[i]], out), read);
}

/* ---- The executor ------------------------------------------------------------------------------------- */

/* After the block's barrier: waits until all blocks of the team have executed the action. */
__device__ static int meet(const struct kernels_steps *a, struct walk *w, const struct sync_limits *limits)
{
	const int t = (int)threadIdx.x;
	uint64_t *progress = a->progress + kernels_progress(&a->layout, w->program, w->env.channel, 0);
	uint64_t value = a->call << 32 | (w->actions + 1);
	int bad = 0;
	if (t == 0)
		sync_store_release(progress + w->fold.member, value);
	if (t < w->fold.width) {
		int outcome = sync_wait(progress + t, value, limits);
		if (outcome)
			fail(a, w, outcome_code(outcome), mine(a), 0, w->actions, value, sync_load_relaxed(progress + t));
		bad = outcome;
	}
	return !__syncthreads_or(bad);
}

/* Executes w->action with the whole block; 0 when it failed. */
template <class Op>
__device__ static int execute(const struct kernels_steps *a, struct walk *w, const struct sync_limits *limits)
{
	const size_t element = sizeof(typename Op::element);
	const int t = (int)threadIdx.x;
	int bad = 0;
	const bool hears = t < w->nfrom && !w->source_is_mine[t], speaks = t < w->nto;
	if (hears)
		bad = hear(a, w, limits, t, element);
	if (!bad && speaks)
		bad = gain(a, w, limits, t);
	if (__syncthreads_or(bad))
		return 0;
	if (t == 0)
		list_data(a, w, element);
	if (t == 0 && w->fold.member == (w->fold.width > 1)) /* not the one that speaks to peers */
		sync_stall(a->stall_ns);
	__syncthreads();
	fold_all<Op>(&w->fold);
	__syncthreads();
	if (w->fold.width > 1 && !meet(a, w, limits))
		return 0;
	if (w->fold.member == 0 && speaks)
		publish(a, w, t, element);
	if (w->fold.member == 0 && hears)
		release(a, w, t);
	if (speaks)
		w->sent[w->action.to_ring][w->to[t]]++;
	if (hears)
		w->received[w->action.from_ring][w->from[t]]++;
	return 1;
}

/* Which program, channel and place in a team block b is. */
__device__ static void find_place(const struct kernels_steps *a, struct walk *w, int b)
{
	int p = 0, blocks = (int)gridDim.x / a->plan.channels;
	w->env.channel = b / blocks;
	for (b %= blocks;; p++) {
		int width = a->programs >> p & 1 ? a->width[p] : 0;
		if (b < width)
			break;
		b -= width;
	}
	w->program = p;
	w->fold.member = b;
	w->fold.width = a->width[p];
}

__device__ static void begin(const struct kernels_steps *a, struct walk *w)
{
	for (int i = (int)threadIdx.x; i < PLAN_MAX_RINGS * KERNELS_MAX_PEERS; i += (int)blockDim.x)
		(&w->sent[0][0])[i] = (&w->received[0][0])[i] = 0;
	if (threadIdx.x != 0)
		return;
	w->env = a->env;
	find_place(a, w, (int)blockIdx.x);
	w->actions = 0;
	w->nfrom = w->nto = 0;
	w->action.op = PLAN_WAIT;
	w->action.from_ring = w->action.to_ring = 0;
	plan_cursor_start(&w->cursor, &a->plan, w->program);
}

/* What this call sent and received goes into the counters; by the first of a team, after all others have met it. */
__device__ static void end(const struct kernels_steps *a, const struct walk *w)
{
	if (w->fold.member)
		return;
	for (int i = (int)threadIdx.x; i < PLAN_MAX_RINGS * a->layout.peers; i += (int)blockDim.x) {
		int ring = i / a->layout.peers, peer = i % a->layout.peers;
		if (w->sent[ring][peer])
			a->counters.sent[lane(a, w, peer, ring)] += w->sent[ring][peer];
		if (w->received[ring][peer])
			a->counters.received[lane(a, w, peer, ring)] += w->received[ring][peer];
	}
}

template <class Op>
__global__ void __launch_bounds__(THREADS, 1) steps_kernel(const __grid_constant__ struct kernels_steps a)
{
	__shared__ struct walk w;
	const struct sync_limits limits = { &((const struct kernels_control *)a.windows[mine(&a)])->abort, a.abort,
					    a.timeout_ns };
	begin(&a, &w);
	__syncthreads();
	const int failed = threadIdx.x == 0 && sync_load_relaxed(limits.abort);
	if (failed) /* a peer's failure, before we came */
		fail(&a, &w, CORALE_EABORTED, mine(&a), 0, 0, 0, 0);
	if (__syncthreads_or(failed))
		return;
	for (;;) {
		if (threadIdx.x == 0) {
			w.go = plan_cursor_next(&w.cursor, &a.plan, &w.env, &w.action);
			if (w.go)
				list_action(&a, &w);
		}
		__syncthreads();
		if (!w.go)
			break;
		if (!execute<Op>(&a, &w, &limits))
			return;
		__syncthreads();
		if (threadIdx.x == 0)
			w.actions++;
	}
	end(&a, &w);
}

/* ---- Launchers ---------------------------------------------------------------------------------------- */

int kernels_load(void)
{
	return load((const void *)steps_kernel<float_sum>);
}

int kernels_offer(int type, int op, int wire_type)
{
	return type == CORALE_FLOAT32 && op == CORALE_SUM && wire_type == CORALE_FLOAT32;
}

int kernels_launch_steps(const struct kernels_steps *args, void *stream)
{
	int blocks = 0;
	for (int p = 0; p < args->plan.nprograms; p++)
		blocks += args->programs >> p & 1 ? args->width[p] : 0;
	blocks *= args->plan.channels;
	steps_kernel<float_sum><<<blocks, THREADS, 0, (cudaStream_t)stream>>>(*args);
	return (int)cudaGetLastError();
}
