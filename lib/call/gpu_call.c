/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu_call.h"

#include <stdlib.h>

#include "arena.h"
#include "health/diagnose.h"
#include "start.h"
#include "base/log.h"
#include "net/proxy.h"
#include "signature.h"
#include "base/collectives.h"
#include "base/status.h"
#include "base/types.h"
#include "health/gpu_health.h"

/* Whether the memory of a target is still what was registered, where settings ask for that; 0, or CORALE_EINVAL. */
static int find_target(const struct comm *comm, const void *recv, uint64_t bytes, uint64_t *target)
{
	*target = engine_memory.find(comm->gpu, recv, bytes);
	return *target && comm->settings.check_memory ? engine_memory.verify(comm->gpu, *target) : 0;
}

/* Whether peers may store into the receive buffer. Ranks that pass different offsets or registrations have different signatures, so the call fails as a mismatch. */
static int may_store_direct(const struct comm *comm, const struct call *c)
{
	const corale_coll coll = c->record.coll;
	const int lowered = coll_is_rooted(coll) && coll != CORALE_BROADCAST,
		  one_node = comm->size > 1 && !comm->proxy;
	return one_node && c->recv && !lowered && (coll == CORALE_ALL_REDUCE || coll_moves(coll));
}

/* What the call may use. Premultiplied inputs need a kernel, so scratch is of no use to copies of them. */
static int memory_of(const struct comm *comm, const struct call *c)
{
	const struct record *r = &c->record;
	int scratch = comm->size > 1 && comm->scratch != COMM_SCRATCH_NONE &&
		      !(coll_folds(r->coll) && r->op >= CORALE_NUM_OPS);
	int memory = scratch ? PLAN_MEMORY_SCRATCH : 0;
	if (r->target)
		memory |= PLAN_MEMORY_REGISTERED;
	if (r->target && engine_memory.is_exported(comm->gpu, r->target))
		memory |= PLAN_MEMORY_EXPORTED;
	return memory;
}

/* The first large call makes scratch. */
static int make_scratch(struct comm *comm, const struct call *c, const struct row *row, struct plan_call *key)
{
	if (!row || !row->codelet || comm->size == 1 || comm->scratch != COMM_SCRATCH_OPEN ||
	    !row_uses_scratch(row, &comm->machine, key))
		return 0;
	const int ret = comm->make_scratch(comm, c);
	key->memory = memory_of(comm, c);
	return ret;
}

/* Launches of rows with a codelet: by collective, kind of type and class of memory as their choices are. */
static struct gpu_launch *launches_of(struct comm *comm, const struct call *c, int memory,
				      const struct choices *choices)
{
	const corale_coll coll = c->record.coll;
	struct gpu_launch **launches = &comm->launched.launches[coll][choices_kind(c->record.type)][memory];
	if (*launches)
		return *launches;
	if (!(*launches = calloc((size_t)choices->n, sizeof **launches)))
		log_error(CORALE_ENOMEM, comm->rank, "no memory for launches of %s", corale_coll_name(coll));
	plans_log_forced(&comm->gpu_plans, comm->rank, coll, c->record.type, memory, choices);
	return *launches;
}

/* Whether a launch was prepared for calls like this one. */
static int is_prepared(const struct gpu_launch *l, const struct plan_call *key)
{
	return l && l->cut.machine && l->cut.bytes == key->bytes && l->cut.unaligned == key->unaligned;
}

/* Whether no codelet folds the call's operator: then no choice is asked. */
static int folds_lowered(const struct call *c)
{
	const struct record *r = &c->record;
	return coll_folds(r->coll) && type_folds_lowered(r->type, op_kind(r->op));
}

/* The launch of a call that runs by its plan. choice: as gpu_plan has it. */
static int make_by_plan(struct comm *comm, const struct call *c, const struct plan_call *key,
			const struct row_choice *choice, struct gpu_launch *own)
{
	const int ret = gpu_plan(comm, c, choice, &own->cut);
	own->cut.unaligned = (uint8_t)key->unaligned;
	if (!ret)
		engine_cuda.prepare(comm->gpu, own);
	return ret;
}

/* The launch of a call: of a choice with a codelet one that stays; else *own, by the plan. */
static int find_launch(struct comm *comm, const struct call *c, struct plan_call *key, struct gpu_launch *own,
		       const struct gpu_launch **out)
{
	const int memory = key->memory;
	const struct choices *choices;
	*out = own;
	if (folds_lowered(c))
		return make_by_plan(comm, c, key, NULL, own);
	int ret = plans_choices(&comm->gpu_plans, comm->rank, key->coll, c->record.type, memory, &choices);
	const struct row_choice *choice = ret ? NULL : choices_find(choices, key->bytes);
	ret = ret ? ret : make_scratch(comm, c, choice->row, key);
	if (ret)
		return ret;
	if (key->memory != memory) /* no scratch could be made: chosen again, without */
		return find_launch(comm, c, key, own, out);
	struct gpu_launch *l = launches_of(comm, c, memory, choices);
	if (!l)
		return CORALE_ENOMEM;
	if (!choice->row || !choice->row->codelet)
		return make_by_plan(comm, c, key, choice, own);
	*out = l += choice - choices->best;
	if (is_prepared(l, key))
		return 0;
	l->cut = launch_of(choice->row, &comm->machine, key);
	l->cut.unaligned = (uint8_t)key->unaligned;
	engine_cuda.prepare(comm->gpu, l);
	return 0;
}

/* The launch of the last call if it is like this one, else find_launch. A persistent plan holds its own. */
static int find_any_launch(struct comm *comm, const struct call *c, struct plan_call *key,
			   struct gpu_launch *own, const struct gpu_launch **out)
{
	struct shared_plan *held = c->plan;
	struct latest_launch *latest = &comm->launched.latest[key->coll];
	if (held && held->memory == key->memory && is_prepared(&held->launch, key)) {
		*out = &held->launch;
		return 0;
	}
	if (latest->type == c->record.type && latest->op == c->record.op && latest->memory == key->memory &&
	    is_prepared(latest->launch, key)) {
		*out = latest->launch;
		return 0;
	}
	const int ret = find_launch(comm, c, key, own, out);
	if (!ret && held) {
		held->launch = **out;
		held->memory = key->memory;
	} else if (!ret && *out != own) {
		*latest = (struct latest_launch){ *out, c->record.type, c->record.op, key->memory };
	}
	return ret;
}

/* Where the call may store directly, and its launch. */
static int prepare(struct comm *comm, struct call *c, struct gpu_launch *own,
		   const struct gpu_launch **launch)
{
	const uint64_t bytes = call_bytes(c);
	const size_t blocks = coll_recv_blocks(c->record.coll, comm->size, comm->rank, c->record.root);
	const int one_node = comm->size > 1 && !comm->proxy; /* whose ranks map each other's memory */
	if (may_store_direct(comm, c) && find_target(comm, c->recv, blocks * bytes, &c->record.target))
		return CORALE_EINVAL;
	struct plan_call key = { c->record.coll, bytes, type_in_words(c->record.type),
				 one_node ? memory_of(comm, c) : 0, plan_alignment_of(c->send, c->recv) };
	const int ret = find_any_launch(comm, c, &key, own, launch);
	if (!ret && !(*launch)->cut.direct)
		c->record.target = 0;
	return ret;
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
static void begin_run(struct comm *comm, const struct codelet *codelet, corale_coll coll, uint64_t bytes)
{
	trace_begin(comm->trace, coll, codelet, bytes);
	if (comm->proxy)
		proxy_expect(comm->proxy);
}

static int end_run(struct comm *comm, const struct call *call, int ret)
{
	const int captured = !ret && comm->proxy && engine_cuda.captures(comm->gpu);
	if (comm->proxy && (ret || captured))
		proxy_unexpect(comm->proxy, captured);
	trace_end(comm->trace);
	return ret ? ended(comm, call, ret) : 0;
}

static int run_messages(struct comm *comm, const struct call *messages, int n, void *stream)
{
	uint64_t bytes = 0;
	for (int i = 0; comm->trace && i < n; i++)
		bytes += call_bytes(&messages[i]);
	begin_run(comm, &p2p_codelet, CORALE_SEND, bytes);
	return end_run(comm, messages, engine_cuda.run_messages(comm->gpu, messages, n, stream));
}

/* A collective needs every rank. Sends and receives wait, as their messages may be on their way. */
static int fail_without(struct comm *comm, const struct call *c)
{
	const int gone = coll_is_pair(c->record.coll) ? -1 : gpu_remote_gone(comm, comm->number + 1);
	if (gone < 0)
		return 0;
	const int ret = gpu_failure(comm);
	if (ret)
		return ret;
	engine_cuda.abort(comm->gpu, diagnose_gone(comm, &c->record, gone));
	return CORALE_EPEER;
}

int gpu_admit(struct comm *comm, struct call *c, void *stream)
{
	int ret = atomic_load_explicit(&comm->has_gone, memory_order_relaxed) ? fail_without(comm, c) : 0;
	if (ret)
		return ret;
	ret = engine_cuda.admit(comm->gpu, c, stream, &c->admission);
	return ret ? ended(comm, c, ret) : 0;
}

/* What chooses the launch of a v-form, whose own record is for other ranks: blocks are moved as by an all_to_all_v, and folded as by a reduce_scatter
 * whose blocks are the largest one, in whole vectors and as many rounds as take at most so many bytes each. */
static void make_launched(struct record *r, uint64_t most)
{
	enum { VECTOR_BYTES = 16 };
	const uint64_t element = corale_type_bytes(r->type), bytes = r->count * element,
		       rounds = bytes ? (bytes + most - 1) / most : 1;
	const int folds = coll_folds(r->coll);
	r->coll = folds ? CORALE_REDUCE_SCATTER : CORALE_ALL_TO_ALL_V;
	r->count = folds ? plan_round((bytes + rounds - 1) / rounds, VECTOR_BYTES) / element : 0;
	r->root = 0;
}

/* The launch of a v-form. Copy engines need no copy of what is folded (lib/cuda/codelet/run.c); one of all blocks and a result has limited room. */
static int prepare_uneven(struct comm *comm, struct call *c, struct gpu_launch *own,
			  const struct gpu_launch **launch)
{
	const uint64_t most = (((uint64_t)256 << 20) / ((uint64_t)comm->size + 1)) & ~(uint64_t)15;
	const int folds = coll_folds(c->record.coll);
	const struct record given = c->record;
	make_launched(&c->record, UINT64_MAX / 2);
	const int ret = prepare(comm, c, own, launch);
	if (ret || !folds || (*launch)->cut.codelet == &copies_codelet || (*launch)->cut.bytes <= most)
		return ret;
	c->record = given;
	make_launched(&c->record, most);
	return prepare(comm, c, own, launch);
}

static int submit_collective(struct comm *comm, const struct call *given, void *stream)
{
	struct call copy = *given, *c = &copy;
	struct gpu_launch own;
	const struct gpu_launch *launch;
	int ret = c->send_counts ? prepare_uneven(comm, c, &own, &launch) : prepare(comm, c, &own, &launch);
	c->record.coll = given->record.coll;
	c->record.count = given->record.count;
	c->record.root = given->record.root;
	if (c->send_counts && coll_folds(c->record.coll)) /* no message says them */
		c->record.target = signature_of_counts(c->send_counts, comm->size);
	if (ret)
		return ended(comm, c, ret);
	c->record.number = comm->number + 1;
	c->number = gpu_journal_add(comm->gpu_journal, c, 1);
	c->record.signature = comm->size > 1 ? signature_next(comm, c) : 0;
	begin_run(comm, launch->cut.codelet, launch->cut.coll, launch->cut.bytes);
	return end_run(comm, c, engine_cuda.run(comm->gpu, c, launch, stream));
}

/* The calls as the engine takes them: of what a rank sends itself only the send, with the receive's buffer. */
static int make_messages(const struct comm *comm, const struct call *calls, int n, uint32_t number,
			 struct call *messages, int *used)
{
	int ret = 0;
	for (int i = 0, r = 0; !ret && i < n; i++) {
		struct call *m = &messages[*used];
		const int own = calls[i].record.root == comm->rank;
		if (own && calls[i].record.coll == CORALE_RECV)
			continue;
		*m = calls[i];
		m->number = number;
		if (own) {
			r = self_next(comm, calls, n, r, CORALE_RECV);
			m->recv = calls[r].recv;
			m->admission.plain |= calls[r++].admission.plain;
		}
		if (m->record.coll == CORALE_RECV && m->recv) /* where its sender may store */
			ret = find_target(comm, m->recv, call_bytes(m), &m->record.target);
		*used += !own || (call_bytes(m) && m->recv != m->send);
	}
	return ret ? CORALE_EINVAL : 0;
}

static int submit_messages(struct comm *comm, const struct call *calls, int n, void *stream)
{
	const struct arena_mark mark = arena_mark();
	struct call *messages = arena_take(ENGINE_MOST_GROUPED * sizeof *messages);
	int used = 0;
	if (!messages)
		return log_error(CORALE_ENOMEM, comm->rank, "no memory for the messages of a group");
	const uint32_t number = gpu_journal_add(comm->gpu_journal, calls, n);
	int ret = make_messages(comm, calls, n, number, messages, &used);
	if (!ret && used)
		ret = run_messages(comm, messages, used, stream);
	arena_release(mark);
	return ret;
}

int gpu_call(struct comm *comm, struct call *calls, int n, int admitted, void *stream)
{
	const int ret = admitted ? 0 : gpu_admit(comm, calls, stream);
	if (ret)
		return ret;
	return coll_is_pair(calls->record.coll) ? submit_messages(comm, calls, n, stream)
						: submit_collective(comm, calls, stream);
}
