/* SPDX-License-Identifier: BSD-3-Clause */
/* What an action adds to its program's time: its own work, what it waits for, and what of others' work lies before it. */
#include "base/collectives.h"
#include "cost.h"
#include "cost_walk.h"

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

void cost_add_action(struct walk *w, const struct plan_step *step, const struct plan_action *a, double weight)
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
