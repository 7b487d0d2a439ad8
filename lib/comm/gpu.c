#include "gpu.h"

#include <stdio.h>
#include <string.h>

#include "health/diagnose.h"
#include "execute.h"
#include "base/log.h"
#include "net/proxy.h"
#include "health/recent.h"
#include "sequence.h"
#include "base/collectives.h"
#include "base/status.h"
#include "health/withdraw.h"

void gpu_finish(struct comm *comm)
{
	gpu_failure(comm);
	engine_cuda.finish(comm->gpu);
	gpu_failure(comm);
	if (mem_is_shared(comm))
		withdraw_wait(comm);
}

/* ---- Calls ---------------------------------------------------------------------------------------------- */

/* Where peers could store directly: the same place of the same registration on every rank, or the call's signature differs. */
static uint64_t target_of(const struct comm *comm, const struct call *c, uint64_t bytes)
{
	size_t blocks = coll_recv_blocks(c->record.coll, comm->size, comm->rank, c->record.root);
	const int lowered = coll_is_rooted(c->record.coll) && c->record.coll != CORALE_BROADCAST;
	if (!c->recv || lowered || (c->record.coll != CORALE_ALL_REDUCE && !coll_moves(c->record.coll)))
		return 0;
	return engine_cuda.find(comm->gpu, c->recv, blocks * bytes);
}

/* What the call may use. Premultiplied inputs need a kernel, so scratch is of no use to copies of them. */
static int memory_of(const struct comm *comm, const struct engine_call *call)
{
	int scratch = comm->size > 1 && comm->scratch != COMM_SCRATCH_NONE &&
		      !(coll_folds(call->coll) && call->op == CORALE_NUM_OPS);
	int memory = scratch ? PLAN_MEMORY_SCRATCH : 0;
	if (call->target)
		memory |= PLAN_MEMORY_REGISTERED;
	if (call->target && engine_cuda.is_exported(comm->gpu, call->target))
		memory |= PLAN_MEMORY_EXPORTED;
	return memory;
}

/* The row with a codelet that runs a call; NULL: none can. */
static int find_row(struct comm *comm, const struct plan_call *key, const struct row **row)
{
	const struct choices *choices = plans_codelets(&comm->gpu_plans, comm->rank, key);
	*row = choices ? choices_find(choices, key->bytes)->row : NULL;
	return choices ? 0 : CORALE_ENOMEM;
}

/* The row, and the target if that uses it. The first large call makes scratch. */
static int choose(struct comm *comm, struct call *c, struct engine_call *call)
{
	const struct plan_node *node = &comm->node;
	const struct row *row;
	const int alone = comm->size == 1, shares = !alone && !comm->proxy;
	call->target = shares ? target_of(comm, c, call->bytes) : 0;
	if (call->target && comm->settings.check_memory && engine_cuda.verify(comm->gpu, call->target))
		return CORALE_EINVAL;
	struct plan_call key = { call->coll, call->bytes, plan_in_words(call->type),
				 shares ? memory_of(comm, call) : 0 };
	int ret = find_row(comm, &key, &row);
	call->scratch = !ret && row && !alone && row_uses_scratch(row, node, &key);
	if (call->scratch && comm->scratch == COMM_SCRATCH_OPEN) {
		c->record.target = call->target;
		ret = mem_scratch(comm, c);
		key.memory = memory_of(comm, call);
		ret = ret ? ret : find_row(comm, &key, &row);
	}
	if (ret)
		return ret;
	if (!row)
		return gpu_plan(comm, c, call);
	call->codelet = row->codelet;
	if (!row_stores_direct(row, node, &key))
		call->target = 0;
	return 0;
}

/* What became of a call: where a part of it may be enqueued, peers wait for the rest, so an error ends the communicator. */
static int ended(struct comm *comm, const struct call *call, int ret)
{
	if (!ret || ret == CORALE_ENOTSUP || ret == CORALE_EINVAL)
		return ret;
	int error = gpu_failure(comm);
	if (error)
		return ret == CORALE_ECOMM ? ret : error;
	ret = diagnose_end(comm, &call->record, ret);
	engine_cuda.abort(comm->gpu, ret);
	return ret;
}

/* The proxy is awake before a call that waits within its enqueueing. */
static void expect(struct comm *comm)
{
	if (comm->proxy)
		proxy_expect(comm->proxy);
}

static void enqueued(struct comm *comm, int ret)
{
	const int captured = !ret && engine_cuda.captures(comm->gpu);
	if (comm->proxy && (ret || captured))
		proxy_unexpect(comm->proxy, captured);
}

static int run_collective(struct comm *comm, const struct engine_call *call, void *stream)
{
	trace_begin(comm->trace, call->coll, call->codelet, call->bytes);
	expect(comm);
	int ret = engine_cuda.run(comm->gpu, call, stream);
	enqueued(comm, ret);
	trace_end(comm->trace);
	return ret;
}

static int run_messages(struct comm *comm, const struct engine_message *messages, int n, void *stream)
{
	uint64_t bytes = 0;
	for (int i = 0; comm->trace && i < n; i++)
		bytes += messages[i].bytes;
	trace_begin(comm->trace, CORALE_SEND, CODELET_NONE, bytes);
	expect(comm);
	int ret = engine_cuda.run_messages(comm->gpu, messages, n, stream);
	enqueued(comm, ret);
	trace_end(comm->trace);
	return ret;
}

static struct engine_call engine_call_of(const struct comm *comm, const struct call *c)
{
	return (struct engine_call){ .admission = c->admission,
				     .coll = c->record.coll,
				     .type = c->record.type,
				     .op = op_kind(c->record.op),
				     .send = c->send,
				     .recv = c->recv,
				     .bytes = coll_is_uneven(c->record.coll)
						  ? 0
						  : c->record.count * corale_type_bytes(c->record.type),
				     .scalar = c->scalar,
				     .root = c->record.root,
				     .send_counts = c->send_counts,
				     .send_displs = c->send_displs,
				     .recv_counts = c->recv_counts,
				     .recv_displs = c->recv_displs,
				     .place_of = comm->place_of };
}

int gpu_admit(struct comm *comm, struct call *c, void *stream)
{
	if (atomic_load(&comm->left))
		return gpu_remote_refuse(comm);
	const struct engine_call call = engine_call_of(comm, c);
	return ended(comm, c, engine_cuda.admit(comm->gpu, &call, stream, &c->admission));
}

static int submit_collective(struct comm *comm, const struct call *given, void *stream)
{
	struct call copy = *given, *c = &copy;
	struct engine_call call = engine_call_of(comm, c);
	int ret = choose(comm, c, &call);
	if (ret) /* the others have this call, and wait */
		return ended(comm, c, ret == CORALE_EINVAL ? diagnose_end(comm, &c->record, ret) : ret);
	c->record.target = call.target;
	c->record.number = comm->number + 1;
	call.number = recent_add(comm->recent, c, 1);
	call.signature = comm->size > 1 ? sequence_signature(comm, c) : 0;
	return ended(comm, c, run_collective(comm, &call, stream));
}

/* A receive's: where its sender may store, if all of the buffer is registered. */
static int find_target(const struct comm *comm, struct engine_message *m)
{
	if (m->sending || !m->data)
		return 0;
	m->target = engine_cuda.find(comm->gpu, m->data, m->bytes);
	if (m->target && comm->settings.check_memory && engine_cuda.verify(comm->gpu, m->target))
		return CORALE_EINVAL;
	return 0;
}

static int submit_messages(struct comm *comm, const struct call *calls, int n, void *stream)
{
	struct engine_message messages[ENGINE_MOST_GROUPED];
	int used = 0;
	const uint32_t number = recent_add(comm->recent, calls, n);
	for (int i = 0, r = 0; i < n; i++) {
		const struct call *c = &calls[i];
		struct engine_message *m = &messages[used];
		uint64_t bytes = c->record.count * corale_type_bytes(c->record.type);
		if (c->record.root != comm->rank) {
			*m = (struct engine_message){ .admission = c->admission,
						      .data = c->record.coll == CORALE_SEND
								  ? (void *)(uintptr_t)c->send
								  : c->recv,
						      .bytes = bytes,
						      .type = c->record.type,
						      .peer = gpu_place_of(comm, c->record.root),
						      .sending = c->record.coll == CORALE_SEND,
						      .number = number };
			int ret = find_target(comm, m);
			if (ret)
				return ret;
			used++;
		} else if (c->record.coll == CORALE_SEND) {
			r = execute_next_own(comm, calls, n, r, CORALE_RECV);
			*m = (struct engine_message){ .admission = c->admission,
						      .data = calls[r].recv,
						      .from = c->send,
						      .bytes = bytes,
						      .type = c->record.type,
						      .peer = gpu_place_of(comm, c->record.root),
						      .number = number };
			m->admission.plain |= calls[r++].admission.plain;
			used += bytes && messages[used].data != messages[used].from;
		}
	}
	return used ? ended(comm, calls, run_messages(comm, messages, used, stream)) : 0;
}

int gpu_submit(struct comm *comm, const struct call *calls, int n, void *stream)
{
	if (calls[0].record.coll == CORALE_SEND || calls[0].record.coll == CORALE_RECV)
		return submit_messages(comm, calls, n, stream);
	return submit_collective(comm, calls, stream);
}
