/* SPDX-License-Identifier: BSD-3-Clause */
#include "planner_room.h"

#include <stdlib.h>
#include <string.h>

#include "base/collectives.h"
#include "plan/plan_eval.h"

enum { MOST_EXACT = 256 /* ranks */ };

static size_t cells(const struct connection_edges *e)
{
	const size_t ranks = (size_t)e->map->ranks;
	return e->exact ? ranks * ranks : ranks;
}

/* How far b is behind a in a circle of n. */
static int behind(int a, int b, int n)
{
	return b >= a ? b - a : b - a + n;
}

static uint8_t *cell_of(const struct connection_edges *e, int from, int to)
{
	const int n = e->map->ranks;
	return &e->queues[e->exact ? (size_t)from * (size_t)n + (size_t)to : (size_t)behind(from, to, n)];
}

static int node_size(const struct plan_map *map, int node)
{
	return map->node_first[node + 1] - map->node_first[node];
}

int connection_edges_open(struct connection_edges *e, const struct plan_map *map)
{
	*e = (struct connection_edges){ .map = map, .exact = map->ranks <= MOST_EXACT, .alike = 1 };
	for (int node = 0; node < map->nodes; node++)
		e->alike &= node_size(map, node) == map->max_node_size;
	for (int i = 0; i < map->ranks; i++)
		e->alike &= map->member[i] == i;
	e->queues = calloc(cells(e), 1);
	e->apart = calloc((size_t)map->ranks, 1);
	if (e->queues && e->apart)
		return 0;
	connection_edges_close(e);
	return CORALE_ENOMEM;
}

void connection_edges_close(struct connection_edges *e)
{
	free(e->queues);
	free(e->apart);
}

void connection_edges_begin(struct connection_edges *e)
{
	memset(e->queues, 0, cells(e));
}

/* ---- A walk of a plan's sends ----------------------------------------------------------------------------- */

struct walk {
	struct connection_edges *edges;
	const struct plan *plan;
	struct plan_env env;
	int var[PLAN_MAX_LOOPS], depth;
	void (*add)(struct walk *walk, int to,
		    int queue); /* what the walk's rank sends to a rank of another node, or itself */
	int known[PLAN_MAX_QUEUES]; /* of queue: how many distances; */
	uint8_t full; /* queues of which all are */
};

static void add_edge(struct walk *w, int to, int queue)
{
	if (w->env.map.node_of[to] != w->env.map.node_of[w->env.rank])
		*cell_of(w->edges, w->env.rank, to) |= (uint8_t)(1 << queue);
}

static void add_apart(struct walk *w, int distance, int most, int queue)
{
	uint8_t *queues = &w->edges->apart[distance];
	if (!distance || *queues >> queue & 1)
		return;
	*queues |= (uint8_t)(1 << queue);
	if (++w->known[queue] == most)
		w->full |= (uint8_t)(1 << queue);
}

static void add_ranks_apart(struct walk *w, int to, int queue)
{
	add_apart(w, behind(w->env.rank, to, w->env.map.ranks), w->env.map.ranks - 1, queue);
}

static void add_nodes_apart(struct walk *w, int to, int queue)
{
	const struct plan_map *map = &w->env.map;
	add_apart(w, behind(map->node_of[w->env.rank], map->node_of[to], map->nodes), map->nodes - 1, queue);
}

/* A step that may send to another node, along a queue of which not all is known. */
static int sends_far(const struct walk *w, const struct plan_step *step)
{
	return step->op != PLAN_LOOP && step->op != PLAN_END && step->to && step->to_group != PLAN_NODE &&
	       !(w->full >> step->to_queue & 1);
}

/* As the lowered list has it (lower.c), but that an absent part or block makes no difference: then the count is too high, if anything. */
static void add_step(struct walk *w, const struct plan_step *step)
{
	const struct plan_env *env = &w->env;
	const struct plan_map *map = &env->map;
	int skip = 0;
	if (!plan_predicate(w->plan, env, w->var, step))
		return;
	const int rail = step->rail ? plan_value(w->plan, env, w->var, step->rail) : map->local_of[env->rank];
	if (rail < 0)
		return;
	plan_peer(w->plan, env, w->var, step->from_group, rail, step->from, &skip);
	const int to = plan_peer(w->plan, env, w->var, step->to_group, rail, step->to, &skip);
	if (skip)
		return;
	const int members = to == PLAN_ALL ? plan_group_size(map, step->to_group, env->rank) : 0;
	for (int i = 0; i < members; i++)
		w->add(w, plan_group_member(map, step->to_group, env->rank, rail, i), step->to_queue);
	if (to >= 0)
		w->add(w, to, step->to_queue);
}

static void add_steps(struct walk *w, int pc, int end);

/* How often a loop must be gone through: not more than once where the ranks that its steps talk to are the same each time, as in a ring, and not at all
 * where no step sends to other nodes. */
static int trips_of(const struct walk *w, const struct plan_step *loop, int body, int end)
{
	int far = 0, differ = 0;
	for (int pc = body; pc < end; pc++) {
		const struct plan_step *step = &w->plan->steps[pc];
		const uint8_t all[] = { step->pred_a, step->pred_b, step->from,
					step->to,     step->rail,   step->trips };
		far |= sends_far(w, step);
		for (size_t i = 0; i < sizeof all; i++)
			differ |= plan_depends(w->plan, all[i], w->depth);
	}
	if (!far || !plan_predicate(w->plan, &w->env, w->var, loop))
		return 0;
	const int trips = plan_bases[w->plan->exprs[loop->trips].base].counts_chunks
			      ? 1
			      : plan_value(w->plan, &w->env, w->var, loop->trips);
	return differ || trips < 1 ? trips : 1;
}

static void add_loop(struct walk *w, const struct plan_step *step, int body, int end)
{
	const int trips = trips_of(w, step, body, end), depth = w->depth++;
	for (w->var[depth] = 0; w->var[depth] < trips; w->var[depth]++)
		add_steps(w, body, end);
	w->var[depth] = 0;
	w->depth = depth;
}

static void add_steps(struct walk *w, int pc, int end)
{
	while (pc < end) {
		const struct plan_step *step = &w->plan->steps[pc++];
		if (step->op == PLAN_LOOP) {
			const int after = plan_loop_end(w->plan, pc);
			add_loop(w, step, pc, after - 1);
			pc = after;
		} else if (sends_far(w, step)) {
			add_step(w, step);
		}
	}
}

static void add_ranks(struct walk *w, int first, int end, int step)
{
	for (w->env.rank = first; w->env.rank < end; w->env.rank += step)
		for (int p = 0; p < w->plan->nprograms; p++) {
			const struct plan_program *program = &w->plan->programs[p];
			add_steps(w, program->first, program->first + program->steps);
		}
}

/* ---- All ranks and roots ---------------------------------------------------------------------------------- */

static void spread_over_ranks(struct connection_edges *e)
{
	const struct plan_map *map = e->map;
	const int n = map->ranks;
	for (int d = 1; d < n; d++)
		for (int from = 0; e->apart[d] && from < (e->exact ? n : 1); from++) {
			const int to = from + d < n ? from + d : from + d - n;
			if (!e->exact || map->node_of[from] != map->node_of[to])
				*cell_of(e, from, to) |= e->apart[d];
		}
}

/* Rails are the parts of the largest node. */
static void spread_over_rails(struct connection_edges *e, int node, int other, uint8_t queues)
{
	const struct plan_map *map = e->map;
	for (int rail = 0; rail < map->max_node_size; rail++)
		*cell_of(e, map->member[map->node_first[node] + rail % node_size(map, node)],
			 map->member[map->node_first[other] + rail % node_size(map, other)]) |= queues;
}

static void spread_over_nodes(struct connection_edges *e)
{
	const int n = e->map->nodes;
	for (int d = 1; d < n; d++)
		for (int node = 0; e->apart[d] && node < (e->exact || !e->alike ? n : 1); node++)
			spread_over_rails(e, node, node + d < n ? node + d : node + d - n, e->apart[d]);
}

/* On nodes that are alike the rails are, too, and as far apart: then plans that know nodes send alike from each rail, and one rank of each node is looked at. */
static void add_rooted(struct walk *w, int flat)
{
	w->add = flat ? add_ranks_apart : add_nodes_apart;
	w->env.root = w->env.map.member[0];
	add_ranks(w, 0, w->env.map.ranks, !flat && w->edges->alike ? w->env.map.max_node_size : 1);
	(flat ? spread_over_ranks : spread_over_nodes)(w->edges);
}

/* A queue along which one rank talks to all others is taken for one along which all do. */
static void find_full(struct walk *w)
{
	w->add = add_ranks_apart;
	add_ranks(w, 0, 1, 1);
	for (int i = 0; i < w->env.map.ranks; i++)
		w->edges->apart[i] &= w->full;
	spread_over_ranks(w->edges);
}

static void add_unrooted(struct walk *w, int flat)
{
	const struct connection_edges *e = w->edges;
	if (flat)
		find_full(w);
	w->add = add_edge;
	add_ranks(w, 0, e->map->ranks, flat || e->exact || !e->alike ? 1 : e->map->max_node_size);
}

void connection_edges_add(struct connection_edges *e, const struct plan *plan, int flat)
{
	struct walk w = { .edges = e, .plan = plan };
	w.env = (struct plan_env){ .map = *e->map, .unit = 1, .chunk = 1, .chunks = 1 };
	memset(e->apart, 0, (size_t)e->map->ranks);
	(coll_is_rooted(plan->key.coll) ? add_rooted : add_unrooted)(&w, flat);
}

/* ---- Room ------------------------------------------------------------------------------------------------- */

int connection_ends_open(struct connection_ends *ends, const struct connection_edges *edges, size_t most)
{
	const size_t ranks = (size_t)edges->map->ranks;
	*ends = (struct connection_ends){ .most = most,
					  .connections = calloc(cells(edges), sizeof *ends->connections) };
	ends->of_rank = calloc(ranks, sizeof *ends->of_rank);
	ends->more = calloc(ranks, sizeof *ends->more);
	if (ends->connections && ends->of_rank && ends->more)
		return 0;
	connection_ends_close(ends);
	return CORALE_ENOMEM;
}

void connection_ends_close(struct connection_ends *ends)
{
	free(ends->connections);
	free(ends->of_rank);
	free(ends->more);
}

/* By a set of queues: the connections of all channels. */
static void find_connections(int channels, uint32_t connections[1 << PLAN_MAX_QUEUES])
{
	for (uint32_t queues = 0; queues < 1 << PLAN_MAX_QUEUES; queues++) {
		connections[queues] = 0;
		for (int channel = 0; channel < channels; channel++)
			connections[queues] |= queues << (channel * PLAN_MAX_QUEUES);
	}
}

/* By distances each rank has a receiver and a sender at each: all ranks have the ends of rank 0. */
static void count_more(struct connection_ends *ends, const struct connection_edges *e, size_t cell,
		       uint32_t connections)
{
	const size_t n = (size_t)e->map->ranks;
	const uint32_t more = (uint32_t)__builtin_popcount(connections & ~ends->connections[cell]);
	ends->more[e->exact ? cell / n : 0] += more;
	ends->more[e->exact ? cell % n : 0] += more;
}

int connection_ends_take(struct connection_ends *ends, const struct connection_edges *e, int channels)
{
	const size_t n = (size_t)e->map->ranks, all = cells(e);
	uint32_t connections[1 << PLAN_MAX_QUEUES];
	int fits = 1;
	find_connections(channels, connections);
	memset(ends->more, 0, n * sizeof *ends->more);
	for (size_t i = 0; i < all; i++)
		if (e->queues[i])
			count_more(ends, e, i, connections[e->queues[i]]);
	for (size_t i = 0; i < n; i++)
		fits &= ends->of_rank[i] + ends->more[i] <= ends->most;
	for (size_t i = 0; fits && i < all; i++)
		ends->connections[i] |= connections[e->queues[i]];
	for (size_t i = 0; fits && i < n; i++)
		ends->of_rank[i] += ends->more[i];
	return fits;
}
