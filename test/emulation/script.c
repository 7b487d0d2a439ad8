/* SPDX-License-Identifier: BSD-3-Clause */
/* Has all ranks make a list of calls, each rank in its own time. */
#include "script.h"

#include <stdio.h>
#include <stdlib.h>

struct script *script_new(struct world_params params, uint64_t seed)
{
	struct script *s = calloc(1, sizeof(*s));
	if (!s)
		abort();
	s->params = params;
	s->seed = seed;
	return s;
}

void script_add(struct script *s, struct test_call c)
{
	if (s->n == SCRIPT_CALLS)
		abort();
	c.seed = s->seed * 1000 + (uint64_t)s->n;
	if (c.place) { /* one of its own */
		c.place = s->params.registered_bytes + 128;
		s->params.registered_bytes = c.place + call_room(&c, s->params.ranks);
	}
	s->calls[s->n++] = c;
}

int script_print_failure(const struct engine *e)
{
	const struct codelet_failure *f = e->failure;
	if (!f->code)
		return 0;
	printf("# rank %d: the engine failed: %s, peer %d, epoch %llu, expected %llx, got %llx\n", e->rank,
	       corale_strerror(f->code), f->peer, (unsigned long long)f->epoch,
	       (unsigned long long)f->expected, (unsigned long long)f->got);
	return 1;
}

/* What a rank has started and not yet looked at: calls [done, made). */
struct play {
	struct script *script;
	int rank, done, made;
	struct started started[SCRIPT_CALLS];
};

void script_synchronize(void)
{
	for (int i = 1; i < GPU_STREAMS; i++) {
		struct gpu_event event;
		gpu_mark(&event, GPU_STREAM(i));
		gpu_await(GPU_STREAM(0), &event);
	}
	gpu_synchronize();
}

static int finish(struct play *p)
{
	script_synchronize();
	p->script->done[p->rank] = p->made;
	exports_ended(p->rank);
	int faults = script_print_failure(&p->script->world.engines[p->rank]);
	for (; p->done < p->made; p->done++)
		faults += faults ? 1 : call_finish(&p->started[p->done]);
	return faults;
}

static int make(struct play *p)
{
	struct script *s = p->script;
	const struct test_call *c = &s->calls[p->made];
	if (s->most_pause && !gpu_random(3))
		gpu_pause(gpu_random(s->most_pause));
	s->made[p->rank] = p->made + 1;
	void *stream = GPU_STREAM(s->streams ? gpu_random(s->streams) : 0);
	int ret = call_start_on(&p->started[p->made++], &s->world, p->rank, c, call_signature(c), stream);
	if (ret)
		printf("# rank %d: call %d: %s\n", p->rank, p->made - 1, corale_strerror(ret));
	return ret != 0;
}

static void play(int rank, void *arg)
{
	struct script *s = arg;
	struct play *p = calloc(1, sizeof(*p));
	if (!p)
		abort();
	p->script = s;
	p->rank = rank;
	while (p->made < s->n && !s->world.engines[rank].failure->code) {
		s->faults[rank] += make(p);
		if (p->made == s->n || !gpu_random(3))
			s->faults[rank] += finish(p);
	}
	script_synchronize();
	free(p);
}

/* The calls that a rank has made and not seen to an end. */
static void print_calls(const struct script *s, int rank)
{
	for (int i = s->done[rank]; i < s->made[rank]; i++)
		printf("# rank %d: call %d: %s by %s of %zu %s, op %d, root %d%s\n", rank, i,
		       corale_coll_name(s->calls[i].coll), codelet_kind_name(s->calls[i].codelet),
		       s->calls[i].count, corale_type_name(s->calls[i].type), s->calls[i].op,
		       s->calls[i].root, s->calls[i].place ? ", registered" : "");
}

static int slots_used(const struct script *s)
{
	const struct world *w = &s->world;
	for (int r = 0; s->without_slots && r < w->ranks; r++) {
		const unsigned char *window = w->windows + (size_t)r * w->engines[r].stride;
		for (uint64_t at = w->layout.slots; at < w->layout.bytes; at++)
			if (window[at]) {
				printf("# rank %d: a call went by slots\n", r);
				return 1;
			}
	}
	return 0;
}

int script_run(struct script *s)
{
	int faults = 0;
	if (world_open(&s->world, &s->params))
		abort();
	if (world_run(&s->world, play, s, s->seed)) {
		for (int r = 0; r < s->params.ranks; r++)
			print_calls(s, r);
		return -1;
	}
	for (int r = 0; r < s->params.ranks; r++)
		faults += s->faults[r];
	faults += world_faults(&s->world) + slots_used(s);
	world_close(&s->world);
	free(s);
	return faults;
}

int script_report(const char *name, int number, int faults)
{
	printf("%s %d - %s\n", faults ? "not ok" : "ok", number, name);
	if (faults < 0)
		printf("Bail out! kernels that do not end can't be left\n");
	fflush(stdout);
	return faults < 0;
}
