/* What the thread maps of a peer, and what it tells the peer. */
#include "exporter_state.h"

#include <stdlib.h>

#include "base/log.h"

static struct exports *table_of(const struct exporter *x, const struct export_peer *p)
{
	return &x->tables->peers[p->slot];
}

static struct board_answer *answer_to(const struct exporter *x, const struct export_peer *p)
{
	return &x->board->answers[p->slot];
}

/* ---- Giving up: the address is not to be seen any more before it is closed ---- */

static void give_up(struct exporter *x, struct export_peer *p, uint64_t i)
{
	void *const at = p->exports[i].at, *const none = NULL;
	p->exports[i].number = 0;
	p->exports[i].at = NULL;
	atomic_fetch_and(&answer_to(x, p)->failed[i / 64], ~((uint64_t)1 << i % 64));
	if (!at)
		return;
	exporter_put(x, &table_of(x, p)->at[i], &none, sizeof none);
	pthread_mutex_lock(&x->lock);
	p->closing[i] = at;
	p->closings++;
	pthread_mutex_unlock(&x->lock);
}

/* all: the dead ones else. */
static void give_up_some(struct exporter *x, struct export_peer *p, int all)
{
	for (uint64_t i = 0; i < EXPORTS_ROOM; i++)
		if (p->exports[i].number && (all || !board_has(p->board, p->exports[i].number)))
			give_up(x, p, i);
}

static int is_closing(struct exporter *x, const struct export_peer *p, uint64_t i)
{
	pthread_mutex_lock(&x->lock);
	const int is = i < EXPORTS_ROOM ? p->closing[i] != NULL : p->closings != 0;
	pthread_mutex_unlock(&x->lock);
	return is;
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

static void note_failed(struct exporter *x, struct export_peer *p, uint64_t number, cudaError_t error)
{
	const uint64_t i = number % EXPORTS_ROOM;
	atomic_fetch_or(&answer_to(x, p)->failed[i / 64], (uint64_t)1 << i % 64);
	if (exporter_says(x, REASON_FAILED))
		log_line(LOG_INFO, x->rank,
			 "allocation %llu of another process of this node can't be mapped on GPU %d: %s; "
			 "calls on it go "
			 "through slots; further ones are not logged",
			 (unsigned long long)number, x->ordinal, cudaGetErrorString(error));
}

/* Where it fails it is failed, or its owner has freed it meanwhile. */
static void open_export(struct exporter *x, struct export_peer *p, uint64_t number, cudaIpcMemHandle_t handle)
{
	const uint64_t i = number % EXPORTS_ROOM;
	void *at = NULL;
	const cudaError_t error = cudaIpcOpenMemHandle(&at, handle, cudaIpcMemLazyEnablePeerAccess);
	if (error)
		cudaGetLastError();
	if (error && !board_has(p->board, number))
		return;
	p->exports[i].number = number;
	p->exports[i].at = error ? NULL : at;
	if (error)
		note_failed(x, p, number, error);
	else
		exporter_put(x, &table_of(x, p)->at[i], &at, sizeof at);
}

/* `opened` does not pass what has failed before its owner has said that it is dead: till then a kernel may name it. */
static void put_opened(struct exporter *x, struct export_peer *p)
{
	uint64_t opened = p->answered;
	for (int i = 0; i < EXPORTS_ROOM; i++)
		if (p->exports[i].number && !p->exports[i].at && p->exports[i].number <= opened)
			opened = p->exports[i].number - 1;
	if (opened > p->opened && !exporter_put(x, &table_of(x, p)->opened, &opened, sizeof opened))
		p->opened = opened;
	atomic_store(&answer_to(x, p)->answered, p->answered);
}

/* An index is used again by an owner that waits for the close; by one that does not (a peer was taken for gone) the opening waits. */
static void open_new(struct exporter *x, struct export_peer *p, uint64_t published)
{
	cudaIpcMemHandle_t handle;
	uint64_t number;
	do {
		number = next_of(p, published);
		const uint64_t i = number % EXPORTS_ROOM;
		if (number && p->exports[i].number) /* dead, but not counted yet */
			give_up(x, p, i);
		if (number && is_closing(x, p, i))
			return;
		if (number && board_read(p->board, number, &handle))
			open_export(x, p, number, handle);
		p->answered = number ? number : published;
		put_opened(x, p);
	} while (number && !atomic_load(&x->stops));
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

int exporter_look_at_peer(struct exporter *x, struct export_peer *p)
{
	const uint64_t deaths = atomic_load(&p->board->deaths), published = atomic_load(&p->board->published);
	const int changes = deaths != p->scanned || published != p->answered;
	if (p->is_damaged || board_is_gone(p->board))
		return 0;
	if (board_is_damaged(p->board, published, p->answered))
		return note_damage(x, p, published);
	if (deaths != p->scanned)
		give_up_some(x, p, 0);
	p->scanned = deaths;
	if (changes)
		open_new(x, p, published);
	if (!is_closing(x, p, EXPORTS_ROOM))
		atomic_store(&answer_to(x, p)->deaths, p->scanned);
	return changes;
}

void exporter_remove_peer(struct exporter *x, struct export_peer *p)
{
	struct board_answer *answer = answer_to(x, p);
	const uint64_t none = 0;
	give_up_some(x, p, 1);
	exporter_put(x, &table_of(x, p)->opened, &none, sizeof none);
	atomic_store(&answer->answered, UINT64_MAX); /* it opens nothing more */
	if (is_closing(x, p, EXPORTS_ROOM))
		return;
	atomic_store(&answer->owner, 0);
	atomic_store(&answer->answered, 0);
	atomic_store(&answer->deaths, 0);
	pthread_mutex_lock(&x->lock);
	x->peers[p->slot] = NULL;
	pthread_mutex_unlock(&x->lock);
	board_unmap(p->board);
	free(p);
}
