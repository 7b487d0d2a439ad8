/* SPDX-License-Identifier: BSD-3-Clause */
#include "diagnose.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/liveness.h"
#include "net/transport.h"
#include "base/log.h"
#include "base/process.h"
#include "base/collectives.h"
#include "base/status.h"
#include "base/text.h"
#include "presence.h"
#include "stall.h"

enum { COLLECT_MS = 400, LOOKS = 4, ENDED_NS = 500 * 1000 * 1000 };
/* Without progress, for which a call goes on that comes before the one that failed; and sends and receives beside failed ones, whose order nobody knows. */
static const int64_t EARLIER_NS = 5 * 1000000000ll, PAIRS_NS = 200 * 1000000ll;
enum {
	KIND_ABORT = 1,
	KIND_REPLY = 2,
	KIND_CALLS = 3,
	KIND_ASK = 4,
	KIND_ANSWER = 5,
	KIND_TEXT = 6,
	KIND_LEFT = 7
};

/* Why a communicator ends. */
struct ending {
	int code, culprit; /* CORALE_EINTERNAL and NOBODY where the word says nothing that can be */
	int how; /* presence_how(culprit) */
	uint64_t at; /* the call that failed, as window_position says; EVERYWHERE: all calls end */
};

enum { NOBODY = -1, EVERYWHERE = 1 };

/* One message between nodes: why the communicator ended (of KIND_ANSWER: what the sender is at; of KIND_LEFT: how it has left; of other kinds 0), and the sender's last
 * calls, the latest first. */
struct control {
	int32_t kind, code, culprit, rank;
	uint64_t
	    at; /* of KIND_ABORT, with how: as struct ending; of KIND_ANSWER: window_wait_of, if the sender waits for the receiver */
	int32_t how, unused;
	union {
		struct record records[COMM_PEER_CALLS];
		char text[WINDOW_REASON]; /* of KIND_TEXT; how: enum window_text */
	};
};
_Static_assert(sizeof(struct control) <= TRANSPORT_CONTROL_BYTES, "a control message has room");

/* ---- Records -------------------------------------------------------------------------- */

struct journal {
	struct journal_entry *calls;
	uint64_t n;
};

/* A rank's last collectives by number: in its window, or as it has sent them. */
static struct journal journal_of(const struct comm *comm, int rank)
{
	if (!host_is_local(&comm->engine, rank))
		return (struct journal){ comm->peers[rank].calls, COMM_PEER_CALLS };
	return (struct journal){ comm_control(comm, rank)->calls, WINDOW_CALLS };
}

/* The call with that number; number 0 when it is not known, or no longer. */
static struct record record_of(const struct comm *comm, int rank, uint64_t number)
{
	const struct journal journal = journal_of(comm, rank);
	struct record record;
	const int is_there = journal_read(journal.calls, journal.n, number, &record) != 0;
	/* any process of the node may have written it, or sent it */
	if (!is_there || (int)record.coll < 0 || record.coll >= CORALE_NUM_COLLS ||
	    !corale_type_bytes(record.type))
		record.number = 0;
	return record;
}

/* 1 if two ranks are known to have made different calls under the number. */
static int records_differ(const struct comm *comm, uint64_t number)
{
	struct record seen = { 0 };
	for (int r = 0; r < comm->size; r++) {
		const struct record record = record_of(comm, r, number);
		if (!record.number)
			continue;
		if (seen.number && seen.signature != record.signature)
			return 1;
		seen = record;
	}
	return 0;
}

int diagnose_has_called(struct comm *comm, int rank, uint64_t number)
{
	const struct journal journal = journal_of(comm, rank);
	return journal_has(journal.calls, journal.n, number);
}

int diagnose_find_call(struct comm *comm, int rank, uint64_t number, struct record *out)
{
	*out =
	    number && comm_control(comm, comm->rank) ? record_of(comm, rank, number) : (struct record){ 0 };
	return out->number != 0;
}

int diagnose_differs_from(struct comm *comm, int rank, uint64_t number)
{
	const struct record mine = record_of(comm, comm->rank, number),
			    theirs = record_of(comm, rank, number);
	return mine.number && theirs.number && mine.signature != theirs.signature;
}

static int print_target(const struct record *r, char *buf, size_t bytes)
{
	const uint64_t target = r->target;
	if (!target)
		return 0;
	if (coll_folds_uneven(r->coll))
		return snprintf(buf, bytes, ", count: of the largest block; all counts have the hash %llx",
				(unsigned long long)target);
	return snprintf(buf, bytes, ", into registration %llu at byte %llu",
			(unsigned long long)(target >> ENGINE_TARGET_SHIFT) - 1,
			(unsigned long long)(target & (((uint64_t)1 << ENGINE_TARGET_SHIFT) - 1)));
}

void diagnose_print_call(const struct record *r, char *buf, size_t bytes)
{
	if (r->coll == CORALE_NUM_COLLS) {
		snprintf(buf, bytes, "an earlier call");
		return;
	}
	if (r->op == RECORD_REFUSED) {
		snprintf(buf, bytes, "%s, which it refused",
			 coll_is_pair(r->coll) ? "a send or receive" : corale_coll_name(r->coll));
		return;
	}
	if (r->op == RECORD_BY_MPI) {
		snprintf(buf, bytes, "MPI_%.8s... (%llu bytes there), which MPI runs",
			 (const char *)&r->target, (unsigned long long)r->count);
		return;
	}
	int n = snprintf(buf, bytes, "%s(", corale_coll_name(r->coll));
	if (coll_has_count(r->coll))
		n += snprintf(buf + n, bytes - (size_t)n, "count %llu, ", (unsigned long long)r->count);
	if (coll_has_data(r->coll))
		n += snprintf(buf + n, bytes - (size_t)n, "%s", corale_type_name(r->type));
	if (coll_folds(r->coll))
		n += snprintf(buf + n, bytes - (size_t)n, ", %s", corale_op_name(r->op));
	if (coll_is_rooted(r->coll) || coll_is_pair(r->coll))
		n += snprintf(buf + n, bytes - (size_t)n, ", %s %d", coll_is_pair(r->coll) ? "peer" : "root",
			      r->root);
	n += print_target(r, buf + n, bytes - (size_t)n);
	snprintf(buf + n, bytes - (size_t)n, ")");
}

/* ---- Ending a communicator -------------------------------------------------------------- */

/* The call before the code, as who sees the code reads both. */
static void set_abort(struct window_control *control, const struct ending *end)
{
	uint64_t none = 0, at = atomic_load(&control->abort_at);
	while ((!at || end->at < at) && !atomic_compare_exchange_weak(&control->abort_at, &at, end->at))
		;
	atomic_compare_exchange_strong(&control->abort, &none,
				       (uint64_t)end->how << 48 | (uint64_t)(uint32_t)-end->code << 32 |
					   (uint32_t)(end->culprit + 1));
}

static void send_records(struct comm *comm, struct control c, int peer)
{
	uint64_t last = atomic_load(&comm->number);
	for (uint64_t i = 0; i < COMM_PEER_CALLS && i < last; i++)
		c.records[i] = record_of(comm, comm->rank, last - i);
	struct transport *t = comm->engine.transport;
	if (t) /* not where it is being opened, and a peer that has failed behind that says so */
		transport_control(t, peer, &c, sizeof c);
}

static void send_control(struct comm *comm, int kind, int code, int culprit, int peer)
{
	send_records(comm,
		     (struct control){ .kind = kind, .code = code, .culprit = culprit, .rank = comm->rank },
		     peer);
}

static void send_abort(struct comm *comm, const struct ending *end, int peer)
{
	send_records(comm,
		     (struct control){ .kind = KIND_ABORT,
				       .code = end->code,
				       .culprit = end->culprit,
				       .rank = comm->rank,
				       .how = end->how,
				       .at = end->at },
		     peer);
}

void diagnose_ask(struct comm *comm, int rank)
{
	send_control(comm, KIND_ASK, 0, comm->rank, rank);
}

void diagnose_send_calls(struct comm *comm, int rank)
{
	send_control(comm, KIND_CALLS, 0, comm->rank, rank);
}

static void signal_node(const struct comm *comm, const struct ending *end)
{
	const struct host_engine *e = &comm->engine;
	for (int q = 0; e->windows && q < e->locals; q++)
		set_abort(e->windows[q], end);
}

/* ---- Why this rank ends the communicator, or has refused a call, for others -------------- */

/* Text in words, as other processes may read it meanwhile. */
static void publish_text(struct comm *comm, enum window_text which, const char *text)
{
	struct window_control *control = comm_control(comm, comm->rank);
	uint64_t words[WINDOW_REASON / 8] = { 0 };
	snprintf((char *)words, sizeof words, "%s", text);
	for (size_t i = 0; control && i < sizeof words / sizeof *words; i++)
		atomic_store_explicit(&control->texts[which][i], words[i], memory_order_relaxed);
}

/* 1 if the rank has said why. Any process of the node may have written it: it is text that ends, no more. */
static int read_text(struct comm *comm, enum window_text which, int rank, char *buf)
{
	struct window_control *control = comm_control(comm, rank);
	uint64_t words[WINDOW_REASON / 8] = { 0 };
	if (control) {
		for (size_t i = 0; i < sizeof words / sizeof *words; i++)
			words[i] = atomic_load_explicit(&control->texts[which][i], memory_order_relaxed);
		memcpy(buf, words, WINDOW_REASON);
	} else {
		pthread_mutex_lock(&comm->error_lock);
		memcpy(buf, comm->peers[rank].texts[which], WINDOW_REASON);
		pthread_mutex_unlock(&comm->error_lock);
	}
	buf[WINDOW_REASON - 1] = 0;
	return buf[0] != 0;
}

/* Before the message that ends the communicator, or has the record of the refused call. */
static void send_text(struct comm *comm, enum window_text which, int peer)
{
	struct control c = { .kind = KIND_TEXT, .how = which, .culprit = comm->rank, .rank = comm->rank };
	char text[WINDOW_REASON];
	if (!read_text(comm, which, comm->rank, text))
		return;
	memcpy(c.text, text, sizeof c.text);
	transport_control(comm->engine.transport, peer, &c, sizeof c);
}

void diagnose_refuse(struct comm *comm, uint64_t number, const char *why)
{
	char text[WINDOW_REASON];
	snprintf(text, sizeof text, "%llu %s", (unsigned long long)number, why);
	publish_text(comm, WINDOW_REFUSED, text);
}

void diagnose_send_refusal(struct comm *comm)
{
	const struct host_engine *e = &comm->engine;
	for (int r = 0; e->transport && r < comm->size; r++)
		if (!host_is_local(e, r)) {
			send_text(comm, WINDOW_REFUSED, r);
			diagnose_send_calls(comm, r);
		}
	transport_progress(e->transport); /* which may have no thread */
}

static void spread(struct comm *comm, const struct ending *end)
{
	const struct host_engine *e = &comm->engine;
	signal_node(comm, end);
	for (int r = 0; e->transport && r < comm->size; r++)
		if (!host_is_local(e, r)) {
			send_text(comm, WINDOW_ENDED, r);
			send_abort(comm, end, r);
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
			publish_text(comm, WINDOW_ENDED, text);
		if (end->culprit != NOBODY)
			signal_node(comm, end);
		atomic_store(&comm->error, end->code);
	}
	pthread_mutex_unlock(&comm->error_lock);
	return first;
}

int comm_end(struct comm *comm, int code, const char *text)
{
	return end_first(comm, &(struct ending){ .code = code, .culprit = NOBODY }, text);
}

static void fail(struct comm *comm, const struct ending *end, const char *text)
{
	if (end_first(comm, end, text)) {
		log_line(end->code == CORALE_EABORTED ? LOG_WARN : LOG_ERROR, comm->rank, "%s%s", text,
			 held(comm));
		spread(comm, end);
	}
}

void comm_fail_by(struct comm *comm, int code, int culprit, const char *text)
{
	fail(comm, &(struct ending){ code, culprit, presence_how(comm, culprit), EVERYWHERE }, text);
}

void comm_fail_next(struct comm *comm, int code, const char *text)
{
	const int is_idle = !comm->gpu && comm->issued == atomic_load(&comm->completed);
	const uint64_t next = window_position(atomic_load(&comm->number) + 1, 1);
	fail(comm, &(struct ending){ code, comm->rank, 0, is_idle ? next : EVERYWHERE }, text);
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

/* Several rails may have messages of a rank at a time. */
static void keep_message(struct comm *comm, const struct control *c)
{
	struct comm_peer *peer = &comm->peers[c->rank];
	pthread_mutex_lock(&comm->error_lock);
	if (c->kind == KIND_TEXT)
		memcpy(peer->texts[c->how], c->text, WINDOW_REASON);
	for (int i = COMM_PEER_CALLS - 1; c->kind != KIND_TEXT && i >= 0; i--) {
		const struct record *r = &c->records[i];
		if (r->number && !diagnose_has_called(comm, c->rank, r->number))
			journal_write(peer->calls, COMM_PEER_CALLS, r->number, r->number, r);
	}
	pthread_mutex_unlock(&comm->error_lock);
}

/* Ranks become indices and codes the texts of errors, so neither is taken as it comes. */
static int is_sound(const struct comm *comm, const struct control *c, int peer)
{
	int code = 0;
	if (c->kind == KIND_ABORT || c->kind == KIND_REPLY)
		code = c->code < 0 && c->code >= CORALE_EINTERNAL && c->how >= 0 &&
		       c->how <= 1 + WINDOW_REVOKED && (c->at || c->kind == KIND_REPLY);
	else if (c->kind == KIND_ANSWER)
		code = c->code >= STALL_HOST && c->code <= STALL_RUNNING;
	else if (c->kind == KIND_LEFT)
		code = c->code > WINDOW_PRESENT && c->code <= WINDOW_REVOKED;
	else
		code = (c->kind == KIND_CALLS || c->kind == KIND_ASK ||
			(c->kind == KIND_TEXT && c->how >= 0 && c->how < WINDOW_TEXTS)) &&
		       !c->code;
	return code && c->rank == peer && c->culprit >= 0 && c->culprit < comm->size;
}

static void hear_of_leaving(struct comm *comm, int peer, enum window_left how)
{
	char text[COMM_ERROR_BYTES], name[160];
	presence_told(comm, peer, how);
	if (how != WINDOW_EXITED || comm->traits.leaves_quietly || diagnose_peers(comm))
		return;
	presence_print_rank(comm, peer, name, sizeof name);
	snprintf(text, sizeof text, "%s has called exit() without corale_comm_destroy", name);
	comm_fail_by(comm, CORALE_EPEER, peer, text);
}

/* To a peer that this rank had not met when it left. */
static void answer_gone(struct comm *comm, int peer)
{
	const int how = presence_how(comm, comm->rank) - 1;
	if (how > WINDOW_PRESENT)
		send_control(comm, KIND_LEFT, how, comm->rank, peer);
}

static void answer(struct comm *comm, int peer)
{
	const struct window_control *control = comm_control(comm, comm->rank);
	const uint64_t waits = control ? atomic_load(&control->waits) : 0;
	send_records(comm,
		     (struct control){ .kind = KIND_ANSWER,
				       .code = stall_own_state(comm),
				       .culprit = comm->rank,
				       .rank = comm->rank,
				       .at = waits && window_wait_rank(waits) == peer ? waits : 0 },
		     peer);
}

void diagnose_control(void *ctx, int peer, const void *message, size_t bytes)
{
	struct comm *comm = ctx;
	struct control c;
	if (bytes == sizeof c)
		memcpy(&c, message, sizeof c);
	if (bytes != sizeof c || !is_sound(comm, &c, peer)) {
		if (!atomic_fetch_add(&comm->damaged, 1))
			log_line(LOG_WARN, comm->rank,
				 "a control message of %zu bytes of rank %d is damaged, or no rank of this "
				 "communicator sent it: it is dropped; see docs/security.md",
				 bytes, peer);
		return;
	}
	keep_message(comm, &c);
	if (c.kind == KIND_ASK || c.kind == KIND_CALLS)
		answer_gone(comm, peer);
	if (c.kind == KIND_ASK)
		answer(comm, peer);
	if (c.kind == KIND_ANSWER) {
		atomic_store(&comm->peers[peer].waits, c.at);
		stall_answered(comm, peer, (enum stall_state)c.code);
	}
	if (c.kind == KIND_LEFT)
		hear_of_leaving(comm, peer, (enum window_left)c.code);
	if (c.kind != KIND_ABORT)
		return;
	signal_node(comm, &(struct ending){ c.code, c.culprit, c.how, c.at });
	send_control(comm, KIND_REPLY, c.code, comm->rank, peer);
}

static uint64_t abort_word(const struct comm *comm)
{
	struct window_control *control = comm_control(comm, comm->rank);
	return control ? atomic_load(&control->abort) : 0;
}

/* An abort word, which any process of the node may have written. */
static struct ending read_ending(const struct comm *comm, uint64_t word)
{
	const long code = -(long)(word >> 32 & 0xffff), culprit = (long)(word & 0xffffffff) - 1,
		   how = (long)(word >> 48);
	if (code_of_peer(code) != code || culprit < 0 || culprit >= comm->size || how > 1 + WINDOW_REVOKED)
		return (struct ending){ CORALE_EINTERNAL, NOBODY, 0, EVERYWHERE };
	return (struct ending){ (int)code, (int)culprit, (int)how, EVERYWHERE };
}

int diagnose_peers(struct comm *comm)
{
	int error = atomic_load_explicit(&comm->error, memory_order_relaxed);
	if (error)
		return error;
	const struct host_engine *e = &comm->engine;
	const struct window_control *control = e->windows ? e->windows[e->local] : NULL;
	uint64_t word = control ? atomic_load_explicit(&control->abort, memory_order_relaxed) : 0;
	return word ? read_ending(comm, word).code : 0;
}

int64_t diagnose_patience(const struct comm *comm)
{
	const struct host_engine *e = &comm->engine;
	const uint64_t position = atomic_load(&((struct comm *)(uintptr_t)comm)->engine.position);
	const uint64_t word = e->windows && position ? abort_word(comm) : 0;
	if (!word || atomic_load(&((struct comm *)(uintptr_t)comm)->error))
		return 0;
	if (host_is_earlier(e)) /* a mismatch may be found later than ranks differ */
		return read_ending(comm, word).code == CORALE_EMISMATCH &&
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
		const int r = comm->looked_at++ % comm->size;
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

/* Fails comm by a text that begins with the call. Returns code. */
static int fail_call(struct comm *comm, const struct record *call, int code, int culprit, const char *format,
		     ...) __attribute__((format(printf, 5, 6)));

static int fail_call(struct comm *comm, const struct record *call, int code, int culprit, const char *format,
		     ...)
{
	char text[COMM_ERROR_BYTES];
	va_list args;
	diagnose_print_call(call, text, 256);
	const size_t at = strlen(text);
	va_start(args, format);
	text_format_args(text + at, sizeof text - at, format, args);
	va_end(args);
	const uint64_t position = atomic_load(&comm->engine.position);
	fail(comm,
	     &(struct ending){ code, culprit, presence_how(comm, culprit),
			       position && code != CORALE_EMISMATCH ? position : EVERYWHERE },
	     text);
	return code;
}

/* The word may not be in all windows yet: whoever finds this rank in its place would name it, which is not the cause. */
int diagnose_end(struct comm *comm, const struct record *call, int code)
{
	char end[256];
	const uint64_t word = abort_word(comm);
	const struct ending ending = read_ending(comm, word);
	if (word && ending.culprit < 0)
		return fail_call(comm, call, code, comm->rank,
				 ": the word by which a rank of this node ends the communicator is %#llx; "
				 "expected a code from %d to %d above a rank from 1 to %d: something has "
				 "overwritten it; look for stray stores in the processes of this node",
				 (unsigned long long)word, -CORALE_EINVAL, -CORALE_EINTERNAL, comm->size);
	if (!word || ending.culprit == comm->rank)
		return fail_call(comm, call, code, comm->rank, ": %s: %s", corale_strerror(code),
				 log_last_error());
	print_end(comm, &ending, code, end, sizeof end);
	return fail_call(comm, call, code, ending.culprit, ": %s", end);
}

int diagnose_timeout(struct comm *comm, const struct record *call, uint64_t number, const char *what)
{
	char which[32] = "";
	if (number)
		snprintf(which, sizeof which, ", call %llu,", (unsigned long long)number);
	return fail_call(comm, call, CORALE_ETIMEDOUT, comm->rank,
			 "%s has waited %g s (%s) without progress for %s; that rank has not made the call, "
			 "is stuck, or its link is cut",
			 which, comm->settings.timeout, comm->timeout_name, what);
}

/* ---- Mismatch --------------------------------------------------------------------------- */

struct collect {
	struct comm *comm;
	uint64_t number;
	int64_t until;
};

/* 1 when all ranks' records of the call are here, or the time for it is over. */
static int poll_records(void *arg)
{
	struct collect *c = arg;
	transport_progress(c->comm->engine.transport);
	int known = 0;
	for (int r = 0; r < c->comm->size; r++)
		known += record_of(c->comm, r, c->number).number != 0;
	return known == c->comm->size || wait_now_ns() > c->until;
}

int diagnose_differs(struct comm *comm, int on_this_node)
{
	const uint64_t number = atomic_load(&comm->number);
	for (int r = 0; comm->engine.windows && r < comm->size; r++)
		if (host_is_local(&comm->engine, r) == on_this_node && diagnose_differs_from(comm, r, number))
			return CORALE_EMISMATCH;
	return 0;
}

/* The first call, going back from the last one, up to which all known records agree; 0 when none differs. */
static uint64_t first_difference(struct comm *comm)
{
	uint64_t last = atomic_load(&comm->number), first = last > WINDOW_CALLS ? last - WINDOW_CALLS + 1 : 1;
	for (uint64_t number = first; number <= last + 1; number++)
		if (records_differ(comm, number))
			return number;
	return 0;
}

int diagnose_stalled(struct comm *comm, int peer)
{
	const struct host_engine *e = &comm->engine;
	const uint64_t number = atomic_load(&comm->number),
		       notified = number * (uint64_t)comm->size + (uint64_t)peer;
	if (!e->transport || !record_of(comm, comm->rank, number).number)
		return 0;
	if (peer >= 0 && !host_is_local(e, peer) &&
	    atomic_exchange(&comm->last_notified, notified) != notified)
		diagnose_send_calls(comm, peer);
	if (comm->gpu) /* where calls are made before others have run: theirs may be an earlier one */
		return first_difference(comm) ? CORALE_EMISMATCH : 0;
	return diagnose_differs(comm, 0);
}

/* As diagnose_print_call; where the rank has refused it, with its reason, if that is known. */
static void print_refused(struct comm *comm, int rank, const struct record *call, char *buf, size_t bytes)
{
	char text[WINDOW_REASON], *why = text;
	diagnose_print_call(call, buf, bytes);
	const size_t at = strlen(buf);
	if (call->op == RECORD_REFUSED && read_text(comm, WINDOW_REFUSED, rank, text) &&
	    strtoull(text, &why, 10) == call->count)
		snprintf(buf + at, bytes - at, ":%s", why);
}

/* "rank 0, 1 called all_reduce(...)" for all ranks with the signature of `like`; returns how many they are. */
static int print_group(struct comm *comm, uint64_t number, struct record like, char *buf, size_t bytes)
{
	char what[256];
	int ranks = 0, shown = 0, first = 0;
	size_t n = 0;
	for (int r = 0; r < comm->size; r++) {
		struct record record = record_of(comm, r, number);
		if (!record.number || record.signature != like.signature)
			continue;
		first = ranks++ ? first : r;
		if (shown++ < 8)
			n += (size_t)snprintf(buf + n, bytes - n, "%s%d", shown == 1 ? "rank " : ", ", r);
	}
	print_refused(comm, first, &like, what, sizeof what);
	snprintf(buf + n, bytes - n, "%s called %s", ranks > 8 ? ", ..." : "", what);
	return ranks;
}

/* Writes who called what; the odd one out is named when most ranks agree. */
static void print_difference(struct comm *comm, uint64_t number, char *text, size_t bytes)
{
	int n = snprintf(text, bytes, "ranks made different calls (call %llu): ", (unsigned long long)number);
	size_t at = (size_t)n;
	int known = 0, odd = -1, most = 0;
	for (int r = 0; r < comm->size; r++)
		known += record_of(comm, r, number).number != 0;
	for (int r = 0; r < comm->size; r++) {
		struct record mine = record_of(comm, r, number);
		int repeated = !mine.number;
		for (int q = 0; q < r && !repeated; q++) {
			struct record other = record_of(comm, q, number);
			repeated = other.number && other.signature == mine.signature;
		}
		if (repeated)
			continue;
		char group[384];
		int ranks = print_group(comm, number, mine, group, sizeof group);
		most = 2 * ranks > known ? ranks : most;
		odd = ranks == 1 ? (odd == -1 ? r : -2) : odd;
		if (at + 2 < bytes)
			at += (size_t)snprintf(text + at, bytes - at, "%s; ", group);
		at = at < bytes ? at : bytes - 1;
	}
	if (most && odd >= 0)
		snprintf(text + at, bytes - at, "the odd one out is rank %d", odd);
	else
		snprintf(text + at, bytes - at, "no majority tells which is meant");
}

/* The send that a receive has met; its coll is CORALE_NUM_COLLS where that is not known. */
static struct record sent_of(const struct comm *comm, const struct record *recv,
			     const struct host_mismatch *m)
{
	struct record send = {
		.coll = CORALE_SEND, .count = m->got_edge, .type = m->got_type, .root = comm->rank
	};
	if (recv->coll != CORALE_RECV || (int)m->got_type < 0 || m->got_type >= CORALE_NUM_TYPES)
		send.coll = CORALE_NUM_COLLS;
	else if (m->in_bytes)
		send.count /= corale_type_bytes(m->got_type);
	if (send.type == recv->type && send.count == recv->count) /* out of order */
		send.coll = CORALE_NUM_COLLS;
	return send;
}

static void print_edge(const struct comm *comm, const struct record *call, const struct host_mismatch *m,
		       char *text, size_t bytes)
{
	char what[256], other[256];
	const struct record send = sent_of(comm, call, m);
	diagnose_print_call(call, what, sizeof what);
	diagnose_print_call(&send, other, sizeof other);
	if (send.coll == CORALE_SEND)
		snprintf(text, bytes,
			 "rank %d called %s, rank %d called %s: counts and types of a pair must agree",
			 m->peer, other, comm->rank, what);
	else if (m->in_bytes)
		snprintf(text, bytes,
			 "%s: rank %d sends %llu bytes of %s and rank %d expects %llu of %s: counts and "
			 "types of a pair must agree",
			 what, m->peer, (unsigned long long)m->got_edge, corale_type_name(m->got_type),
			 comm->rank, (unsigned long long)m->expected_edge,
			 corale_type_name(m->expected_type));
	else if (m->expected == m->got)
		snprintf(text, bytes,
			 "%s: rank %d sends %llu elements and rank %d expects %llu: the counts of a pair "
			 "must agree",
			 what, m->peer, (unsigned long long)m->got_edge, comm->rank,
			 (unsigned long long)m->expected_edge);
	else
		snprintf(text, bytes, "%s: rank %d made another call than rank %d expects", what, m->peer,
			 comm->rank);
}

/* The rank that has ended comm first, as far as it is known here. */
static int finder_of(const struct comm *comm)
{
	const uint64_t word = abort_word(comm);
	const struct ending ending = read_ending(comm, word);
	return word && ending.culprit >= 0 ? ending.culprit : comm->rank;
}

struct finder {
	struct comm *comm;
	int rank;
	char reason[WINDOW_REASON];
};

static int poll_finder(void *arg)
{
	struct finder *f = arg;
	transport_progress(f->comm->engine.transport);
	return read_text(f->comm, WINDOW_ENDED, f->rank, f->reason);
}

/* Another rank has said that calls differ; here nothing shows it. A third one may have told of it before its finder, which has yet to connect. */
static void print_finder(struct comm *comm, const char *call, char *text, size_t bytes)
{
	static const struct wait_policy soon = { .timeout_ns = COLLECT_MS * 1000000ll };
	struct finder f = { .comm = comm, .rank = finder_of(comm) };
	const int knows = f.rank != comm->rank;
	char name[32] = "another rank";
	if (knows)
		snprintf(name, sizeof name, "rank %d", f.rank);
	if (knows && wait_until(&soon, poll_finder, &f) > 0)
		snprintf(text, bytes, "%s: %s found: %s", call, name, f.reason);
	else
		snprintf(text, bytes,
			 "%s: %s found that calls of this communicator do not match; its own line says which",
			 call, name);
}

void diagnose_found_elsewhere(struct comm *comm, const char *call)
{
	char text[COMM_ERROR_BYTES];
	print_finder(comm, call, text, sizeof text);
	comm_fail(comm, CORALE_EMISMATCH, text);
}

/* A send or receive that the rank has refused, and the other one has not; the other way round it is another call. */
static int find_refused(struct comm *comm, int rank, int other, struct record *refused)
{
	const uint64_t last = atomic_load(&comm->number);
	for (uint64_t n = last > WINDOW_CALLS ? last - WINDOW_CALLS : 1; n <= last + WINDOW_CALLS; n++) {
		const struct record theirs = record_of(comm, other, n);
		*refused = record_of(comm, rank, n);
		if (refused->number && refused->op == RECORD_REFUSED && coll_is_pair(refused->coll) &&
		    (!theirs.number || theirs.signature != refused->signature))
			return 1;
	}
	return 0;
}

int diagnose_refuses(struct comm *comm, int peer)
{
	return find_refused(comm, peer, comm->rank, &(struct record){ 0 });
}

int diagnose_refused(struct comm *comm, const struct record *call, int peer)
{
	char what[256];
	struct record refused;
	int rank = peer;
	if (!find_refused(comm, peer, comm->rank, &refused)) {
		rank = comm->rank;
		if (!find_refused(comm, rank, peer, &refused))
			return 0;
	}
	print_refused(comm, rank, &refused, what, sizeof what);
	return fail_call(comm, call, CORALE_EMISMATCH, comm->rank,
			 " and what rank %d called do not match, because rank %d called %s", peer, rank,
			 what);
}

/* The messages that say so were sent before the one that differs, but may come by another way. */
static int poll_refused(void *arg)
{
	struct finder *f = arg;
	transport_progress(f->comm->engine.transport);
	return !f->comm->engine.transport || diagnose_refuses(f->comm, f->rank);
}

int diagnose_mismatch(struct comm *comm, const struct record *call, const struct host_mismatch *mismatch)
{
	static const struct wait_policy soon = { .timeout_ns = 50 * 1000000ll };
	char text[COMM_ERROR_BYTES], what[256];
	if (mismatch && coll_is_pair(call->coll) && mismatch->expected != mismatch->got) {
		wait_until(&soon, poll_refused, &(struct finder){ .comm = comm, .rank = mismatch->peer });
		if (diagnose_refused(comm, call, mismatch->peer))
			return CORALE_EMISMATCH;
	}
	if (mismatch && (coll_is_pair(call->coll) || mismatch->expected == mismatch->got)) {
		print_edge(comm, call, mismatch, text, sizeof text); /* no other rank knows it */
		publish_text(comm, WINDOW_ENDED, text);
	}
	/* All others come and report. They name the rank that was first, as it alone has said why. */
	const uint64_t position = atomic_load(&comm->engine.position);
	const struct ending end = { .code = CORALE_EMISMATCH,
				    .culprit = mismatch ? comm->rank : finder_of(comm),
				    .at = !position || (mismatch && coll_is_pair(call->coll)) ? EVERYWHERE
											      : position };
	spread(comm, &end);
	uint64_t number = first_difference(comm);
	if (!mismatch || mismatch->expected != mismatch->got || number) {
		struct collect c = { comm, number ? number : atomic_load(&comm->number),
				     wait_now_ns() + COLLECT_MS * 1000000ll };
		wait_until(&comm->policy, poll_records, &c);
		number = first_difference(comm);
	}
	diagnose_print_call(call, what, sizeof what);
	if (number)
		print_difference(comm, number, text, sizeof text);
	else if (mismatch)
		print_edge(comm, call, mismatch, text, sizeof text);
	else
		print_finder(comm, what, text, sizeof text);
	fail(comm, &(struct ending){ CORALE_EMISMATCH, comm->rank, 0, end.at }, text);
	return CORALE_EMISMATCH;
}

/* ---- Calls that can't end ------------------------------------------------------------------ */

int diagnose_one_caller(struct comm *comm, const struct record *call, int rank)
{
	if (!process_has_one_caller() || !comm_is_idle(comm->id, rank))
		return 0;
	return fail_call(
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
			send_control(comm, KIND_LEFT, (int)how, comm->rank, r);
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
	return fail_call(comm, call, CORALE_EPEER, rank, " waits for %s, which is lost: %s", name,
			 log_last_error());
}

int diagnose_gone(struct comm *comm, const struct record *call, int rank)
{
	char gone[384];
	presence_print_gone(comm, rank, gone, sizeof gone);
	return fail_call(comm, call, CORALE_EPEER, rank, " waits for %s", gone);
}
