/* SPDX-License-Identifier: BSD-3-Clause */
#include "host_fast.h"

#include <string.h>

#include "base/collectives.h"
#include "base/wait.h"

/* ---- From a plan to a list ------------------------------------------------------------- */

int host_fast_serves(const struct host_engine *e, const struct plan *plan, const struct host_fast_call *call)
{
	const int is_small =
	    coll_is_uneven(plan->key.coll)
		? e->map.ranks <= HOST_FAST_UNEVEN
		: call->count <= HOST_FAST_BYTES / corale_type_bytes((corale_type)plan->key.type);
	return !e->transport && plan->channels == 1 && !plan->scratch_cells && !plan->spans && is_small;
}

static struct host_fast_span span_of(const struct plan_location *location, size_t type_bytes)
{
	return (struct host_fast_span){ location->space, location->offset * type_bytes };
}

/* A message of rank; 0: the list has no room for it. */
static int add_in(struct host_fast_step *step, struct host_in *const *end, struct host_in *in)
{
	if (step->ins + step->nins == end)
		return 0;
	step->ins[step->nins++] = in;
	return 1;
}

/* The sources in the order in which host_fill.c folds them. 0: the list has no room. */
static int add_sources(struct host_fast_step *step, struct host_in *const *end, struct host_engine *e,
		       const struct plan *plan, const struct plan_action *a)
{
	const int all = plan->queues[a->from_queue].all, queue = a->from_queue;
	const int n = a->from == PLAN_ALL ? host_group_size(e, a->from_group) : a->from != PLAN_NONE;
	for (int i = 0; i < n; i++) {
		const int rank = a->from == PLAN_ALL ? host_member(e, a, a->from_group, i) : a->from;
		if (rank == e->rank)
			step->own = step->nins;
		else if (!add_in(step, end, host_in(e, e->map.local_of[rank], all, 0, queue)))
			return 0;
	}
	if (a->from != PLAN_ALL)
		step->own = step->nins;
	return 1;
}

static void add_target(struct host_fast_step *step, struct host_engine *e, const struct plan *plan,
		       const struct plan_action *a)
{
	if (!host_sends_to_local(e, a))
		return;
	const struct plan_queue *queue = &plan->queues[a->to_queue];
	const int d = a->to == PLAN_ALL ? e->locals : e->map.local_of[a->to];
	step->out = host_out(e, d, 0, a->to_queue);
	step->depth = queue->sync == PLAN_PARITY ? WINDOW_HEADERS : queue->depth;
}

static int add_step(struct host_fast_list *list, struct host_in **ins, struct host_engine *e,
		    const struct plan *plan, const struct plan_env *env, const struct plan_action *a)
{
	size_t offset;
	const int edges = coll_is_uneven(plan->key.coll) || coll_is_pair(plan->key.coll);
	const size_t type_bytes = corale_type_bytes((corale_type)plan->key.type);
	const int to_itself = a->from == e->rank || a->to == e->rank, moves = a->op == PLAN_MOVE;
	if (list->nsteps == HOST_FAST_STEPS || to_itself || a->cells || a->run ||
	    a->src.space == PLAN_SCRATCH || a->dst.space == PLAN_SCRATCH ||
	    (a->src.space && plan_span_run(env, a, &a->src, 0, &offset) < a->count) ||
	    (a->dst.space && plan_span_run(env, a, &a->dst, 0, &offset) < a->count) ||
	    a->count * type_bytes > HOST_FAST_BYTES)
		return 0;
	struct host_fast_step *step = &list->steps[list->nsteps];
	*step = (struct host_fast_step){ .ins = ins,
					 .own = -1,
					 .final = a->flags & PLAN_FINAL,
					 .src = span_of(&a->src, type_bytes),
					 .dst = span_of(&a->dst, type_bytes),
					 .edge = edges ? plan_message_block(env, a) : 0,
					 .count = moves ? a->count : 0,
					 .bytes = moves ? a->count * type_bytes : 0 };
	add_target(step, e, plan, a);
	list->nsteps++;
	return add_sources(step, list->ins + HOST_FAST_MESSAGES, e, plan, a);
}

/* The steps of one program behind those of the programs before it: these wait for nothing of this one, as no step has a message to its own rank. */
static int add_program(struct host_fast_list *list, struct host_in ***ins, struct host_engine *e,
		       const struct plan *plan, const struct plan_env *env, int program)
{
	struct plan_cursor cursor;
	struct plan_action action;
	plan_cursor_start(&cursor, plan, program);
	while (plan_cursor_next(&cursor, plan, env, &action)) {
		if (!add_step(list, *ins, e, plan, env, &action))
			return 0;
		*ins += list->steps[list->nsteps - 1].nins;
	}
	return 1;
}

static void keep_call(struct host_fast_list *list, const struct host_engine *e,
		      const struct host_fast_call *call)
{
	list->root = call->root;
	list->count = call->count;
	list->own = call->own;
	for (int i = 0; i < 4; i++)
		if (call->uneven[i])
			memcpy(list->uneven[i], call->uneven[i],
			       (size_t)e->map.ranks * sizeof *call->uneven[i]);
}

int host_fast_is_of(const struct host_fast_list *list, const struct host_engine *e,
		    const struct host_fast_call *call)
{
	int is = list->count == call->count && list->root == call->root && list->own == call->own;
	for (int i = 0; i < 4 && is; i++)
		is = !call->uneven[i] || !memcmp(list->uneven[i], call->uneven[i],
						 (size_t)e->map.ranks * sizeof *call->uneven[i]);
	return is;
}

static void make_list(struct host_fast_list *list, struct host_engine *e, const struct plan *plan,
		      const struct host_fast_call *call)
{
	struct plan_env env;
	struct host_in **ins = list->ins;
	int fits = 1;
	keep_call(list, e, call);
	list->nsteps = 0;
	list->stride = host_stride(e, plan);
	plan_env_init(&env, plan, &e->map, e->rank, call->root, call->count);
	if (coll_is_uneven(plan->key.coll))
		plan_env_uneven(&env, plan, call->uneven, call->own);
	for (int i = 0; fits && i < plan->nprograms; i++)
		fits = add_program(list, &ins, e, plan, &env, i);
	list->nsteps = fits && list->nsteps ? list->nsteps : -1;
}

const struct host_fast_list *host_fast_find(struct host_fast *fast, struct host_engine *engine,
					    const struct plan *plan, const struct host_fast_call *call)
{
	struct host_fast_list *list = fast->lists;
	while (list < fast->lists + HOST_FAST_KEPT && list->nsteps && !host_fast_is_of(list, engine, call))
		list++;
	if (list == fast->lists + HOST_FAST_KEPT)
		list = &fast->lists[fast->next++ % HOST_FAST_KEPT];
	if (!list->nsteps || !host_fast_is_of(list, engine, call))
		make_list(list, engine, plan, call);
	return list->nsteps > 0 ? list : NULL;
}

/* ---- Steps ------------------------------------------------------------------------------ */

/* A step that can't be executed: yet, or by this file. */
enum { STEP_WAITS, STEP_DONE, STEP_FOREIGN };

/* The payload of the next message of a queue; NULL with *state: it is not there, or is none that is expected here. */
static const void *payload_of(const struct host_in *in, const struct host_engine *e, size_t bytes,
			      uint64_t signature, uint64_t edge, int *state)
{
	const struct window_header *header = host_in_ready(in);
	if (!header)
		return NULL;
	const uint64_t bytes_kind = atomic_load_explicit(&header->bytes_kind, memory_order_relaxed);
	*state = STEP_FOREIGN;
	if (header->signature != signature || header->edge != edge || bytes_kind >> 8 != bytes)
		return NULL;
	if (bytes <= WINDOW_INLINE)
		return (bytes_kind & 0xff) == WINDOW_INLINED ? header->inlined : NULL;
	const uint64_t offset = *(const volatile uint64_t *)&header->offset; /* what is checked is used */
	return (bytes_kind & 0xff) == WINDOW_SLOT && offset <= e->layout.queue_bytes - bytes
		   ? in->payload + offset
		   : NULL;
}

static unsigned char *address_of(const struct host_binding *b, const struct host_fast_span *span)
{
	return span->space == PLAN_NOWHERE
		   ? NULL
		   : (unsigned char *)(uintptr_t)(span->space == PLAN_SEND ? b->send : b->recv) +
			 span->offset;
}

/* All that the step folds; 0 with *state: some message is missing. */
static int find_sources(const struct host_fast_step *step, const struct host_engine *e,
			const struct host_binding *binding, struct reduce_input *inputs, int *n, int *state)
{
	*n = 0;
	for (int i = 0; i <= step->nins; i++) {
		if (i == step->own && step->src.space)
			inputs[(*n)++] = (struct reduce_input){ address_of(binding, &step->src),
								step->src.space == PLAN_SEND ? REDUCE_SEND
											     : REDUCE_LOCAL };
		if (i == step->nins)
			continue;
		const void *data =
		    payload_of(step->ins[i], e, step->bytes, binding->signature, step->edge, state);
		if (!data)
			return 0;
		inputs[(*n)++] = (struct reduce_input){ data, REDUCE_LOCAL };
	}
	return 1;
}

/* Where the step's message goes, or NULL: its queue has no room. */
static unsigned char *find_room(const struct host_fast_step *step, const struct host_fast_list *list,
				const struct host_engine *e)
{
	struct host_out *out = step->out;
	if (!host_out_room(out, list->stride, step->depth))
		return NULL;
	struct window_header *header = &out->headers[out->sent % WINDOW_HEADERS];
	if (step->bytes <= WINDOW_INLINE)
		return header->inlined;
	const int room = host_room(&e->layout, out->stride);
	if (!host_out_free(out, room))
		return NULL;
	header->offset = out->sent % (uint64_t)room * out->stride;
	return out->payload + header->offset;
}

static void fold(const struct host_fast_step *step, const struct reduce_spec *spec, void *to,
		 const struct reduce_input *inputs, int n)
{
	const int scales = inputs->kind == REDUCE_SEND && spec->op == CORALE_NUM_OPS,
		  divides = step->final && spec->op == CORALE_AVG;
	if (n > 1 || scales || divides)
		reduce_fold(spec, to, inputs, n, step->count, step->final);
	else if (to != inputs->data)
		memcpy(to, inputs->data, step->bytes);
}

static void publish(struct host_out *out, size_t bytes, uint64_t signature, uint64_t edge)
{
	struct window_header *header = &out->headers[out->sent % WINDOW_HEADERS];
	const int kind = bytes <= WINDOW_INLINE ? WINDOW_INLINED : WINDOW_SLOT;
	header->signature = signature;
	header->edge = edge;
	atomic_store_explicit(&header->bytes_kind, (uint64_t)bytes << 8 | (uint64_t)kind,
			      memory_order_relaxed);
	atomic_store_explicit(&header->sequence, ++out->sent, memory_order_release);
}

/* The result goes to the message and to the local span, which may be a source: it is written once all sources were folded. */
static int run_step(const struct host_fast_step *step, const struct host_fast_list *list,
		    const struct host_engine *e, const struct host_binding *binding)
{
	struct reduce_input inputs[HOST_FAST_MESSAGES + 1];
	int n, state = STEP_WAITS;
	unsigned char *message = NULL, *local = address_of(binding, &step->dst);
	if (!find_sources(step, e, binding, inputs, &n, &state))
		return state;
	if (step->out && !(message = find_room(step, list, e)))
		return STEP_WAITS;
	unsigned char *first = local ? local : message;
	if (n && step->bytes && first) {
		fold(step, &binding->spec, first, inputs, n);
		if (message && message != first)
			memcpy(message, first, step->bytes);
	}
	if (step->out)
		publish(step->out, step->bytes, binding->signature, step->edge);
	for (int i = 0; i < step->nins; i++)
		atomic_store_explicit(step->ins[i]->consumed, ++step->ins[i]->received, memory_order_release);
	return STEP_DONE;
}

int host_fast_run(const struct host_fast_list *list, const struct host_engine *engine,
		  const struct host_binding *binding, int polls, int *step)
{
	while (*step < list->nsteps) {
		const int state = run_step(&list->steps[*step], list, engine, binding);
		if (state == STEP_DONE)
			++*step;
		else if (state == STEP_FOREIGN || --polls <= 0)
			return 0;
		else
			wait_pause();
	}
	return 1;
}
