/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that called something else: which one, and what. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/collectives.h"
#include "control_messages.h"
#include "diagnose.h"
#include "net/transport.h"

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
		known += records_get(c->comm, r, c->number).number != 0;
	return known == c->comm->size || wait_now_ns() > c->until;
}

int diagnose_stalled(struct comm *comm, int peer)
{
	const struct host_engine *e = &comm->engine;
	const uint64_t number = atomic_load(&comm->number),
		       notified = number * (uint64_t)comm->size + (uint64_t)peer;
	if (!e->transport || !records_get(comm, comm->rank, number).number)
		return 0;
	if (peer >= 0 && !host_is_local(e, peer) &&
	    atomic_exchange(&comm->watch.last_notified, notified) != notified)
		diagnose_send_calls(comm, peer);
	if (comm->gpu) /* where calls are made before others have run: theirs may be an earlier one */
		return records_first_difference(comm) ? CORALE_EMISMATCH : 0;
	return diagnose_differs(comm, 0);
}

/* As diagnose_print_call; where the rank has refused it, with its reason, if that is known. */
static void print_refused(struct comm *comm, int rank, const struct record *call, char *buf, size_t bytes)
{
	char text[WINDOW_REASON], *why = text;
	diagnose_print_call(call, buf, bytes);
	const size_t at = strlen(buf);
	if (call->op == RECORD_REFUSED && control_read_text(comm, WINDOW_REFUSED, rank, text) &&
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
		struct record record = records_get(comm, r, number);
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
		known += records_get(comm, r, number).number != 0;
	for (int r = 0; r < comm->size; r++) {
		struct record mine = records_get(comm, r, number);
		int repeated = !mine.number;
		for (int q = 0; q < r && !repeated; q++) {
			struct record other = records_get(comm, q, number);
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
	const uint64_t word = control_abort_word(comm);
	const struct ending ending = control_read_ending(comm, word);
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
	return control_read_text(f->comm, WINDOW_ENDED, f->rank, f->reason);
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

int diagnose_refused(struct comm *comm, const struct record *call, int peer)
{
	char what[256];
	struct record refused;
	int rank = peer;
	if (!records_find_refused(comm, peer, comm->rank, &refused)) {
		rank = comm->rank;
		if (!records_find_refused(comm, rank, peer, &refused))
			return 0;
	}
	print_refused(comm, rank, &refused, what, sizeof what);
	return diagnose_fail_call(comm, call, CORALE_EMISMATCH, comm->rank,
				  " and what rank %d called do not match, because rank %d called %s", peer,
				  rank, what);
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
		control_publish_text(comm, WINDOW_ENDED, text);
	}
	/* All others come and report. They name the rank that was first, as it alone has said why. */
	const uint64_t position = atomic_load(&comm->engine.position);
	const struct ending end = { .code = CORALE_EMISMATCH,
				    .culprit = mismatch ? comm->rank : finder_of(comm),
				    .at = !position || (mismatch && coll_is_pair(call->coll)) ? EVERYWHERE
											      : position };
	diagnose_spread(comm, &end);
	uint64_t number = records_first_difference(comm);
	if (!mismatch || mismatch->expected != mismatch->got || number) {
		struct collect c = { comm, number ? number : atomic_load(&comm->number),
				     wait_now_ns() + COLLECT_MS * 1000000ll };
		wait_until(&comm->policy, poll_records, &c);
		number = records_first_difference(comm);
	}
	diagnose_print_call(call, what, sizeof what);
	if (number)
		print_difference(comm, number, text, sizeof text);
	else if (mismatch)
		print_edge(comm, call, mismatch, text, sizeof text);
	else
		print_finder(comm, what, text, sizeof text);
	diagnose_fail(comm, &(struct ending){ CORALE_EMISMATCH, comm->rank, 0, end.at }, text);
	return CORALE_EMISMATCH;
}
