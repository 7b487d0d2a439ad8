/* SPDX-License-Identifier: BSD-3-Clause */
#include "stall.h"

#include <stdio.h>

#include "base/log.h"
#include "base/text.h"
#include "diagnose.h"
#include "presence.h"
#include "net/proxy.h"
#include "gpu_health.h"

enum { NO_ANSWER = 0, ASK_NS = 1000 * 1000 * 1000, ANSWER_NS = 1000 * 1000 * 1000, MOST_NAMED = 8 };
static const int64_t NODE_NS = 10 * 1000000000ll; /* of one node, whose ranks need not be asked */

/* Why another rank is late, from the least likely cause of a wait to the likeliest. */
enum verdict { WAITS_ITSELF, NOT_YET_HERE, IS_IDLE, IS_BUSY, HAS_NOT_CALLED, DOES_NOT_ANSWER, IS_STOPPED };

enum stall_state stall_own_state(const struct comm *comm)
{
	static const enum stall_state of_proxy[] = {
		[PROXY_IDLE] = STALL_IDLE, [PROXY_ENQUEUED] = STALL_ENQUEUED, [PROXY_RUNNING] = STALL_RUNNING
	};
	return comm->proxy ? of_proxy[proxy_state(comm->proxy)] : STALL_HOST;
}

void stall_answered(struct comm *comm, int peer, enum stall_state state)
{
	atomic_store(&comm->peers[peer].answer, NO_ANSWER + 1 + (int)state);
}

/* Sends and receives on a GPU concern the ranks of their group alone. */
static int may_be_awaited(const struct comm *comm, const struct stall_wait *wait, int rank)
{
	if (rank == comm->rank || wait->peer != PLAN_NONE)
		return rank == wait->peer;
	return !comm->gpu_journal || gpu_journal_concerns(comm->gpu_journal, rank);
}

static int has_called(struct comm *comm, const struct stall_wait *wait, int rank)
{
	return !wait->number || diagnose_has_called(comm, rank, wait->number);
}

static enum verdict judge(struct comm *comm, const struct stall_wait *wait, int rank)
{
	const int called = has_called(comm, wait, rank);
	if (host_is_local(&comm->engine, rank))
		return diagnose_is_stopped(comm, rank) ? IS_STOPPED : called ? WAITS_ITSELF : NOT_YET_HERE;
	const int answer = atomic_load(&comm->peers[rank].answer);
	if (answer == NO_ANSWER)
		return DOES_NOT_ANSWER;
	switch ((enum stall_state)(answer - 1 - NO_ANSWER)) {
	case STALL_RUNNING: /* this call or one before it */
		return WAITS_ITSELF;
	case STALL_ENQUEUED:
		return IS_BUSY;
	case STALL_IDLE:
		return called ? IS_IDLE : HAS_NOT_CALLED;
	default:
		return called ? WAITS_ITSELF : HAS_NOT_CALLED;
	}
}

static const char *text_of(struct comm *comm, const struct stall_wait *wait, int rank, enum verdict verdict)
{
	switch (verdict) {
	case IS_STOPPED:
		return wait->number && has_called(comm, wait, rank)
			   ? "it has made the call, but its process is stopped, by a signal or a debugger"
			   : "its process is stopped, by a signal or a debugger";
	case DOES_NOT_ANSWER:
		return !comm->proxy && comm->engine.transport->ops->progress_by != TRANSPORT_OWN_THREAD
			   ? "it does not answer: it is outside of calls, its link is cut, or it is stopped"
			   : "it does not answer: its link is cut, or it is stopped";
	case HAS_NOT_CALLED:
		return "it answers, but has not made the call";
	case IS_BUSY:
		return "it answers and has made the call, but its GPU is busy with what comes before it";
	case IS_IDLE:
		return "it answers, but no call is under way on its GPU";
	case NOT_YET_HERE:
		return "it has not made the call";
	case WAITS_ITSELF:
		break;
	}
	return wait->number && comm->gpu && host_is_local(&comm->engine, rank)
		   ? "it has made the call, so its GPU is busy, or it waits itself: its own line says for "
		     "whom"
	       : wait->number ? "it has made the call, so it waits itself: its own line says for whom"
	       : host_is_local(&comm->engine, rank)
		   ? "it has not sent or received what this call waits for"
		   : "it answers, but has not sent or received what this call waits for";
}

/* Ranks of this node, but for one that is named before, that have not made the call. */
static void print_missing(struct comm *comm, const struct stall_wait *wait, int but, char *text, size_t bytes)
{
	int n = 0;
	size_t at = 0;
	text[0] = '\0';
	for (int q = 0; wait->number && q < comm->engine.locals; q++) {
		const int r = comm_local_rank(comm, q);
		if (r == comm->rank || r == but || has_called(comm, wait, r))
			continue;
		if (n++ < MOST_NAMED && at < bytes)
			at += (size_t)snprintf(text + at, bytes - at, "%s%d",
					       n > 1 ? ", " : "; also without the call: rank ", r);
	}
	if (n > MOST_NAMED && at < bytes)
		snprintf(text + at, bytes - at, " and %d more", n - MOST_NAMED);
}

void stall_log(struct comm *comm, const struct stall_wait *wait, double seconds)
{
	enum verdict worst = WAITS_ITSELF;
	int rank = wait->peer, more = 0;
	char call[256], name[160], others[128] = "", number[32] = "", deadline[96] = "";
	for (int r = 0; r < comm->size; r++) {
		if (!may_be_awaited(comm, wait, r))
			continue;
		const enum verdict verdict = judge(comm, wait, r);
		more = verdict > worst ? 0 : more + (verdict == worst);
		rank = verdict > worst ? r : rank;
		worst = verdict > worst ? verdict : worst;
	}
	diagnose_print_call(wait->call, call, sizeof call);
	if (wait->number)
		snprintf(number, sizeof number, ", call %llu", (unsigned long long)wait->number);
	if (comm->settings.timeout > 0)
		text_format(deadline, sizeof deadline, " within %g s without progress (%s)",
			    comm->settings.timeout, comm->timeout_name);
	if (rank == PLAN_NONE) {
		log_line(LOG_WARN, comm->rank,
			 "no message for %.1f s: this rank waits in %s%s, and every rank that it may wait "
			 "for answers and is itself waiting",
			 seconds, call, number);
		return;
	}
	presence_print_rank(comm, rank, name, sizeof name);
	if (!comm->peers)
		print_missing(comm, wait, rank, others, sizeof others);
	else if (more && worst != WAITS_ITSELF)
		snprintf(others, sizeof others, ", as %d other rank%s", more, more > 1 ? "s" : "");
	log_line(
	    LOG_WARN, comm->rank,
	    "%s silent for %.1f s: this rank waits for it in %s%s; %s%s; if it goes on%s, nothing is lost",
	    name, seconds, call, number, text_of(comm, wait, rank, worst), others, deadline);
}

static void ask(struct comm *comm, const struct stall_wait *wait)
{
	for (int r = 0; r < comm->size; r++)
		if (may_be_awaited(comm, wait, r) && !host_is_local(&comm->engine, r)) {
			atomic_store(&comm->peers[r].answer, NO_ANSWER);
			diagnose_ask(comm, r);
		}
}

/* One of all threads that wait does it. */
static int is_first(_Atomic int64_t *done_ns, int64_t since_ns, int64_t now_ns)
{
	int64_t before = atomic_load(done_ns);
	return before < since_ns && atomic_compare_exchange_strong(done_ns, &before, now_ns);
}

void stall_look(struct comm *comm, const struct stall_wait *wait, int64_t since_ns)
{
	const int64_t now = wait_now_ns();
	if (!comm->peers) {
		if (now - since_ns >= NODE_NS && is_first(&comm->watch.stall_reported_ns, since_ns, now))
			stall_log(comm, wait, 1e-9 * (double)(now - since_ns));
		return;
	}
	if (now - since_ns < ASK_NS)
		return;
	if (is_first(&comm->watch.stall_asked_ns, since_ns, now))
		ask(comm, wait);
	const int64_t asked = atomic_load(&comm->watch.stall_asked_ns);
	if (asked >= since_ns && now - asked >= ANSWER_NS &&
	    is_first(&comm->watch.stall_reported_ns, since_ns, now))
		stall_log(comm, wait, 1e-9 * (double)(now - since_ns));
}
