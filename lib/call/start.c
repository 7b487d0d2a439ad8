/* SPDX-License-Identifier: BSD-3-Clause */
#include "start.h"

#include <string.h>

#include "base/collectives.h"
#include "base/status.h"
#include "signature.h"

struct host_binding start_binding(const struct comm *comm, const struct call *call, const struct plan *plan,
				  uint64_t signature)
{
	struct host_binding binding = {
		.send = call->send,
		.recv = call->recv,
		.spec = { .type = call->record.type, .op = op_kind(call->record.op), .ranks = comm->size },
		.signature = signature
	};
	memcpy(binding.spec.scalar, &call->scalar, sizeof call->scalar);
	return binding;
}

int start_run(struct comm *comm, const struct call *call, uint64_t signature, struct run_item *item)
{
	const struct plan *plan = call->plan ? &call->plan->plan : NULL;
	struct plans_entry *entry = NULL;
	const struct plan_key key =
	    planner_key(call->record.coll, call->record.count, call->record.type, call->record.op);
	int ret = buffers_check(comm, call);
	if (!ret && !plan)
		ret = plans_find(&comm->plans, comm->rank, &key, NULL, &entry);
	if (ret)
		return ret;
	plan = entry ? &entry->plan : plan;
	struct plan_env env;
	plan_env_init(&env, plan, &comm->topo->map, comm->rank, call->record.root, call->record.count);
	const size_t *const arrays[4] = { call->send_counts, call->send_displs, call->recv_counts,
					  call->recv_displs };
	if (call->send_counts || call->recv_counts || call->own)
		plan_env_uneven(&env, plan, arrays, call->own);
	const struct host_binding binding = start_binding(comm, call, plan, signature);
	item->call = call;
	item->after = -1;
	return host_run_init(&item->run, &comm->engine, plan, &env, &binding);
}

int start_alone(struct comm *comm, const struct call *call)
{
	const int ret = buffers_check(comm, call);
	if (ret)
		return ret;
	size_t bytes = corale_type_bytes(call->record.type);
	struct reduce_spec spec = { .type = call->record.type,
				    .op = op_kind(call->record.op),
				    .ranks = comm->size };
	memcpy(spec.scalar, &call->scalar, sizeof call->scalar);
	const unsigned char *from = call->send;
	unsigned char *to = call->recv;
	const size_t count = coll_is_uneven(call->record.coll) ? call->own : call->record.count;
	from += call->send_counts ? call->send_displs[0] * bytes : 0;
	to += call->recv_counts ? call->recv_displs[0] * bytes : 0;
	if (coll_folds(call->record.coll))
		reduce_fold(&spec, to, &(struct reduce_input){ from, REDUCE_SEND }, 1, count, 1);
	else if (count && from != to)
		memmove(to, from, count * bytes);
	return 0;
}

int start_after(const struct call *calls, int i)
{
	int p = i - 1;
	while (p >= 0 &&
	       (calls[p].record.coll != calls[i].record.coll || calls[p].record.root != calls[i].record.root))
		p--;
	return p;
}

/* By the items, which leave out calls to oneself. */
static int previous_of_pair(const struct run_item *items, int n, const struct call *call)
{
	int p = n - 1;
	while (p >= 0 && (items[p].call->record.coll != call->record.coll ||
			  items[p].call->record.root != call->record.root))
		p--;
	return p;
}

int start_pairs(struct comm *comm, const struct call *calls, int n, const struct fast_begun *begun,
		struct run_item *items, int *used)
{
	int ret = self_copy(comm, calls, n);
	*used = 0;
	for (int i = 0; !ret && i < n; i++) {
		struct run_item *item = &items[*used];
		const uint64_t begun_as = begun ? begun[i].signature : 0;
		if (calls[i].record.root == comm->rank)
			continue;
		ret = start_run(comm, &calls[i], begun_as ? begun_as : signature_of_pair(comm, &calls[i]),
				item);
		item->after = previous_of_pair(items, *used, &calls[i]);
		if (!ret && begun_as)
			host_run_skip(&item->run, begun[i].steps);
		*used += !ret;
	}
	return ret;
}
