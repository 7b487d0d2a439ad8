/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs a row's plan for all ranks and notes each message that it sends, for packets_test to compare with what the kernels send. */
#include "planned.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/host_engine.h"
#include "plan/choose/planner.h"
#include "test/helpers/row_find.h"

enum { SLOT_BYTES = 2048 /* so that vectors are several messages */, SLOTS = 4, LINKS = PLAN_MAX_QUEUES };

/* ---- A transport that keeps all messages -------------------------------------------------------------------- */

struct message {
	unsigned char *data;
	size_t bytes;
	unsigned char header[TRANSPORT_HEADER_BYTES];
};

/* A link from one rank to another. */
struct path {
	struct message *sent;
	size_t nsent, ntaken;
	size_t read; /* by the comparison */
};

struct wire {
	struct transport base;
	int rank, ranks;
	struct path *paths; /* of all ranks */
};

static struct path *path_of(struct path *paths, int ranks, int from, int to, int index)
{
	return &paths[(from * ranks + to) * LINKS + index];
}

static void *extended(void *array, size_t n, size_t bytes)
{
	array = realloc(array, (n + 1) * bytes);
	if (!array)
		abort();
	return array;
}

/* Sends at once, and receives what was sent where it lies. */
struct keeping_link {
	struct link base;
	struct path *out, *in;
	struct link_message message;
};

static struct keeping_link *of(struct link *l)
{
	return (struct keeping_link *)l;
}

static int open_in(struct link *l)
{
	l->in = &of(l)->message;
	l->in_depth = l->in_open = 1;
	return 0;
}

static int open_out(struct link *l)
{
	l->out = extended(NULL, 0, l->slot_bytes);
	l->out_depth = l->out_open = 1;
	atomic_store(&l->limit, UINT64_MAX);
	return 0;
}

static int post_message(struct link *l, const void *header, const void *data, size_t bytes)
{
	struct path *p = of(l)->out;
	struct message m = { .data = extended(NULL, 0, bytes + 1), .bytes = bytes };
	if (bytes)
		memcpy(m.data, data ? data : link_slot(l), bytes);
	memcpy(m.header, header, sizeof(m.header));
	p->sent = extended(p->sent, p->nsent, sizeof(*p->sent));
	p->sent[p->nsent++] = m;
	l->posted++;
	return 0;
}

static int take_message(struct link *l)
{
	of(l)->in->ntaken++;
	atomic_fetch_add(&l->taken, 1);
	return 0;
}

static int look(struct link *l, int sends)
{
	const struct path *p = of(l)->in;
	if (sends || p->ntaken == p->nsent)
		return 0;
	const struct message *m = &p->sent[p->ntaken];
	memcpy(l->in->header, m->header, sizeof(m->header));
	l->in->bytes = m->bytes;
	l->in->data = m->data;
	atomic_store(&l->arrived, p->ntaken + 1);
	return 0;
}

static void free_link(struct link *l)
{
	free(l->out);
	free(l);
}

static int open_link(struct transport *t, const struct link_params *params, struct link **out);

static const struct link_ops keeping_links = { .open = open_link,
					       .open_in = open_in,
					       .open_out = open_out,
					       .post = post_message,
					       .release = take_message,
					       .poll = look,
					       .free = free_link };

static int open_link(struct transport *t, const struct link_params *params, struct link **out)
{
	const struct wire *w = (const struct wire *)t;
	struct keeping_link *l = calloc(1, sizeof(*l));
	if (!l)
		abort();
	link_init(&l->base, &keeping_links, params);
	l->out = path_of(w->paths, w->ranks, w->rank, params->peer, params->index);
	l->in = path_of(w->paths, w->ranks, params->peer, w->rank, params->index);
	*out = &l->base;
	return 0;
}

static const struct transport_ops keeping = { .links = &keeping_links };

static void free_paths(struct path *paths, int n)
{
	for (int i = 0; i < n; i++) {
		for (size_t k = 0; k < paths[i].nsent; k++)
			free(paths[i].sent[k].data);
		free(paths[i].sent);
	}
	free(paths);
}

/* ---- Ranks ---------------------------------------------------------------------------------------------------- */

struct node {
	struct wire wire;
	struct host_engine engine;
	void *window;
	pid_t pid;
	int idle, root; /* idle: it has no part in the call */
	struct plan plan;
	struct plan_env env;
	struct host_run run;
	const unsigned char *send;
	unsigned char *recv, *gathered; /* gathered: a piece of each of its blocks, or NULL */
};

struct job {
	const struct started *started;
	int ranks;
	size_t at; /* of what the plan is run for, in the vector */
	size_t count, element;
	struct topo *topo;
	struct settings settings;
	struct path *paths;
	struct node *nodes;
	const struct slip *slip; /* or NULL */
};

/* As the planner, but whether or not the algorithm is for such nodes. */
static int build_anyway(const struct planner *planner, const struct plan_key *key, int row, struct plan *plan)
{
	int rows;
	const struct row *algo = row_table(&rows);
	if (row < 0)
		return CORALE_ENOTSUP;
	struct algo_call call = { .row = &algo[row],
				  .key = *key,
				  .topo = planner->topo,
				  .bytes = (size_t)1 << key->size_class,
				  .slot_bytes = planner->slot_bytes,
				  .slots = planner->slots,
				  .most_at_once = GPU_MAX_HOSTS,
				  .max_channels = 1 };
	plan_init(plan, key);
	plan->chunk_bytes = planner->slot_bytes;
	algo[row].build(&call, plan);
	return plan_finish(plan);
}

static int make_plan(const struct job *j, corale_coll coll, const char *name, struct plan *plan)
{
	const struct test_call *c = j->started[0].call;
	int row = row_find(coll, name);
	struct planner planner = {
		.topo = j->topo, .slot_bytes = SLOT_BYTES, .slots = SLOTS, .max_channels = 1
	};
	struct plan_key key = planner_key(coll, j->count, c->type, (corale_op)c->op);
	int ret = planner_build(&planner, &key, row, plan);
	ret = ret == CORALE_ENOTSUP ? build_anyway(&planner, &key, row, plan) : ret;
	if (ret)
		printf("# no plan of %s: %s\n", name, corale_strerror(ret));
	return ret;
}

static void open_engine(struct job *j, int rank)
{
	struct node *n = &j->nodes[rank];
	struct host_engine *e = &n->engine;
	n->wire = (struct wire){ { .ops = &keeping }, rank, j->ranks, j->paths };
	*e = (struct host_engine){ .rank = rank,
				   .locals = 1,
				   .channels = 1,
				   .map = j->topo->map,
				   .windows = &n->window,
				   .pids = &n->pid,
				   .settings = &j->settings,
				   .transport = &n->wire.base };
	window_layout_init(&e->layout, 1, 1, SLOTS, SLOT_BYTES);
	host_engine_slots(e);
	n->window = calloc(1, e->layout.bytes);
	if (!n->window || host_engine_open(e))
		abort();
}

/* Elements of a rank's receive buffer at most. */
static size_t recv_room(const struct job *j, const struct started *s)
{
	size_t room = (size_t)j->ranks * j->count;
	for (int r = 0; s->call->coll == CORALE_ALL_TO_ALL_V && r < j->ranks; r++)
		room += s->recv_counts[r] + s->recv_displs[r];
	return room;
}

static void open_env(const struct job *j, int rank, const struct plan *plan, struct plan_env *env)
{
	const struct started *s = &j->started[rank];
	plan_env_init(env, plan, &j->topo->map, rank, j->nodes[rank].root, j->count);
	if (plan->key.coll != CORALE_ALL_TO_ALL_V)
		return;
	const size_t *const arrays[4] = { s->send_counts, s->send_displs, s->recv_counts, s->recv_displs };
	plan_env_uneven(env, plan, arrays, s->send_counts[rank]);
}

static void start_run(struct job *j, int rank)
{
	struct node *n = &j->nodes[rank];
	const struct started *s = &j->started[rank];
	const struct test_call *c = s->call;
	open_env(j, rank, &n->plan, &n->env);
	n->recv = malloc(recv_room(j, s) * j->element + 1);
	struct host_binding binding = { .send = n->send,
					.recv = n->recv,
					.spec = { c->type, (corale_op)c->op, j->ranks, { 0 } },
					.signature = 1 };
	if (!n->recv || host_run_init(&n->run, &n->engine, &n->plan, &n->env, &binding))
		abort();
}

static void *allocated(int n, size_t bytes)
{
	void *memory = calloc((size_t)n, bytes);
	if (!memory)
		abort();
	return memory;
}

static void open_job(struct job *j)
{
	uint64_t nodes[GPU_MAX_HOSTS];
	for (int r = 0; r < j->ranks; r++)
		nodes[r] = (uint64_t)r;
	if (topo_create(j->ranks, nodes, &j->topo))
		abort();
	j->settings.reference_bytes = j->settings.memory_cap = SIZE_MAX;
	j->paths = allocated(j->ranks * j->ranks * LINKS, sizeof(*j->paths));
	j->nodes = allocated(j->ranks, sizeof(*j->nodes));
}

static void start_ranks(struct job *j)
{
	for (int r = 0; r < j->ranks; r++)
		if (!j->nodes[r].idle) {
			open_engine(j, r);
			start_run(j, r);
		}
}

static void close_job(struct job *j)
{
	for (int r = 0; r < j->ranks; r++) {
		if (j->nodes[r].recv) {
			host_run_free(&j->nodes[r].run);
			host_engine_close(&j->nodes[r].engine);
		}
		free(j->nodes[r].window);
		free(j->nodes[r].recv);
		free(j->nodes[r].gathered);
	}
	free(j->nodes);
	free_paths(j->paths, j->ranks * j->ranks * LINKS);
	topo_destroy(j->topo);
}

/* Messages that were sent, or taken. */
static size_t events(const struct job *j)
{
	size_t n = 0;
	for (int i = 0; i < j->ranks * j->ranks * LINKS; i++)
		n += j->paths[i].nsent + j->paths[i].ntaken;
	return n;
}

/* All ranks in turn, until all are done or nothing happens any more. */
static int run_ranks(struct job *j)
{
	enum { MOST_IDLE_ROUNDS = 64 };
	size_t before = 0;
	for (int idle = 0; idle < MOST_IDLE_ROUNDS; idle++) {
		int all = 1;
		for (int r = 0; r < j->ranks; r++) {
			int ret = j->nodes[r].idle ? 1 : host_channel_progress(&j->nodes[r].run, 0);
			if (ret < 0)
				return ret;
			all &= ret;
		}
		if (all)
			return 0;
		size_t now = events(j);
		idle = now == before ? idle : 0;
		before = now;
	}
	return CORALE_ETIMEDOUT;
}

/* ---- Where messages belong ------------------------------------------------------------------------------------ */

/* The place of an action's data in its block or vector, in bytes. */
static size_t place_of(const struct job *j, int rank, const struct plan_action *a)
{
	const struct plan_env *env = &j->nodes[rank].env;
	const struct plan_location *p = a->src.space ? &a->src : &a->dst;
	size_t before = 0;
	if (p->block >= 0 && p->space == PLAN_SEND && env->send_displs)
		before = env->send_displs[p->block];
	else if (p->block >= 0)
		before = (size_t)p->block * j->count;
	return j->at + (p->offset - before) * j->element;
}

/* How many rings before this one carry messages between ranks. */
static int exchange_of(const struct job *j, int ring)
{
	int exchange = 0;
	for (int before = 0; before < ring; before++) {
		int used = 0;
		for (int i = 0; i < j->ranks * j->ranks; i++)
			used |= j->paths[i * LINKS + before].nsent > 0;
		exchange += used;
	}
	return exchange;
}

/* The next message of a rank's ring to another one is an action's. */
static int add_message(struct job *j, int from, int to, const struct plan_action *a, struct traffic *t)
{
	struct path *p = path_of(j->paths, j->ranks, from, to, a->to_queue);
	size_t bytes = a->op == PLAN_MOVE ? a->count * j->element : 0;
	if (p->read == p->nsent || p->sent[p->read].bytes != bytes) {
		if (!j->slip)
			printf("# rank %d has not sent rank %d a message of %zu bytes of its plan\n", from,
			       to, bytes);
		return 1;
	}
	const struct message *m = &p->sent[p->read++];
	return traffic_add(t, exchange_of(j, a->to_queue), from, to, place_of(j, from, a), m->data, bytes) !=
	       0;
}

/* All: of the world, as nodes are of one rank. */
static int is_target(const struct plan_action *a, int rank)
{
	return a->to == rank || (a->to == PLAN_ALL && a->to_group != PLAN_NODE);
}

/* A second walk of the plan says which step each message is of. */
static int add_messages(struct job *j, int rank, struct traffic *t)
{
	const struct node *n = &j->nodes[rank];
	struct plan_cursor cursor;
	struct plan_action a;
	int faults = 0;
	for (int program = 0; !n->idle && program < n->plan.nprograms; program++) {
		plan_cursor_start(&cursor, &n->plan, program);
		while (plan_cursor_next(&cursor, &n->plan, &n->env, &a))
			for (int to = 0; to < j->ranks; to++)
				if (to != rank && is_target(&a, to))
					faults += add_message(j, rank, to, &a, t);
	}
	return faults;
}

static int has_unread(const struct job *j)
{
	for (int i = 0; i < j->ranks * j->ranks * LINKS; i++)
		if (j->paths[i].read != j->paths[i].nsent)
			return 1;
	return 0;
}

/* Once all plans are made. A plan with a slip may come to a standstill: what it has sent until then is what it sends. */
static int run_job(struct job *j, struct traffic *t)
{
	start_ranks(j);
	int faults = run_ranks(j);
	if (faults && !j->slip)
		printf("# a plan did not end: %s\n", corale_strerror(faults));
	for (int r = 0; (j->slip || !faults) && r < j->ranks; r++)
		faults |= add_messages(j, r, t);
	return !j->slip && (faults || has_unread(j));
}

/* ---- Slips ---------------------------------------------------------------------------------------------------- */

/* Whether any rank sends others something at a step. */
static int sends_at(const struct job *j, const struct plan *plan, int step)
{
	struct plan_cursor cursor;
	struct plan_action a;
	for (int rank = 0; rank < j->ranks; rank++) {
		struct plan_env env;
		open_env(j, rank, plan, &env);
		for (int program = 0; !j->nodes[rank].idle && program < plan->nprograms; program++) {
			plan_cursor_start(&cursor, plan, program);
			while (plan_cursor_next(&cursor, plan, &env, &a))
				for (int to = 0; to < j->ranks && cursor.pc - 1 == step; to++)
					if (to != rank && a.count && is_target(&a, to))
						return 1;
		}
	}
	return 0;
}

/* The next value of an expression; 0: it has no next one. */
static int shift(struct plan *plan, uint8_t *e)
{
	if (*e == PLAN_EXPR_NONE || *e == PLAN_EXPR_ALL || plan->exprs[*e].base >= PLAN_SIMPLE_BASES)
		return 0;
	struct plan_expr next = plan->exprs[*e];
	next.offset++;
	*e = plan_expr(plan, next);
	return 1;
}

static int make_slip(struct plan *plan, const struct slip *slip)
{
	struct plan_step *step = &plan->steps[slip->step];
	struct plan_span *sent = step->src.space ? &step->src : &step->dst;
	switch (slip->kind) {
	case SLIP_DROPPED:
		step->pred = PLAN_NE;
		step->pred_a = step->pred_b = PLAN_EXPR_NONE;
		return 1;
	case SLIP_PEER:
		return shift(plan, &step->to);
	default:
		return shift(plan, sent->part ? &sent->part : sent->inner ? &sent->inner : &sent->block);
	}
}

/* 0 or PLANNED_NO_SLIP; without a slip there is nothing to be done. */
static int add_slip(const struct job *j, struct plan *plan)
{
	if (!j->slip)
		return 0;
	if (j->slip->step >= plan->nsteps || !sends_at(j, plan, j->slip->step) || !make_slip(plan, j->slip) ||
	    plan_finish(plan))
		return PLANNED_NO_SLIP;
	return 0;
}

/* ---- Calls ---------------------------------------------------------------------------------------------------- */

/* A piece of blocks is one of each of them; plans have no gaps between blocks. */
static void gather_blocks(const struct job *j, int rank, struct piece piece)
{
	const struct started *s = &j->started[rank];
	size_t block = s->call->count * j->element;
	unsigned char *all = allocated(1, (size_t)j->ranks * piece.bytes + 1);
	for (int r = 0; piece.bytes && r < j->ranks; r++)
		memcpy(all + (size_t)r * piece.bytes, s->send + (size_t)r * block + piece.at, piece.bytes);
	j->nodes[rank].send = j->nodes[rank].gathered = all;
}

int planned_run(const struct started *started, const char *algo, struct piece piece, const struct slip *slip,
		struct traffic *t)
{
	const struct test_call *c = started[0].call;
	size_t element = corale_type_bytes(c->type);
	struct job j = { .started = started,
			 .ranks = started[0].ranks,
			 .at = piece.at,
			 .element = element,
			 .slip = slip };
	struct plan plan;
	j.count = c->coll == CORALE_ALL_TO_ALL_V ? c->count : piece.bytes / element;
	open_job(&j);
	for (int r = 0; r < j.ranks; r++)
		j.nodes[r].root = c->root;
	int faults = make_plan(&j, c->coll, algo, &plan) != 0;
	faults = faults ? faults : add_slip(&j, &plan);
	for (int r = 0; r < j.ranks; r++) {
		j.nodes[r].plan = plan;
		j.nodes[r].send = started[r].send + piece.at;
		if (c->coll == CORALE_REDUCE_SCATTER || c->coll == CORALE_ALL_TO_ALL)
			gather_blocks(&j, r, piece);
	}
	faults = faults ? faults : run_job(&j, t);
	close_job(&j);
	return faults;
}

static int run_edge(const struct started *started, int from, int to, const struct slip *slip,
		    struct traffic *t)
{
	const struct started *s = &started[from];
	size_t element = corale_type_bytes(s->call->type);
	struct job j = { .started = started,
			 .ranks = s->ranks,
			 .count = s->send_counts[to],
			 .element = element,
			 .slip = slip };
	open_job(&j);
	for (int r = 0; r < j.ranks; r++)
		j.nodes[r].idle = r != from && r != to;
	j.nodes[from].root = to;
	j.nodes[from].send = s->send + s->send_displs[to] * element;
	j.nodes[to].root = from;
	int faults = make_plan(&j, CORALE_SEND, "p2p", &j.nodes[from].plan) ||
		     make_plan(&j, CORALE_RECV, "p2p", &j.nodes[to].plan);
	j.nodes[to].idle = 1; /* it runs another plan */
	faults = faults ? faults : add_slip(&j, &j.nodes[from].plan);
	j.nodes[to].idle = 0;
	faults = faults ? faults : run_job(&j, t);
	close_job(&j);
	return faults;
}

int planned_p2p(const struct started *started, const struct slip *slip, struct traffic *t)
{
	int faults = 0, made = 0;
	for (int from = 0; from < started[0].ranks; from++)
		for (int to = 0; faults <= 0 && to < started[0].ranks; to++) {
			if (from == to)
				continue;
			faults = run_edge(started, from, to, slip, t);
			made |= faults != PLANNED_NO_SLIP;
		}
	return faults > 0 ? faults : made ? 0 : PLANNED_NO_SLIP;
}
