/* A CUDA communicator's ranks on other nodes: their places, the proxy, and whether they make the same calls. */
#include <stdlib.h>

#include "base/log.h"
#include "diagnose.h"
#include "gpu.h"
#include "net/proxy.h"
#include "silence.h"

enum {
	STILL_LOOKS = 4, /* of the watch thread, without a message */
	LEFT_LOOKS = 12 /* while a rank has left */
};

static const int64_t stop_ns = 2000000000, at_once_ns = 1; /* 0 is for ever */

int gpu_places_open(struct comm *comm)
{
	const int locals = comm->engine.locals;
	int next = locals;
	if (comm->topo->map.nodes == 1)
		return 0;
	comm->place_of = calloc((size_t)comm->size, sizeof *comm->place_of);
	comm->rank_at = calloc((size_t)comm->size, sizeof *comm->rank_at);
	if (!comm->place_of || !comm->rank_at)
		return log_error(CORALE_ENOMEM, comm->rank, "no memory for %d ranks", comm->size);
	for (int r = 0; r < comm->size; r++) {
		int place = host_is_local(&comm->engine, r) ? comm->topo->map.local_of[r] : next++;
		comm->place_of[r] = place;
		comm->rank_at[place] = r;
	}
	return 0;
}

void gpu_places_close(struct comm *comm)
{
	free(comm->place_of);
	free(comm->rank_at);
	comm->place_of = comm->rank_at = NULL;
}

int gpu_remote_open(struct comm *comm)
{
	struct transport *transport = comm->engine.transport;
	if (comm->manual)
		return log_error(CORALE_ENOTSUP, comm->rank,
				 "a CUDA communicator over %d nodes: transport %s moves messages only while "
				 "the program is inside "
				 "a call; build with UCX, or set CORALE_TRANSPORT=ucx",
				 comm->topo->map.nodes, transport->ops->name);
	const struct proxy_params params = { .transport = transport,
					     .remote = engine_cuda.remote(comm->gpu),
					     .ranks = comm->rank_at + comm->engine.locals,
					     .rank = comm->rank };
	return proxy_open(&params, &comm->proxy);
}

/* The transport's requests point into the engine's memory until it is closed. */
void gpu_remote_close(struct comm *comm)
{
	struct transport *transport = comm->engine.transport;
	if (!comm->proxy)
		return;
	proxy_stop(comm->proxy, atomic_load(&comm->error) ? at_once_ns : stop_ns);
	transport->ops->close(transport);
	comm->engine.transport = NULL;
	if (!proxy_free(comm->proxy))
		engine_cuda.keep_remote(comm->gpu);
	comm->proxy = NULL;
}

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
			 comm->engine.transport->ops->name, name);
}

/* A call that the GPU has not come to waits for nobody. */
static void look_for_silence(struct comm *comm, enum proxy_state state)
{
	const struct call call = gpu_last_call(comm);
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
