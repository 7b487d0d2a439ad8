/* SPDX-License-Identifier: BSD-3-Clause */
/* What several files of the exporter do with its state. */
#include "exporter_state.h"

#include "base/wait.h"

enum { PROBES = 8, ACTIVE_NS = 100000000 };

void exporter_wake(struct exporter *x)
{
	x->is_asked = 1;
	x->active_until_ns = wait_now_ns() + ACTIVE_NS;
	pthread_cond_broadcast(&x->changed);
}

int exporter_put(struct exporter *x, void *to, const void *from, size_t bytes)
{
	if (atomic_load(&x->stops))
		return CORALE_EDEVICE;
	cudaError_t error = cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, x->stream);
	error = error ? error : cudaStreamSynchronize(x->stream);
	if (error)
		atomic_store(&x->stops, 1);
	return cuda_report(x->rank, x->ordinal, error, "copying to the tables of exports");
}

int exporter_says(struct exporter *x, enum exporter_reason reason)
{
	const unsigned bit = 1u << reason;
	return !(atomic_load_explicit(&x->said, memory_order_relaxed) & bit) &&
	       !(atomic_fetch_or(&x->said, bit) & bit);
}

/* ---- What is known of a range, by its id ---- */

struct export_seen *exporter_place_of(struct exporter *x, unsigned long long id)
{
	struct export_seen *least = NULL;
	for (unsigned i = 0; i < PROBES; i++) {
		struct export_seen *s = &x->seen[((id * 0x9e3779b97f4a7c15u >> 48) + i) % EXPORTER_SEEN];
		if (s->id == id)
			return s;
		if ((!s->id || s->index == EXPORTER_NO_INDEX) && (!least || s->calls < least->calls))
			least = s;
	}
	if (least)
		*least = (struct export_seen){ .id = id, .index = EXPORTER_NO_INDEX };
	return least;
}

void exporter_forget(struct exporter *x, const struct export *e, int refused)
{
	struct export_seen *s = exporter_place_of(x, e->range.id);
	if (s)
		*s = (struct export_seen){ .id = refused ? e->range.id : 0,
					   .index = EXPORTER_NO_INDEX,
					   .is_refused = (uint8_t)refused };
}

/* ---- Calls beside a close ---- */

int exporter_begin_closing(struct exporter *x)
{
	pthread_mutex_lock(&x->calls_lock);
	atomic_store(&x->closes, 1);
	const struct exporter_user *user = x->callers;
	while (user && user->rests(user->arg))
		user = user->next;
	if (user)
		atomic_store(&x->closes, 0);
	pthread_mutex_unlock(&x->calls_lock);
	return !user;
}

void exporter_end_closing(struct exporter *x)
{
	atomic_store(&x->closes, 0);
}

struct export_peer *exporter_find_peer(const struct exporter *x, uint64_t instance, int *slot)
{
	*slot = BOARD_PEERS;
	for (int i = BOARD_PEERS - 1; i >= 0; i--) {
		struct export_peer *p = x->peers[i];
		if (p && p->users && p->board->instance == instance)
			return p;
		*slot = p ? *slot : i;
	}
	return NULL;
}
