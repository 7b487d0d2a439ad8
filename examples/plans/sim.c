/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The simulator's loop. A context (one program of one channel of one rank) is either in the heap, with the time at
 * which its next action can start, or asleep on the queue that it lacks a message or room in. Actions start in the
 * order of time, so wires and cores serve whoever came first.
 */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/sort.h"
#include "corale.h"
#include "plan/cost/cost.h"
#include "plan_queue.h"
#include "sim_heap.h"
#include "plan/choose/planner.h"

struct context {
	int rank, program;
	struct plan_env env;
	struct plan_cursor cursor;
	struct plan_action action;
	double ready_ns, now_ns;
	int next_sleeper, done;
};

/* When each of a rank is free. Proxies send and receive as by two threads. */
struct servers {
	double rail_out, rail_in, link_out, link_in, memory, proxy_out, proxy_in;
	double rail_bytes; /* that were sent */
};

struct sim {
	const struct topo *topo;
	const struct plan *plan;
	const struct sim_options *options;
	struct queue_table queues;
	struct context *contexts;
	int ncontexts, ncores; /* cores of one rank */
	double slowdown; /* of work where a rank has less than one core */
	struct sim_heap ready; /* contexts that can act, by when */
	struct servers *servers; /* by rank */
	double *core_free; /* by rank and core: when it is free */
	double *arrivals; /* of the messages that one action takes */
	struct sim_result result;
	size_t events_capacity;
};

/* ---- Messages --------------------------------------------------------------- */

static struct queue *find_queue(struct sim *sim, const struct context *c, int from, int to, int number)
{
	return queue_find(&sim->queues, sim->plan, &c->env, from, to, number, c->action.rail);
}

static int same_node(const struct sim *sim, int a, int b)
{
	return sim->topo->map.node_of[a] == sim->topo->map.node_of[b];
}

static void sleep_on(struct sim *sim, struct queue *queue, int context)
{
	sim->contexts[context].next_sleeper = queue->sleeper;
	queue->sleeper = context + 1;
}

/* Messages of other nodes are received as they come, so only what is left to do after the last one's arrival delays an action, whose work has
 * the time of all. */
static double begin_receiving(const struct sim *sim, int n)
{
	double begin = 0;
	qsort(sim->arrivals, (size_t)n, sizeof(double), sort_by_value);
	for (int i = 0; i < n; i++) {
		double earliest = sim->arrivals[i] - (sim->topo->proxied ? 0 : i * sim->topo->rail.recv_ns);
		begin = earliest > begin ? earliest : begin;
	}
	return begin;
}

/* Puts the context into the heap with its time, or to sleep on the first queue that it lacks something in. */
static int settle(struct sim *sim, int index)
{
	struct context *c = &sim->contexts[index];
	const struct plan_action *a = &c->action;
	int remote = 0, reader = queue_reader(sim->plan, &c->env, a->from_queue);
	c->ready_ns = c->now_ns;
	for (int i = 0; i < queue_peers(&c->env, a->from, a->from_group); i++) {
		int from = queue_peer_at(&c->env, a->rail, a->from, a->from_group, i);
		if (from == PLAN_NONE)
			continue;
		struct queue *queue = find_queue(sim, c, from, c->rank, a->from_queue);
		long next = queue ? queue->read[reader] : 0;
		if (!queue)
			return CORALE_ENOMEM;
		if (next >= queue->sent) {
			sleep_on(sim, queue, index);
			return 0;
		}
		const struct message *m = queue->slots[next & queue->slot_mask];
		const double there = m->there_ns[reader];
		if (!same_node(sim, from, c->rank))
			sim->arrivals[remote++] = there;
		else
			c->ready_ns = there > c->ready_ns ? there : c->ready_ns;
	}
	const double begin = begin_receiving(sim, remote);
	c->ready_ns = begin > c->ready_ns ? begin : c->ready_ns;
	if (queue_peers(&c->env, a->to, a->to_group) > (a->to == PLAN_ALL)) {
		struct queue *queue = find_queue(sim, c, c->rank, a->to, a->to_queue);
		int depth = sim->plan->queues[a->to_queue].depth;
		if (!queue)
			return CORALE_ENOMEM;
		if (a->to == PLAN_ALL)
			queue->read[queue_reader(sim->plan, &c->env, a->to_queue)] = queue->sent;
		if (queue->sent - queue_slowest(queue) >= depth) {
			sleep_on(sim, queue, index);
			return 0;
		}
		const struct message *m =
		    queue->sent < depth ? NULL : queue->slots[(queue->sent - depth) & queue->slot_mask];
		if (m && m->freed_ns > c->ready_ns)
			c->ready_ns = m->freed_ns;
	}
	sim_heap_push(&sim->ready, index, sim->contexts[index].ready_ns);
	return 0;
}

static int wake(struct sim *sim, struct queue *queue)
{
	int next = queue->sleeper, ret = 0;
	queue->sleeper = 0;
	while (next && !ret) {
		int context = next - 1;
		next = sim->contexts[context].next_sleeper;
		ret = settle(sim, context);
	}
	return ret;
}

static int receive(struct sim *sim, struct context *c, double end)
{
	const struct plan_action *a = &c->action;
	int ret = 0;
	for (int i = 0; i < queue_peers(&c->env, a->from, a->from_group) && !ret; i++) {
		int from = queue_peer_at(&c->env, a->rail, a->from, a->from_group, i);
		if (from == PLAN_NONE)
			continue;
		struct queue *queue = find_queue(sim, c, from, c->rank, a->from_queue);
		long *read = &queue->read[queue_reader(sim->plan, &c->env, a->from_queue)];
		struct message *m = queue->slots[*read & queue->slot_mask];
		m->freed_ns = end > m->freed_ns ? end : m->freed_ns;
		++*read;
		ret = wake(sim, queue);
	}
	return ret;
}

/* When a server that does one thing at a time has done this one, which it can begin at start. */
static double serve(double *server, double start, double ns)
{
	return *server = (*server > start ? *server : start) + ns;
}

/* A port of a link or wire that one message after the other enters: when one that could be there so early is. */
static double enter(double *port, double there, double ns)
{
	return *port = *port + ns > there ? *port + ns : there;
}

/* Through the sender's proxy, its wire, the receiver's wire and its proxy: each has one message at a time. */
static double cross(struct sim *sim, int from, int to, double bytes, double end)
{
	const struct topo *topo = sim->topo;
	struct servers *out = &sim->servers[from], *in = &sim->servers[to];
	const double wire = bytes / topo->rail.bytes_per_ns + topo->rail.gap_ns;
	if (topo->proxied)
		end = serve(&out->proxy_out, end, cost_send_ns(topo, bytes));
	double there = serve(&out->rail_out, end, wire) + cost_rail_latency_ns(topo);
	out->rail_bytes += bytes;
	there = enter(&in->rail_in, there, wire);
	return topo->proxied ? serve(&in->proxy_in, there, cost_recv_ns(topo, bytes)) : there;
}

/*
 * The messages of an action that ended at end: a host's core sends those to other nodes one after the other, in the group's order from the rank
 * itself on.
 */
static void put_on_the_way(struct sim *sim, const struct context *c, struct message *m, double end)
{
	const struct plan_action *a = &c->action;
	const struct topo *topo = sim->topo;
	const int n = queue_peers(&c->env, a->to, a->to_group),
		  own = a->to == PLAN_ALL ? plan_group_index(&topo->map, a->to_group, c->rank) : -1;
	const double bytes = cost_message_bytes(sim->plan, a),
		     each = topo->proxied ? 0 : cost_send_ns(topo, bytes),
		     link = topo->shared_memory ? 0 : bytes / topo->node.bytes_per_ns;
	int left = cost_peers(&topo->map, c->rank, a->to, a->to_group).remote;
	for (int i = 1; i <= n; i++) {
		int index = (own + i) % n, to = queue_peer_at(&c->env, a->rail, a->to, a->to_group, index);
		if (to == PLAN_NONE)
			continue;
		if (to == c->rank)
			m->there_ns[index] = end;
		else if (same_node(sim, c->rank, to))
			m->there_ns[index] =
			    enter(&sim->servers[to].link_in, end + cost_node_latency_ns(topo), link);
		else
			m->there_ns[index] = cross(sim, c->rank, to, bytes, end - --left * each);
	}
}

static int send(struct sim *sim, struct context *c, double end)
{
	const struct plan_action *a = &c->action;
	if (queue_peers(&c->env, a->to, a->to_group) <= (a->to == PLAN_ALL))
		return 0;
	struct queue *queue = find_queue(sim, c, c->rank, a->to, a->to_queue);
	struct message *m = message_create(0, queue->readers, 0, NULL);
	if (!m)
		return CORALE_ENOMEM;
	put_on_the_way(sim, c, m, end);
	queue_put(queue, m);
	return wake(sim, queue);
}

/* ---- Actions --------------------------------------------------------------- */

static int record(struct sim *sim, const struct context *c, double start, double end)
{
	struct sim_result *r = &sim->result;
	if (c->rank >= sim->options->record_ranks)
		return 0;
	if (!array_grow(&r->events, &sim->events_capacity, (size_t)r->nevents + 1, sizeof(*r->events)))
		return CORALE_ENOMEM;
	r->events[r->nevents++] =
	    (struct sim_event){ c->rank,     c->env.channel, c->program, c->cursor.pc - 1,
				c->ready_ns, start,          end,        c->action };
	return 0;
}

/* The core of the rank that is free first. */
static double *find_core(struct sim *sim, int rank)
{
	double *cores = sim->core_free + (size_t)rank * (size_t)sim->ncores, *first = cores;
	for (int i = 1; i < sim->ncores; i++)
		first = cores[i] < *first ? &cores[i] : first;
	return first;
}

/* Walks to the context's next action, or to its end. */
static int next_action(struct sim *sim, int index)
{
	struct context *c = &sim->contexts[index];
	if (plan_cursor_next(&c->cursor, sim->plan, &c->env, &c->action))
		return settle(sim, index);
	c->done = 1;
	sim->result.ns = c->now_ns > sim->result.ns ? c->now_ns : sim->result.ns;
	return 0;
}

/* When an action begins that a link or memory, which all blocks share, is busy with for so long. */
static double share(double *server, double start, double busy)
{
	return busy > 0 ? serve(server, start, busy) - busy : start;
}

static int step(struct sim *sim, int index)
{
	struct context *c = &sim->contexts[index];
	const struct plan_action *a = &c->action;
	double *core = find_core(sim, c->rank), start = *core > c->ready_ns ? *core : c->ready_ns;
	struct cost_peers from = cost_peers(&sim->topo->map, c->rank, a->from, a->from_group);
	struct cost_peers to = cost_peers(&sim->topo->map, c->rank, a->to, a->to_group);
	start = share(&sim->servers[c->rank].link_out, start, cost_link_ns(sim->topo, sim->plan, a, &to));
	start = share(&sim->servers[c->rank].memory, start, cost_memory_ns(sim->topo, sim->plan, a, &from));
	double end = start + sim->slowdown * cost_work_ns(sim->topo, sim->plan, a, &from, &to);
	*core = c->now_ns = end;
	sim->result.actions++;
	int ret = record(sim, c, start, end);
	if (!ret)
		ret = receive(sim, c, end);
	if (!ret)
		ret = send(sim, c, end);
	return ret ? ret : next_action(sim, index);
}

static int open_sim(struct sim *sim)
{
	size_t ranks = (size_t)sim->topo->map.ranks;
	int cores = sim->topo->cores_per_rank_x16, per_rank = sim->plan->nprograms * sim->plan->channels;
	sim->ncontexts = sim->topo->map.ranks * per_rank;
	sim->slowdown = cores < 16 ? 16.0 / cores : 1;
	sim->ncores = (int)cost_cores(sim->topo, sim->plan);
	sim->contexts = calloc((size_t)sim->ncontexts, sizeof(*sim->contexts));
	sim->ready.at = malloc((size_t)sim->ncontexts * sizeof(*sim->ready.at));
	sim->servers = calloc(ranks, sizeof(*sim->servers));
	sim->core_free = calloc(ranks * (size_t)(sim->ncores + 1), sizeof(double));
	if (!sim->contexts || !sim->ready.at || !sim->servers || !sim->core_free ||
	    !queues_open(&sim->queues, queue_depth(sim->plan)))
		return CORALE_ENOMEM;
	sim->arrivals = sim->core_free + ranks * (size_t)sim->ncores;
	for (int i = 0; i < sim->ncontexts; i++) {
		struct context *c = &sim->contexts[i];
		c->rank = i / per_rank;
		c->program = i % sim->plan->nprograms;
		plan_env_init(&c->env, sim->plan, &sim->topo->map, c->rank, sim->options->root,
			      sim->options->count);
		c->env.channel = i % per_rank / sim->plan->nprograms;
		plan_cursor_start(&c->cursor, sim->plan, c->program);
	}
	return 0;
}

static void close_sim(struct sim *sim)
{
	queues_close(&sim->queues);
	free(sim->contexts);
	free(sim->ready.at);
	free(sim->servers);
	free(sim->core_free);
}

/* As many actions as rank 0 has, everywhere: near enough to give up before the work. */
static long guess_actions(const struct sim *sim)
{
	long actions = 0;
	struct plan_action action;
	for (int i = 0; i < sim->ncontexts / sim->topo->map.ranks; i++) {
		struct context c = sim->contexts[i];
		while (plan_cursor_next(&c.cursor, sim->plan, &c.env, &action))
			actions++;
	}
	return actions * sim->topo->map.ranks;
}

static int run(struct sim *sim)
{
	int ret = 0;
	if (sim->options->most_actions && guess_actions(sim) > sim->options->most_actions)
		return CORALE_ENOTSUP;
	for (int i = 0; i < sim->ncontexts && !ret; i++)
		ret = next_action(sim, i);
	while (sim->ready.n && !ret)
		ret = step(sim, sim_heap_pop(&sim->ready));
	for (int i = 0; i < sim->ncontexts && !ret; i++)
		if (!sim->contexts[i].done)
			ret = CORALE_EINTERNAL;
	for (int r = 0; r < sim->topo->map.ranks && !ret; r++)
		if (sim->servers[r].rail_bytes > sim->result.rail_bytes)
			sim->result.rail_bytes = sim->servers[r].rail_bytes;
	return ret;
}

int sim_run(const struct topo *topo, const struct plan *plan, const struct sim_options *options,
	    struct sim_result *out)
{
	struct sim sim = { .topo = topo, .plan = plan, .options = options };
	int ret = open_sim(&sim);
	if (!ret)
		ret = run(&sim);
	close_sim(&sim);
	if (ret)
		sim_result_free(&sim.result);
	else
		*out = sim.result;
	return ret;
}

void sim_result_free(struct sim_result *result)
{
	free(result->events);
	result->events = NULL;
	result->nevents = 0;
}
