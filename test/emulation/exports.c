/* SPDX-License-Identifier: BSD-3-Clause */
/* Plays the processes' boards and mapping threads, by which ranks on emulated GPUs reach each other's exported buffers. */
#define _GNU_SOURCE
#include "exports.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cuda/engine.h"
#include "cuda/codelet/cuda_codelet.h"
#include "gpu.h"
#include "base/collectives.h"
#include "base/status.h"

enum { ARENAS = 3, ARENA_BYTES = 32 << 20, MOST_RANKS = 8, POISON = 0xa5, UNIT = 128 };

/* Of a rank. */
struct arena {
	int fd;
	unsigned char *own, *theirs;
	size_t used;
	int taken; /* pieces */
	uint64_t number,
	    before; /* as an export; 0: none. before: its last one, which a captured call may still name */
	uint64_t captured; /* what all calls name; 0: that does not matter */
	int is_leaving; /* no call names it any more; those before `last` may read it */
	uint64_t last[MOST_RANKS];
};

static struct board {
	int ranks;
	enum exports_kind kind;
	struct exports maps[MOST_RANKS][MOST_RANKS]; /* [here][whose] */
	const struct exports *rows[MOST_RANKS][MOST_RANKS];
	struct exports_own own[MOST_RANKS];
	struct arena arenas[MOST_RANKS][ARENAS];
	uint64_t last_number[MOST_RANKS];
	uint64_t named[MOST_RANKS], ended[MOST_RANKS]; /* calls */
} * board;

/* A mapping is made before its address is stored. Loads order nothing, so that the thread sanitizer knows what kernels make of order. */
static void set(uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static uint64_t get(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_RELAXED);
}

/* ---- Arenas ----------------------------------------------------------------------------------------------------- */

static unsigned char *map_arena(const struct arena *r, int access)
{
	return mmap(NULL, ARENA_BYTES, access, MAP_SHARED, r->fd, 0);
}

static int make_arena(struct arena *r, int apart)
{
	r->fd = memfd_create("arena", MFD_CLOEXEC);
	if (r->fd < 0 || ftruncate(r->fd, ARENA_BYTES))
		return CORALE_ENOMEM;
	r->own = map_arena(r, PROT_READ | PROT_WRITE);
	r->theirs = apart ? map_arena(r, PROT_READ) : r->own;
	return r->own == MAP_FAILED || r->theirs == MAP_FAILED ? CORALE_ENOMEM : 0;
}

/* At another address than before. */
static void map_anew(struct arena *r)
{
	unsigned char *before = r->theirs;
	if (before == r->own)
		return;
	r->theirs = map_arena(r, PROT_READ);
	if (r->theirs == MAP_FAILED)
		abort();
	munmap(before, ARENA_BYTES);
}

static struct arena *arena_of(int rank, const void *memory)
{
	for (int i = 0; i < ARENAS; i++) {
		struct arena *r = &board->arenas[rank][i];
		if ((uintptr_t)memory - (uintptr_t)r->own < ARENA_BYTES)
			return r;
	}
	return NULL;
}

unsigned char *exports_take(int rank, size_t bytes)
{
	if (!board)
		return NULL;
	struct arena *r = &board->arenas[rank][gpu_random(ARENAS)];
	const size_t at = r->used + UNIT * gpu_random(8);
	if (at + bytes > ARENA_BYTES)
		abort();
	r->used = (at + bytes + UNIT - 1) / UNIT * UNIT;
	r->taken++;
	return r->own + at;
}

int exports_give(unsigned char *memory)
{
	struct arena *r = NULL;
	for (int rank = 0; board && !r && rank < board->ranks; rank++)
		r = arena_of(rank, memory);
	if (!r)
		return 0;
	if (!--r->taken) {
		memset(r->own, POISON, r->used);
		r->used = 0;
	}
	return 1;
}

/* ---- What mapping threads do ------------------------------------------------------------------------------------ */

static void publish(int rank, struct arena *r, uint64_t number)
{
	set((uint64_t *)&board->maps[rank][rank].at[number % EXPORTS_ROOM], (uint64_t)r->own);
	board->last_number[rank] = number;
	set(&r->before, r->number);
	set(&r->number, number);
	set(&board->own[rank].usable[number % EXPORTS_ROOM], number);
}

/* Of a rank's exports that may be named, the first one behind `opened`. */
static struct arena *next_arena(int rank, uint64_t opened)
{
	struct arena *next = NULL;
	for (int i = 0; i < ARENAS; i++) {
		struct arena *r = &board->arenas[rank][i];
		if (r->number > opened && (!next || r->number < next->number))
			next = r;
	}
	return next;
}

static int is_refused(int here, int rank, const struct arena *r)
{
	return board->kind >= EXPORTS_LATE && here == board->ranks - 1 && rank == 0 &&
	       r == &board->arenas[0][ARENAS - 1] && r->number == ARENAS;
}

static void open_next(int here, int rank)
{
	struct exports *map = &board->maps[here][rank];
	struct arena *r = next_arena(rank, get(&map->opened));
	if (!r || here == rank || is_refused(here, rank, r))
		return;
	set((uint64_t *)&map->at[r->number % EXPORTS_ROOM], (uint64_t)r->theirs);
	if (board->kind >= EXPORTS_LATE)
		gpu_pause(1 + gpu_random(200));
	set(&map->opened, r->number);
}

static void leave(int rank, struct arena *r)
{
	set(&board->own[rank].usable[r->number % EXPORTS_ROOM], 0);
	r->is_leaving = 1;
	for (int q = 0; q < board->ranks; q++)
		r->last[q] = get(&board->named[rank]);
}

static int is_unread(const struct arena *r)
{
	for (int q = 0; q < board->ranks; q++)
		if (get(&board->ended[q]) < r->last[q])
			return 0;
	return 1;
}

static int is_index_used(int rank, uint64_t number)
{
	for (int i = 0; i < ARENAS; i++)
		if (board->arenas[rank][i].number % EXPORTS_ROOM == number % EXPORTS_ROOM)
			return 1;
	return 0;
}

/* All ranks close it, and it comes again as another export, half of the time of the same index. */
static void come_again(int rank, struct arena *r)
{
	const uint64_t last = board->last_number[rank];
	uint64_t number = last + 1;
	for (int q = 0; q < board->ranks; q++)
		set((uint64_t *)&board->maps[q][rank].at[r->number % EXPORTS_ROOM], 0);
	while (is_index_used(rank, number))
		number++;
	if (gpu_random(2))
		for (number = r->number; number <= last;)
			number += EXPORTS_ROOM;
	map_anew(r);
	r->is_leaving = 0;
	publish(rank, r, number);
}

void exports_step(void)
{
	const int rank = (int)gpu_random((unsigned)board->ranks),
		  here = (int)gpu_random((unsigned)board->ranks);
	struct arena *r = &board->arenas[rank][gpu_random(ARENAS)];
	if (board->kind < EXPORTS_LATE)
		return;
	open_next(here, rank);
	if (board->kind == EXPORTS_LATE && r->is_leaving && is_unread(r))
		come_again(rank, r);
	else if (board->kind == EXPORTS_LATE && !r->is_leaving && !gpu_random(40))
		leave(rank, r);
}

/* ---- By hand ---------------------------------------------------------------------------------------------------- */

void exports_open_all(void)
{
	for (int here = 0; here < board->ranks; here++)
		for (int rank = 0; rank < board->ranks; rank++)
			for (int i = 0; i < ARENAS; i++)
				open_next(here, rank);
}

void exports_replace(void)
{
	for (int rank = 0; rank < board->ranks; rank++) {
		const uint64_t round = board->last_number[rank] / EXPORTS_ROOM + 1;
		for (int i = 0; i < ARENAS; i++) {
			struct arena *r = &board->arenas[rank][i];
			publish(rank, r, round * EXPORTS_ROOM + ((uint64_t)i + round) % ARENAS + 1);
			set(&r->before, 0);
		}
	}
	exports_open_all();
}

void exports_capture(int captured)
{
	for (int rank = 0; rank < board->ranks; rank++)
		for (int i = 0; i < ARENAS; i++)
			board->arenas[rank][i].captured = captured ? board->arenas[rank][i].number : 0;
}

/* ---- What calls have read --------------------------------------------------------------------------------------- */

void exports_ended(int rank)
{
	if (board)
		set(&board->ended[rank], get(&board->named[rank]));
}

/* ---- Calls ------------------------------------------------------------------------------------------------------ */

/* One of a graph names what it was captured with. */
static struct export_ref ref_of(int rank, const void *memory)
{
	const struct arena *r = memory ? arena_of(rank, memory) : NULL;
	if (!r)
		return (struct export_ref){ 0, 0 };
	const uint64_t before = get(&r->before), number = before && !gpu_random(6) ? before : get(&r->number);
	return (struct export_ref){ r->captured ? r->captured : number,
				    (uint64_t)((uintptr_t)memory - (uintptr_t)r->own) };
}

/* What the rank alone knows: its result overwrites what it sends, or its scalar multiplies it. */
static int cannot_be_read(const struct engine *e, const struct call *c)
{
	const corale_coll coll = c->record.coll;
	return (c->send == c->recv &&
		(coll == CORALE_ALL_TO_ALL || (coll == CORALE_REDUCE_SCATTER && e->rank))) ||
	       (coll_folds(coll) && (int)c->record.op == (int)CORALE_NUM_OPS);
}

void engine_name_buffers(struct engine *e, const struct call *c, struct codelet_zero_copy *named)
{
	if (!board)
		return;
	named->exports = board->rows[e->rank];
	named->own = &board->own[e->rank];
	named->read = codelet_read_by_peers((corale_coll)c->record.coll, c->record.root == e->rank, e->ranks);
	named->send = ref_of(e->rank, c->send);
	named->recv = ref_of(e->rank, c->recv);
	named->cannot = (uint32_t)cannot_be_read(e, c);
	set(&board->named[e->rank], board->named[e->rank] + 1);
}

/* What is not in an arena is in no export. */
void engine_name_messages(struct engine *e, struct codelet_p2p *g, int n, int captured)
{
	if (!board)
		return;
	for (int i = 0; i < n; i++) {
		const struct codelet_message *m = &g->messages[i];
		if (m->from || !codelet_may_be_read(&g->group, m->bytes))
			continue;
		g->group.args.zero_copy.exports = board->rows[e->rank];
		g->group.args.zero_copy.own = &board->own[e->rank];
		g->places[i] = m->sending ? ref_of(e->rank, m->data).number : g->places[i];
	}
	set(&board->named[e->rank], board->named[e->rank] + 1);
}

/* ---- All of it -------------------------------------------------------------------------------------------------- */

int exports_open(int ranks, enum exports_kind kind, int apart)
{
	board = calloc(1, sizeof *board);
	int ret = board && ranks <= MOST_RANKS ? 0 : CORALE_ENOMEM;
	if (ret)
		return ret;
	board->ranks = ranks;
	board->kind = kind;
	for (int rank = 0; rank < ranks; rank++)
		for (int i = 0; !ret && i < ARENAS; i++) {
			struct arena *r = &board->arenas[rank][i];
			ret = make_arena(r, apart);
			publish(rank, r, (uint64_t)i + 1);
		}
	for (int here = 0; here < ranks; here++)
		for (int rank = 0; rank < ranks; rank++)
			board->rows[here][rank] = &board->maps[here][rank];
	if (kind == EXPORTS_OPEN)
		exports_open_all();
	return ret;
}

void exports_close(void)
{
	for (int rank = 0; board && rank < board->ranks; rank++)
		for (int i = 0; i < ARENAS; i++) {
			struct arena *r = &board->arenas[rank][i];
			munmap(r->own, ARENA_BYTES);
			if (r->theirs != r->own)
				munmap(r->theirs, ARENA_BYTES);
			close(r->fd);
		}
	free(board);
	board = NULL;
}
