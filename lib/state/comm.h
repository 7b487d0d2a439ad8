/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A communicator: agreed facts (map, settings, planner), windows and transport, the plan cache, and the
 * sequence of its calls.
 */
#ifndef COMM_H
#define COMM_H

#include <pthread.h>

#include "cuda/engine.h"
#include "base/call.h"
#include "base/handles.h"
#include "host/host_engine.h"
#include "plan/choose/planner.h"
#include "plans.h"
#include "net/exchange.h"
#include "plan/machine/topo.h"
#include "plan/machine/tuning.h"
#include "cuda/trace.h"
#include "base/wait.h"
#include "base/collectives.h"

enum { COMM_MAX_PREMUL = 256, COMM_ERROR_BYTES = 1024, COMM_PEER_CALLS = 4, COMM_MAKINGS = 64 };

/* No two operators of a process are equal; op - CORALE_NUM_OPS modulo COMM_MAX_PREMUL is its index. */
struct comm_premul {
	_Atomic corale_op op; /* 0: none. The error line of another communicator's call may look */
	corale_type type;
	unsigned char scalar[8];
	const void *scalar_at; /* in memory of the GPU, in place of scalar; or NULL */
};

/* The plan of a persistent one; kept by it and by every call that waits in a group or on a stream. */
struct shared_plan {
	_Atomic int users;
	struct plan plan;
	struct host_fast *fast; /* on hosts, as in struct plans_entry */
	struct gpu_launch launch; /* of the last call on a GPU; cut.machine NULL: there was none */
	int memory; /* of enum plan_memory: what that call might use */
};

/* Set by Corale's other doors alone. All zero: as corale_comm_create makes it. Equal on all ranks. */
struct comm_traits {
	int holds; /* on a GPU a failed call keeps its stream until the communicator is aborted or destroyed, or the process
		      exits: nothing behind it computes with what did not arrive */
	int usual_blocks, least_blocks; /* as plan_blocks_asked has them */
	int no_scratch; /* on a GPU no call makes scratch, as the host would wait for other ranks; one rank that says so suffices */
	size_t scratch; /* then: bytes of it at most that are made with the communicator */
	int leaves_quietly; /* a process that ends has left, as by corale_comm_destroy: a call fails when it waits for that rank */
	const char *timeout_name; /* the setting that gave config.timeout_seconds; NULL: the program did */
	double creation_timeout; /* seconds of one wait while the communicator is made; 0: the calls' */
	size_t gpu_window; /* bytes; 0: CORALE_GPU_WINDOW */
	size_t pinned_memory; /* bytes; 0: CORALE_PINNED_MEMORY */
	int apart; /* this rank is a node of its own, as if no other were on its host */
	int shares_nothing; /* no memory of this rank is shared with ranks of other nodes on its host */
	const char *host_id; /* stands for the host's name, where hosts are told apart; NULL: none */
	int in_order; /* sums in rank order, as by CORALE_REPRODUCIBLE; an offered CORALE_PROTO is not used. The same on all ranks */
};

/* Shared by a communicator and those split from it, which use the front door's transport: the last one gives it back. */
struct comm_origin {
	_Atomic int users;
	void (*on_destroy)(void *);
	void *ctx;
};

/* A rank of a communicator over nodes, for people, and what it has said of itself (stall.c). */
struct comm_peer {
	char host[64];
	char texts[WINDOW_TEXTS][WINDOW_REASON]; /* under error_lock */
	char loss[160]; /* why the transport has lost it: behind is_lost, written once */
	int pid;
	int has_pid; /* of this process's namespace */
	int64_t ended_ns; /* when its process was first seen to have ended (diagnose.c); 0: it was not */
	int shares_memory; /* it is on this host, and may share memory by the transport */
	_Atomic int answer;
	_Atomic uint64_t waits; /* of its last answer: window_wait_of, if it waits for this rank */
	_Atomic int left; /* enum window_left, as it has said; */
	_Atomic int is_lost; /* the transport has said so */
	struct journal_entry calls[COMM_PEER_CALLS]; /* the last that it has sent; written under error_lock */
};

/* One of comm_launches, and what besides bytes and alignment calls must have for it. */
struct latest_launch {
	const struct gpu_launch *launch; /* NULL: none yet */
	corale_type type;
	corale_op op;
	int memory;
};

/* What lib/health keeps of a communicator between two looks at it. */
struct comm_watch {
	uint64_t messages_seen; /* messages of it at the watch thread's last look, */
	int idle_looks; /* and for how many looks so; */
	int64_t idle_ns; /* since when, while a kernel runs */
	_Atomic uint64_t last_notified; /* the call, and the rank of another node, that was sent it last */
	_Atomic int64_t stall_asked_ns,
	    stall_reported_ns; /* when other ranks were last asked; the last line (stall.c) */
	_Atomic int damaged; /* control messages that no rank sent; the first is logged */
	struct comm *next; /* watch.c */
	int looked_at; /* the next rank at whose process the watch looks */
	_Atomic int unmapping; /* unmap.c: a thread is at it */
};

/* Launches on GPUs that are kept for later calls (call/gpu_call.c). */
struct comm_launches {
	struct latest_launch latest[CORALE_NUM_COLLS]; /* of the last call of each collective */
	struct gpu_launch *launches[CORALE_NUM_COLLS][CHOICES_KINDS][PLAN_MEMORY_CLASSES]; /* as choices */
};

struct comm {
	struct corale_comm *handle;
	int rank, size;
	uint64_t id; /* equal on all ranks, unique */
	struct exchanges exchanges; /* of its creation, by: */
	corale_bootstrap bootstrap;
	const struct transport_row *transport_row; /* that the front door brought along, or NULL */
	struct comm_origin *origin; /* what the front door wants back */
	struct settings settings; /* with the configuration's values in */
	struct comm_traits traits;
	struct tuning tuning; /* rates of CORALE_TUNING */
	const char *timeout_name; /* the setting that gave settings.timeout, for messages */
	struct topo *topo;
	struct plans plans; /* of the host engine */
	struct topo gpu_topo; /* topo with the rates of GPUs, for: */
	struct plans gpu_plans; /* lists of choices, and plans of calls that no codelet runs */
	struct planner single_channel_planner; /* over nodes: of plans of one channel */
	struct host_engine engine;
	int shares_memory; /* by its transport, with ranks of other nodes on its host */
	int wants_gpu; /* as configured */
	int words_only; /* of GPUs: no message goes by lines (gpu_machine.words_only) */
	int peers_on_bus; /* of GPUs: some of a node reach each other, all that is known, but not over NVLink */
	int host_window; /* of GPUs: their windows lie in host memory (gpu_machine.host_window) */
	struct engine *gpu; /* of a CUDA communicator; NULL: calls run on the host */
	int *gpu_index,
	    *gpu_rank; /* GPUs over nodes: [rank]: how its kernels number a peer; and back (gpu_remote.c) */
	struct proxy *proxy; /* of messages between nodes; NULL: one node */
	struct transport *rails[TRANSPORT_RAILS]; /* its transports: the engine's, and nrails - 1 more */
	int nrails;
	_Atomic uint64_t
	    makings[COMM_MAKINGS]; /* that this rank has begun last: window_wait_of, rank 0 (comm/child.c) */
	_Atomic unsigned nmakings;
	_Atomic int has_gone; /* some rank of another node has left comm, or is lost */
	struct gpu_direct *direct; /* slots in GPUs' memory; NULL: none (comm/gpu_direct.h) */
	struct comm_launches launched;
	struct gpu_journal *gpu_journal; /* calls on the GPU */
	struct gpu_wait *gpu_waits; /* [local rank]: for whom kernels wait; gpu_waits.c */
	struct gpu_machine
	    machine; /* what rows and launches depend on: the engine's, settings and the map of ranks */
	struct rates rates; /* of its GPUs, with those of tuning in: of several ranks' machine */
	struct trace *trace; /* of its calls; NULL: no tool listens */
	int registered; /* so far */
	struct registration *registrations; /* memory that peers may map; mem.c */
	enum comm_scratch {
		COMM_SCRATCH_OPEN,
		COMM_SCRATCH_MADE,
		COMM_SCRATCH_NONE
	} scratch; /* of large calls */
	/* Collective: makes it, on all ranks or on none; registered at creation. Ranks compare the target of for_call. 0 or an error. */
	int (*make_scratch)(struct comm *comm, const struct call *for_call);
	struct wait_policy policy; /* of every wait of this communicator */
	int manual; /* only calls of the user's may call the transport's progress */
	struct comm_premul premul[COMM_MAX_PREMUL];
	/* the sequence of calls; see lib/call/runner.c */
	uint64_t issued;
	_Atomic uint64_t completed;
	struct corale_stream *last_stream; /* where calls of a manual communicator may still wait */
	_Atomic uint64_t number; /* of the last collective executed */
	uint64_t signature_chain; /* hash of their signatures */
	uint64_t *sends, *recvs; /* calls per peer */
	uint64_t refusals; /* calls that were refused, and took a number */
	size_t *edges; /* of the last v-form on GPUs (call/coll.h); NULL: there was none */
	/* failure */
	_Atomic int error; /* set behind failure */
	_Atomic int error_reported; /* the caller knows of the failure: later calls are refused */
	pthread_mutex_t error_lock;
	char failure[COMM_ERROR_BYTES]; /* why comm failed: written once, by any thread */
	char last_error[COMM_ERROR_BYTES]; /* of a call that has not ended comm */
	struct comm_peer *peers; /* [rank]; NULL: one node */
	struct comm_watch watch;
};

/* The public handle outlives its communicator (base/handles.h). */
struct corale_comm {
	_Atomic(struct comm *) comm; /* NULL once destroyed */
	_Atomic int users; /* calls that may come from any thread, for which destroy waits */
	_Atomic int callers; /* comm_enter less comm_leave: written by the one thread that makes calls */
};

extern struct handles comm_handles;

/* The rank with local rank q on this node. */
static inline int comm_local_rank(const struct comm *comm, int q)
{
	const struct plan_map *map = &comm->topo->map;
	return map->member[map->node_first[map->node_of[comm->rank]] + q];
}

/* The control block of a rank's window; NULL: the rank is of another node, or there are no windows. */
static inline struct window_control *comm_control(const struct comm *comm, int rank)
{
	const struct host_engine *e = &comm->engine;
	return e->windows && host_is_local(e, rank) ? e->windows[e->map.local_of[rank]] : NULL;
}

/* The communicator of a handle, or NULL with an error logged (NULL, destroyed, or no handle). call: for the message. */
struct comm *comm_get(const corale_comm *handle, const char *call);
/* The same where the caller knows whether it is one of comm_handles. */
struct comm *comm_look_up(const corale_comm *handle, int is_one, const char *call);

/* The same by the thread that makes calls, until comm_leave, which follows in any case: corale_comm_destroy in another thread ends the call and waits for
 * it. Plain stores to a word that only this thread writes: the destroying thread makes them visible (comm_destroy.c). May be nested. */
static inline struct comm *comm_enter(corale_comm *handle, const char *call)
{
	const int is_one = handles_has(&comm_handles, handle);
	if (is_one) {
		const int n = atomic_load_explicit(&handle->callers, memory_order_relaxed);
		atomic_store_explicit(&handle->callers, n + 1, memory_order_relaxed);
		atomic_signal_fence(memory_order_seq_cst);
	}
	return comm_look_up(handle, is_one, call);
}

static inline void comm_leave(corale_comm *handle)
{
	if (handles_has(&comm_handles, handle)) {
		const int n = atomic_load_explicit(&handle->callers, memory_order_relaxed);
		atomic_store_explicit(&handle->callers, n - 1, memory_order_release);
	}
}

/* The same for calls of any thread, beside corale_comm_destroy too: the communicator lives until comm_put. */
struct comm *comm_take(corale_comm *handle, const char *call);
void comm_put(corale_comm *handle);
/* The oldest of those with this on_destroy_ctx, and split from them, as all ranks must destroy in one order; or NULL. */
corale_comm *comm_find_oldest(const void *on_destroy_ctx);
/* 1 if that rank of a communicator is of this process and has no call under way. By the only thread that makes calls. */
int comm_is_idle(uint64_t id, int rank);
/* 1 if that is true of a communicator of this process; no call of one within `is`. */
int comm_any(int (*is)(struct comm *comm, void *arg), void *arg);
/* No comm_get or comm_take finds it any more, and nobody uses it. */
void comm_retire(corale_comm *handle);

/* A premultiplied sum of this communicator, or NULL. */
static inline struct comm_premul *comm_premul_of(struct comm *comm, corale_op op)
{
	struct comm_premul *p =
	    op >= CORALE_NUM_OPS ? &comm->premul[(op - CORALE_NUM_OPS) % COMM_MAX_PREMUL] : NULL;
	return p && p->op == op ? p : NULL;
}

/* Says why an operator is none of this communicator: whose it is, or that it is nobody's. CORALE_EINVAL. call: for the message. */
int comm_refuse_op(const struct comm *comm, const char *call, corale_op op);

/* A handle for a new communicator into comm->handle. */
int comm_handle_create(struct comm *comm);

/* A call that outlives the function that made it keeps its persistent plan, if it has one, until it is let go. */
void call_keep(const struct call *call);
void call_let_go(const struct call *call);
/* Gives a call copies of its count arrays, if it has any, in room for 4 n of them: one of each of n ranks. Returns what is behind them. */
size_t *call_copy_counts(struct call *call, size_t n, size_t *room);

/* 0, or the code that has ended the communicator, as far as this process has found it; cheap. Any thread, until corale_comm_destroy. */
static inline int comm_error(const corale_comm *handle)
{
	const struct comm *comm =
	    atomic_load_explicit(&((corale_comm *)(uintptr_t)handle)->comm, memory_order_acquire);
	return comm ? atomic_load_explicit(&((struct comm *)(uintptr_t)comm)->error, memory_order_acquire)
		    : CORALE_EINVAL;
}

/* Seconds of one wait for a peer that is not a call's: while the communicator, or registered memory, is made. -1: no limit. */
static inline double comm_wait_seconds(const struct comm *comm)
{
	if (comm->traits.creation_timeout > 0)
		return comm->traits.creation_timeout;
	return comm->settings.timeout > 0 ? comm->settings.timeout : -1;
}

/* This thread's last logged line is what corale_comm_last_error returns, unless comm has failed. */
void comm_keep_error(struct comm *comm);

/* Ends one user's share of a struct comm_origin. */
void comm_release_origin(void *origin);

#endif
