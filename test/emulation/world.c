/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes ranks on emulated GPUs, as lib/cuda/engine_cuda_open.c makes them on real ones. */
#include "world.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "exports.h"
#include "nodes.h"
#include "plan/plan_eval.h"

/* ---- What lib/cuda/codelet/run.c asks of the other files of the engine ---------------------------------------- */

int engine_check(const struct engine *e, int error, const char *what)
{
	return error ? log_error(CORALE_EDEVICE, e->rank, "%s: error %d", what, error) : 0;
}

int engine_check_driver(const struct engine *e, CUresult error, const char *what)
{
	return engine_check(e, error, what);
}

/* A stream's handle may be used anew. */
static unsigned long long generations[GPU_STREAMS];

void world_new_stream(void *stream)
{
	__atomic_fetch_add(&generations[(uintptr_t)stream], 1, __ATOMIC_RELAXED);
}

static CUresult stream_id(CUstream stream, unsigned long long *id)
{
	*id = (uintptr_t)stream +
	      GPU_STREAMS * __atomic_load_n(&generations[(uintptr_t)stream], __ATOMIC_RELAXED);
	return CUDA_SUCCESS;
}

/*
 * In a block of one warp call_end writes the epoch that all lanes have read without a barrier between, in the order of
 * their common instructions alone. To go when it has one. And hosts look at a failure while a kernel writes it, its code last.
 */
__attribute__((visibility("default"))) const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
	return "race:^call_end<\n"
	       "race:^call_record<\n";
}

enum { WORLD_REGIONS = 2, LISTS_BYTES = 1 << 20 };

/* Lists are memory of the host here. */
int engine_put(struct engine *e, void *to, const void *from, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += sizeof(uint32_t)) { /* as a copy engine, beside kernels */
		uint32_t word;
		memcpy(&word, (const char *)from + at, sizeof word);
		__atomic_store_n((uint32_t *)(void *)((char *)to + at), word, __ATOMIC_RELAXED);
	}
	return 0;
}

cudaError_t cudaMalloc(void **out, size_t bytes)
{
	*out = malloc(bytes);
	return *out ? cudaSuccess : cudaErrorMemoryAllocation;
}

int engine_malloc(struct engine *e, size_t bytes, void **out)
{
	return cudaMalloc(out, bytes) ? CORALE_ENOMEM : 0;
}

void engine_mfree(struct engine *e, void *memory, size_t bytes)
{
	free(memory);
}

void engine_note_capture(struct engine *e)
{
	e->captured = 1;
}

/* ---- Ranks ---------------------------------------------------------------------------------------------------- */

/* As after so many messages of each pair, taken out, and about as many slots of each of its rings. Their lines are as at first: any of them
 * may be one that none of these messages reached. */
static void count_messages(const struct world *w, int rank, uint64_t messages)
{
	struct codelet_state *s = w->engines[rank].state;
	unsigned char *window = w->windows + (size_t)rank * w->engines[rank].stride;
	struct codelet_header *headers = (struct codelet_header *)(window + w->layout.headers);
	struct codelet_ring_taken *taken = (struct codelet_ring_taken *)(window + w->layout.rings_taken);
	struct codelet_ring_end *ends = (struct codelet_ring_end *)(s + 1);
	for (int peer = 0; peer < w->engines[rank].ranks; peer++)
		for (int channel = 0; channel < CODELET_CHANNELS; channel++)
			s->pair_sent[channel][peer] = s->pair_received[channel][peer] = messages;
	for (size_t i = 0; i < (size_t)w->layout.ranks * w->layout.pair_rings; i++)
		taken[i].slots = ends[i].sent = ends[i].received = messages;
	for (uint32_t i = 0; i < 2 * w->layout.ranks; i++)
		headers[i].epoch_c = headers[i].epoch_d = (uint32_t)messages;
}

int world_forced, world_in_host;

static int open_rank(struct world *w, int rank, const struct world_params *p, size_t stride)
{
	struct engine *e = &w->engines[rank];
	unsigned char *window = w->windows + (size_t)rank * stride;
	e->rank = p->nodes ? w->topo->local_of[rank] : rank;
	e->ranks = p->nodes ? plan_group_size(&w->topo->map, PLAN_NODE, rank) : p->ranks;
	e->world_rank = rank;
	e->world_ranks = p->ranks;
	e->machine =
	    (struct gpu_machine){ .rates = w->machine.rates,
				  .max_blocks = p->max_blocks,
				  .resident = 2 * p->max_blocks,
				  .forced = world_forced,
				  .words_only = p->words_only || world_in_host,
				  .host_window = world_in_host,
				  .over_nodes = (int)(p->lists_ranks >> rank & 1), /* so says p2p.c */
				  .zero_copy = p->exports == EXPORTS_NONE ? 0
					       : p->read_blocks           ? p->read_blocks
									  : LAUNCH_ZERO_COPY_BLOCKS };
	e->layout = w->layout;
	e->base =
	    (CUdeviceptr)(w->windows + (size_t)(rank - e->rank) * stride); /* of the node's first rank */
	e->stride = stride;
	e->state = calloc(1, codelet_state_bytes(&w->layout));
	e->failure = calloc(1, sizeof(*e->failure));
	e->abort = calloc(1, sizeof(*e->abort));
	e->hold = calloc(1, sizeof(*e->hold));
	e->waits = calloc(CODELET_MAX_RANKS, sizeof(*e->waits));
	e->p2p = calloc(1, sizeof(*e->p2p));
	e->staged = calloc(1, sizeof(*e->staged));
	e->jobs = calloc(ENGINE_COPY_JOBS, sizeof(*e->jobs));
	e->second = (cudaStream_t)GPU_STREAM(1);
	e->work = (cudaStream_t)GPU_STREAM(2);
	e->ready = (cudaEvent_t)&w->events[2 * rank];
	e->copied = (cudaEvent_t)&w->events[2 * rank + 1];
	e->edges_at_once = p->edges_at_once ? p->edges_at_once : (CODELET_MAX_MESSAGES - 1) / 2;
	e->gpu_peers = w->regions;
	e->driver.stream_id = stream_id;
	if (!e->state || !e->failure || !e->abort || !e->hold || !e->waits || !e->p2p || !e->staged ||
	    !e->jobs || engine_open_lists(e))
		return CORALE_ENOMEM;
	for (int b = 0; b < CODELET_MAX_BLOCKS; b++)
		e->state->epochs[b] = p->first_epoch;
	e->state->failure = e->failure;
	e->state->host_abort = e->abort;
	e->state->hold = e->hold;
	e->state->waits = e->waits;
	engine_make_args(e);
	*e->hold = p->holds != 0;
	e->state->timeout_ns = p->timeout_ns;
	memset(window, 0, w->layout.bytes);
	memset(window + w->layout.words, 0xff, w->layout.lines - w->layout.words);
	count_messages(w, rank, p->first_message);
	gpu_whole(window + w->layout.headers, w->layout.flags - w->layout.headers, 8);
	gpu_whole(window + w->layout.grants, w->layout.rings_taken - w->layout.grants, 8);
	gpu_whole(window + w->layout.lines, w->layout.slots - w->layout.lines,
		  p->torn_lines || world_in_host ? 8 : CODELET_LINE);
	return 0;
}

/* Memory of each rank that the others may store into. */
static unsigned char **make_region(struct world *w, int region, size_t bytes)
{
	unsigned char **memory = w->regions + region * w->ranks;
	int made = 1;
	for (int r = 0; r < w->ranks; r++) {
		memory[r] = aligned_alloc(4096, plan_round(bytes, 4096));
		made = made && memory[r];
	}
	for (int r = 0; made && r < w->ranks; r++)
		w->engines[r].regions[region] = (struct engine_region){
			.begin = memory[r], .bytes = bytes, .peers = memory, .gpu_peers = memory
		};
	return memory;
}

static int is_made(const struct world *w, unsigned char *const *memory)
{
	for (int r = 0; r < w->ranks; r++)
		if (!memory[r])
			return 0;
	return 1;
}

static int make_topo(struct world *w, const struct world_params *p)
{
	uint64_t *node = p->nodes ? nodes_ids(p->nodes, w->ranks) : calloc((size_t)w->ranks, sizeof *node);
	int ret = node ? topo_create(w->ranks, node, &w->topo) : CORALE_ENOMEM;
	free(node);
	if (!ret)
		topo_set_gpus(w->topo, w->machine.rates);
	return ret;
}

static void make_planner(struct world *w, const struct world_params *p)
{
	enum { REMOTE_BLOCKS = 24 }; /* as lib/call/gpu_plan.c has it */
	const struct settings settings = { .chunk_bytes = p->chunk_bytes };
	planner_init_gpus(&w->planner, w->topo, &settings, &w->machine);
	w->single_channel = w->planner;
	if (p->nodes) {
		planner_limit_remote(&w->planner, p->remote_slot, REMOTE_CHANNELS, REMOTE_BLOCKS);
		planner_limit_remote(&w->single_channel, p->remote_slot / 2, 1, REMOTE_BLOCKS);
	}
}

/* Lists name ranks by their places. */
static void place_peers(struct world *w, int rank, int single_channel, struct lowered *lowered,
			struct lowered_messages *messages)
{
	const struct remote_slots *slots = w->engines[rank].remote.remote.slots;
	const int *place_of = nodes_places(w, rank);
	for (int i = 0; place_of && i < lowered->npeers; i++)
		lowered->peers[i].rank = (int16_t)place_of[lowered->peers[i].rank];
	if (place_of) {
		lower_ahead(
		    lowered, w->engines[rank].ranks,
		    remote_ahead(&slots[single_channel ? REMOTE_OF_SINGLE_CHANNEL : REMOTE_OF_PLANS]));
		memset(messages, 0, sizeof *messages);
	}
}

int world_plan(struct world *w, const struct plan_key *key, int row, int single_channel, int rank, int root,
	       struct plan *plan, int *list, struct lowered_messages *messages)
{
	struct lowered lowered;
	const char *why;
	int ret = planner_build(single_channel ? &w->single_channel : &w->planner, key, row, plan);
	ret = ret ? ret
		  : (w->nodes ? lower_plan_rolled : lower_plan)(plan, &w->topo->map, rank, root, &lowered,
								&why);
	if (ret || lower_messages(plan, &w->topo->map, root, messages))
		memset(messages, 0, sizeof *messages);
	if (!ret)
		place_peers(w, rank, single_channel, &lowered, messages);
	return ret ? ret : engine_add_list(&w->engines[rank], &lowered, list);
}

static int make_scratch(struct world *w, size_t chunk)
{
	w->scratch = make_region(w, 1, 2 * chunk * (size_t)(w->ranks - 1));
	for (int r = 0; is_made(w, w->scratch) && r < w->ranks; r++) {
		w->engines[r].scratch = w->scratch[r];
		engine_use_scratch(&w->engines[r], 1, 2 * chunk);
	}
	return is_made(w, w->scratch) ? 0 : CORALE_ENOMEM;
}

int world_open(struct world *w, const struct world_params *p)
{
	memset(w, 0, sizeof(*w));
	w->ranks = p->ranks;
	w->machine.rates = rates_of_default_gpu();
	if (make_topo(w, p))
		return CORALE_ENOMEM;
	codelet_layout_init(&w->layout, p->nodes ? w->topo->map.max_node_size : p->ranks, p->window_bytes);
	size_t stride = plan_round(w->layout.bytes, 4096);
	w->windows = aligned_alloc(4096, (size_t)p->ranks * stride);
	w->engines = calloc((size_t)p->ranks, sizeof(*w->engines));
	w->regions = calloc((size_t)(p->ranks * WORLD_REGIONS), sizeof(*w->regions));
	w->events = calloc(2 * (size_t)p->ranks, sizeof(*w->events));
	w->machine.ranks = p->ranks;
	w->machine.max_blocks = p->max_blocks;
	w->machine.words_bytes = w->layout.words_bytes;
	w->machine.lines_bytes = w->layout.lines_bytes;
	w->machine.slots_bytes = w->layout.slots_bytes;
	w->machine.rings_bytes = codelet_rings_room(w->layout.pair_rings, w->layout.ring_depth);
	gpu_forget();
	int ret = w->windows && w->engines && w->regions && w->events ? 0 : CORALE_ENOMEM;
	for (int r = 0; !ret && r < p->ranks; r++)
		ret = open_rank(w, r, p, stride);
	if (!ret && world_in_host)
		gpu_one_polls(w->windows, (size_t)p->ranks * stride);
	if (!ret && p->registered_bytes) {
		w->registered = make_region(w, 0, p->registered_bytes);
		ret = is_made(w, w->registered) ? 0 : CORALE_ENOMEM;
	}
	if (!ret && p->scratch_chunk)
		ret = make_scratch(w, p->scratch_chunk);
	w->exports = p->exports;
	if (!ret && p->exports)
		ret = exports_open(p->ranks, p->exports, p->exports_apart);
	if (!ret && p->nodes)
		ret = nodes_open(w, p->remote_slot, p->slab_rails);
	for (int r = 0; !ret && r < p->ranks; r++)
		w->engines[r].index_of = nodes_places(w, r);
	make_planner(w, p);
	if (ret)
		world_close(w);
	return ret;
}

void world_close(struct world *w)
{
	nodes_close(w);
	exports_close();
	for (int r = 0; w->engines && r < w->ranks; r++) {
		free(w->engines[r].state);
		free(w->engines[r].failure);
		free(w->engines[r].abort);
		free(w->engines[r].hold);
		free(w->engines[r].waits);
		free(w->engines[r].p2p);
		free(w->engines[r].staged);
		free(w->engines[r].jobs);
		engine_close_lists(&w->engines[r]);
	}
	for (int r = 0; w->registered && r < w->ranks; r++)
		free(w->registered[r]);
	for (int r = 0; w->scratch && r < w->ranks; r++)
		free(w->scratch[r]);
	topo_destroy(w->topo);
	free(w->regions);
	free(w->events);
	free(w->engines);
	free(w->windows);
}

/* ---- Runs --------------------------------------------------------------------------------------------------- */

struct run {
	struct world *world;
	void (*host)(int rank, void *arg);
	void *arg;
	_Atomic int under_way; /* ranks */
};

static void run_host(int number, void *arg)
{
	struct run *r = arg;
	if (number < r->world->ranks) {
		r->host(number, r->arg);
		gpu_synchronize();
		atomic_fetch_sub_explicit(&r->under_way, 1, memory_order_relaxed);
	}
	for (; number >= r->world->ranks && atomic_load_explicit(&r->under_way, memory_order_relaxed);
	     gpu_pause(1))
		if (r->world->exports)
			exports_step();
		else
			nodes_carry(r->world, number - r->world->ranks);
}

int world_run(struct world *w, void (*host)(int rank, void *arg), void *arg, uint64_t seed)
{
	struct run r = { w, host, arg, w->ranks };
	return gpu_run(w->nodes ? 2 * w->ranks : w->ranks + (w->exports != EXPORTS_NONE), run_host, &r, seed);
}

int world_faults(const struct world *w)
{
	return nodes_faults(w);
}

int world_place(const struct world *w, int rank, int other)
{
	const int *place_of = nodes_places(w, rank);
	return place_of ? place_of[other] : other;
}

static struct call message(corale_coll coll, int peer, uint64_t bytes, corale_type type)
{
	const size_t element = corale_type_bytes(type);
	if (bytes % element)
		abort();
	return (
	    struct call){ .record = { .coll = coll, .count = bytes / element, .type = type, .root = peer } };
}

struct call world_send(int to, const void *data, uint64_t bytes, corale_type type)
{
	struct call c = message(CORALE_SEND, to, bytes, type);
	c.send = data;
	return c;
}

struct call world_receive(int from, void *data, uint64_t bytes, corale_type type)
{
	struct call c = message(CORALE_RECV, from, bytes, type);
	c.recv = data;
	return c;
}

void world_abort(struct world *w, int rank, int code)
{
	__atomic_store_n(w->engines[rank].abort, (uint32_t)-code, __ATOMIC_RELAXED);
}

void world_quit(struct world *w, int rank, int code)
{
	__atomic_store_n(w->engines[rank].abort, (uint32_t)-code | CODELET_LOCAL_ABORT, __ATOMIC_RELAXED);
}

void world_release(struct world *w, int rank)
{
	__atomic_store_n(w->engines[rank].hold, 0u, __ATOMIC_RELEASE);
}
