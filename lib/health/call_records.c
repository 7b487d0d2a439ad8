/* SPDX-License-Identifier: BSD-3-Clause */
#include "control_messages.h"

#include <stdio.h>

#include "base/collectives.h"
#include "diagnose.h"

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

struct record records_get(const struct comm *comm, int rank, uint64_t number)
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

int records_differ(const struct comm *comm, uint64_t number)
{
	struct record seen = { 0 };
	for (int r = 0; r < comm->size; r++) {
		const struct record record = records_get(comm, r, number);
		if (!record.number)
			continue;
		if (seen.number && seen.signature != record.signature)
			return 1;
		seen = record;
	}
	return 0;
}

uint64_t records_first_difference(struct comm *comm)
{
	uint64_t last = atomic_load(&comm->number), first = last > WINDOW_CALLS ? last - WINDOW_CALLS + 1 : 1;
	for (uint64_t number = first; number <= last + 1; number++)
		if (records_differ(comm, number))
			return number;
	return 0;
}

int records_find_refused(struct comm *comm, int rank, int other, struct record *refused)
{
	const uint64_t last = atomic_load(&comm->number);
	for (uint64_t n = last > WINDOW_CALLS ? last - WINDOW_CALLS : 1; n <= last + WINDOW_CALLS; n++) {
		const struct record theirs = records_get(comm, other, n);
		*refused = records_get(comm, rank, n);
		if (refused->number && refused->op == RECORD_REFUSED && coll_is_pair(refused->coll) &&
		    (!theirs.number || theirs.signature != refused->signature))
			return 1;
	}
	return 0;
}

int diagnose_refuses(struct comm *comm, int peer)
{
	return records_find_refused(comm, peer, comm->rank, &(struct record){ 0 });
}

int diagnose_has_called(struct comm *comm, int rank, uint64_t number)
{
	const struct journal journal = journal_of(comm, rank);
	return journal_has(journal.calls, journal.n, number);
}

int diagnose_find_call(struct comm *comm, int rank, uint64_t number, struct record *out)
{
	*out =
	    number && comm_control(comm, comm->rank) ? records_get(comm, rank, number) : (struct record){ 0 };
	return out->number != 0;
}

int diagnose_differs_from(struct comm *comm, int rank, uint64_t number)
{
	const struct record mine = records_get(comm, comm->rank, number),
			    theirs = records_get(comm, rank, number);
	return mine.number && theirs.number && mine.signature != theirs.signature;
}

int diagnose_differs(struct comm *comm, int on_this_node)
{
	const uint64_t number = atomic_load(&comm->number);
	for (int r = 0; comm->engine.windows && r < comm->size; r++)
		if (host_is_local(&comm->engine, r) == on_this_node && diagnose_differs_from(comm, r, number))
			return CORALE_EMISMATCH;
	return 0;
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
