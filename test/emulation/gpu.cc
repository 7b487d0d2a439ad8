/* SPDX-License-Identifier: BSD-3-Clause */
/* How the fibers of emulated GPUs take turns, meet and are ordered. Never compiled for ThreadSanitizer; see gpu.h. */
#include "gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fiber.h"

extern "C" { /* null where the program has no ThreadSanitizer */
void *__tsan_get_current_fiber(void) __attribute__((weak));
void *__tsan_create_fiber(unsigned flags) __attribute__((weak));
void __tsan_switch_to_fiber(void *fiber, unsigned flags) __attribute__((weak));
void __tsan_acquire(void *word) __attribute__((weak));
void __tsan_release(void *word) __attribute__((weak));
}

namespace
{

enum { WITHOUT_ORDER = 1 }; /* of __tsan_switch_to_fiber */
enum { MOST_LOADED = 8, MOST_RANGES = 64, STAY = 64, MOST_EARLY = 512 /* threads */ };
enum { SLEEPS_ONE_IN = 512, MOST_SLEEP = 4000 /* turns */ };
enum {
	ENDS = 256 /* the last ones of a stream that are told apart */,
	MOST_LATE = 14 /* bits of turns */,
	LATE_ONE_IN = 4
};
constexpr unsigned MOST_POLLED = 256; /* words of a block that are watched */
constexpr uint64_t NEVER = ~0ull;
constexpr uint64_t MOST_TURNS = 20000000; /* of one gpu_run */

enum state { READY, BALLOT, TOGETHER, BARRIER, EARLY, SYNCHRONIZING, ENDED };
const char *const state_names[] = { "ready",
				    "at a vote",
				    "at a line",
				    "at a barrier",
				    "before the end of the kernel before",
				    "waiting for kernels",
				    "ended" };

struct warp;
struct block;
struct grid;
struct stream;
struct host;

struct barrier {
	unsigned arrived, threads, rounds;
	int good;
	char order[2];
};

struct lane {
	struct fiber fiber;
	void *identity; /* for ThreadSanitizer */
	struct warp *warp;
	unsigned number; /* in its warp */
	enum state state;
	uint64_t posted, result;
	uint32_t mask;
	int source;
	struct barrier *barrier;
	void (*access)(void *);
	void *operand;
	const void *address;
	const void *loaded[MOST_LOADED]; /* by relaxed loads since the last fence */
	unsigned nloaded;
	bool fenced;
	struct lane *next; /* of those that are free */
};

struct warp {
	struct block *block; /* null: a host */
	struct host *host;
	struct lane *lanes[GPU_WARP];
	unsigned number, last; /* last: that was chosen */
	uint32_t ready, alive, together;
	unsigned votes;
	char order[2];
	int place; /* among those that have a lane ready, or -1 */
	uint64_t asleep; /* until this turn, if another warp can go on */
};

struct block {
	struct grid *grid;
	unsigned number, alive;
	struct warp *warps;
	struct barrier barriers[GPU_BARRIERS];
	void *shared;
	struct {
		const void *word;
		const struct warp *by;
	} polled[MOST_POLLED];
	unsigned npolled;
};

struct grid {
	struct stream *stream;
	gpu_runner *run;
	const void *kernel;
	void *args;
	unsigned blocks, threads, alive;
	uint64_t number; /* on its stream */
	uint64_t order; /* among all of its host */
	uint64_t awaited
	    [GPU_STREAMS]; /* of the other streams: it comes after those; 0: the grids before it have seen to that */
	uint64_t late, from; /* so many turns once it may start; then: not before this turn */
	size_t launch; /* among those recorded */
	struct block *block;
	struct warp *warps;
	struct grid *next;
};

struct stream {
	struct host *host;
	struct grid *running, *early, *queue, **queue_end;
	uint64_t launched, ended; /* numbers of the last ones */
	uint64_t awaited[GPU_STREAMS]; /* of the other streams */
	bool waits[GPU_STREAMS]; /* for them: what is launched next does */
	void *opener,
	    *closer; /* identities: what a kernel's beginning knows; what it has loaded, for the next one */
	char ends[ENDS]; /* the order of ends of kernels */
	struct lane
	    *free; /* within a run not another stream's: a fiber that goes on there would order the two */
};

struct host {
	struct lane lane;
	struct warp warp;
	int rank;
	struct stream streams[GPU_STREAMS], *awaited; /* awaited: by the host */
	bool several; /* streams are used */
	bool one_channel; /* for all of them */
	uint64_t launched, started; /* kernels */
};

struct range {
	uintptr_t begin, end;
	unsigned unit;
};

struct lane root;
struct host hosts[GPU_MAX_HOSTS];
struct lane *spare; /* of earlier runs, any stream's: what began a run knows all that they did */
int nhosts, running_hosts, failed;
void (*program)(int rank, void *arg);
void *program_arg;
char world_order;

struct lane *now;
struct warp **ready_warps;
int nready;
uint64_t state_of_random, turns, first_turn, next_late = NEVER;

struct range ranges[MOST_RANGES], recorded[MOST_RANGES], one_polls;
int nranges, nrecorded;
struct gpu_launched *launches;
struct gpu_store *stores;
size_t nlaunches, most_launches, nstores, most_stores, most_ready;

/* ---- Random numbers, order -------------------------------------------------------------------------------- */

unsigned random_below(unsigned below)
{
	state_of_random ^= state_of_random << 13;
	state_of_random ^= state_of_random >> 7;
	state_of_random ^= state_of_random << 17;
	return (unsigned)((state_of_random >> 32) * below >> 32);
}

void *new_identity()
{
	return __tsan_create_fiber ? __tsan_create_fiber(0) : nullptr;
}

void be(void *identity)
{
	if (identity)
		__tsan_switch_to_fiber(identity, WITHOUT_ORDER);
}

void acquire(const void *word)
{
	if (__tsan_acquire)
		__tsan_acquire((void *)word);
}

void release(const void *word)
{
	if (__tsan_release)
		__tsan_release((void *)word);
}

void acquire_as(void *identity, const void *word)
{
	be(identity);
	acquire(word);
	be(now->identity);
}

void release_as(void *identity, const void *word)
{
	be(identity);
	release(word);
	be(now->identity);
}

/*
 * ---- Records: nobody's memory, so that they order nobody ----------------------------------------------------
 * A rank that reads them comes after who made room for them, and not before that again: there is room for many.
 */

const size_t RECORDS = 1 << 16;
char room_made;

void *grown(void *array, size_t n, size_t *most, size_t bytes)
{
	if (n < *most)
		return array;
	*most = *most ? 2 * *most : RECORDS;
	be(root.identity);
	array = realloc(array, *most * bytes);
	release(&room_made);
	be(now->identity);
	if (!array)
		abort();
	return array;
}

size_t record_launch(int rank, const void *args, size_t bytes, unsigned blocks, unsigned threads)
{
	void *copy = malloc(bytes);
	if (!copy)
		abort();
	memcpy(copy, args, bytes);
	launches = (struct gpu_launched *)grown(launches, nlaunches, &most_launches, sizeof(*launches));
	launches[nlaunches] = { rank, blocks, threads, copy, bytes };
	return nlaunches++;
}

/* ---- Whose turn it is ------------------------------------------------------------------------------------- */

void add_ready(struct warp *w)
{
	if (w->place >= 0)
		return;
	ready_warps = (struct warp **)grown(ready_warps, (size_t)nready, &most_ready, sizeof(*ready_warps));
	w->place = nready;
	ready_warps[nready++] = w;
}

void make_ready(struct lane *l)
{
	l->state = READY;
	l->warp->ready |= 1u << l->number;
	add_ready(l->warp);
}

/* The lane will run now. */
void take_ready(struct lane *l)
{
	struct warp *w = l->warp;
	w->ready &= ~(1u << l->number);
	w->last = l->number;
	if (w->ready)
		return;
	ready_warps[w->place] = ready_warps[--nready];
	ready_warps[w->place]->place = w->place;
	w->place = -1;
}

void resume(struct lane *to)
{
	struct lane *from = now;
	now = to;
	if (to == from)
		return;
	be(to->identity);
	fiber_switch(&from->fiber, &to->fiber);
}

void describe_grid(struct stream *on, struct grid *g)
{
	unsigned counts[ENDED + 1] = { 0 };
	if (!g)
		return;
	for (unsigned t = 0; t < g->blocks * (g->threads / GPU_WARP) * GPU_WARP; t++)
		if (g->warps[t / GPU_WARP].alive >> t % GPU_WARP & 1)
			counts[g->warps[t / GPU_WARP].lanes[t % GPU_WARP]->state]++;
	printf("; kernel %llu of %u x %u threads%s:", (unsigned long long)g->number, g->blocks, g->threads,
	       on == on->host->streams ? "" : " beside");
	for (int s = 0; s <= ENDED; s++)
		if (counts[s])
			printf(" %u %s", counts[s], state_names[s]);
}

void describe_stuck(const char *what)
{
	printf("# %s after %llu turns\n", what, (unsigned long long)(turns - first_turn));
	for (int h = 0; h < nhosts; h++) {
		struct host *host = &hosts[h];
		printf("# rank %d: host %s", h, state_names[host->lane.state]);
		for (struct stream &s : host->streams) {
			describe_grid(&s, s.running);
			describe_grid(&s, s.early);
		}
		printf("\n");
	}
	fflush(stdout);
}

void fail(const char *what)
{
	describe_stuck(what);
	failed = -1;
	resume(&root);
}

/* Any warp but those that sleep: some are far behind the others at times. */
struct warp *draw_warp()
{
	struct warp *w = ready_warps[random_below((unsigned)nready)];
	if (!random_below(SLEEPS_ONE_IN))
		w->asleep = turns + random_below(MOST_SLEEP);
	for (int i = 0; i < 8 && w->asleep > turns; i++)
		w = ready_warps[random_below((unsigned)nready)];
	return w;
}

void start_late();

/* Leaves the turn to another lane, if possible of a warp. */
void go_on(struct warp *w)
{
	while (!nready && next_late != NEVER) { /* time passes until somebody can */
		turns = next_late > turns ? next_late : turns;
		start_late();
	}
	if (!nready)
		fail("nobody can go on");
	if (!w || !w->ready || !random_below(STAY))
		w = draw_warp();
	uint32_t later = w->last < GPU_WARP - 1 ? w->ready >> (w->last + 1) << (w->last + 1) : 0;
	struct lane *to = w->lanes[__builtin_ctz(later ? later : w->ready)];
	take_ready(to);
	resume(to);
}

void count_turn()
{
	if (++turns - first_turn > MOST_TURNS)
		fail("no end");
	if (turns >= next_late)
		start_late();
}

/* ---- Grids ------------------------------------------------------------------------------------------------- */

void settle(struct warp *w);
void start_grids(struct host *h);

void finish_barrier(struct block *b, struct barrier *at)
{
	for (unsigned i = 0; i < b->grid->threads / GPU_WARP; i++)
		for (int k = 0; k < GPU_WARP; k++) {
			struct lane *l = b->warps[i].lanes[k];
			if (!(b->warps[i].alive >> k & 1) || l->state != BARRIER || l->barrier != at)
				continue;
			l->result = (uint64_t)at->good;
			make_ready(l);
		}
	at->arrived = 0;
	at->good = 1;
	at->rounds++;
}

bool is_full(struct block *b, struct barrier *at)
{
	return at->arrived && at->arrived == (at->threads ? at->threads : b->alive);
}

/* The word by which the end of a stream's kernel orders. */
char *end_of(struct stream *s, uint64_t number)
{
	return &s->ends[number % ENDS];
}

/* Whether all that is awaited has ended. */
bool have_ended(struct host *h, const uint64_t awaited[GPU_STREAMS])
{
	for (int i = 0; i < GPU_STREAMS; i++)
		if (h->streams[i].ended < awaited[i])
			return false;
	return true;
}

void acquire_ends(struct host *h, const uint64_t awaited[GPU_STREAMS])
{
	for (int i = 0; i < GPU_STREAMS; i++)
		if (awaited[i])
			acquire(end_of(&h->streams[i], awaited[i]));
}

/* A wait for another stream is also something that a stream has to do. */
bool is_idle(struct stream *s)
{
	return !s->running && !s->queue && have_ended(s->host, s->awaited);
}

/* The one that came early goes on. */
void promote_early(struct stream *s)
{
	struct grid *next = s->running = s->early;
	s->early = nullptr;
	if (!next)
		return;
	acquire_as(s->opener, end_of(s, s->ended));
	for (unsigned i = 0; i < next->blocks * (next->threads / GPU_WARP); i++)
		for (int k = 0; k < GPU_WARP; k++)
			if ((next->warps[i].alive >> k & 1) && next->warps[i].lanes[k]->state == EARLY)
				make_ready(next->warps[i].lanes[k]);
}

void end_grid(struct grid *g)
{
	struct stream *s = g->stream;
	struct host *h = s->host;
	acquire_as(s->closer, end_of(s, g->number - 1));
	release_as(s->closer, end_of(s, g->number));
	s->ended = g->number;
	promote_early(s);
	be(root.identity); /* who also made them; it orders nobody */
	acquire(end_of(s, g->number));
	free(g->args);
	for (unsigned i = 0; g->block && i < g->blocks; i++)
		free(g->block[i].shared);
	free(g->block);
	free(g->warps);
	free(g);
	be(now->identity);
	start_grids(h);
	if (h->lane.state == SYNCHRONIZING && is_idle(h->awaited))
		make_ready(&h->lane);
}

void end_lane(struct lane *l)
{
	struct warp *w = l->warp;
	struct block *b = w->block;
	struct grid *g = b->grid;
	struct stream *s = g->stream;
	release(end_of(s, g->number));
	l->state = ENDED;
	w->alive &= ~(1u << l->number);
	settle(w);
	b->alive--;
	for (struct barrier &at : b->barriers)
		if (is_full(b, &at))
			finish_barrier(b, &at);
	l->next = s->free;
	s->free = l;
	if (!--g->alive) {
		end_grid(g);
		w = nullptr;
	}
	go_on(w);
}

void lane_main()
{
	for (;;) {
		struct lane *l = now;
		struct grid *g = l->warp->block->grid;
		acquire(g->args);
		acquire_ends(g->stream->host, g->awaited);
		g->run(g->kernel, g->args);
		end_lane(l);
	}
}

struct lane *new_lane(struct stream *s)
{
	struct lane **from = s->free ? &s->free : &spare;
	struct lane *l = *from;
	if (l) {
		*from = l->next;
	} else {
		be(root.identity);
		l = (struct lane *)calloc(1, sizeof(*l));
		be(now->identity);
		if (!l || !fiber_make(&l->fiber, lane_main)) {
			printf("Bail out! no memory for a fiber\n");
			exit(1);
		}
		l->identity = new_identity();
	}
	l->nloaded = 0;
	l->fenced = false;
	return l;
}

void start_warp(struct grid *g, struct block *b, struct warp *w, unsigned number)
{
	w->block = b;
	w->host = g->stream->host;
	w->number = number;
	w->place = -1;
	w->alive = ~0u;
	for (unsigned k = 0; k < GPU_WARP; k++) {
		struct lane *l = new_lane(g->stream);
		w->lanes[k] = l;
		l->warp = w;
		l->number = k;
		make_ready(l);
	}
}

void start_grid(struct grid *g)
{
	unsigned warps = g->threads / GPU_WARP;
	g->alive = g->blocks * g->threads;
	be(root.identity);
	g->block = (struct block *)calloc(g->blocks, sizeof(*g->block));
	g->warps = (struct warp *)calloc(g->blocks * warps, sizeof(*g->warps));
	be(now->identity);
	for (unsigned i = 0; i < g->blocks; i++) {
		struct block *b = &g->block[i];
		b->grid = g;
		b->number = i;
		b->alive = g->threads;
		b->warps = g->warps + i * warps;
		for (struct barrier &at : b->barriers)
			at.good = 1;
		for (unsigned w = 0; w < warps; w++)
			start_warp(g, b, &b->warps[w], w);
	}
}

/* A kernel in a queue starts behind those of other streams that it waits for, where there is one channel for all behind those
 * launched before, and some turns later at times. */
bool may_start(struct grid *g)
{
	struct host *h = g->stream->host;
	if (!have_ended(h, g->awaited) || (h->one_channel && g->order != h->started + 1))
		return false;
	if (g->late)
		g->from = turns + g->late;
	g->late = 0;
	if (turns < g->from && g->from < next_late)
		next_late = g->from;
	return turns >= g->from;
}

struct grid *start_next(struct stream *s)
{
	struct grid *g = s->queue;
	s->queue = g->next;
	if (!s->queue)
		s->queue_end = &s->queue;
	s->host->started++;
	be(s->opener);
	acquire_ends(s->host, g->awaited);
	be(now->identity);
	acquire_as(s->opener, g->args);
	start_grid(g);
	return g;
}

/* The first in the queue when the stream is idle; the one behind it may come early, to wait in gpu_previous_kernel. */
void start_on(struct stream *s)
{
	if (!s->running && s->queue && may_start(s->queue)) {
		acquire_as(s->opener, end_of(s, s->ended));
		s->running = start_next(s);
	}
	if (s->running && !s->early && s->queue && s->queue->blocks * s->queue->threads <= MOST_EARLY &&
	    random_below(2) && may_start(s->queue))
		s->early = start_next(s);
}

void start_grids(struct host *h)
{
	uint64_t before;
	do {
		before = h->started;
		for (struct stream &s : h->streams)
			start_on(&s);
	} while (h->started != before);
}

void start_late()
{
	next_late = NEVER;
	for (int h = 0; h < nhosts; h++)
		start_grids(&hosts[h]);
}

/* ---- Hosts ------------------------------------------------------------------------------------------------- */

void await_stream(struct stream *s)
{
	struct host *h = s->host;
	if (!is_idle(s)) {
		h->awaited = s;
		h->lane.state = SYNCHRONIZING;
		go_on(nullptr);
	}
	acquire(end_of(s, s->ended));
	for (int i = 0; i < GPU_STREAMS; i++)
		if (s->waits[i])
			acquire(end_of(&h->streams[i], s->awaited[i]));
}

void host_main()
{
	struct host *h = now->warp->host;
	for (;;) {
		acquire(&world_order);
		program(h->rank, program_arg);
		for (struct stream &s : h->streams)
			await_stream(&s);
		release(&world_order);
		h->lane.state = ENDED;
		if (!--running_hosts)
			resume(&root);
		else
			go_on(nullptr);
	}
}

void make_host(int rank)
{
	struct host *h = &hosts[rank];
	if (!h->lane.warp) {
		h->rank = rank;
		h->lane.identity = new_identity();
		for (struct stream &s : h->streams) {
			s.host = h;
			s.queue_end = &s.queue;
			s.opener = new_identity();
			s.closer = new_identity();
		}
		h->warp.host = h;
		h->warp.lanes[0] = &h->lane;
		h->warp.place = -1;
		h->warp.alive = 1;
		h->lane.warp = &h->warp;
		if (!fiber_make(&h->lane.fiber, host_main)) {
			printf("Bail out! no memory for a fiber\n");
			exit(1);
		}
	}
	make_ready(&h->lane);
}

/* Fibers of a run serve every stream of the next one: to ThreadSanitizer each is a thread, of which it has room for some thousands. */
void spare_lanes(struct stream *s)
{
	while (s->free) {
		struct lane *l = s->free;
		s->free = l->next;
		l->next = spare;
		spare = l;
	}
}

/* ---- Meetings of lanes ------------------------------------------------------------------------------------- */

bool all_here(struct warp *w, uint32_t mask)
{
	for (int k = 0; k < GPU_WARP; k++)
		if ((mask >> k & 1) && (w->lanes[k]->state != BALLOT || w->lanes[k]->mask != mask))
			return false;
	return true;
}

void finish_vote(struct warp *w, uint32_t mask)
{
	uint64_t posted[GPU_WARP], ballot = 0;
	for (int k = 0; k < GPU_WARP; k++) {
		posted[k] = w->lanes[k]->posted;
		ballot |= (mask >> k & 1) && posted[k] ? 1ull << k : 0;
	}
	w->votes++;
	for (int k = 0; k < GPU_WARP; k++) {
		struct lane *l = w->lanes[k];
		if (!(mask >> k & 1))
			continue;
		l->result = l->source < 0 ? ballot : posted[l->source];
		make_ready(l);
	}
}

/* Lanes of a mask that is not full leave each other's results alone, but share the counter that orders barriers. */
uint64_t meet(uint32_t mask, uint64_t value, int source, bool orders)
{
	struct lane *l = now;
	struct warp *w = l->warp;
	const void *order = &w->order[w->votes & 1];
	if (orders)
		release(order);
	l->mask = mask;
	l->posted = value;
	l->source = source;
	l->state = BALLOT;
	if (all_here(w, mask)) {
		finish_vote(w, mask);
		count_turn();
		w = nullptr;
	} else {
		settle(w);
	}
	go_on(w);
	if (orders)
		acquire(order);
	return l->result;
}

bool is_line(struct lane *const *lanes, uint32_t here)
{
	if (here != (1u << GPU_LINE_LANES) - 1)
		return false;
	for (int k = 1; k < GPU_LINE_LANES; k++)
		if ((uintptr_t)lanes[k]->address / 128 != (uintptr_t)lanes[0]->address / 128)
			return false;
	return true;
}

/* Eight lanes of which none can come to the others any more: whole lines are accessed now, the rest is by each lane. */
void settle_line(struct warp *w, unsigned first)
{
	struct lane **lanes = w->lanes + first;
	uint32_t here = w->together >> first & ((1u << GPU_LINE_LANES) - 1);
	for (unsigned k = 0; k < GPU_LINE_LANES; k++)
		if ((w->alive >> (first + k) & 1) && lanes[k]->state == READY)
			return;
	bool whole = is_line(lanes, here);
	struct lane *running = now;
	for (unsigned k = 0; k < GPU_LINE_LANES; k++) {
		if (!(here >> k & 1))
			continue;
		if (whole) {
			now = lanes[k];
			be(now->identity);
			lanes[k]->access(lanes[k]->operand);
		}
		lanes[k]->result = whole;
		make_ready(lanes[k]);
	}
	if (whole) {
		now = running;
		be(now->identity);
	}
	w->together &= ~(here << first);
}

void settle(struct warp *w)
{
	for (unsigned first = 0; w->together >> first && first < GPU_WARP; first += GPU_LINE_LANES)
		if (w->together >> first & ((1u << GPU_LINE_LANES) - 1))
			settle_line(w, first);
}

} // namespace

/* ---- What gpu.h offers ------------------------------------------------------------------------------------- */

int gpu_run(int n, void (*host)(int rank, void *arg), void *arg, uint64_t seed)
{
	nhosts = running_hosts = n;
	program = host;
	program_arg = arg;
	state_of_random = seed * 0x9e3779b97f4a7c15ull + 0x2545f4914f6cdd1dull;
	first_turn = turns;
	if (__tsan_get_current_fiber)
		root.identity = __tsan_get_current_fiber();
	now = &root;
	release(&world_order);
	for (int rank = 0; rank < n; rank++) {
		make_host(rank);
		hosts[rank].one_channel = random_below(2);
	}
	go_on(nullptr);
	acquire(&world_order);
	for (int rank = 0; rank < n; rank++)
		for (struct stream &s : hosts[rank].streams)
			spare_lanes(&s);
	return failed;
}

void gpu_whole(const void *begin, size_t bytes, unsigned unit)
{
	if (nranges == MOST_RANGES)
		abort();
	ranges[nranges++] = { (uintptr_t)begin, (uintptr_t)begin + bytes, unit };
}

void gpu_forget(void)
{
	nranges = 0;
	one_polls = {};
}

void gpu_one_polls(const void *begin, size_t bytes)
{
	one_polls = { (uintptr_t)begin, (uintptr_t)begin + bytes, 0 };
}

void gpu_polls(const void *word)
{
	const struct warp *w = now->warp;
	struct block *b = w->block;
	if (!b || (uintptr_t)word < one_polls.begin || (uintptr_t)word >= one_polls.end)
		return;
	unsigned i = 0;
	while (i < b->npolled && b->polled[i].word != word)
		i++;
	if (i == b->npolled && i < MOST_POLLED)
		b->polled[b->npolled++] = { word, w };
	if (i < MOST_POLLED && b->polled[i].by != w) {
		if (!failed)
			printf("# warps %u and %u of a block poll one word of host memory\n",
			       b->polled[i].by->number, w->number);
		failed = -1;
	}
}

int gpu_recording;

void gpu_record(const void *begin, size_t bytes)
{
	if (nrecorded == MOST_RANGES)
		abort();
	recorded[nrecorded++] = { (uintptr_t)begin, (uintptr_t)begin + bytes, 0 };
	gpu_recording = 1;
}

const struct gpu_launched *gpu_launches(size_t *n)
{
	acquire(&room_made);
	*n = nlaunches;
	return launches;
}

const struct gpu_store *gpu_stores(size_t *n)
{
	acquire(&room_made);
	*n = nstores;
	return stores;
}

void gpu_record_end(void)
{
	while (nlaunches)
		free(launches[--nlaunches].args);
	nstores = 0;
	nrecorded = gpu_recording = 0;
}

void gpu_stored(const void *to, const void *value)
{
	for (int i = 0; i < nrecorded; i++) {
		if ((uintptr_t)to < recorded[i].begin || (uintptr_t)to >= recorded[i].end)
			continue;
		stores = (struct gpu_store *)grown(stores, nstores, &most_stores, sizeof(*stores));
		struct gpu_store *s = &stores[nstores++];
		s->to = (unsigned char *)to;
		s->launch = now->warp->block->grid->launch;
		__builtin_memcpy(s->value, value, sizeof(s->value));
		return;
	}
}

unsigned gpu_unit(const void *address)
{
	for (int i = 0; i < nranges; i++)
		if ((uintptr_t)address >= ranges[i].begin && (uintptr_t)address < ranges[i].end)
			return ranges[i].unit;
	return 4;
}

void gpu_synchronize(void)
{
	await_stream(now->warp->host->streams);
}

void gpu_pause(unsigned n)
{
	while (n--)
		gpu_yield();
}

unsigned gpu_random(unsigned below)
{
	return random_below(below);
}

uint64_t gpu_turns(void)
{
	return turns;
}

struct stream *stream_of(void *stream)
{
	return &now->warp->host->streams[(uintptr_t)stream];
}

void gpu_launch(gpu_runner *run, const void *kernel, const void *args, size_t bytes, unsigned blocks,
		unsigned threads, unsigned most_threads, void *stream)
{
	struct stream *s = stream_of(stream);
	struct host *h = s->host;
	be(root.identity);
	struct grid *g = (struct grid *)calloc(1, sizeof(*g));
	be(now->identity);
	g->stream = s;
	g->run = run;
	g->kernel = kernel;
	g->args = malloc(bytes);
	memcpy(g->args, args, bytes); /* freed when all threads have ended */
	g->blocks = blocks;
	g->threads = threads < most_threads ? threads : most_threads;
	g->number = ++s->launched;
	g->order = ++h->launched;
	for (int i = 0; i < GPU_STREAMS; i++) {
		g->awaited[i] = s->waits[i] ? s->awaited[i] : 0;
		s->waits[i] = false;
	}
	h->several |= s != h->streams;
	if (h->several && !random_below(LATE_ONE_IN))
		g->late = 1u << random_below(MOST_LATE + 1);
	g->launch = gpu_recording ? record_launch(h->rank, args, bytes, blocks, threads) : 0;
	release(g->args);
	*s->queue_end = g;
	s->queue_end = &g->next;
	start_grids(h);
}

void gpu_mark(struct gpu_event *event, void *stream)
{
	struct stream *s = stream_of(stream);
	for (int i = 0; i < GPU_STREAMS; i++)
		event->launches[i] = s->waits[i] ? s->awaited[i] : 0;
	event->launches[s - s->host->streams] = s->launched;
}

void gpu_await(void *stream, const struct gpu_event *event)
{
	struct stream *s = stream_of(stream);
	for (int i = 0; i < GPU_STREAMS; i++) {
		if (&s->host->streams[i] == s || event->launches[i] <= s->awaited[i])
			continue;
		s->awaited[i] = event->launches[i];
		s->waits[i] = true;
	}
}

unsigned gpu_thread(void)
{
	return now->warp->number * GPU_WARP + now->number;
}

unsigned gpu_threads(void)
{
	return now->warp->block->grid->threads;
}

unsigned gpu_block(void)
{
	return now->warp->block->number;
}

unsigned gpu_blocks(void)
{
	return now->warp->block->grid->blocks;
}

void *gpu_shared(size_t bytes)
{
	struct block *b = now->warp->block;
	be(root.identity);
	if (!b->shared) {
		b->shared = aligned_alloc(64, (bytes + 63) / 64 * 64);
		if (!b->shared)
			abort();
		memset(b->shared, 0x5a, bytes);
		release(&b->shared);
	}
	be(now->identity);
	acquire(&b->shared);
	return b->shared;
}

int gpu_barrier(unsigned number, unsigned threads, int good)
{
	struct lane *l = now;
	struct block *b = l->warp->block;
	struct barrier *at = &b->barriers[number];
	const void *order = &at->order[at->rounds & 1];
	release(order);
	l->fenced = false;
	l->state = BARRIER;
	l->barrier = at;
	at->threads = threads;
	at->arrived++;
	at->good &= good != 0;
	if (is_full(b, at))
		finish_barrier(b, at);
	else
		settle(l->warp);
	go_on(l->warp);
	acquire(order);
	return (int)l->result;
}

uint32_t gpu_ballot(uint32_t mask, int yes)
{
	return (uint32_t)meet(mask, yes != 0, -1, false);
}

uint64_t gpu_shuffle(uint32_t mask, uint64_t value, unsigned source)
{
	return meet(mask, value, (int)(source % GPU_WARP), false);
}

void gpu_warp_barrier(uint32_t mask)
{
	meet(mask, 0, -1, true);
}

void gpu_yield(void)
{
	count_turn();
	make_ready(now);
	go_on(nullptr);
}

void gpu_maybe(unsigned once_in)
{
	if (!random_below(once_in))
		gpu_yield();
}

uint64_t gpu_now(void)
{
	return turns * 1000;
}

int gpu_together(const void *address, void (*access)(void *operand), void *operand)
{
	struct lane *l = now;
	struct warp *w = l->warp;
	l->address = address;
	l->access = access;
	l->operand = operand;
	l->state = TOGETHER;
	w->together |= 1u << l->number;
	settle(w);
	go_on(w);
	return (int)l->result;
}

void gpu_previous_kernel(void)
{
	struct lane *l = now;
	struct grid *g = l->warp->block->grid;
	struct stream *s = g->stream;
	if (g != s->running) {
		l->state = EARLY;
		settle(l->warp);
		go_on(l->warp);
	}
	acquire(end_of(s, g->number - 1));
}

void gpu_loaded(const void *word)
{
	struct lane *l = now;
	if (!l->identity)
		return;
	acquire_as(l->warp->block->grid->stream->closer, word);
	l->fenced = false;
	for (unsigned i = 0; i < l->nloaded && i < MOST_LOADED; i++)
		if (l->loaded[i] == word)
			return;
	l->loaded[l->nloaded++ % MOST_LOADED] = word;
}

void gpu_depended(const void *word)
{
	acquire(word);
}

void gpu_fence(void)
{
	struct lane *l = now;
	for (unsigned i = 0; l->identity && i < l->nloaded && i < MOST_LOADED; i++)
		acquire(l->loaded[i]);
	l->nloaded = 0;
	l->fenced = true;
}

void gpu_carried(const void *word)
{
	struct lane *l = now;
	if (l->fenced)
		release(word);
	else if (l->identity)
		release_as(l->warp->block->grid->stream->opener, word);
}
