/* The arithmetic of cost_rates.h. */
#include "cost_rates.h"

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

double cost_message_bytes(const struct plan *plan, const struct plan_action *action, int wire)
{
	if (action->op != PLAN_MOVE)
		return 0;
	return (double)action->count *
	       (double)corale_type_bytes((corale_type)(wire ? plan->wire_type : plan->key.type));
}

double cost_link_ns(const struct topo *topo, const struct plan *plan, const struct plan_action *action,
		    const struct cost_peers *to)
{
	if (topo->shared_memory)
		return 0;
	return to->local * cost_message_bytes(plan, action, action->flags & PLAN_TO_WIRE) /
	       topo->node.bytes_per_ns;
}

double cost_work_ns(const struct topo *topo, const struct plan *plan, const struct plan_action *action,
		    const struct cost_peers *from, const struct cost_peers *to)
{
	double ns = topo->step_ns * (1 + 0.25 * (from->local + from->remote + to->remote));
	double in =
	    (from->local + from->remote) * cost_message_bytes(plan, action, action->flags & PLAN_FROM_WIRE);
	if (action->src.space != PLAN_NOWHERE)
		in += cost_message_bytes(plan, action, 0);
	if (action->dst.space != PLAN_NOWHERE)
		ns += in / topo->reduce_bytes_per_ns;
	else if (action->flags & PLAN_REDUCE)
		ns += (in - cost_message_bytes(plan, action, 0)) / topo->reduce_bytes_per_ns;
	if (topo->net_bytes_per_ns > 0) {
		ns += from->remote * cost_message_bytes(plan, action, action->flags & PLAN_FROM_WIRE) /
		      topo->net_bytes_per_ns;
		ns += to->remote * cost_message_bytes(plan, action, action->flags & PLAN_TO_WIRE) /
		      topo->net_bytes_per_ns;
	}
	/* One write serves all readers where memory is shared. */
	int writes = topo->shared_memory && to->local > 1 ? 1 : to->local;
	return ns + writes * cost_message_bytes(plan, action, action->flags & PLAN_TO_WIRE) /
			topo->node.bytes_per_ns;
}
