/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of plans over proxies: the lowered list of every row that GPUs over nodes can run, played by all ranks without data to fold. A message takes the
 * slot, size and place in the order of its connection that a kernel would give it.
 */
#include <mpi.h>
#include <stdio.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/collectives.h"
#include "base/status.h"
#include "base/wait.h"
#include "test/helpers/lowered_walk.h"
#include "examples/plans/planned.h"
#include "plan/lower.h"
#include "plan/machine/rates.h"
#include "plan/codelet/row.h"
#include "ranks_proxy.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

enum { MOST_WALKS = 64, CHUNK_BYTES = 2 << 10 };

static const int64_t deadline_ns = 60ll * 1000 * 1000 * 1000;

/* A block's program: the operation that it is at, of which so many messages are through. */
struct walk {
	struct lowered_walk at;
	const struct lowered_op *op; /* NULL: it has ended */
	size_t bytes; /* of each of its messages */
	int taken, posted;
};

struct player {
	struct proxy_world *world;
	const struct topo *topo;
	struct lowered_call call;
	struct lowered list;
	struct walk walks[MOST_WALKS];
	int n;
};

/* To the next operation that is not skipped, or the end. */
static void advance(struct walk *w)
{
	w->op = NULL;
	w->taken = w->posted = 0;
	for (const struct lowered_op *o; !w->op && (o = lowered_walk_next(&w->at));) {
		struct lowered_slice src, dst;
		size_t at;
		lowered_cut(w->at.call, &o->src, w->at.channel, &src);
		lowered_cut(w->at.call, &o->dst, w->at.channel, &dst);
		const ptrdiff_t in = lowered_piece(w->at.call, &o->src, &src, w->at.trip, &at),
				out = lowered_piece(w->at.call, &o->dst, &dst, w->at.trip, &at);
		if (in < 0 || out < 0)
			continue;
		w->op = o;
		w->bytes = o->op == PLAN_MOVE ? (size_t)(o->src.space ? in : out) * (size_t)lowered_blocks(o)
					      : 0; /* of CORALE_UINT8 */
	}
}

/* Its number among those of other nodes, or of this one: -1. */
static int peer_of(const struct player *p, int index)
{
	const int rank = p->world->rank, peer = p->list.peers[index].rank;
	const int *node = p->topo->node_of;
	return node[peer] == node[rank] ? -1 : peer - (peer > rank);
}

/* As a kernel: all messages of an operation come before its own leave. 1 if any moved. */
static int step(struct player *p, struct walk *w)
{
	const struct lowered_op *o = w->op;
	const int before = w->taken + w->posted;
	for (; w->taken < o->from_count; w->taken++) {
		const int i = peer_of(p, o->from_first + w->taken);
		const uint32_t index = remote_index((uint32_t)w->at.channel, o->from_queue);
		if (i >= 0 && !proxy_world_take(p->world, i, index, w->bytes))
			return w->taken + w->posted > before;
	}
	for (; w->posted < o->to_count; w->posted++) {
		const int i = peer_of(p, o->to_first + w->posted);
		const uint32_t index = remote_index((uint32_t)w->at.channel, o->to_queue);
		if (i >= 0 && !proxy_world_post(p->world, i, index, w->bytes, w->bytes <= REMOTE_FEW_BYTES))
			return w->taken + w->posted > before;
	}
	advance(w);
	return 1;
}

static void play(struct player *p, const char *what)
{
	const int64_t start = wait_now_ns();
	int left = p->n;
	proxy_world_begin(p->world);
	while (left) {
		int moved = 0;
		left = 0;
		for (int i = 0; i < p->n; i++) {
			moved |= p->walks[i].op && step(p, &p->walks[i]);
			left += p->walks[i].op != NULL;
		}
		if (!moved)
			usleep(50);
		if (wait_now_ns() - start > deadline_ns)
			proxy_world_give_up(what);
	}
	proxy_world_end(p->world);
}

static void start_walks(struct player *p, const struct plan *plan)
{
	p->n = 0;
	for (int program = 0; program < plan->nprograms; program++)
		for (int channel = 0; channel < plan->channels; channel++) {
			struct walk *w = &p->walks[p->n++];
			if (p->n > MOST_WALKS)
				proxy_world_give_up("a plan of so many programs and channels");
			*w = (struct walk){ .at = { .list = &p->list,
						    .call = &p->call,
						    .pc = p->list.first[program],
						    .end = p->list.first[program + 1],
						    .channel = channel } };
			advance(w);
		}
}

/* 1 if the row has a list for this machine. */
static int play_row(struct player *p, const struct planner *planner, int row, size_t count, int root)
{
	int rows;
	const struct row *algo = &row_table(&rows)[row];
	const struct plan_key key = planner_key(algo->coll, count, CORALE_UINT8, CORALE_SUM);
	const struct plan_map *map = &planner->topo->map;
	struct plan plan;
	struct plan_env env;
	const char *why;
	char what[200];
	if (planner_build_priced(planner, &key, row, INFINITY, &plan, &(struct plan_cost){ 0 }) ||
	    lower_plan(&plan, map, p->world->rank, root, &p->list, &why))
		return 0;
	plan_env_init(&env, &plan, map, p->world->rank, root, count);
	lowered_call_init(&p->call, &plan, &env);
	start_walks(p, &plan);
	snprintf(what, sizeof what, "messages do not come: %s by %s, %zu bytes, root %d, on %d nodes",
		 corale_coll_name(algo->coll), algo->name, count, root, map->nodes);
	play(p, what);
	lowered_free(&p->list);
	return 1;
}

static int play_rows(struct player *p, const struct planner *planner)
{
	static const size_t counts[] = { 50, 3000, 120001 }; /* few bytes, a chunk, several */
	int rows, played = 0;
	const struct row *table = row_table(&rows);
	for (int row = 0; row < rows; row++) {
		const corale_coll coll = table[row].coll;
		const int last = coll_is_rooted(coll) ? p->world->size - 1 : 0;
		if (table[row].codelet || coll_is_pair(coll) || coll_is_uneven(coll) || !coll_has_data(coll))
			continue;
		for (size_t i = 0; i < COUNT(counts); i++)
			for (int root = 0; root <= last; root += last ? last : 1)
				played += play_row(p, planner, row, counts[i], root);
	}
	return played;
}

/* Ranks that follow each other share a node, so many each. */
static int play_machine(struct proxy_world *w, const struct settings *settings, int node_ranks)
{
	uint64_t node[PROXY_WORLD_RANKS];
	struct topo *topo;
	struct gpu_machine machine;
	struct planner planner, single;
	struct player p = { .world = w };
	for (int r = 0; r < w->size; r++)
		node[r] = (uint64_t)(r / node_ranks);
	if (topo_create(w->size, node, &topo))
		proxy_world_give_up("no memory");
	topo_set_gpus(topo, rates_of_default_gpu());
	gpu_machine_init(&machine, &topo->map, settings, rates_of_default_gpu());
	const struct remote remote = gpu_planners_remote(&topo->map, settings);
	gpu_planners_init(topo, settings, &machine, &remote, &planner, &single);
	p.topo = topo;
	const int played = play_rows(&p, &planner);
	topo_destroy(topo);
	return played;
}

void ranks_proxy_lists(const struct settings *given)
{
	struct settings settings = *given;
	struct proxy_world *w = proxy_world_open();
	settings.chunk_bytes = CHUNK_BYTES;
	for (int node_ranks = 1; node_ranks < w->size; node_ranks++)
		proxy_world_expect(play_machine(w, &settings, node_ranks) > 0, "no row has a list");
	proxy_world_expect(proxy_lost(w->proxy) < 0, "a rank is lost");
	MPI_Barrier(MPI_COMM_WORLD); /* none closes its side yet */
	proxy_world_expect(w->through_slots > 0, "no message went through a slot");
	proxy_world_close(w, 1000000000);
}
