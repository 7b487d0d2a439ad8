/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a plan costs on a machine: its text is walked once for a few ranks, with loops sampled and
 * weighted, so that the price of a plan does not grow with the number of ranks. cost.h says what
 * one action costs.
 *
 * A program's time is its own work (copies, folds, a fixed cost per step) plus what it waits for. A step
 * that takes a message and passes one on is a link of a chain and waits for the wire every time. One that
 * only collects waits for the first of several peers, in each chunk; but once only in a program that
 * sends nothing, because the senders run ahead of it. The wires bound it all from below. Programs of a
 * rank run side by side (joined by tokens they overlap but for the first chunk) and share the rank's
 * cores and links.
 */
#include "cost.h"

#include <math.h>

#include "cost_walk.h"
#include "base/collectives.h"

enum { SAMPLES = 4 };

static void walk_steps(struct walk *w, int pc, int end, int depth, double weight);

/* How many trips of a loop are looked at: all where each has messages of another size, of which there are few. */
static int samples_of(const struct walk *w, int body, int after, int trips)
{
	for (int i = body; i < after; i++)
		if (w->plan->steps[i].blocks)
			return trips;
	return trips < SAMPLES ? trips : SAMPLES;
}

/*
 * The body of the loop at pc, for a few of its trips, each weighing as much as its share of them; the last chunk, which may
 * be short, for itself.
 */
static void walk_loop(struct walk *w, int pc, int after, int depth, double weight)
{
	const struct plan_step *step = &w->plan->steps[pc];
	struct walk before = *w;
	int trips = 0;
	if (plan_predicate(w->plan, &w->env, w->var, step))
		trips = plan_value(w->plan, &w->env, w->var, step->trips);
	int samples = samples_of(w, pc + 1, after, trips);
	int alone = trips > samples && w->plan->exprs[step->trips].base == PLAN_CHUNKS;
	int shares = samples - alone, shared = trips - alone;
	for (int i = 0; i < samples; i++) {
		int is_shared = i < shares;
		double trip_weight = is_shared ? (double)shared / shares : 1;
		w->var[depth] = is_shared ? (int)((2 * i + 1L) * shared / (2 * shares)) : trips - 1;
		w->first_visit = before.first_visit && i == 0;
		if (trips > 1 || depth == 0) { /* a loop of one trip is none */
			w->inner_first = i == 0 || depth == 0;
			w->outer_weight = depth ? weight : trip_weight;
		}
		walk_steps(w, pc + 1, after - 1, depth + 1, weight * trip_weight);
	}
	w->var[depth] = 0;
	w->first_visit = before.first_visit;
	w->inner_first = before.inner_first;
	w->outer_weight = before.outer_weight;
}

static void walk_steps(struct walk *w, int pc, int end, int depth, double weight)
{
	struct plan_action action;
	while (pc < end) {
		const struct plan_step *step = &w->plan->steps[pc];
		if (step->op == PLAN_LOOP) {
			int after = plan_loop_end(w->plan, pc + 1);
			walk_loop(w, pc, after, depth, weight);
			pc = after;
			continue;
		}
		if (step->op != PLAN_END && plan_resolve(w->plan, &w->env, w->var, step, &action))
			cost_add_action(w, step, &action, weight);
		pc++;
	}
}

static double serial_ns(const struct program_cost *cost)
{
	return cost->work_ns + cost->chain_ns + (cost->sends ? cost->paced_ns : cost->once_ns);
}

/* What the links take for what all channels send and receive. */
static double links_ns(const struct walk *w)
{
	double between = slower(slower(w->cost.out_ns, w->cost.in_ns), w->cost.proxy_ns);
	return slower(between, slower(w->cost.link_out_ns, w->cost.link_in_ns)) * w->plan->channels;
}

/* Programs that pass tokens work on the same chunk one after the other. */
static int has_tokens(const struct plan *plan)
{
	for (int i = 0; i < plan->nsteps; i++)
		if (plan->steps[i].op == PLAN_SIGNAL && plan->nprograms > 1)
			return 1;
	return 0;
}

/*
 * The share of all that goes through the programs at first: a chunk, or of one that goes on in parts what the first token
 * stands for. The last chunk may be shorter.
 */
static double first_share(const struct walk *w, double tokens)
{
	double slice = (double)w->env.count / w->plan->parts / w->plan->channels,
	       chunk = (double)w->env.chunk, chunks = plan_chunks(w->plan, &w->env, w->env.count);
	double share = slice > chunk ? chunk / slice : 1;
	return tokens > chunks ? share * chunks / tokens : share;
}

/* Time that a rank's programs take together of what it has once: cores, the node's link each way, a GPU's memory, a proxy. */
struct shared {
	double work_ns, link_out_ns, link_in_ns, memory_ns, proxy_ns;
};

static void add_shared(struct shared *all, const struct program_cost *one, int channels)
{
	all->work_ns += one->work_ns * channels;
	all->link_out_ns += one->link_out_ns * channels;
	all->link_in_ns += one->link_in_ns * channels;
	all->memory_ns += one->memory_ns * channels;
	all->proxy_ns += one->proxy_ns * channels;
}

/* Of cores: what all its programs need, by as many as work side by side. */
static double cores_ns(const struct walk *w, const struct shared *all)
{
	const double cores = w->topo->cores_per_rank_x16 / 16.0, part = cores < 1 ? cores : 1;
	return all->work_ns / cost_cores(w->topo, w->plan) / part;
}

/* The slowest of what all programs share. */
static double shared_ns(const struct walk *w, const struct shared *all)
{
	const double links = slower(all->link_out_ns, all->link_in_ns);
	return slower(slower(cores_ns(w, all), links), slower(all->memory_ns, all->proxy_ns));
}

/* The last byte that a rank sends others of its node is there a latency after its link has sent all. */
static double last_arrival_ns(const struct walk *w, const struct shared *all)
{
	return all->link_out_ns > 0 ? all->link_out_ns + cost_node_latency_ns(w->topo) : 0;
}

/*
 * The first chunk goes through all programs, all channels at a time; then the slowest program sets the pace, or the cores or
 * links that all share. Of what channels wait for each other, half is over when the next program begins: it is spread
 * evenly over them.
 */
static struct plan_cost rank_cost(struct walk *w, int rank)
{
	double pace = 0, first = 0, crowd = 0, most_crowd = 0, signals = 0;
	struct shared shared = { 0 };
	int tokens = has_tokens(w->plan);
	w->env.rank = rank;
	for (int p = 0; p < w->plan->nprograms; p++) {
		const struct plan_program *program = &w->plan->programs[p];
		w->cost = (struct program_cost){ 0 };
		w->first_visit = w->inner_first = 1;
		w->outer_weight = 1;
		walk_steps(w, program->first, program->first + program->steps, 0, 1);
		double serial = serial_ns(&w->cost), links = links_ns(w);
		double waits = slower(w->cost.crowd_ns + w->cost.last_ns, links - serial);
		pace = slower(pace, (slower(serial, links) + serial + waits) / 2);
		first = tokens ? first + serial : slower(first, serial + waits);
		crowd += tokens * waits;
		most_crowd = slower(most_crowd, tokens * waits);
		add_shared(&shared, &w->cost, w->plan->channels);
		signals = slower(signals, w->cost.signals);
	}
	pace = slower(pace, shared_ns(w, &shared));
	double share = first_share(w, signals);
	double ns = slower(first + (crowd + most_crowd) / 2, pace) * share + pace * (1 - share);
	ns = slower(ns, last_arrival_ns(w, &shared));
	return (struct plan_cost){ ns, slower(cores_ns(w, &shared), shared.proxy_ns), 0 };
}

/* The first rank that takes over another one's share before doubling; rank 0 where none does. */
static int first_taker(const struct plan *plan, const struct plan_map *map)
{
	for (int i = 0; i < plan->nexprs; i++)
		if (plan->exprs[i].base == PLAN_DOUBLING_TAKE)
			return plan->exprs[i].group == PLAN_WORLD ? 1 : map->member[map->node_first[1]];
	return 0;
}

/* Of so many in a binomial tree, one that is farthest from the root. */
static int deepest(int n)
{
	return (1 << plan_log2(n)) - 1;
}

static int is_among(const int *ranks, int n, int rank)
{
	for (int i = 0; i < n; i++)
		if (ranks[i] == rank)
			return 1;
	return 0;
}

/* Whether an expression is the same seen from each rank. Of all ranks the next one may be in my node or not. */
static int is_of_circle(const struct plan_expr *x, const struct plan_map *map)
{
	const int one_kind = map->nodes == 1 || map->max_node_size == 1;
	const enum plan_symmetry symmetry = plan_bases[x->base].symmetry;
	return symmetry == PLAN_EQUAL ||
	       (symmetry == PLAN_ROTATED && (one_kind || x->group != PLAN_WORLD || plan_is_self(x)));
}

/* Whether all ranks have the same to do: of nodes of one size, by a plan in circles, in which no step is for some of them and nobody has
 * a longer part. */
static int is_alike(const struct plan *plan, const struct topo *topo)
{
	const struct plan_map *map = &topo->map;
	int alike = topo->in_order && map->ranks == map->nodes * map->max_node_size && plan->parts == 1 &&
		    plan->inner == 1;
	for (int i = 1; alike && i < plan->nexprs; i++)
		alike = is_of_circle(&plan->exprs[i], map);
	for (int i = 0; alike && i < plan->nsteps; i++)
		alike = plan->steps[i].pred == PLAN_ALWAYS ||
			plan->exprs[plan->steps[i].pred_a].base == PLAN_RANK_AT;
	return alike;
}

enum { RANKS_ASKED = 8 };

/* Ranks that differ in what they have to do: the root, the ends of a node, one of the smallest node, one that works for two, the farthest in trees
 * of all ranks and of nodes, the last. Returns how many of them are enough. */
static int find_ranks(const struct topo *topo, const struct plan *plan, int ranks[RANKS_ASKED])
{
	const struct plan_map *map = &topo->map;
	const int all[RANKS_ASKED] = { 0,
				       map->member[map->node_first[1] - 1],
				       topo->in_smallest,
				       map->ranks / 2,
				       first_taker(plan, map),
				       deepest(map->ranks),
				       map->member[map->node_first[deepest(map->nodes)]],
				       map->ranks - 1 };
	const int asked = is_alike(plan, topo) ? 1 : RANKS_ASKED;
	int n = 0;
	for (int i = 0; i < asked; i++)
		if (!is_among(ranks, n, all[i]))
			ranks[n++] = all[i];
	return n;
}

/* Rank by rank until one takes as long as most_ns, from the slowest one of another plan of the same row on, as it's likely to be that again. */
struct plan_cost cost_plan_below(const struct topo *topo, const struct plan *plan, size_t count,
				 double most_ns, int slowest)
{
	struct walk w = { .topo = topo, .plan = plan, .crossing = topo->crossing };
	const double last_step = cost_step_ns(topo, plan);
	int ranks[RANKS_ASKED];
	const int n = find_ranks(topo, plan, ranks);
	struct plan_cost cost = { 0, 0, 0 };
	plan_env_init(&w.env, plan, &topo->map, 0, 0, count);
	for (int i = 0; i < n && cost.ns + last_step < most_ns; i++) {
		const int at = (slowest + i) % n;
		const struct plan_cost one = rank_cost(&w, ranks[at]);
		cost.slowest = one.ns > cost.ns ? at : cost.slowest;
		cost.ns = slower(cost.ns, one.ns);
		cost.busy_ns = slower(cost.busy_ns, one.busy_ns);
	}
	cost.ns += last_step;
	return cost;
}

double cost_of_plan(const struct topo *topo, const struct plan *plan, size_t count)
{
	return cost_plan_below(topo, plan, count, INFINITY, 0).ns;
}

/* Bytes that must enter the busiest rank by its node's link (memory: through its cores), and each of the smallest
 * node's rails. */
static void least_traffic(const struct plan_map *map, corale_coll coll, double bytes, double *node,
			  double *rail)
{
	double n = map->ranks, N = map->nodes, size = (double)map->max_node_size, least = size;
	for (int b = 0; b < map->nodes; b++) {
		double s = map->node_first[b + 1] - map->node_first[b];
		least = s < least ? s : least;
	}
	const struct collective *c = &coll_table[coll];
	int each = c->send >= COLL_EACH || c->recv >= COLL_EACH,
	    alone = c->send >= COLL_EACH && c->recv >= COLL_EACH;
	*node = *rail = 0;
	if (c->pair) {
		*node = bytes;
	} else if (c->rooted && each) { /* of the root, which may be anywhere, by any rail of its node */
		*node = (least - 1) * bytes;
		*rail = (n - size) * bytes / size;
	} else if (each) { /* a rank's own blocks go by its own rail, those for all by any */
		*node = (size - 1) * bytes;
		*rail = (n - least) * bytes / (alone ? 1 : least);
	} else if (c->rooted) {
		*node = size > 1 ? bytes : 0;
		*rail = N > 1 ? bytes / least : 0;
	} else if (c->folds) { /* each element comes for its fold, and its result goes to all */
		*node = 2 * bytes * (size - 1) / size;
		*rail = 2 * bytes * (N - 1) / N / least;
	}
}

double cost_lower_bound(const struct topo *topo, corale_coll coll, size_t bytes)
{
	double node, rail;
	least_traffic(&topo->map, coll, (double)bytes, &node, &rail);
	double cores =
	    topo->shared_memory && topo->cores_per_rank_x16 > 16 ? topo->cores_per_rank_x16 / 16.0 : 1;
	double node_ns = node > 0 ? topo->node.latency_ns + node / topo->node.bytes_per_ns / cores : 0;
	double rail_ns = topo->map.nodes > 1 ? topo->rail.latency_ns + rail / topo->rail.bytes_per_ns : 0;
	return slower(node_ns, rail_ns);
}
