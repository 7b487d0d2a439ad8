/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs a plan for all ranks in one thread: every engine's result must equal its own, bit for bit. */
#include "replay.h"

#include <stdlib.h>
#include <string.h>

#include "reduce/reduce.h"

enum { MOST_RANKS = 64 };

struct message {
	unsigned char *data;
	struct message *next;
};

/* A ring from one rank to one other in one channel. */
struct path {
	struct message *first, **last;
	int unread;
};

struct walker {
	struct plan_env env;
	struct plan_cursor cursor;
	struct plan_action action;
	int active, done;
	unsigned char *scratch; /* of the rank and channel; shared by its programs */
};

struct state {
	const struct plan *plan;
	const struct plan_map *map;
	size_t count;
	size_t bytes; /* of an element */
	void *const *send;
	void *const *recv;
	int ranks, channels, root;
	struct path *paths;
	struct walker *walkers;
};

static struct path *path(const struct state *s, int from, int to, int channel, int ring)
{
	return &s->paths[((from * s->ranks + to) * s->channels + channel) * PLAN_MAX_QUEUES + ring];
}

/* The ranks that who names, without my own for ALL; returns how many. */
static int list(const struct walker *w, int who, int group, int *ranks)
{
	const struct plan_map *map = &w->env.map;
	if (who == PLAN_NONE)
		return 0;
	int n = who == PLAN_ALL ? plan_group_size(map, group, w->env.rank) : 1, used = 0;
	for (int i = 0; i < n; i++) {
		int rank =
		    who == PLAN_ALL ? plan_group_member(map, group, w->env.rank, w->action.rail, i) : who;
		if (who != PLAN_ALL || rank != w->env.rank)
			ranks[used++] = rank;
	}
	return used;
}

/* Elements of an action that lie together in messages and spans alike, from `done` on; of several blocks not all do. */
struct piece {
	size_t done, count, src, dst; /* src, dst: in their spaces */
};

static struct piece piece_at(const struct walker *w, size_t done)
{
	const struct plan_action *a = &w->action;
	struct piece p = { .done = done, .count = a->count - done };
	const size_t src = a->src.space ? plan_span_run(&w->env, a, &a->src, done, &p.src) : p.count,
		     dst = a->dst.space ? plan_span_run(&w->env, a, &a->dst, done, &p.dst) : p.count;
	p.count = src < dst ? src : dst;
	return p;
}

static unsigned char *place(const struct state *s, const struct walker *w, const struct plan_location *p,
			    size_t offset)
{
	if (!p->space)
		return NULL;
	if (p->space == PLAN_SCRATCH)
		return w->scratch + offset * s->bytes;
	unsigned char *base = (p->space == PLAN_SEND ? s->send : s->recv)[w->env.rank];
	return base + offset * s->bytes;
}

static int ready(const struct state *s, const struct walker *w, const int *from, int nfrom, const int *to,
		 int nto)
{
	int me = w->env.rank, channel = w->env.channel, good = 1;
	for (int i = 0; i < nfrom; i++)
		good &= path(s, from[i], me, channel, w->action.from_queue)->unread > 0;
	for (int i = 0; i < nto; i++)
		good &= path(s, me, to[i], channel, w->action.to_queue)->unread <
			s->plan->queues[w->action.to_queue].depth;
	return good;
}

static struct reduce_input own_input(const struct state *s, const struct walker *w, const struct piece *p)
{
	return (struct reduce_input){ place(s, w, &w->action.src, p->src), REDUCE_LOCAL };
}

static struct reduce_input message_input(const struct state *s, const struct walker *w, int from,
					 const struct piece *p)
{
	const unsigned char *data =
	    path(s, from, w->env.rank, w->env.channel, w->action.from_queue)->first->data;
	return (struct reduce_input){ data + p->done * s->bytes, REDUCE_LOCAL };
}

/* What the action names: messages in the group's order, ourselves in our place. How many. */
static int gather(const struct state *s, const struct walker *w, const int *from, int nfrom,
		  const struct piece *p, struct reduce_input *inputs)
{
	const struct plan_action *a = &w->action;
	int k = 0, placed = !a->src.space;
	for (int i = 0; i < nfrom; i++) {
		if (a->from == PLAN_ALL && !placed && from[i] > w->env.rank) {
			inputs[k++] = own_input(s, w, p);
			placed = 1;
		}
		if (from[i] != w->env.rank)
			inputs[k++] = message_input(s, w, from[i], p);
	}
	if (!placed)
		inputs[k++] = own_input(s, w, p);
	return k;
}

static void fold(const struct state *s, const struct walker *w, const struct reduce_input *inputs, int k,
		 size_t count, unsigned char *out)
{
	const struct plan_action *a = &w->action;
	struct reduce_spec spec = { .type = (corale_type)s->plan->key.type,
				    .op = s->plan->key.op,
				    .ranks = s->ranks };
	if (k)
		reduce_fold(&spec, out, inputs, k, count, a->flags & PLAN_FINAL);
}

static int post(struct path *p, const unsigned char *data, size_t bytes)
{
	struct message *m = malloc(sizeof(*m));
	unsigned char *copy = malloc(bytes + 1);
	if (!m || !copy) {
		free(m);
		free(copy);
		return -1;
	}
	if (bytes)
		memcpy(copy, data, bytes);
	*m = (struct message){ copy, NULL };
	if (!p->first)
		p->last = &p->first;
	*p->last = m;
	p->last = &m->next;
	p->unread++;
	return 0;
}

static void drop(struct path *p)
{
	struct message *m = p->first;
	p->first = m->next;
	p->unread--;
	free(m->data);
	free(m);
}

/* To a message, and to a span, which may be a source. */
static void move(const struct state *s, const struct walker *w, const int *from, int nfrom,
		 unsigned char *message)
{
	const struct plan_action *a = &w->action;
	struct reduce_input inputs[MOST_RANKS + 1];
	for (size_t done = 0; done < a->count;) {
		const struct piece p = piece_at(w, done);
		unsigned char *dst = place(s, w, &a->dst, p.dst);
		const int k = gather(s, w, from, nfrom, &p, inputs);
		fold(s, w, inputs, k, p.count, message + done * s->bytes);
		if (dst)
			fold(s, w, inputs, k, p.count, dst);
		done += p.count;
	}
}

/* 1 when the action was executed, 0 when it must wait, -1 when memory is out. */
static int step(struct state *s, struct walker *w)
{
	const struct plan_action *a = &w->action;
	int from[MOST_RANKS], to[MOST_RANKS];
	int nfrom = list(w, a->from, a->from_group, from), nto = list(w, a->to, a->to_group, to);
	if (!ready(s, w, from, nfrom, to, nto))
		return 0;
	const int moves = a->op == PLAN_MOVE;
	size_t bytes = moves ? a->count * s->bytes : 0;
	unsigned char *message = malloc(bytes + 1);
	if (!message)
		return -1;
	if (moves)
		move(s, w, from, nfrom, message);
	int ret = 1;
	for (int i = 0; i < nto; i++)
		if (post(path(s, w->env.rank, to[i], w->env.channel, a->to_queue), message, bytes))
			ret = -1;
	for (int i = 0; i < nfrom; i++)
		drop(path(s, from[i], w->env.rank, w->env.channel, a->from_queue));
	free(message);
	return ret;
}

/* Goes round until all have ended or nobody moves. */
static int run(struct state *s)
{
	int n = s->ranks * s->channels * s->plan->nprograms, moved = 1, left = n;
	while (moved && left) {
		moved = 0;
		left = 0;
		for (int i = 0; i < n; i++) {
			struct walker *w = &s->walkers[i];
			int ret = 1;
			while (ret > 0 && !w->done) {
				if (!w->active &&
				    !plan_cursor_next(&w->cursor, s->plan, &w->env, &w->action)) {
					w->done = 1;
					moved = 1;
					break;
				}
				w->active = 1;
				ret = step(s, w);
				w->active = ret <= 0;
				moved |= ret > 0;
			}
			if (ret < 0)
				return -1;
			left += !w->done;
		}
	}
	return left ? -1 : 0;
}

static int start(struct state *s)
{
	const size_t cell = s->plan->spans ? s->count * s->bytes : s->plan->chunk_bytes,
		     scratch = s->plan->scratch_cells * cell + 1;
	for (int rank = 0, i = 0; rank < s->ranks; rank++) {
		for (int channel = 0; channel < s->channels; channel++) {
			unsigned char *cells = malloc(scratch);
			if (!cells)
				return -1;
			for (int p = 0; p < s->plan->nprograms; p++, i++) {
				struct walker *w = &s->walkers[i];
				plan_env_init(&w->env, s->plan, s->map, rank, s->root, s->count);
				w->env.channel = channel;
				w->scratch = cells;
				plan_cursor_start(&w->cursor, s->plan, p);
			}
		}
	}
	return 0;
}

int replay(const struct plan *plan, const struct plan_map *map, int root, size_t count, void *const *send,
	   void *const *recv)
{
	struct state s = { .plan = plan,
			   .map = map,
			   .root = root,
			   .count = count,
			   .send = send,
			   .recv = recv,
			   .ranks = map->ranks,
			   .channels = plan->channels,
			   .bytes = corale_type_bytes((corale_type)plan->key.type) };
	size_t paths = (size_t)s.ranks * (size_t)s.ranks * (size_t)s.channels * PLAN_MAX_QUEUES;
	size_t walkers = (size_t)s.ranks * (size_t)s.channels * plan->nprograms;
	int ret = -1;
	s.paths = calloc(paths, sizeof(*s.paths));
	s.walkers = calloc(walkers, sizeof(*s.walkers));
	if (s.paths && s.walkers && s.ranks <= MOST_RANKS && start(&s) == 0)
		ret = run(&s);
	for (size_t i = 0; s.walkers && i < walkers; i += plan->nprograms)
		free(s.walkers[i].scratch);
	for (size_t i = 0; s.paths && i < paths; i++)
		while (s.paths[i].first)
			drop(&s.paths[i]);
	free(s.paths);
	free(s.walkers);
	return ret;
}
