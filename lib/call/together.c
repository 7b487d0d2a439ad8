#include "together.h"

#include <string.h>

#include "arena.h"
#include "drive.h"
#include "execute.h"

struct part {
	struct comm *comm;
	struct call *calls; /* copies: npairs sends and receives, then collectives */
	int npairs, ncalls;
	uint64_t number; /* they start when comm->completed is this, and make it one more */
	void *pair_memory;
	int started, ended, ret;
	struct execute_pairs pairs;
	struct drive pair_drive, drive;
	struct host_run run; /* of collective number next */
	int next, running;
};

struct together {
	int n;
	struct part parts[];
};

/* ---- Copies of calls ---- */

static int has_counts(const struct call *call)
{
	return call->send_counts != NULL;
}

size_t together_copy_bytes(const struct comm *comm, const struct call *calls, int n)
{
	size_t arrays = 0;
	for (int i = 0; i < n; i++)
		arrays += has_counts(&calls[i]) ? 4 * (size_t)comm->size : 0;
	return (size_t)n * sizeof *calls + arrays * sizeof(size_t);
}

struct call *together_copy(void *memory, const struct comm *comm, const struct call *calls, int n)
{
	const size_t size = (size_t)comm->size;
	struct call *copies = memory;
	memcpy(copies, calls, (size_t)n * sizeof *copies);
	size_t *array = (size_t *)(void *)(copies + n);
	for (int i = 0; i < n; i++) {
		struct call *c = &copies[i];
		const size_t **fields[] = { &c->send_counts, &c->send_displs, &c->recv_counts,
					    &c->recv_displs };
		call_keep(c);
		for (int f = 0; has_counts(&calls[i]) && f < 4; f++, array += size) {
			memcpy(array, *fields[f], size * sizeof *array);
			*fields[f] = array;
		}
	}
	return copies;
}

void together_let_go(const struct call *calls, int n)
{
	for (int i = 0; i < n; i++)
		call_let_go(&calls[i]);
}

/* ---- One communicator ---- */

static void end(struct part *p, int ret)
{
	struct comm *comm = p->comm;
	if (p->running)
		host_run_free(&p->run);
	execute_free_pairs(&p->pairs);
	p->running = 0;
	p->ended = 1;
	p->ret = ret;
	if (ret)
		comm_keep_error(comm);
	atomic_store_explicit(&comm->completed, p->number + 1, memory_order_release);
}

static int start(struct part *p)
{
	int ret = execute_check(p->comm, p->calls);
	if (!ret && p->npairs)
		ret = execute_start_pairs(p->comm, p->calls, p->npairs, p->pair_memory, &p->pairs);
	if (!ret)
		drive_start(&p->pair_drive, p->comm, p->pairs.runs, p->pairs.after, p->pairs.n,
			    p->pairs.calls);
	p->started = 1;
	p->next = p->npairs;
	return ret;
}

/* 1: all collectives are done, 0: not yet, or a code. */
static int poll_collectives(struct part *p)
{
	for (; p->next < p->ncalls; p->next++) {
		const struct call *call = &p->calls[p->next];
		int ret = 1;
		if (p->comm->size == 1) {
			execute_alone(p->comm, call);
			continue;
		}
		if (!p->running && (ret = execute_start(p->comm, call, &p->run)))
			return ret;
		if (!p->running)
			drive_start(&p->drive, p->comm, &p->run, NULL, 1, call);
		p->running = 1;
		ret = drive_poll(&p->drive);
		if (ret <= 0)
			return ret;
		host_run_free(&p->run);
		p->running = 0;
	}
	return 1;
}

static void poll_part(struct part *p)
{
	struct comm *comm = p->comm;
	if (!p->started && atomic_load_explicit(&comm->completed, memory_order_acquire) != p->number)
		return;
	int ret = p->started ? 0 : start(p), pairs = 1, collectives = 0;
	if (!ret && p->pairs.n)
		ret = pairs = drive_poll(&p->pair_drive);
	if (ret >= 0)
		ret = collectives = poll_collectives(p);
	if (ret < 0 || (pairs && collectives))
		end(p, ret < 0 ? ret : 0);
}

/* ---- All ---- */

static size_t calls_bytes(const struct together_part *g)
{
	return ALIGN_ROUND(together_copy_bytes(g->comm, g->calls, g->ncalls));
}

static size_t own_bytes(int n)
{
	return ALIGN_ROUND(sizeof(struct together) + (size_t)n * sizeof(struct part));
}

size_t together_bytes(const struct together_part *parts, int n)
{
	size_t bytes = own_bytes(n);
	for (int i = 0; i < n; i++)
		bytes += calls_bytes(&parts[i]) + execute_pairs_bytes(parts[i].npairs);
	return bytes;
}

struct together *together_create(void *memory, const struct together_part *parts, int n)
{
	struct together *t = memory;
	char *at = (char *)memory + own_bytes(n);
	t->n = n;
	for (int i = 0; i < n; i++) {
		const struct together_part *g = &parts[i];
		t->parts[i] = (struct part){ .comm = g->comm,
					     .calls = together_copy(at, g->comm, g->calls, g->ncalls),
					     .npairs = g->npairs,
					     .ncalls = g->ncalls,
					     .number = g->comm->issued,
					     .pair_memory = at + calls_bytes(g) };
		at += calls_bytes(g) + execute_pairs_bytes(g->npairs);
	}
	return t;
}

int together_poll(struct together *t)
{
	int all = 1;
	for (int i = 0; i < t->n; i++) {
		if (!t->parts[i].ended)
			poll_part(&t->parts[i]);
		all &= t->parts[i].ended;
	}
	return all;
}

int together_result(const struct together *t)
{
	for (int i = 0; i < t->n; i++)
		if (t->parts[i].ret)
			return t->parts[i].ret;
	return 0;
}

void together_destroy(struct together *t)
{
	for (int i = 0; i < t->n; i++)
		together_let_go(t->parts[i].calls, t->parts[i].ncalls);
}
