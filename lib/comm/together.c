#include "together.h"

#include <stdlib.h>
#include <string.h>

#include "drive.h"
#include "execute.h"
#include "base/log.h"

struct part {
	struct together_part given;
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

struct call *together_copy(const struct comm *comm, const struct call *calls, int n)
{
	size_t size = (size_t)comm->size, arrays = 0;
	for (int i = 0; i < n; i++)
		arrays += has_counts(&calls[i]) ? 4 * size : 0;
	struct call *copies = malloc((size_t)n * sizeof *copies + arrays * sizeof(size_t));
	if (!copies) {
		log_error(CORALE_ENOMEM, comm->rank, "no memory for %d calls", n);
		return NULL;
	}
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

void together_free_calls(struct call *calls, int n)
{
	for (int i = 0; i < n; i++)
		call_let_go(&calls[i]);
	free(calls);
}

/* ---- One communicator ---- */

static void end(struct part *p, int ret)
{
	struct comm *comm = p->given.comm;
	if (p->running)
		host_run_free(&p->run);
	execute_free_pairs(&p->pairs);
	p->running = 0;
	p->ended = 1;
	p->ret = ret;
	if (ret)
		comm_keep_error(comm);
	atomic_store_explicit(&comm->completed, p->given.number + 1, memory_order_release);
}

static int start(struct part *p)
{
	struct together_part *g = &p->given;
	int ret = execute_check(g->comm, g->calls);
	if (!ret && g->npairs)
		ret = execute_start_pairs(g->comm, g->calls, g->npairs, &p->pairs);
	if (!ret)
		drive_start(&p->pair_drive, g->comm, p->pairs.runs, p->pairs.after, p->pairs.n,
			    p->pairs.calls);
	p->started = 1;
	p->next = g->npairs;
	return ret;
}

/* 1: all collectives are done, 0: not yet, or a code. */
static int poll_collectives(struct part *p)
{
	struct together_part *g = &p->given;
	for (; p->next < g->ncalls; p->next++) {
		const struct call *call = &g->calls[p->next];
		int ret = 1;
		if (g->comm->size == 1) {
			execute_alone(g->comm, call);
			continue;
		}
		if (!p->running && (ret = execute_start(g->comm, call, &p->run)))
			return ret;
		if (!p->running)
			drive_start(&p->drive, g->comm, &p->run, NULL, 1, call);
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
	struct comm *comm = p->given.comm;
	if (!p->started && atomic_load_explicit(&comm->completed, memory_order_acquire) != p->given.number)
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

struct together *together_create(const struct together_part *parts, int n)
{
	struct together *t = calloc(1, sizeof *t + (size_t)n * sizeof *t->parts);
	for (int i = 0; i < n; i++) {
		if (t)
			t->parts[i].given = parts[i];
		else
			together_free_calls(parts[i].calls, parts[i].ncalls);
	}
	if (t)
		t->n = n;
	else
		log_error(CORALE_ENOMEM, -1, "no memory for the calls of %d communicators", n);
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
		together_free_calls(t->parts[i].given.calls, t->parts[i].given.ncalls);
	free(t);
}
