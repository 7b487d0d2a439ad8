/* SPDX-License-Identifier: BSD-3-Clause */
/* The arithmetic of cost.h. */
#include "cost.h"

#include "corale.h"

struct cost_peers cost_peers(const struct plan_map *map, int rank, int peer, int group)
{
	struct cost_peers peers = { 0, 0 };
	if (peer == PLAN_NONE || peer == rank)
		return peers;
	int size = map->node_first[map->node_of[rank] + 1] - map->node_first[map->node_of[rank]];
	if (peer != PLAN_ALL)
		peers.local = map->node_of[peer] == map->node_of[rank];
	else if (group != PLAN_RAIL)
		peers.local = size - 1;
	peers.remote = peer != PLAN_ALL ? !peers.local : plan_group_size(map, group, rank) - 1 - peers.local;
	return peers;
}

double cost_message_bytes(const struct plan *plan, const struct plan_action *action)
{
	if (action->op != PLAN_MOVE)
		return 0;
	return (double)action->count * (double)corale_type_bytes((corale_type)plan->key.type);
}

double cost_link_ns(const struct topo *topo, const struct plan *plan, const struct plan_action *action,
		    const struct cost_peers *peers)
{
	return topo->shared_memory
		   ? 0
		   : peers->local * cost_message_bytes(plan, action) / topo->node.bytes_per_ns;
}

double cost_step_ns(const struct topo *topo, const struct plan *plan)
{
	return plan->codelet ? topo->fused_step_ns : topo->step_ns;
}

double cost_cores(const struct topo *topo, const struct plan *plan)
{
	double cores = topo->cores_per_rank_x16 / 16.0;
	double threads = topo->shared_memory ? plan->channels : plan->channels * plan->nprograms;
	cores = cores < threads ? cores : threads;
	return cores > 1 ? cores : 1;
}

/* Ranks that share a core cannot see a message before they get their turn. */
static double turns_ns(const struct topo *topo)
{
	double sharing = 16.0 / topo->cores_per_rank_x16 - 1;
	return sharing > 0 ? sharing * topo->turn_ns : 0;
}

double cost_node_latency_ns(const struct topo *topo)
{
	return topo->node.latency_ns + turns_ns(topo);
}

double cost_rail_latency_ns(const struct topo *topo)
{
	return topo->rail.latency_ns + turns_ns(topo);
}

static double net_ns(const struct topo *topo, double bytes)
{
	return topo->net_bytes_per_ns > 0 ? bytes / topo->net_bytes_per_ns : 0;
}

double cost_send_ns(const struct topo *topo, double bytes)
{
	return topo->rail.send_ns + net_ns(topo, bytes);
}

double cost_recv_ns(const struct topo *topo, double bytes)
{
	return topo->rail.recv_ns + net_ns(topo, bytes);
}

/* Of all messages between nodes that an action sends, and that it receives. */
static double sends_ns(const struct topo *topo, const struct plan *plan, const struct plan_action *action,
		       const struct cost_peers *to)
{
	return to->remote * cost_send_ns(topo, cost_message_bytes(plan, action));
}

static double recvs_ns(const struct topo *topo, const struct plan *plan, const struct plan_action *action,
		       const struct cost_peers *from)
{
	return from->remote * cost_recv_ns(topo, cost_message_bytes(plan, action));
}

double cost_proxy_ns(const struct topo *topo, const struct plan *plan, const struct plan_action *action,
		     const struct cost_peers *from, const struct cost_peers *to)
{
	double send = sends_ns(topo, plan, action, to), recv = recvs_ns(topo, plan, action, from);
	return !topo->proxied ? 0 : send > recv ? send : recv;
}

static int goes_by_reference(const struct topo *topo, double bytes)
{
	return topo->reference_bytes > 0 && bytes >= topo->reference_bytes;
}

/* True if the messages of a queue are of a kind that may go by reference. */
static int is_stable(const struct plan *plan, int queue)
{
	for (int i = 0; i < plan->nsteps; i++)
		if (plan->steps[i].to && plan->steps[i].to_queue == queue &&
		    plan->steps[i].flags & PLAN_STABLE)
			return 1;
	return 0;
}

/* What the core that folds or copies has to read. */
static double input_ns(const struct topo *topo, const struct plan *plan, const struct plan_action *action,
		       const struct cost_peers *from)
{
	double message = cost_message_bytes(plan, action), ns = 0, local = from->local * message;
	int reads = from->local && goes_by_reference(topo, message) && is_stable(plan, action->from_queue);
	int writes = action->dst.space != PLAN_NOWHERE, folds = action->flags & PLAN_REDUCE;
	if (reads) /* from the sender's memory, into a buffer of ours where there is something to fold */
		ns += local / topo->node.bytes_per_ns;
	if (!writes && !folds)
		return ns;
	double in = (reads && !folds ? 0 : local) + from->remote * message;
	if (action->src.space != PLAN_NOWHERE && writes)
		in += (action->cells ? action->cells : 1) * message;
	return ns + in / topo->reduce_bytes_per_ns;
}

double cost_memory_ns(const struct topo *topo, const struct plan *plan, const struct plan_action *action,
		      const struct cost_peers *from)
{
	return topo->shared_memory ? 0 : input_ns(topo, plan, action, from);
}

/* The messages that it writes for ranks of its node; one write serves all readers where memory is shared. */
static double output_ns(const struct topo *topo, const struct plan *plan, const struct plan_action *action,
			const struct cost_peers *to)
{
	double bytes = cost_message_bytes(plan, action);
	int writes = topo->shared_memory && to->local > 1 ? 1 : to->local;
	if (action->flags & PLAN_STABLE && goes_by_reference(topo, bytes))
		return 0;
	return writes * bytes / topo->node.bytes_per_ns;
}

double cost_work_ns(const struct topo *topo, const struct plan *plan, const struct plan_action *action,
		    const struct cost_peers *from, const struct cost_peers *to)
{
	const double step = cost_step_ns(topo, plan);
	double ns = step + from->local * (plan->codelet ? step / 4 : topo->node.recv_ns);
	if (topo->proxied) /* a word to the proxy, or from it */
		ns += (from->remote + to->remote) * topo->node.recv_ns;
	else
		ns += sends_ns(topo, plan, action, to) + recvs_ns(topo, plan, action, from);
	const double in = input_ns(topo, plan, action, from), out = output_ns(topo, plan, action, to);
	if (topo->shared_memory)
		return ns + in + out;
	return ns + (in > out ? in : out); /* many loads and stores of a block are under way */
}
