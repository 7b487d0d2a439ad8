/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that another one waits for outside of calls, to make a communicator with them: whether they can come. */
#include <stdio.h>

#include "comm_doors.h"
#include "base/log.h"
#include "base/process.h"
#include "health/diagnose.h"
#include "health/presence.h"
#include "host/liveness.h"

/* window_wait_of: as the rank's window shows it, or as one of another node has answered (comm_ask). */
static uint64_t wait_of(const struct comm *comm, int rank)
{
	const struct window_control *control = comm_control(comm, rank);
	return control       ? atomic_load(&control->waits)
	       : comm->peers ? atomic_load(&comm->peers[rank].waits)
			     : 0;
}

static int has_begun(const struct comm *comm, uint64_t making)
{
	int found = 0;
	for (int i = 0; i < COMM_MAKINGS; i++)
		found |= atomic_load(&((struct comm *)(uintptr_t)comm)->makings[i]) == making;
	return found;
}

void comm_begin_making(corale_comm *handle, uint64_t making)
{
	struct comm *comm = comm_take(handle, "comm_begin_making");
	if (!comm)
		return;
	atomic_store(&comm->makings[atomic_fetch_add(&comm->nmakings, 1) % COMM_MAKINGS], making);
	comm_put(handle);
}

void comm_show_making(corale_comm *handle, uint64_t making, int rank)
{
	struct comm *comm = comm_take(handle, "comm_show_making");
	if (!comm)
		return;
	const uint64_t sole = process_has_one_caller() ? window_wait_sole : 0;
	if (comm_control(comm, comm->rank))
		atomic_store(&comm_control(comm, comm->rank)->waits,
			     rank < 0 ? 0 : making | (uint64_t)rank | sole);
	comm_put(handle);
}

/* 1 if the rank waits for this one in a call that this one has not made, or in a making that it has not begun. What it says may be older: then it no longer waits, and this one has made the call. */
static int waits_for_this(const struct comm *comm, int rank)
{
	const uint64_t word = wait_of(comm, rank), number = window_wait_number(word);
	if (!word || window_wait_rank(word) != comm->rank)
		return 0;
	switch (window_wait_kind(word)) {
	case WINDOW_IN_COLLECTIVE:
		return number > atomic_load(&((struct comm *)(uintptr_t)comm)->number);
	case WINDOW_IN_RECV:
		return number > comm->sends[rank];
	case WINDOW_IN_SEND:
		return number > comm->recvs[rank];
	case WINDOW_IN_SPLIT:
	case WINDOW_IN_SHRINK:
		return !has_begun(comm, (word & ~window_wait_sole) - (uint64_t)comm->rank);
	default:
		return 0;
	}
}

static int is_making(const struct comm *comm, int rank)
{
	return window_wait_kind(wait_of(comm, rank)) >= WINDOW_IN_SPLIT;
}

struct absent {
	const struct comm *comm;
	int rank;
};

static int waits_in(struct comm *other, void *arg)
{
	const struct absent *a = arg;
	const long pid = presence_pid(a->comm, a->rank);
	int found = 0;
	for (int r = 0; pid && other != a->comm && r < other->size && !found; r++)
		found = presence_pid(other, r) == pid && is_making(other, r) && waits_for_this(other, r) &&
			wait_of(other, r) & window_wait_sole;
	return found;
}

/* 1 if the rank's process waits for this one in a making of another communicator that this one has not begun, and neither has another thread that could come.
 * On one node. */
static int waits_with_another(const struct comm *comm, int rank)
{
	return comm_any(waits_in, &(struct absent){ comm, rank }) && process_has_one_caller();
}

/* Why a rank can't come. A later cause is often a consequence of an earlier one: ranks leave when another's death has failed their calls. */
enum absence { MAY_COME, LEFT, WAITS_ELSEWHERE, DIED };

static enum absence absence_of(struct comm *comm, int rank)
{
	const int error = diagnose_peers(comm), over = error && error != CORALE_EMISMATCH; /* its calls end */
	if (rank == comm->rank)
		return MAY_COME;
	const enum presence presence = presence_of(comm, rank);
	if (presence == HAS_LEFT || presence == HAS_DIED)
		return presence == HAS_LEFT ? LEFT : DIED;
	const int elsewhere = ((!over || is_making(comm, rank)) && waits_for_this(comm, rank)) ||
			      waits_with_another(comm, rank);
	return elsewhere ? WAITS_ELSEWHERE : MAY_COME;
}

/* What ranks of other nodes have said, where no thread of the transport's listens. */
static void hear_other_nodes(struct transport *t)
{
	if (t && t->ops->progress_by == TRANSPORT_ANY_THREAD)
		t->ops->progress(t);
}

int comm_cannot_come(corale_comm *handle, const int *ranks, int n, unsigned char *cannot)
{
	struct comm *comm = comm_take(handle, "comm_cannot_come");
	int found = 0;
	if (comm)
		hear_other_nodes(comm->engine.transport);
	for (int i = 0; i < n; i++)
		found += cannot[i] = comm && absence_of(comm, ranks[i]) != MAY_COME;
	if (comm)
		comm_put(handle);
	return found;
}

void comm_ask(corale_comm *handle, int rank)
{
	struct comm *comm = comm_take(handle, "comm_ask");
	if (!comm)
		return;
	const enum presence presence = presence_of(comm, rank);
	if (comm->engine.transport && !host_is_local(&comm->engine, rank) &&
	    (presence == IS_PRESENT || presence == HAS_REVOKED))
		diagnose_ask(comm, rank);
	comm_put(handle);
}

static void fail_mismatch(struct comm *comm, int rank, const char *call)
{
	const uint64_t word = wait_of(comm, rank);
	int kind = window_wait_kind(word);
	char text[COMM_ERROR_BYTES], theirs[256];
	struct record record;
	if (!waits_for_this(comm, rank))
		kind = 0;
	if (kind == WINDOW_IN_COLLECTIVE && diagnose_find_call(comm, rank, window_wait_number(word), &record))
		diagnose_print_call(&record, theirs, sizeof theirs);
	else
		snprintf(theirs, sizeof theirs, "%s",
			 kind == WINDOW_IN_RECV     ? "a receive from this one"
			 : kind == WINDOW_IN_SEND   ? "a send to this one"
			 : kind == WINDOW_IN_SPLIT  ? "a split of the same communicator"
			 : kind == WINDOW_IN_SHRINK ? "a shrink of the same communicator"
			 : kind                     ? "a call"
						    : "a split or shrink of another communicator");
	snprintf(text, sizeof text,
		 "ranks made different calls: this one waits for rank %d in %s, and rank %d for this one in "
		 "%s, which it has not made",
		 rank, call, rank, theirs);
	if (diagnose_peers(comm)) /* it has ended before */
		log_error(CORALE_EMISMATCH, comm->rank, "%s", text);
	else
		comm_fail(comm, CORALE_EMISMATCH, text);
}

int comm_explain_absence(corale_comm *handle, const int *ranks, int n, const char *call)
{
	struct comm *comm = comm_take(handle, call);
	int code = CORALE_EPEER, rank = 0;
	char text[384];
	if (!comm)
		return CORALE_EINVAL;
	liveness_look(); /* another rank's watch thread may have been first */
	enum absence worst = MAY_COME;
	for (int i = 0; i < n; i++) {
		const enum absence why = absence_of(comm, ranks[i]);
		rank = why > worst ? ranks[i] : rank;
		worst = why > worst ? why : worst;
	}
	if (worst == MAY_COME) { /* the communicator has just failed, so the call that waited ends */
		code = 0;
	} else if (worst == WAITS_ELSEWHERE) {
		fail_mismatch(comm, rank, call);
		code = CORALE_EMISMATCH;
	} else {
		presence_print_gone(comm, rank, text, sizeof text);
		log_error(code, comm->rank, "%s waits for %s", call, text);
	}
	comm_put(handle);
	return code;
}

void comm_explain_mismatch(corale_comm *handle, const char *call)
{
	struct comm *comm = comm_take(handle, call);
	if (!comm)
		return;
	if (!atomic_load(&comm->error))
		diagnose_found_elsewhere(comm, call);
	comm_put(handle);
}
