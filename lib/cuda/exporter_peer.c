/* SPDX-License-Identifier: BSD-3-Clause */
/* What the thread maps of a peer, and what it tells the peer. */
#include "exporter_state.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/wait.h"

static struct exports *table_of(const struct exporter *x, const struct export_peer *p)
{
	return &x->tables->peers[p->slot];
}

static void answer(const struct exporter *x, const struct export_peer *p, uint64_t number,
		   enum board_answer answer)
{
	atomic_store(&x->board->answers[p->slot][number % EXPORTS_ROOM], board_word(number, answer));
}

/* Another GPU of it: what is no run is neither opened nor closed. */
static int is_own_process(const struct exporter *x, const struct export_peer *p)
{
	return p->board->process == x->board->process;
}

/* ---- Giving up: the address is not to be seen any more before it is closed ---- */

static void give_up(struct exporter *x, struct export_peer *p, uint64_t i)
{
	struct export_mapping *m = &p->exports[i];
	void *const none = NULL;
	if (m->at)
		exporter_put(x, &table_of(x, p)->at[i], &none, sizeof none);
	if (!m->at || (is_own_process(x, p) && !m->run_bytes)) {
		answer(x, p, m->number, BOARD_CLOSED);
		m->number = 0;
		return;
	}
	atomic_store(&m->closes, 1);
	atomic_fetch_add(&x->closings, 1);
}

/* 0: it is being closed, or there is none. */
static uint64_t number_at(struct export_peer *p, uint64_t i)
{
	return atomic_load(&p->exports[i].closes) ? 0 : p->exports[i].number;
}

/* all: the dead ones else. */
static void give_up_some(struct exporter *x, struct export_peer *p, int all)
{
	for (uint64_t i = 0; i < EXPORTS_ROOM; i++)
		if (number_at(p, i) && (all || !board_has(p->board, p->exports[i].number)))
			give_up(x, p, i);
}

/* ---- Opening ---- */

/* The lowest number above those that were answered. 0: none. */
static uint64_t next_of(const struct export_peer *p, uint64_t published)
{
	uint64_t next = 0;
	for (int i = 0; i < EXPORTS_ROOM; i++) {
		const uint64_t number = atomic_load(&p->board->entries[i].number);
		if (number > p->answered && number <= published && number % EXPORTS_ROOM == (uint64_t)i &&
		    (!next || number < next))
			next = number;
	}
	return next;
}

static void say_failed(struct exporter *x, uint64_t number, const char *why)
{
	if (exporter_says(x, REASON_FAILED))
		log_line(LOG_INFO, x->rank,
			 "allocation %llu of another process of this node can't be mapped on GPU %d: %s; "
			 "calls on it go "
			 "through slots; further ones are not logged",
			 (unsigned long long)number, x->ordinal, why);
}

static void *open_allocation(const cudaIpcMemHandle_t *handle, const char **why)
{
	void *at = NULL;
	const cudaError_t error = cudaIpcOpenMemHandle(&at, *handle, cudaIpcMemLazyEnablePeerAccess);
	if (!error)
		return at;
	*why = cudaGetErrorString(error);
	cudaGetLastError();
	return NULL;
}

/* Where it fails it is failed, or its owner has freed it meanwhile. 0: its descriptors have yet to come. */
static int open_export(struct exporter *x, struct export_peer *p, uint64_t number)
{
	struct export_mapping *mapping = &p->exports[number % EXPORTS_ROOM];
	struct export_handle handle = { .run_bytes = 0 };
	const char *why = NULL;
	void *at = NULL;
	if (!board_read(p->board, number, &handle))
		exporter_end_arrival(x, p);
	else if (!handle.run_bytes && is_own_process(x, p))
		at = (void *)(uintptr_t)handle.at;
	else if (!handle.run_bytes)
		at = open_allocation(&handle.allocation, &why);
	else if (!exporter_receive_run(x, p, number, handle.run_bytes, &at, &why))
		return 0;
	if (!at && !(why && board_has(p->board, number))) {
		answer(x, p, number, BOARD_CLOSED);
		return 1;
	}
	mapping->number = number;
	mapping->at = at;
	mapping->run_bytes = handle.run_bytes;
	if (at)
		exporter_put(x, &table_of(x, p)->at[number % EXPORTS_ROOM], &at, sizeof at);
	else
		say_failed(x, number, why);
	return 1;
}

/* `opened` does not pass what has failed before its owner has said that it is dead: till then a kernel may name it. */
static void put_opened(struct exporter *x, struct export_peer *p)
{
	uint64_t opened = p->answered;
	for (uint64_t i = 0; i < EXPORTS_ROOM; i++)
		if (number_at(p, i) && !p->exports[i].at && p->exports[i].number <= opened)
			opened = p->exports[i].number - 1;
	if (opened > p->opened && !exporter_put(x, &table_of(x, p)->opened, &opened, sizeof opened))
		p->opened = opened;
}

/* An owner that has taken this process for gone may use an index again before it is closed here. */
static void open_new(struct exporter *x, struct export_peer *p, uint64_t published)
{
	uint64_t number = 1;
	while (number && !atomic_load(&x->stops)) {
		number = next_of(p, published);
		struct export_mapping *mapping = &p->exports[number % EXPORTS_ROOM];
		if (number && number_at(p, number % EXPORTS_ROOM)) /* dead, but not counted yet */
			give_up(x, p, number % EXPORTS_ROOM);
		if (number && atomic_load(&mapping->closes))
			return;
		if (number && !open_export(x, p, number))
			return;
		p->answered = number ? number : published;
		put_opened(x, p);
		if (number && mapping->number)
			answer(x, p, number, mapping->at ? BOARD_OPEN : BOARD_FAILED);
	}
}

/* ---- */

static int note_damage(struct exporter *x, struct export_peer *p, uint64_t published)
{
	const uint64_t none = 0;
	p->is_damaged = 1;
	exporter_put(x, &table_of(x, p)->opened, &none, sizeof none);
	log_error(CORALE_EPEER, x->rank,
		  "the board of a process of this node is damaged: its last allocation has number %llu, "
		  "after %llu, and entry %d "
		  "has %llu; look for stray stores in that process; calls with it go through slots",
		  (unsigned long long)published, (unsigned long long)p->answered,
		  (int)(published % EXPORTS_ROOM),
		  (unsigned long long)atomic_load(&p->board->entries[published % EXPORTS_ROOM].number));
	return 0;
}

static int is_gone(struct export_peer *p)
{
	const int64_t now = wait_now_ns(), most_ns = 2000000000;
	const uint64_t looks = atomic_load(&p->board->looks);
	if (looks != p->looks || !p->looks_ns)
		p->looks_ns = now;
	p->looks = looks;
	return now - p->looks_ns > most_ns;
}

int exporter_look_at_peer(struct exporter *x, struct export_peer *p)
{
	const uint64_t deaths = atomic_load(&p->board->deaths), published = atomic_load(&p->board->published);
	const uint64_t scanned = p->scanned, answered = p->answered;
	p->is_gone = is_gone(p);
	if (p->is_damaged)
		return 0;
	if (board_is_damaged(p->board, published, p->answered))
		return note_damage(x, p, published);
	if (deaths != p->scanned)
		give_up_some(x, p, 0);
	p->scanned = deaths;
	if (scanned != deaths || answered != published)
		open_new(x, p, published);
	return scanned != deaths || answered != p->answered;
}

int exporter_maps(const struct export_peer *p)
{
	int maps = p->arrival.number != 0;
	for (int i = 0; i < EXPORTS_ROOM; i++)
		maps |= atomic_load(&p->exports[i].closes) || p->exports[i].number;
	return maps;
}

void exporter_remove_peer(struct exporter *x, struct export_peer *p)
{
	const uint64_t none = 0;
	atomic_store(&x->board->owners[p->slot], 0);
	exporter_end_arrival(x, p);
	give_up_some(x, p, 1);
	exporter_put(x, &table_of(x, p)->opened, &none, sizeof none);
	if (exporter_maps(p))
		return;
	pthread_mutex_lock(&x->lock);
	x->peers[p->slot] = NULL;
	pthread_mutex_unlock(&x->lock);
	board_unmap(p->board);
	free(p);
}
