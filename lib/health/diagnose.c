/* SPDX-License-Identifier: BSD-3-Clause */
#include "diagnose.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/process.h"
#include "base/text.h"
#include "control_messages.h"
#include "host/liveness.h"
#include "net/transport.h"
#include "presence.h"

enum { LOOKS = 4, ENDED_NS = 500 * 1000 * 1000 };
/* Without progress, for which a call goes on that comes before the one that failed; and sends and receives beside failed ones, whose order nobody knows. */
static const int64_t EARLIER_NS = 5 * 1000000000ll, PAIRS_NS = 200 * 1000000ll;

/* ---- Ending a communicator -------------------------------------------------------------- */

void diagnose_spread(struct comm *comm, const struct ending *end)
{
	const struct host_engine *e = &comm->engine;
	control_signal_node(comm, end);
	for (int r = 0; e->transport && r < comm->size; r++)
		if (!host_is_local(e, r)) {
			control_send_text(comm, WINDOW_ENDED, r);
			control_send_abort(comm, end, r);
		}
}

/* Ends a line on a failed call whose stream is held (struct comm_traits). */
static const char *held(const struct comm *comm)
{
	return comm->gpu && comm->traits.holds
		   ? "; the stream of this call is held, so that nothing behind it computes with what did "
		     "not arrive, until the communicator is aborted or destroyed, or the process exits"
		   : "";
}

void comm_fail(struct comm *comm, int code, const char *text)
{
	comm_fail_by(comm, code, comm->rank, text);
}

/* The node's ranks are signalled before any call here can see the error and return: until then a peer may read that call's buffers, and
 * must not take for a message what the caller stores there later. */
static int end_first(struct comm *comm, const struct ending *end, const char *text)
{
	pthread_mutex_lock(&comm->error_lock);
	int first = !atomic_load(&comm->error);
	if (first) {
		snprintf(comm->failure, sizeof comm->failure, "%s", text);
		if (end->culprit == comm->rank && end->code == CORALE_EMISMATCH)
			control_publish_text(comm, WINDOW_ENDED, text);
		if (end->culprit != NOBODY)
			control_signal_node(comm, end);
		atomic_store(&comm->error, end->code);
	}
	pthread_mutex_unlock(&comm->error_lock);
	return first;
}

int comm_end(struct comm *comm, int code, const char *text)
{
	return end_first(comm, &(struct ending){ .code = code, .culprit = NOBODY }, text);
}

void diagnose_fail(struct comm *comm, const struct ending *end, const char *text)
{
	if (end_first(comm, end, text)) {
		log_line(end->code == CORALE_EABORTED ? LOG_WARN : LOG_ERROR, comm->rank, "%s%s", text,
			 held(comm));
		diagnose_spread(comm, end);
	}
}

void comm_fail_by(struct comm *comm, int code, int culprit, const char *text)
{
	diagnose_fail(comm, &(struct ending){ code, culprit, presence_how(comm, culprit), EVERYWHERE }, text);
}

void comm_fail_next(struct comm *comm, int code, const char *text)
{
	const int is_idle = !comm->gpu && comm->issued == atomic_load(&comm->completed);
	const uint64_t next = window_position(atomic_load(&comm->number) + 1, 1);
	diagnose_fail(comm, &(struct ending){ code, comm->rank, 0, is_idle ? next : EVERYWHERE }, text);
}

/* A rank that has left fails the calls that need it, as they find (call/progress.c, gpu_health.c): this ends nothing. */
void diagnose_failure(void *ctx, int peer, int code, const char *reason)
{
	struct comm *comm = ctx;
	char text[COMM_ERROR_BYTES], name[160];
	const int is_over =
	    diagnose_peers(comm) != 0; /* its ranks may be waited for all the same, to make a communicator */
	if (!strcmp(reason, transport_peer_left)) {
		presence_told(comm, peer, WINDOW_DESTROYED);
		return;
	}
	if (is_over && code == CORALE_EPEER)
		presence_lost(comm, peer, reason);
	if (is_over)
		return;
	presence_print_rank(comm, peer, name, sizeof name);
	if (peer == comm->rank) { /* its own fault: the memory of a message */
		snprintf(text, sizeof text, "%s", reason);
	} else if (code == CORALE_EPEER) {
		presence_lost(comm, peer, reason);
		if (comm->traits.leaves_quietly)
			return;
		presence_print_end(comm, peer, 0, text, sizeof text);
	} else {
		snprintf(text, sizeof text, "the connection to %s failed: %s", name, reason);
	}
	comm_fail_by(comm, code, peer, text);
}

int diagnose_peers(struct comm *comm)
{
	int error = atomic_load_explicit(&comm->error, memory_order_relaxed);
	if (error)
		return error;
	const struct host_engine *e = &comm->engine;
	const struct window_control *control = e->windows ? e->windows[e->local] : NULL;
	uint64_t word = control ? atomic_load_explicit(&control->abort, memory_order_relaxed) : 0;
	return word ? control_read_ending(comm, word).code : 0;
}

int64_t diagnose_patience(const struct comm *comm)
{
	const struct host_engine *e = &comm->engine;
	const uint64_t position = atomic_load(&((struct comm *)(uintptr_t)comm)->engine.position);
	const uint64_t word = e->windows && position ? control_abort_word(comm) : 0;
	if (!word || atomic_load(&((struct comm *)(uintptr_t)comm)->error))
		return 0;
	if (host_is_earlier(e)) /* a mismatch may be found later than ranks differ */
		return control_read_ending(comm, word).code == CORALE_EMISMATCH &&
			       records_differ(comm, atomic_load(&((struct comm *)(uintptr_t)comm)->number))
			   ? 0
			   : EARLIER_NS;
	const int is_pair = position % 2 == 0;
	return is_pair && atomic_load(&comm_control(comm, comm->rank)->abort_at) == position ? PAIRS_NS : 0;
}

int diagnose_is_stopped(const struct comm *comm, int rank)
{
	const struct window_control *own = comm_control(comm, comm->rank);
	const long pid = presence_pid(comm, rank);
	/* a number of another PID namespace is another process's; whose memory can be read has been proved to be that rank's */
	return pid && own && atomic_load(&own->can_read[comm->engine.map.local_of[rank]]) &&
	       process_is_stopped(pid);
}

struct left {
	struct comm *comm;
	int rank;
};

static int poll_left(void *arg)
{
	const struct left *left = arg;
	transport_progress(left->comm->engine.transport);
	return presence_of(left->comm, left->rank) != IS_PRESENT;
}

/* Another rank's word that a rank of another node has left may overtake that one's own, which says how. */
static void await_how(struct comm *comm, const struct ending *end)
{
	static const struct wait_policy soon = { .timeout_ns = COLLECT_MS * 1000000ll };
	struct left left = { comm, end->culprit };
	if (!end->how && end->culprit != comm->rank && !host_is_local(&comm->engine, end->culprit))
		wait_until(&soon, poll_left, &left);
}

/* "rank 3 (process 812 of this host) has died", or what else is known of who ended the communicator. */
static void print_end(struct comm *comm, const struct ending *end, int code, char *buf, size_t bytes)
{
	if (code == CORALE_EPEER) { /* the watch thread of another rank may have been first */
		liveness_look();
		await_how(comm, end);
	}
	if (code != CORALE_EPEER || !presence_print_end(comm, end->culprit, end->how, buf, bytes))
		snprintf(buf, bytes, "rank %d has ended the communicator: %s", end->culprit,
			 corale_strerror(code));
}

/*
 * The process of a rank of another node on this machine has ended, and the transport has not said so: a child that no fork handler has seen has its
 * connections. A few ranks a look, in turn. What a rank said before it ended is read first, which takes a while on a busy machine.
 */
void diagnose_other_nodes(struct comm *comm)
{
	struct transport *t = comm->engine.transport;
	for (int i = 0; t && t->ops->lose && i < LOOKS && i < comm->size; i++) {
		const int r = comm->watch.looked_at++ % comm->size;
		struct comm_peer *peer = &comm->peers[r];
		if (!peer->has_pid || host_is_local(&comm->engine, r) || presence_of(comm, r) != IS_PRESENT ||
		    !liveness_gone(peer->pid))
			continue;
		if (!peer->ended_ns)
			peer->ended_ns = wait_now_ns();
		else if (wait_now_ns() - peer->ended_ns > ENDED_NS)
			t->ops->lose(t, r, "its process has ended, and a child of it keeps its connections");
	}
}

void diagnose_deaths(struct comm *comm)
{
	const struct host_engine *e = &comm->engine;
	char text[COMM_ERROR_BYTES];
	for (int q = 0; e->liveness && q < e->locals && !comm->traits.leaves_quietly && !diagnose_peers(comm);
	     q++) {
		int r = comm_local_rank(comm, q);
		if (presence_of(comm, r) != HAS_DIED)
			continue;
		print_end(comm, &(struct ending){ CORALE_EPEER, r, 0, EVERYWHERE }, CORALE_EPEER, text,
			  sizeof text);
		comm_fail_by(comm, CORALE_EPEER, r, text);
	}
}

int diagnose_fail_call(struct comm *comm, const struct record *call, int code, int culprit,
		       const char *format, ...)
{
	char text[COMM_ERROR_BYTES];
	va_list args;
	diagnose_print_call(call, text, 256);
	const size_t at = strlen(text);
	va_start(args, format);
	text_format_args(text + at, sizeof text - at, format, args);
	va_end(args);
	const uint64_t position = atomic_load(&comm->engine.position);
	diagnose_fail(comm,
		      &(struct ending){ code, culprit, presence_how(comm, culprit),
					position && code != CORALE_EMISMATCH ? position : EVERYWHERE },
		      text);
	return code;
}

/* The word may not be in all windows yet: whoever finds this rank in its place would name it, which is not the cause. */
int diagnose_end(struct comm *comm, const struct record *call, int code)
{
	char end[256];
	const uint64_t word = control_abort_word(comm);
	const struct ending ending = control_read_ending(comm, word);
	if (word && ending.culprit < 0)
		return diagnose_fail_call(
		    comm, call, code, comm->rank,
		    ": the word by which a rank of this node ends the communicator is %#llx; "
		    "expected a code from %d to %d above a rank from 1 to %d: something has "
		    "overwritten it; look for stray stores in the processes of this node",
		    (unsigned long long)word, -CORALE_EINVAL, -CORALE_EINTERNAL, comm->size);
	if (!word || ending.culprit == comm->rank)
		return diagnose_fail_call(comm, call, code, comm->rank, ": %s: %s", corale_strerror(code),
					  log_last_error());
	print_end(comm, &ending, code, end, sizeof end);
	return diagnose_fail_call(comm, call, code, ending.culprit, ": %s", end);
}

int diagnose_timeout(struct comm *comm, const struct record *call, uint64_t number, const char *what)
{
	char which[32] = "";
	if (number)
		snprintf(which, sizeof which, ", call %llu,", (unsigned long long)number);
	return diagnose_fail_call(
	    comm, call, CORALE_ETIMEDOUT, comm->rank,
	    "%s has waited %g s (%s) without progress for %s; that rank has not made the call, "
	    "is stuck, or its link is cut",
	    which, comm->settings.timeout, comm->timeout_name, what);
}

/* ---- Calls that can't end ------------------------------------------------------------------ */

int diagnose_one_caller(struct comm *comm, const struct record *call, int rank)
{
	if (!process_has_one_caller() || !comm_is_idle(comm->id, rank))
		return 0;
	return diagnose_fail_call(
	    comm, call, CORALE_EINVAL, comm->rank,
	    " waits for rank %d of the same process, whose call only this thread could make, and it waits "
	    "here: blocking calls of two ranks from one thread need a group (corale_group_begin)",
	    rank);
}

/* ---- Ranks that are gone ------------------------------------------------------------------ */

static void tell_other_nodes(struct comm *comm, enum window_left how)
{
	struct transport *t = comm->engine.transport;
	for (int r = 0; t && t->ops->has_met && r < comm->size; r++)
		if (!host_is_local(&comm->engine, r) && t->ops->has_met(t, r))
			control_send(comm, KIND_LEFT, (int)how, comm->rank, r);
}

void diagnose_leave(struct comm *comm, enum window_left how)
{
	if (presence_leave(comm, how))
		tell_other_nodes(comm, how);
}

/* Where an exit is a failure, the window says nothing: liveness.h's page shows it to the ranks of this node. */
void diagnose_exit(struct comm *comm)
{
	if (comm->traits.leaves_quietly)
		diagnose_leave(comm, WINDOW_EXITED);
	else
		tell_other_nodes(comm, WINDOW_EXITED);
}

int diagnose_lost(struct comm *comm, const struct record *call, int rank)
{
	char name[160];
	presence_print_rank(comm, rank, name, sizeof name);
	return diagnose_fail_call(comm, call, CORALE_EPEER, rank, " waits for %s, which is lost: %s", name,
				  log_last_error());
}

int diagnose_gone(struct comm *comm, const struct record *call, int rank)
{
	char gone[384];
	presence_print_gone(comm, rank, gone, sizeof gone);
	return diagnose_fail_call(comm, call, CORALE_EPEER, rank, " waits for %s", gone);
}
