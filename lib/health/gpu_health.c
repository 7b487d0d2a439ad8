#include "gpu_health.h"

#include <stdio.h>

#include "base/log.h"
#include "diagnose.h"
#include "net/proxy.h"
#include "recent.h"
#include "silence.h"
#include "withdraw.h"

enum {
	STILL_LOOKS = 4, /* of the watch thread, without a message */
	LEFT_LOOKS = 12 /* while a rank has left */
};

int gpu_remote_refuse(struct comm *comm)
{
	return log_error(CORALE_EPEER, comm->rank,
			 "rank %d has destroyed the communicator: no further call can end",
			 atomic_load(&comm->left) - 1);
}

/* The transport has taken a message no more, and has not ended the communicator: for want of memory, say. */
static int find_refused(struct comm *comm)
{
	const int rank = proxy_lost(comm->proxy);
	char name[160];
	if (rank < 0 || atomic_load(&comm->left))
		return 0;
	diagnose_print_rank(comm, rank, name, sizeof name);
	return log_error(CORALE_ETRANSPORT, comm->rank,
			 "transport %s has refused or lost a message to or from %s: its own line says why",
			 comm->engine.transport->row->name, name);
}

/* A call that the GPU has not come to waits for nobody. */
static void look_for_silence(struct comm *comm, enum proxy_state state)
{
	const struct record call = gpu_last_call(comm);
	const struct silence_wait wait = { &call, atomic_load(&comm->number), PLAN_NONE };
	if (!comm->still || state != PROXY_RUNNING)
		comm->still_ns = wait_now_ns();
	else
		silence_look(comm, &wait, comm->still_ns);
}

/* A kernel that waits for a rank that waits for nobody, or sends what nobody expects, learns it from their calls alone. */
int gpu_remote_look(struct comm *comm)
{
	const uint64_t moved = proxy_moved(comm->proxy);
	const enum proxy_state state = proxy_state(comm->proxy);
	int ret = 0;
	if (moved != comm->moved || state == PROXY_IDLE) {
		comm->moved = moved;
		comm->still = 0;
		return 0;
	}
	look_for_silence(comm, state);
	if (++comm->still < STILL_LOOKS)
		return 0;
	if (comm->still == LEFT_LOOKS && atomic_load(&comm->left))
		return gpu_remote_refuse(comm);
	if (comm->still == STILL_LOOKS && (ret = find_refused(comm)))
		return ret;
	for (int r = 0; !ret && comm->still == STILL_LOOKS && r < comm->size; r++)
		if (gpu_is_remote(comm, r))
			ret = diagnose_stalled(comm, r);
	return ret ? ret : diagnose_stalled(comm, PLAN_NONE);
}

struct record gpu_last_call(const struct comm *comm)
{
	return comm->recent ? recent_find(comm->recent, recent_last(comm->recent), -1)
			    : (struct record){ .coll = CORALE_NUM_COLLS };
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
	const struct record call =
	    f->number ? recent_find(comm->recent, f->number, m.peer) : gpu_last_call(comm);
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

/* 0, or the code that ended the communicator, reported; of host memory alone. */
static int find_failure(struct comm *comm)
{
	struct engine_failure f;
	int error = atomic_load_explicit(&comm->error, memory_order_relaxed), code = 0;
	if (!error && engine_cuda.failure(comm->gpu, &f)) {
		code = diagnose_peers(comm); /* whoever was first says why */
		if (code)
			f.code = code;
		error = report(comm, &f);
	} else if (!error && (code = diagnose_peers(comm))) {
		const struct record call = gpu_last_call(comm);
		error = code == CORALE_EMISMATCH ? diagnose_mismatch(comm, &call, NULL)
						 : diagnose_end(comm, &call, code);
	}
	return error;
}

/* A GPU that is lost (a kernel of the program's read a wrong address, say) runs nothing any more. */
static int find_loss(struct comm *comm)
{
	int lost = engine_cuda.health(comm->gpu);
	const struct record call = gpu_last_call(comm);
	return lost ? diagnose_end(comm, &call, lost) : 0;
}

int gpu_failure(struct comm *comm)
{
	int error = find_failure(comm);
	error = error ? error : find_loss(comm);
	if (error)
		engine_cuda.abort(comm->gpu, error);
	return error;
}

void gpu_watch(struct comm *comm)
{
	int error = find_failure(comm);
	if (!error)
		error = gpu_waits_look(comm);
	if (!error && comm->proxy && (error = gpu_remote_look(comm))) {
		const struct record call = gpu_last_call(comm);
		error = error == CORALE_EMISMATCH ? diagnose_mismatch(comm, &call, NULL)
						  : diagnose_end(comm, &call, error);
	}
	if (error)
		engine_cuda.stop(comm->gpu, error);
	if (comm->size > 1)
		withdraw_answer(comm);
}
