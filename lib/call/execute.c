#include "execute.h"

#include <string.h>

#include "arena.h"
#include "health/diagnose.h"
#include "drive.h"
#include "base/log.h"
#include "sequence.h"
#include "base/collectives.h"
#include "base/status.h"

/* ---- Runs --------------------------------------------------------------------------- */

static void bind(struct comm *comm, const struct call *call, const struct plan *plan, uint64_t signature,
		 struct host_binding *binding)
{
	memset(binding, 0, sizeof *binding);
	binding->send = call->send;
	binding->recv = call->recv;
	binding->signature = signature;
	binding->spec.type = call->record.type;
	binding->spec.wire = plan->wire_type;
	binding->spec.ranks = comm->size;
	binding->spec.op = op_kind(call->record.op);
	memcpy(binding->spec.scalar, &call->scalar, sizeof call->scalar);
}

static int start_run(struct comm *comm, const struct call *call, uint64_t signature, struct host_run *run)
{
	const struct plan *plan = call->plan ? &call->plan->plan : NULL;
	struct plans_entry *entry = NULL;
	struct plan_key key =
	    planner_key(call->record.coll, call->record.count, call->record.type, call->record.op);
	int ret = plan ? 0 : plans_find(&comm->plans, comm->rank, &key, NULL, &entry);
	if (ret)
		return ret;
	plan = entry ? &entry->plan : plan;
	struct plan_env env;
	struct host_binding binding;
	plan_env_init(&env, plan, &comm->topo->map, comm->rank, call->record.root, call->record.count);
	env.send_counts = call->send_counts;
	env.send_displs = call->send_displs;
	env.recv_counts = call->recv_counts;
	env.recv_displs = call->recv_displs;
	bind(comm, call, plan, signature, &binding);
	return host_run_init(run, &comm->engine, plan, &env, &binding);
}

/* The only rank of a communicator talks to nobody. */
int execute_alone(struct comm *comm, const struct call *call)
{
	static const struct plan none;
	size_t bytes = corale_type_bytes(call->record.type);
	struct host_binding b;
	bind(comm, call, &none, 0, &b);
	b.spec.wire = call->record.type;
	const unsigned char *from = call->send;
	unsigned char *to = call->recv;
	size_t count = call->record.count;
	if (coll_is_uneven(call->record.coll)) {
		from += call->send_displs[0] * bytes;
		to += call->recv_displs[0] * bytes;
		count = call->send_counts[0];
	}
	if (coll_folds(call->record.coll))
		reduce_fold(&b.spec, to, 0, &(struct reduce_input){ from, REDUCE_SEND }, 1, count, 1);
	else if (count && from != to)
		memmove(to, from, count * bytes);
	return 0;
}

int execute_start(struct comm *comm, const struct call *call, struct host_run *run)
{
	int ret = start_run(comm, call, sequence_signature(comm, call), run);
	return ret ? diagnose_end(comm, &call->record, ret) : 0;
}

int execute_next_own(const struct comm *comm, const struct call *calls, int n, int i, corale_coll coll)
{
	while (i < n && (calls[i].record.coll != coll || calls[i].record.root != comm->rank))
		i++;
	return i;
}

int execute_check_own(const struct comm *comm, const struct call *calls, int n)
{
	for (int s = 0, r = 0;; s++, r++) {
		s = execute_next_own(comm, calls, n, s, CORALE_SEND);
		r = execute_next_own(comm, calls, n, r, CORALE_RECV);
		if (s == n && r == n)
			return 0;
		if (s == n || r == n)
			return log_error(CORALE_EINVAL, comm->rank, "a %s oneself has no %s in its group",
					 r == n ? "send to" : "receive from", r == n ? "receive" : "send");
		if (calls[r].record.count != calls[s].record.count ||
		    calls[r].record.type != calls[s].record.type)
			return log_error(CORALE_EINVAL, comm->rank,
					 "send to oneself: %zu elements of %s sent, %zu of %s "
					 "expected",
					 calls[s].record.count, corale_type_name(calls[s].record.type),
					 calls[r].record.count, corale_type_name(calls[r].record.type));
	}
}

static void copy_own(struct comm *comm, const struct call *calls, int n)
{
	for (int s = 0, r = 0;; s++, r++) {
		s = execute_next_own(comm, calls, n, s, CORALE_SEND);
		r = execute_next_own(comm, calls, n, r, CORALE_RECV);
		if (s == n)
			break;
		if (calls[s].record.count && calls[r].recv != calls[s].send)
			memmove(calls[r].recv, calls[s].send,
				calls[s].record.count * corale_type_bytes(calls[s].record.type));
	}
}

static int previous_of_pair(const struct call *calls, int i)
{
	for (int p = i - 1; p >= 0; p--)
		if (calls[p].record.coll == calls[i].record.coll &&
		    calls[p].record.root == calls[i].record.root)
			return p;
	return -1;
}

static size_t runs_bytes(int n)
{
	return ALIGN_ROUND((size_t)n * sizeof(struct host_run));
}

static size_t calls_bytes(int n)
{
	return ALIGN_ROUND((size_t)n * sizeof(struct call));
}

size_t execute_pairs_bytes(int n)
{
	return runs_bytes(n) + calls_bytes(n) + ALIGN_ROUND((size_t)n * sizeof(int));
}

int execute_start_pairs(struct comm *comm, const struct call *calls, int n, void *memory,
			struct execute_pairs *pairs)
{
	char *at_calls = (char *)memory + runs_bytes(n);
	int ret = 0;
	copy_own(comm, calls, n);
	*pairs = (struct execute_pairs){ memory, (void *)at_calls, (void *)(at_calls + calls_bytes(n)), 0 };
	for (int i = 0; !ret && i < n; i++) {
		int at = pairs->n;
		if (calls[i].record.root == comm->rank)
			continue;
		pairs->calls[at] = calls[i];
		pairs->after[at] = previous_of_pair(pairs->calls, at);
		ret = start_run(comm, &calls[i], sequence_pair_signature(comm, &calls[i]), &pairs->runs[at]);
		pairs->n += !ret;
	}
	if (ret)
		execute_free_pairs(pairs);
	return ret;
}

void execute_free_pairs(struct execute_pairs *pairs)
{
	for (int i = 0; i < pairs->n; i++)
		host_run_free(&pairs->runs[i]);
	*pairs = (struct execute_pairs){ 0 };
}

static int execute_all_pairs(struct comm *comm, const struct call *calls, int n)
{
	struct execute_pairs pairs;
	const struct arena_mark mark = arena_mark();
	void *memory = arena_take(execute_pairs_bytes(n));
	if (!memory)
		return log_error(CORALE_ENOMEM, comm->rank, "no memory for a group of %d sends and receives",
				 n);
	int ret = execute_start_pairs(comm, calls, n, memory, &pairs);
	if (!ret && pairs.n)
		ret = drive_runs(comm, pairs.runs, pairs.after, pairs.n, pairs.calls);
	execute_free_pairs(&pairs);
	arena_release(mark);
	return ret;
}

int execute_check(struct comm *comm, const struct call *call)
{
	int ret = diagnose_peers(comm);
	if (atomic_load(&comm->error))
		return CORALE_ECOMM;
	if (ret == CORALE_EMISMATCH)
		return sequence_mismatch(comm, call);
	return ret ? diagnose_end(comm, &call->record, ret) : 0;
}

int execute_calls(struct comm *comm, const struct call *calls, int n)
{
	struct host_run run;
	int ret = execute_check(comm, calls);
	if (ret)
		return ret;
	if (call_is_pair(calls))
		return execute_all_pairs(comm, calls, n);
	if (comm->size == 1)
		return execute_alone(comm, calls);
	ret = execute_start(comm, calls, &run);
	if (ret)
		return ret;
	ret = drive_runs(comm, &run, NULL, 1, calls);
	host_run_free(&run);
	return ret;
}
