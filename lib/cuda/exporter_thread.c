/* SPDX-License-Identifier: BSD-3-Clause */
/* The thread of an exporter: it looks at the boards of the peers, and after the own exports. */
#include "exporter_state.h"

#include "base/process.h"
#include "base/wait.h"

static const int64_t active_ns = 1000000,
		     idle_ns = 50000000, /* between two looks; idle_ns: between two sweeps, too */
    linger_ns = 2000000000; /* after a large call */

/* ---- The own exports ---- */

enum verdict { AGREED, NOT_YET, FAILED };

/* Of an export whether a peer has opened it; of a dead one whether it has closed it. A peer without answers has nothing mapped: it stores that it has
 * attached this process before it reads an entry. */
static enum verdict ask_peer(const struct exporter *x, const struct export_peer *p, const struct export *e)
{
	const uint64_t wanted = board_word(e->number, e->state == EXPORT_DEAD ? BOARD_CLOSED : BOARD_OPEN),
		       failed = board_word(e->number, BOARD_FAILED);
	enum verdict most = AGREED;
	for (int i = 0; i < BOARD_PEERS; i++) {
		if (atomic_load(&p->board->owners[i]) != x->board->instance)
			continue;
		const uint64_t word = atomic_load(&p->board->answers[i][e->number % EXPORTS_ROOM]);
		const enum verdict other = word == failed && e->state == EXPORT_ASKED ? FAILED : NOT_YET;
		most = word != wanted && other > most ? other : most;
	}
	return most;
}

/* Of all peers, and of the export as it is now. */
static enum verdict ask_peers(struct exporter *x, uint64_t index, struct export *e)
{
	enum verdict most = AGREED;
	pthread_mutex_lock(&x->lock);
	*e = x->own[index];
	for (int i = 0; i < BOARD_PEERS && (e->state == EXPORT_ASKED || e->state == EXPORT_DEAD); i++) {
		const struct export_peer *p = x->peers[i];
		const int answers = p && p->users && !p->is_gone;
		const enum verdict one = answers ? ask_peer(x, p, e) : AGREED;
		most = one > most ? one : most;
	}
	pthread_mutex_unlock(&x->lock);
	return most;
}

static void set_state(struct exporter *x, uint64_t index, enum export_state state)
{
	pthread_mutex_lock(&x->lock);
	x->dead_bytes += state == EXPORT_DEAD ? x->own[index].range.bytes : 0;
	x->dead_bytes -= state == EXPORT_FREE ? x->own[index].range.bytes : 0;
	x->own[index].state = state;
	pthread_mutex_unlock(&x->lock);
}

/* No kernel names it any more, or none has; refused: nor is to. */
static void end_export(struct exporter *x, uint64_t index, const struct export *e, int refused)
{
	const uint64_t none = 0;
	pthread_mutex_lock(&x->lock);
	exporter_forget(x, e, refused);
	x->own[index].run = NULL;
	pthread_mutex_unlock(&x->lock);
	exporter_drop_run(x, e->run);
	if (e->state == EXPORT_USABLE && exporter_put(x, &x->tables->own.usable[index], &none, sizeof none))
		return;
	set_state(x, index, EXPORT_DEAD);
	atomic_store(&x->board->entries[index].is_dead, 1);
	atomic_fetch_add(&x->board->deaths, 1);
}

static void make_usable(struct exporter *x, uint64_t index, const struct export *e)
{
	int ret = exporter_put(x, &x->tables->self.at[index], &e->range.at, sizeof e->range.at);
	ret = ret ? ret : exporter_put(x, &x->tables->own.usable[index], &e->number, sizeof e->number);
	if (!ret)
		set_state(x, index, EXPORT_USABLE);
}

/* 1 if it has changed. */
static int look_at_export(struct exporter *x, uint64_t index, int sweeps)
{
	struct export e;
	const enum verdict verdict = ask_peers(x, index, &e);
	const int lives = e.state == EXPORT_ASKED || e.state == EXPORT_USABLE;
	if (lives && sweeps && !exporter_has(x, &e.range))
		end_export(x, index, &e, 0);
	else if (e.state == EXPORT_ASKED && verdict == FAILED)
		end_export(x, index, &e, 1);
	else if (e.state == EXPORT_ASKED && verdict == AGREED)
		make_usable(x, index, &e);
	else if (e.state == EXPORT_DEAD && verdict == AGREED)
		set_state(x, index, EXPORT_FREE);
	else
		return 0;
	return 1;
}

/* ---- Closing: waits for kernels of the process (exporter.h), so it is done by a thread of its own, without a lock ---- */

static void enter(const struct exporter *x)
{
	x->driver->push_context(x->context);
	engine_spare_captures();
}

/* The next mapping to be closed. Under the lock; a peer is not removed before its mappings are closed. */
static struct export_mapping *next_closing(const struct exporter *x, int *slot)
{
	for (*slot = 0; *slot < BOARD_PEERS && atomic_load(&x->closings); ++*slot)
		for (int k = 0; x->peers[*slot] && k < EXPORTS_ROOM; k++)
			if (atomic_load(&x->peers[*slot]->exports[k].closes))
				return &x->peers[*slot]->exports[k];
	return NULL;
}

/* 0: calls run. */
static int close_mapping(struct exporter *x, int slot, struct export_mapping *m)
{
	const int may = exporter_begin_closing(x);
	if (may && m->run_bytes)
		exporter_unmap_run(x, (CUdeviceptr)(uintptr_t)m->at, m->run_bytes, m->run_bytes);
	else if (may && cudaIpcCloseMemHandle(m->at))
		cudaGetLastError(); /* its owner's process has ended */
	exporter_end_closing(x);
	if (!may)
		return 0;
	atomic_store(&x->board->answers[slot][m->number % EXPORTS_ROOM], board_word(m->number, BOARD_CLOSED));
	m->number = 0;
	atomic_fetch_sub(&x->closings, 1);
	atomic_store(&m->closes, 0);
	return 1;
}

static void *close_mappings(void *arg)
{
	struct exporter *x = arg;
	struct export_mapping *m;
	int slot;
	enter(x);
	pthread_mutex_lock(&x->lock);
	while (!atomic_load(&x->stops) && (m = next_closing(x, &slot))) {
		pthread_mutex_unlock(&x->lock);
		const int is_closed = close_mapping(x, slot, m);
		pthread_mutex_lock(&x->lock);
		if (is_closed)
			exporter_wake(x);
		else
			wait_changed(&x->changed, &x->lock, wait_now_ns() + active_ns);
	}
	x->workers--;
	exporter_wake(x);
	pthread_mutex_unlock(&x->lock);
	return NULL;
}

/* Where there is no thread, later. */
static void start_closing(struct exporter *x)
{
	pthread_t thread;
	pthread_mutex_lock(&x->lock);
	if (x->workers == 1 && atomic_load(&x->closings) && !process_thread(&thread, close_mappings, x)) {
		pthread_detach(thread);
		x->workers++;
	}
	pthread_mutex_unlock(&x->lock);
}

/* ---- */

/* 1 if something has changed. */
static int look(struct exporter *x, int sweeps)
{
	int changes = exporter_take_mail(x);
	atomic_fetch_add(&x->board->looks, 1);
	for (int i = 0; i < BOARD_PEERS && !atomic_load(&x->stops); i++) {
		pthread_mutex_lock(&x->lock);
		struct export_peer *p = x->peers[i];
		const int is_used = p && p->users && x->users;
		pthread_mutex_unlock(&x->lock);
		if (is_used)
			changes |= exporter_look_at_peer(x, p);
		else if (p)
			exporter_remove_peer(x, p);
	}
	start_closing(x);
	const uint64_t last = atomic_load(&x->last_number);
	for (uint64_t i = 0; i < EXPORTS_ROOM && i <= last && !atomic_load(&x->stops); i++)
		changes |= look_at_export(x, i, sweeps);
	return changes;
}

/* Nobody uses the exporter, and nothing is mapped; then the thread ends. Under the lock. */
static int has_ended(const struct exporter *x)
{
	int peers = 0;
	for (int i = 0; i < BOARD_PEERS; i++)
		peers += x->peers[i] != NULL;
	return atomic_load(&x->stops) || (!x->users && !peers && x->workers == 1);
}

/* Nothing is exported or mapped here, and no call reads what peers publish. Under the lock. */
static int may_sleep(const struct exporter *x, int64_t now)
{
	int holds = x->called_ns && (now - x->called_ns < linger_ns || atomic_load(&x->captures));
	for (int i = 0; i < EXPORTS_ROOM && !holds; i++)
		holds = x->own[i].state != EXPORT_FREE;
	for (int i = 0; i < BOARD_PEERS && !holds; i++)
		holds = x->peers[i] && exporter_maps(x->peers[i]);
	return !holds;
}

/* Until the next look; 0: there is none. A process that sleeps is taken for gone, and owes no answer. */
static int wait_for_work(struct exporter *x, int changes)
{
	pthread_mutex_lock(&x->lock);
	if (changes)
		exporter_wake(x);
	const int ends = has_ended(x);
	const int64_t now = wait_now_ns();
	if (atomic_exchange(&x->is_called, 0))
		x->called_ns = now;
	const int is_active = now < x->active_until_ns, sleeps = !is_active && may_sleep(x, now);
	atomic_store(&x->sleeps, sleeps);
	if (!x->is_asked && !ends && !(sleeps && atomic_load(&x->is_called)))
		wait_changed(&x->changed, &x->lock,
			     sleeps ? INT64_MAX : now + (is_active ? active_ns : idle_ns));
	x->is_asked = 0;
	if (ends) {
		x->workers--;
		pthread_cond_broadcast(&x->changed);
	}
	pthread_mutex_unlock(&x->lock);
	return !ends;
}

void *exporter_work(void *arg)
{
	struct exporter *x = arg;
	int64_t swept_ns = 0;
	int changes = 0;
	enter(x);
	while (wait_for_work(x, changes)) {
		const int64_t now = wait_now_ns();
		const int sweeps = now - swept_ns >= idle_ns;
		swept_ns = sweeps ? now : swept_ns;
		changes = look(x, sweeps);
	}
	return NULL;
}
