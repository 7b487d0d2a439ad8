/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host engine: runs plans with threads as channels, over windows inside a node and the transport between nodes. It is the default without GPUs
 * and the reference for every other engine. A run is a resumable interpreter: host_channel_progress advances every program of a channel as far as
 * it can. So one thread can carry any number of runs, in any order, and nothing here blocks: waiting is the caller's (wait.h).
 */
#ifndef HOST_ENGINE_H
#define HOST_ENGINE_H

#include <sys/types.h>
#include <stddef.h>
#include <stdint.h>

#include "base/free_list.h"
#include "plan/plan_eval.h"
#include "reduce/reduce.h"
#include "base/settings.h"
#include "net/link.h"
#include "host_path.h"
#include "window.h"

enum { HOST_LINK_DEPTH = 8 };

/* Copies into the receive buffer of a call that no cache can keep until the caller reads it. A store that goes past the caches saves loading the lines that it
 * overwrites: up to a third of what a copy moves. Whether that is faster depends on the processor and on what is in its caches, so both kinds are measured. */

enum {
	HOST_COPY_LEAST = 64 << 10, /* bytes of one copy: a look at the clock costs nothing beside it */
	HOST_COPY_CALL = 8 << 20 /* bytes that a call receives */
};

enum host_store { HOST_STORE_CACHED, HOST_STORE_PAST, HOST_STORES };

/* What copies of one thread took; all zero at first. */
struct host_copier {
	float ns[HOST_STORES]; /* a KB, the median; 0: not measured yet */
	uint16_t copies;
	uint8_t other; /* the kind that copies begin with is not the faster one here */
};

/* 1 if a call that receives so many bytes leaves caches without them: they are several times the second-level cache. */
int host_copy_exceeds_cache(size_t received);
/* Copies at least HOST_COPY_LEAST bytes; the two places do not overlap. */
void host_copy(struct host_copier *copier, void *to, const void *from, size_t bytes);

/* ---- Ends of queues ---------------------------------------------------------- */

/* Messages that this rank sends through its window: to one local peer, or to ALL of them. */
struct host_out {
	uint64_t sent, consumed; /* consumed: by the slowest reader, as last seen */
	uint64_t reference; /* messages up to this number are by reference into our memory */
	struct window_header *headers;
	unsigned char *payload;
	size_t stride; /* payloads lie at multiples of it; changed only when all messages are read */
	_Atomic uint64_t **readers; /* their counters */
	int nreaders;
	int can_reference; /* every reader can read our memory */
	int crosses; /* some reader is another process */
	uint64_t learned; /* host_path_learn */
	uint64_t chosen; /* 1 + the message whose way was chosen last: */
	enum host_way way;
	struct host_path paths[HOST_PATH_CLASSES]; /* by size of message */
};

/* Messages from one local peer (its queue to us, or its queue to ALL). */
struct host_in {
	uint64_t received;
	struct window_header *headers;
	const unsigned char *payload;
	_Atomic uint64_t *consumed;
	pid_t pid; /* of the peer, to read references; 0 when it is this process */
};

/* The input of an action from one rank, or from a span of this one. */
struct host_source {
	const unsigned char *data;
	int kind; /* enum reduce_source */
	pid_t pid; /* of the process whose memory data is in; 0: ours */
	int rank; /* of that process */
	int lent; /* by that rank, until its call ends: the memory is its caller's */
};

/* A channel's list of an action's sources, and room for messages by reference that are to be folded; and its copies. */
struct host_temp {
	struct host_copier copier;
	unsigned char *data;
	size_t bytes;
	struct host_source *sources; /* of a move: one of each rank, two at least */
	struct reduce_input *inputs; /* as many */
};

struct host_engine {
	int rank, local, locals, channels;
	struct plan_map map;
	struct window_layout layout;
	void **windows; /* by local rank; ours included */
	pid_t *pids; /* by local rank; 0 for this process */
	struct liveness **liveness; /* by local rank; NULL for this process */
	const struct settings *settings;
	struct transport *transport;
	struct host_out *outs; /* [queue to d or ALL], as window_queue counts */
	struct host_in *ins; /* [2 * queue of q], + 1 for its ALL queue */
	uint64_t (*tokens)[2]; /* [channel * queues]: signals to oneself: sent, received */
	struct link_table links; /* to ranks of other nodes: index channel * PLAN_MAX_QUEUES + queue */
	struct transport_slots slots; /* of links */
	_Atomic size_t memory; /* bytes of links' slots */
	_Atomic uint64_t
	    position; /* of the call that runs, as window_position says; 0: none, or several kinds */
	_Atomic int logged_unreadable; /* the line that some rank's memory can't be read any more */
	/* Kept for the next calls. Only calls whose turn it is take of spare; a move of one thread uses its channel's temp. */
	struct free_list spare; /* of runs */
	struct host_temp *temps; /* by channel */
	_Atomic size_t temp_bytes;
};

/* 1: the call that runs here comes before all that have failed on any rank: what it needs was sent, or will be. Behind window_control.abort. */
static inline int host_is_earlier(const struct host_engine *engine)
{
	const uint64_t mine = atomic_load(&((struct host_engine *)(uintptr_t)engine)->position);
	const struct window_control *control = engine->windows[engine->local];
	return mine && mine < atomic_load(&((struct window_control *)(uintptr_t)control)->abort_at);
}

/* Fills outs and ins from windows, pids, layout; the caller has set everything above them. */
int host_engine_open(struct host_engine *engine);
void host_engine_close(struct host_engine *engine);
/* Bytes of links' slots and of what is kept for calls. Any thread. */
size_t host_engine_memory(const struct host_engine *engine);

static inline struct host_out *host_out(struct host_engine *e, int d, int channel, int queue)
{
	return &e->outs[window_queue(&e->layout, d, channel, queue)];
}

static inline struct host_in *host_in(struct host_engine *e, int q, int all, int channel, int queue)
{
	return &e->ins[2 * window_queue(&e->layout, q, channel, queue) + (size_t)all];
}

/* Signals to oneself on a queue: sent, received. */
static inline uint64_t *host_token(const struct host_engine *e, int channel, int queue)
{
	return e->tokens[channel * PLAN_MAX_QUEUES + queue];
}

static inline int host_group_size(const struct host_engine *e, int group)
{
	return plan_group_size(&e->map, group, e->rank);
}

/* The rank with index i in the group of an action. */
static inline int host_member(const struct host_engine *e, const struct plan_action *a, int group, int i)
{
	return plan_group_member(&e->map, group, e->rank, a->rail, i);
}

/* Fills e->slots, which the caller gives to the transport. */
void host_engine_slots(struct host_engine *e);
/* The link to a rank of another node, made on first use; NULL: host_no_link is why. */
static inline struct link *host_link(struct host_engine *e, int rank, int channel, int queue)
{
	return link_table_get(&e->links, rank, channel * PLAN_MAX_QUEUES + queue);
}

/* Logs that there is no link to a rank, with this thread's last error as the cause, and returns its code: no memory, or the rank can't be reached. */
int host_no_link(const struct host_engine *e, int rank);

/* Payloads that a queue holds at a time: as many as stay in a cache, at least what the settings ask for. */
int host_room(const struct window_layout *layout, size_t stride);

/* True when a further message fits: fewer than depth are unread. */
int host_out_free(struct host_out *out, int depth);
/* The same for a message of a call with so many bytes between payloads, 0: all fit into header lines. It sets out's stride. */
int host_out_room(struct host_out *out, size_t stride, int depth);
/* The next message's header once it is there, else NULL. */
struct window_header *host_in_ready(const struct host_in *in);

static inline int host_is_local(const struct host_engine *e, int rank)
{
	return e->map.node_of[rank] == e->map.node_of[e->rank];
}

/* 1 if an action has a message for other ranks of this node. */
static inline int host_sends_to_local(const struct host_engine *e, const struct plan_action *a)
{
	if (a->to == PLAN_ALL)
		return a->to_group != PLAN_RAIL && e->locals > 1;
	return a->to != PLAN_NONE && a->to != e->rank && host_is_local(e, a->to);
}

/* ---- Runs --------------------------------------------------------------------- */

/* One call's buffers and meaning; the same plan runs with many bindings. */
struct host_binding {
	const void *send;
	void *recv;
	struct reduce_spec spec;
	uint64_t signature; /* what every message of the call must carry */
};

struct host_program {
	struct plan_cursor cursor;
	struct plan_action action; /* at cursor */
	int active, done; /* action is to be executed; the program has ended */
	int scan; /* members of ALL already found ready */
	size_t folded; /* elements of the action, where a message could not be read to its end */
	int ready; /* all that the action takes is there: what it waits for is room */
};

struct host_channel {
	struct plan_env env;
	struct host_program programs[PLAN_MAX_PROGRAMS];
	unsigned char *scratch; /* the plan's cells */
	int edges; /* the call is send, recv or a v-form: headers carry the block's elements */
	int referenced; /* some message went by reference, or leaves only with the caller's help: wait for it */
	int done;
};

struct host_mismatch { /* what was wrong with a message, for the diagnosis */
	_Atomic int found; /* set by the first channel that meets one, which fills in the rest */
	int peer;
	uint64_t expected, got; /* signatures */
	uint64_t expected_edge, got_edge; /* elements; different where the signatures are equal */
	int in_bytes; /* these are bytes: a GPU counts so, and knows the types */
	corale_type expected_type, got_type;
};

struct host_run {
	struct host_engine *engine;
	const struct plan *plan;
	struct host_binding binding;
	size_t type_bytes;
	size_t stride; /* room for the largest message of the call; 0: all fit into header lines */
	struct host_mismatch mismatch;
	_Atomic uint64_t actions, bytes; /* executed; of the elements that they moved */
	int nchannels;
	struct host_channel *channels; /* &one for a single channel, so that small calls need no memory */
	struct host_channel one;
	void *memory; /* of several channels, of cells, and of what is sent from a copy */
	int exceeds_cache; /* what the call receives, so it may be stored past the caches */
	int copied; /* it is sent from a copy, */
	unsigned char *copy; /* which is in memory */
};

/* Prepares a run; env as plan_env_init made it (its arrays must outlive the run). plan must outlive the run. */
int host_run_init(struct host_run *run, struct host_engine *engine, const struct plan *plan,
		  const struct plan_env *env, const struct host_binding *binding);
void host_run_free(struct host_run *run);
/* The first n actions of a plan of one channel, one program after the other, have been executed (host_fast.h): the run begins behind them. */
void host_run_skip(struct host_run *run, int n);
/* Bytes between the payloads of a call of that plan: a power of two that its largest message fits in; 0: all fit into header lines. */
size_t host_stride(const struct host_engine *engine, const struct plan *plan);

/* 1 when all messages that an action takes are there, or there is room for all that it sends; 0: not yet; or an error. */
int host_sources_ready(struct host_run *run, struct host_channel *ch, struct host_program *p);
int host_targets_free(struct host_run *run, struct host_channel *ch, const struct plan_action *a);
/* Advances a channel by some actions: 1 when it is done, 0 not yet, or an error (CORALE_EMISMATCH: run->mismatch). One thread at a time per channel. */
int host_channel_progress(struct host_run *run, int channel);
/* The rank whose message a channel waits for that is not done, or PLAN_NONE. By the thread that moves the channel. */
int host_channel_awaits(const struct host_run *run, int channel);
/* A rank that has not taken what a channel has sent: a reader of lent memory, else one to which a message has not left; or PLAN_NONE. By that thread, too. */
int host_channel_reader(const struct host_run *run, int channel);
/* Prints for what a channel waits: "4096 bytes of rank 3". By that thread, too. */
void host_channel_describe(const struct host_run *run, int channel, char *buf, size_t bytes);

/* Payload of an action's messages. */
static inline size_t host_message_bytes(const struct host_run *run, const struct plan_action *a)
{
	return a->op == PLAN_MOVE ? a->count * run->type_bytes : 0;
}

/* What headers of an action's messages say: the elements of the block that they are of, where both ends must agree about them; else 0. */
static inline uint64_t host_edge(const struct host_channel *ch, const struct plan_action *a)
{
	return ch->edges ? plan_message_block(&ch->env, a) : 0;
}

/* ---- host_move.c ---------------------------------------------------------------- */

/* Executes a program's action, whose messages are there and whose targets are free: 1; 0: no slot of the window is free, or a message can't be read and
 * is to come again; or an error. */
int host_move(struct host_run *run, struct host_channel *ch, struct host_program *p);

/* ---- host_lend.c ---------------------------------------------------------------- */

/* Messages by reference whose reader can't read the sender's memory (any more): the sender, whose call waits for the reader, copies them into slots. */

/* The reader has failed to read memory of local rank q, by that errno. */
void host_lend_refused(struct host_engine *e, int q, int error);
/* 1 if the message that is there is by reference and can't be read: its sender is asked for it. */
static inline int host_lend_asks(const struct host_engine *e, int q, const struct host_in *in,
				 const struct window_header *header)
{
	const uint64_t kind = atomic_load_explicit(&header->bytes_kind, memory_order_relaxed) & 0xff;
	const struct window_control *own = e->windows[e->local];
	if (kind != WINDOW_REFERENCE || !in->pid ||
	    atomic_load_explicit(&own->can_read[q], memory_order_relaxed))
		return 0;
	atomic_store_explicit(window_asked(in->consumed), in->received + 1, memory_order_release);
	return 1;
}
/* The sender: copies what readers ask for, of a channel of a run. 0, or CORALE_ESYSTEM: the buffer can't be read here either. */
int host_lend_answer(struct host_run *run, const struct host_channel *ch);
/* A rank that has not read what a channel lends (host_channel.referenced), or PLAN_NONE. By the thread that moves the channel. */
int host_lend_awaits(const struct host_run *run, int channel);
/* A call of this rank has failed, which the ranks of the node know: waits until no thread of this process loads from what the call has lent, or logs
 * that some still do. */
void host_lend_end(const struct host_engine *e);

/*
 * Threads that run channels, shared by all communicators of the process. They are made when first needed, sleep
 * when idle, and stay until the process ends.
 */

struct pool_task {
	void (*run)(struct pool_task *task); /* the task belongs to its owner again when run has returned */
	struct pool_task *next;
};

/* Hands a task to an idle thread, or to a new one: it starts at once, whatever others wait for.
 * Returns 0 or CORALE_ESYSTEM (no thread; nothing was started). */
int pool_submit(struct pool_task *task);

#endif
