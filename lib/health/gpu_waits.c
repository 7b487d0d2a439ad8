/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks of this node for which kernels of this rank wait, and which are late or gone. */
#include <stdlib.h>

#include "base/log.h"
#include "diagnose.h"
#include "presence.h"
#include "gpu_health.h"
#include "stall.h"

enum { NOTE_LASTS_NS = 150 * 1000 * 1000 };
static const int64_t stall_ns = 10 * 1000000000ll, again_ns = 60 * 1000000000ll;

/* The kernels' notes about a rank, as the watch thread has seen them. Kernels of several calls write them by turns: one call is timed until it stops. */
struct gpu_wait {
	uint64_t note;
	uint32_t number; /* of the timed call */
	int64_t since_ns, seen_ns; /* when its wait was first seen; when its last note came */
	uint64_t gone_note; /* the last note when the rank was first seen to be gone; 0: it is not */
};

int gpu_waits_open(struct comm *comm)
{
	if (comm->size == 1)
		return 0;
	comm->gpu_waits = calloc((size_t)comm->engine.locals, sizeof *comm->gpu_waits);
	return comm->gpu_waits
		   ? 0
		   : log_error(CORALE_ENOMEM, comm->rank, "no memory to watch %d ranks", comm->engine.locals);
}

/* Whether the timed call waits for that rank now. */
static int is_waiting(struct gpu_wait *w, uint64_t note, int64_t now)
{
	const uint32_t number = (uint32_t)(note >> 32);
	const int lasts = now - w->seen_ns <= NOTE_LASTS_NS;
	if (note != w->note && (number == w->number || !lasts)) {
		if (number != w->number || !lasts)
			w->since_ns = now;
		w->number = number;
		w->seen_ns = now;
	}
	w->note = note;
	return note && now - w->seen_ns <= NOTE_LASTS_NS;
}

/* Whether the rank is gone, and the kernel has waited for it since that was seen: what the rank did last may have come after the note before. */
static int waits_for_gone(const struct comm *comm, struct gpu_wait *w, int rank)
{
	if (presence_of(comm, rank) == IS_PRESENT)
		return 0;
	if (!w->gone_note)
		w->gone_note = w->note;
	return w->note != w->gone_note;
}

/* A line for the whole process, at most one a minute. */
static int may_log(int64_t now)
{
	static _Atomic int64_t logged_ns;
	int64_t before = atomic_load(&logged_ns);
	return (!before || now - before > again_ns) &&
	       atomic_compare_exchange_strong(&logged_ns, &before, now);
}

int gpu_waits_look(struct comm *comm)
{
	const int64_t now = wait_now_ns();
	for (int q = 0; comm->gpu_waits && q < comm->engine.locals; q++) {
		struct gpu_wait *w = &comm->gpu_waits[q];
		if (q == comm->engine.local || !is_waiting(w, engine_cuda.waits(comm->gpu, q), now))
			continue;
		const int rank = comm_local_rank(comm, q);
		const struct record call = gpu_journal_find(comm->gpu_journal, w->number, rank);
		if (waits_for_gone(comm, w, rank))
			return diagnose_gone(comm, &call, rank);
		if (diagnose_differs_from(
			comm, rank, call.number)) /* it may have refused its call, and call nothing more */
			return diagnose_mismatch(comm, &call, NULL);
		const struct stall_wait wait = { &call, call.number, rank };
		if (now - w->since_ns > stall_ns && may_log(now))
			stall_log(comm, &wait, 1e-9 * (double)(now - w->since_ns));
	}
	return 0;
}
