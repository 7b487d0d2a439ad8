/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu_health.h"

#include <stdio.h>

#include "base/collectives.h"
#include "base/log.h"
#include "diagnose.h"
#include "presence.h"
#include "net/proxy.h"
#include "stall.h"
#include "unmap.h"

enum {
	STILL_LOOKS = 4, /* of the watch thread, without a message */
	LEFT_LOOKS = 12, /* the same, where a rank has left: what it sent last may still be on its way */
	STOP_MS = 100 /* until a kernel that is stopped has said so */
};

/* A rank that destroyed the communicator has completed the calls that it made. */
static int has_completed(struct comm *comm, int rank, uint64_t number)
{
	return presence_of(comm, rank) == HAS_LEFT && diagnose_has_called(comm, rank, number);
}

int gpu_remote_gone(struct comm *comm, uint64_t number)
{
	for (int r = 0; r < comm->size; r++)
		if (gpu_is_remote(comm, r) && presence_of(comm, r) != IS_PRESENT &&
		    !has_completed(comm, r, number))
			return r;
	return -1;
}

/* One that is not known as gpu_journal_find says. */
static struct record last_call(const struct comm *comm)
{
	return comm->gpu_journal
		   ? gpu_journal_find(comm->gpu_journal, gpu_journal_last(comm->gpu_journal), -1)
		   : (struct record){ .coll = CORALE_NUM_COLLS };
}

/* The rank for which calls that stand still wait in vain: of sends and receives one of theirs. 0, or CORALE_EPEER, reported. */
static int find_gone(struct comm *comm)
{
	struct record call = last_call(comm);
	int gone = -1;
	if (call.coll == CORALE_NUM_COLLS || !coll_is_pair(call.coll))
		gone = gpu_remote_gone(comm, atomic_load(&comm->number));
	for (int r = 0; coll_is_pair(call.coll) && gone < 0 && r < comm->size; r++)
		if (gpu_is_remote(comm, r) && presence_of(comm, r) != IS_PRESENT &&
		    gpu_journal_concerns(comm->gpu_journal, r))
			gone = r;
	return gone < 0 ? 0 : diagnose_gone(comm, &call, gone);
}

/* The transport has taken a message no more, and has not ended the communicator: for want of memory, say. */
static int find_refused(struct comm *comm)
{
	const int rank = proxy_lost(comm->proxy);
	char name[160];
	if (rank < 0 || presence_of(comm, rank) != IS_PRESENT)
		return 0;
	presence_print_rank(comm, rank, name, sizeof name);
	return log_error(CORALE_ETRANSPORT, comm->rank,
			 "transport %s has refused or lost a message to or from %s: its own line says why",
			 comm->engine.transport->row->name, name);
}

/* A call that the GPU has not come to waits for nobody. */
static void look_for_stall(struct comm *comm, enum proxy_state state)
{
	const struct record call = last_call(comm);
	const struct stall_wait wait = { &call, atomic_load(&comm->number), PLAN_NONE };
	if (!comm->watch.idle_looks || state != PROXY_RUNNING)
		comm->watch.idle_ns = wait_now_ns();
	else
		stall_look(comm, &wait, comm->watch.idle_ns);
}

/* Compares this rank's call record with those of remote ranks: finds mismatches that no header shows. */
int gpu_remote_look(struct comm *comm)
{
	const uint64_t moved = proxy_moved(comm->proxy);
	const enum proxy_state state = proxy_state(comm->proxy);
	int ret = 0;
	if (moved != comm->watch.messages_seen || state == PROXY_IDLE) {
		comm->watch.messages_seen = moved;
		comm->watch.idle_looks = 0;
		return 0;
	}
	look_for_stall(comm, state);
	if (++comm->watch.idle_looks < STILL_LOOKS)
		return 0;
	if (comm->watch.idle_looks >= LEFT_LOOKS && atomic_load(&comm->has_gone) && (ret = find_gone(comm)))
		return ret;
	if (comm->watch.idle_looks == STILL_LOOKS && (ret = find_refused(comm)))
		return ret;
	for (int r = 0; !ret && comm->watch.idle_looks == STILL_LOOKS && r < comm->size; r++)
		if (gpu_is_remote(comm, r))
			ret = diagnose_stalled(comm, r);
	return ret ? ret : diagnose_stalled(comm, PLAN_NONE);
}

static struct record call_of(const struct comm *comm, const struct engine_failure *f)
{
	return f->number ? gpu_journal_find(comm->gpu_journal, f->number, gpu_rank_at(comm, f->peer))
			 : last_call(comm);
}

static int report(struct comm *comm, const struct engine_failure *f)
{
	char text[COMM_ERROR_BYTES];
	struct host_mismatch m = { .found = 1,
				   .peer = gpu_rank_at(comm, f->peer),
				   .in_bytes = f->of_message,
				   .expected_type = f->expected_type,
				   .got_type = f->got_type };
	*(f->of_message ? &m.expected_edge : &m.expected) = f->expected;
	*(f->of_message ? &m.got_edge : &m.got) = f->got;
	const struct record call = call_of(comm, f);
	switch (f->code) {
	case CORALE_EMISMATCH: /* without a difference another rank has found it, or refused a group */
		return diagnose_mismatch(comm, &call, f->of_message || f->expected != f->got ? &m : NULL);
	case CORALE_ETIMEDOUT:
		snprintf(text, sizeof text, "rank %d, on a GPU (call %llu there)", m.peer,
			 (unsigned long long)f->epoch);
		return diagnose_timeout(comm, &call, 0, text);
	default:
		return diagnose_end(comm, &call, f->code);
	}
}

static int end_call(struct comm *comm, const struct record *call, int code)
{
	return code == CORALE_EMISMATCH ? diagnose_mismatch(comm, call, NULL)
					: diagnose_end(comm, call, code);
}

/* Ends the communicator by a code that was found beside a call. 0: none was. */
static int end_last_call(struct comm *comm, int code)
{
	if (!code)
		return 0;
	const struct record call = last_call(comm);
	return end_call(comm, &call, code);
}

struct stopped {
	const struct comm *comm;
	struct engine_failure failure;
};

static int poll_stopped(void *arg)
{
	struct stopped *s = arg;
	return engine_cuda.failure(s->comm->gpu, &s->failure) != 0;
}

/*
 * The call that a code of another rank's ends. Over nodes that may come before the kernel that runs has found anything: it is stopped, and says of which
 * call it is, as there may be later ones behind it. Where none runs nothing is waited for.
 */
static struct record stop_call(const struct comm *comm, int code)
{
	static const struct wait_policy soon = { .spin_ns = 20000, .timeout_ns = STOP_MS * 1000000ll };
	struct stopped s = { .comm = comm };
	if (!comm->proxy || proxy_state(comm->proxy) != PROXY_RUNNING)
		return last_call(comm);
	engine_cuda.stop(comm->gpu, code);
	return wait_until(&soon, poll_stopped, &s) > 0 ? call_of(comm, &s.failure) : last_call(comm);
}

/* 0, or the code that ended the communicator, reported; of host memory alone. */
static int find_failure(struct comm *comm)
{
	struct engine_failure f;
	const int error = atomic_load_explicit(&comm->error, memory_order_relaxed);
	if (error)
		return error;
	const int failed = engine_cuda.failure(comm->gpu, &f), code = diagnose_peers(comm);
	if (!failed && !code)
		return 0;
	if (!failed) {
		const struct record call = stop_call(comm, code);
		return end_call(comm, &call, code);
	}
	f.code = code ? code : f.code; /* whoever was first says why */
	return report(comm, &f);
}

/* A GPU that is lost (a kernel of the program's read a wrong address, say) runs nothing any more. */
int gpu_failure(struct comm *comm)
{
	int error = find_failure(comm);
	error = error ? error : end_last_call(comm, engine_cuda.health(comm->gpu));
	if (error)
		engine_cuda.abort(comm->gpu, error);
	return error;
}

void gpu_watch(struct comm *comm)
{
	int error = find_failure(comm);
	if (!error)
		error = gpu_waits_look(comm);
	if (!error && comm->proxy)
		error = end_last_call(comm, gpu_remote_look(comm));
	if (error)
		engine_cuda.stop(comm->gpu, error);
	if (comm->size > 1)
		unmap_answer(comm);
}
