/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a plan costs on a machine: its text is walked once for a few ranks, with loops sampled and
 * weighted, so that the price of a plan does not grow with the number of ranks. cost_rates.h says what
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

#include "cost_rates.h"
#include "plan/plan_eval.h"
#include "base/collectives.h"

enum { SAMPLES = 4 };

struct program_cost {
	double work_ns, chain_ns; /* its own work; waiting in chains */
	double paced_ns, once_ns; /* waiting when it collects: in each chunk, or once */
	double crowd_ns; /* and for the other channels, where all are at the same step */
	double last_ns; /* of these the last one, beyond that */
	double since_ns, since_link_ns, since_rail_ns; /* since it last received: its own time, the links' */
	int sends; /* elements, to others */
	double signals; /* tokens that it sends */
	double out_ns, in_ns; /* of the rail, each way */
	double link_out_ns, link_in_ns; /* of the node's link, each way */
	double memory_ns; /* of the memory that blocks share */
	double proxy_ns; /* of the rank's proxy */
};

struct walk {
	const struct topo *topo;
	const struct plan *plan;
	struct plan_env env;
	int var[PLAN_MAX_LOOPS];
	int first_visit, inner_first; /* first trip of all loops around; of the innermost one */
	double outer_weight; /* of the innermost loop as a whole */
	double crossing; /* of the links of a ring through all ranks, the share that goes between nodes */
	struct program_cost cost;
};

static double slower(double a, double b)
{
	return a > b ? a : b;
}

/* A ring's pace is the mean of its links, whichever rank is asked. A root that gathers is in no ring. */
static double remote_share(const struct walk *w, const struct plan_action *a, const struct cost_peers *from)
{
	int n = w->env.map.ranks, coll = w->plan->key.coll;
	int gathers = coll_is_rooted(coll) && coll_receives_each(coll);
	if (!gathers && a->from_group == PLAN_WORLD && a->from == (w->env.rank + n - 1) % n)
		return w->crossing;
	return from->remote > 0;
}

static int has_base(const struct walk *w, int peer, int base)
{
	return peer != PLAN_EXPR_ALL && w->plan->exprs[peer].base == base;
}

/*
 * A link of a chain. A rank that folds the sums of its children waits for one after the other, as each has one more level below
 * it, and so do partners, each of which had one more before; a rank that passes on what ranks of other nodes send at the same time
 * waits for the first of them.
 */
static int is_link(const struct walk *w, const struct plan_step *step, const struct plan_action *a)
{
	const enum plan_wait wait =
	    step->from == PLAN_EXPR_ALL ? PLAN_WAIT_PASSED : plan_bases[w->plan->exprs[step->from].base].wait;
	if (a->op == PLAN_WAIT || wait == PLAN_WAIT_EACH)
		return 1;
	return a->to != PLAN_NONE && wait == PLAN_WAIT_PASSED;
}

/* How many ranks of other nodes get what the sender of an action's message sends. */
static int remote_readers(const struct walk *w, const struct plan_action *a)
{
	if (!w->plan->queues[a->from_queue].all)
		return 1;
	return cost_peers(&w->env.map, w->env.rank, PLAN_ALL, a->from_group).remote;
}

/* Whether it is one of those that a rank takes from other nodes, one after the other, for a root that gathers: all of them may be sent at once. */
static int is_of_all_nodes(const struct walk *w, const struct plan_step *step)
{
	return coll_is_rooted(w->plan->key.coll) && has_base(w, step->from, PLAN_RANK_AT);
}

/*
 * How many messages cross the wires while an action waits for one from each peer: those that reach its rank, or those that the sender sends to
 * ALL, which each rank begins with another one. The one that is awaited first may be the last that comes.
 */
static double messages_before(const struct walk *w, const struct plan_step *step, const struct plan_action *a,
			      const struct cost_peers *from)
{
	const int come = a->from == PLAN_ALL        ? from->remote
			 : is_of_all_nodes(w, step) ? w->topo->map.nodes - 1
						    : 1;
	return slower(remote_readers(w, a), come);
}

/* A root that gathers from all, and passes nothing on. */
static int gathers_all(const struct walk *w, const struct plan_action *a)
{
	return coll_is_rooted(w->plan->key.coll) && a->from == PLAN_ALL && a->to == PLAN_NONE;
}

/*
 * What a message takes longer that comes behind another one. Proxies and wires serve one message after the other, side by side, so the slowest sets the
 * pace. Without proxies the rank's threads send while the others do, and receives as messages come, so of wires only what they take beyond a message's
 * fixed part counts; cores move bytes at about the pace of such wires.
 */
static double next_message_ns(const struct walk *w, const struct plan_action *a, double bytes)
{
	const double each = bytes / w->topo->rail.bytes_per_ns + w->topo->rail.gap_ns;
	if (w->topo->proxied)
		return slower(each, slower(cost_send_ns(w->topo, bytes), cost_recv_ns(w->topo, bytes)));
	return slower(each - (gathers_all(w, a) ? w->topo->rail.recv_ns : w->topo->rail.send_ns), 0);
}

/*
 * What the first message takes, latency apart. In a tree, from a rank that hands its share over before doubling, or at a root that gathers, sending is
 * another's work, for which the receiver waits.
 */
static double first_message_ns(const struct walk *w, const struct plan_step *step,
			       const struct plan_action *a, double bytes)
{
	const double each = bytes / w->topo->rail.bytes_per_ns + w->topo->rail.gap_ns,
		     send = cost_send_ns(w->topo, bytes);
	const int in_tree = has_base(w, step->from, PLAN_TREE_CHILD) ||
			    has_base(w, step->from, PLAN_TREE_PARENT) ||
			    has_base(w, step->from, PLAN_DOUBLING_TAKE);
	if (w->topo->proxied)
		return send + each + cost_recv_ns(w->topo, bytes);
	return (in_tree || gathers_all(w, a) ? send : 0) + each;
}

/* In a round over distances the message of the first digit is awaited first; those of the others are on their way at the same time. */
static int is_behind_first_digit(const struct walk *w, const struct plan_step *step)
{
	return has_base(w, step->from, PLAN_BRUCK_PEER) && w->plan->exprs[step->from].digit > 1;
}

/* What an action waits for its messages; nothing without any. */
static double receive_ns(const struct walk *w, const struct plan_step *step, const struct plan_action *a,
			 const struct cost_peers *from)
{
	const double remote = remote_share(w, a, from), bytes = cost_message_bytes(w->plan, a),
		     next = next_message_ns(w, a, bytes);
	if (!from->remote && !from->local)
		return 0;
	if (is_behind_first_digit(w, step))
		return remote * next;
	const double messages =
	    first_message_ns(w, step, a, bytes) + (messages_before(w, step, a, from) - 1) * next;
	return remote * (cost_rail_latency_ns(w->topo) + messages) +
	       (1 - remote) * cost_node_latency_ns(w->topo);
}

/* A rank that passes on what comes along a chain: the next chunk has been sent before it is done with this one. */
static int runs_ahead(const struct walk *w, const struct plan_step *step, const struct plan_action *a)
{
	return coll_is_rooted(w->plan->key.coll) && a->op == PLAN_MOVE && a->from_group == a->to_group &&
	       !has_base(w, step->from, PLAN_TREE_CHILD);
}

/* Returns how often it waits, at most weight times. */
static double add_wait(struct walk *w, const struct plan_step *step, const struct plan_action *a, double ns,
		       double weight)
{
	if (is_link(w, step, a)) {
		if (runs_ahead(w, step, a))
			weight = w->first_visit;
		w->cost.chain_ns += weight * ns;
		return weight;
	}
	w->cost.once_ns += w->first_visit * ns;
	w->cost.paced_ns += w->inner_first * w->outer_weight * ns;
	return w->inner_first * w->outer_weight;
}

struct hops {
	double all, remote; /* remote: between nodes, of all */
	double before; /* messages that those on the way send to others first */
	double size,
	    before_size; /* of the former and the latter in the mean, in units of the action's own message */
};

/* Blocks of the subtrees that a parent serves before a child's: those of the positions behind it. */
static int first_blocks(int size, int parent, int child)
{
	return plan_subtree(size, parent) - (child - parent) - plan_subtree(size, child);
}

/* From the tree's root, rank 0, to the parent of a rank. The largest subtree is served first: so as many messages go before as the way has fewer hops
 * than the tree has levels above the rank. */
static struct hops hops_of_tree(const struct walk *w, int group, int has_blocks)
{
	const struct plan_map *map = &w->env.map;
	const int own = plan_group_index(map, group, w->env.rank),
		  size = plan_group_size(map, group, w->env.rank);
	const double each = plan_subtree(size, own);
	struct hops hops = { 0, 0, 0, 0, 0 };
	int at = plan_tree(PLAN_TREE_PARENT, size, own, 0);
	hops.before_size = own > 0 ? first_blocks(size, at, own) : 0;
	for (; at > 0; hops.all++) {
		const int before = at;
		at = plan_tree(PLAN_TREE_PARENT, size, at, 0);
		hops.size += plan_subtree(size, before);
		hops.before_size += first_blocks(size, at, before);
		hops.remote +=
		    group == PLAN_RAIL || (group == PLAN_WORLD && map->node_of[before] != map->node_of[at]);
	}
	if (own > 0)
		hops.before = plan_log2(size - 1) - __builtin_ctz((unsigned)own) - hops.all;
	hops.size = has_blocks && hops.all > 0 ? hops.size / each / hops.all : 1;
	hops.before_size = has_blocks && hops.before > 0 ? hops.before_size / each / hops.before : 1;
	return hops;
}

/*
 * How many hops lie before an action that is the last link of a chain or tree through which a rooted call goes: members
 * of its group that pass on what comes to them, with their share or without.
 */
static struct hops hops_before(const struct walk *w, const struct plan_step *step,
			       const struct plan_action *a)
{
	struct hops hops = { plan_group_size(&w->env.map, a->from_group, w->env.rank) - 2, 0, 0, 1, 1 };
	if (!coll_is_rooted(w->plan->key.coll) || a->from < 0)
		return (struct hops){ 0, 0, 0, 1, 1 };
	if (has_base(w, step->from, PLAN_TREE_PARENT))
		return hops_of_tree(w, a->from_group, step->blocks);
	if (a->to < 0 || a->from_group != a->to_group || has_base(w, step->from, PLAN_TREE_CHILD) ||
	    (a->from_group != PLAN_RAIL && !(a->flags & PLAN_REDUCE)))
		return (struct hops){ 0, 0, 0, 1, 1 };
	hops.remote = a->from_group == PLAN_WORLD  ? hops.all * w->crossing
		      : a->from_group == PLAN_RAIL ? hops.all
						   : 0;
	return hops;
}

static void add_hops(struct walk *w, const struct plan_step *step, const struct plan_action *a)
{
	double own = cost_message_bytes(w->plan, a);
	struct hops hops = hops_before(w, step, a);
	double bytes = own * hops.size, before = own * hops.before_size,
	       wire = bytes / w->topo->rail.bytes_per_ns,
	       remote_ns = cost_send_ns(w->topo, bytes) + cost_rail_latency_ns(w->topo) + wire +
			   cost_recv_ns(w->topo, bytes),
	       local_ns = cost_node_latency_ns(w->topo) + bytes / w->topo->node.bytes_per_ns;
	if (!w->first_visit)
		return;
	w->cost.chain_ns += hops.all * cost_step_ns(w->topo, w->plan) + hops.remote * remote_ns +
			    (hops.all - hops.remote) * local_ns;
	if (w->topo->map.nodes > 1)
		w->cost.chain_ns +=
		    hops.before * slower(cost_send_ns(w->topo, before), before / w->topo->rail.bytes_per_ns);
}

/*
 * A rank that was folded in before the doubling gets the result back, and only then sends its next chunk. Of the last chunk, if at most half of
 * the others have folded a rank in, the result travels while the others still exchange: the last partner has none to wait for.
 */
static void add_return(struct walk *w, const struct plan_step *step, const struct plan_action *a,
		       const struct cost_peers *to, double weight)
{
	double wire = cost_message_bytes(w->plan, a) / w->topo->rail.bytes_per_ns;
	double latency = to->remote ? cost_rail_latency_ns(w->topo) : cost_node_latency_ns(w->topo);
	int n = plan_group_size(&w->env.map, a->to_group, w->env.rank), core = 1 << plan_log2(n);
	if (!has_base(w, step->to, PLAN_DOUBLING_TAKE))
		return;
	wire *= to->remote;
	w->cost.chain_ns += (weight - w->first_visit) * (latency + wire);
	if (w->first_visit)
		w->cost.chain_ns += (2 * (n - core) > core ? latency : 0) + w->plan->channels * wire;
}

/*
 * All channels send and receive the same; what that takes longer than a channel by itself it waits, and once for the one
 * that is served last.
 */
static void add_crowd(struct walk *w, double weight)
{
	double all = w->plan->channels * slower(w->cost.since_link_ns, w->cost.since_rail_ns);
	double both = all < w->cost.since_ns ? all : w->cost.since_ns;
	w->cost.crowd_ns += slower(all - w->cost.since_ns, 0);
	w->cost.last_ns = slower(w->cost.last_ns, (both - all / w->plan->channels) / weight);
	w->cost.since_ns = w->cost.since_link_ns = w->cost.since_rail_ns = 0;
}

/*
 * What is passed on to one rank of the node, from many of other nodes, waits for room: no more messages are on their way than the queue has slots.
 * This is what each waits beyond the work of its own.
 */
static double room_ns(const struct walk *w, const struct plan_step *step, const struct plan_action *a,
		      const struct cost_peers *to, double work)
{
	if (!has_base(w, step->from, PLAN_RANK_AT) || a->to == PLAN_ALL || !to->local)
		return 0;
	const double round = work + cost_node_latency_ns(w->topo) + work; /* sent, there, taken */
	return slower(round / w->plan->queues[a->to_queue].depth - work, 0);
}

/* Time that a rail is busy with so many messages. */
static double rail_ns(const struct walk *w, double bytes, int messages)
{
	return messages * (bytes / w->topo->rail.bytes_per_ns + w->topo->rail.gap_ns);
}

static void add_action(struct walk *w, const struct plan_step *step, const struct plan_action *a,
		       double weight)
{
	struct cost_peers from = cost_peers(&w->env.map, w->env.rank, a->from, a->from_group);
	struct cost_peers to = cost_peers(&w->env.map, w->env.rank, a->to, a->to_group);
	double work = cost_work_ns(w->topo, w->plan, a, &from, &to), wait = receive_ns(w, step, a, &from);
	double link = cost_link_ns(w->topo, w->plan, a, &to);
	double proxy = cost_proxy_ns(w->topo, w->plan, a, &from, &to);
	double out = rail_ns(w, cost_message_bytes(w->plan, a), to.remote),
	       in = rail_ns(w, cost_message_bytes(w->plan, a), from.remote);
	w->cost.work_ns += weight * (work + room_ns(w, step, a, &to, work));
	w->cost.sends |= a->op == PLAN_MOVE && to.local + to.remote > 0;
	w->cost.signals += a->op == PLAN_SIGNAL ? weight : 0;
	w->cost.link_out_ns += weight * link;
	w->cost.link_in_ns += weight * cost_link_ns(w->topo, w->plan, a, &from);
	w->cost.memory_ns += weight * cost_memory_ns(w->topo, w->plan, a, &from);
	w->cost.proxy_ns += weight * proxy;
	w->cost.out_ns += weight * out;
	w->cost.in_ns += weight * in;
	w->cost.since_ns += weight * work + wait * add_wait(w, step, a, wait, weight);
	w->cost.since_link_ns += weight * link;
	w->cost.since_rail_ns += weight * slower(in, proxy);
	if (wait > 0)
		add_crowd(w, weight);
	add_hops(w, step, a);
	add_return(w, step, a, &to, weight);
}

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
			add_action(w, step, &action, weight);
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
