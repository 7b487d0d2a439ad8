/* SPDX-License-Identifier: BSD-3-Clause */
#include "signature.h"

#include "base/status.h"
#include "health/diagnose.h"

static uint64_t mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * 0x9e3779b97f4a7c15u; /* Fibonacci hashing; the shift carries high bits down */
	return hash ^ hash >> 29;
}

/* What must agree; of v-forms the counts that only the two ends of an edge know, are left to headers of messages. Signatures are chained, so that a difference is
 * found by the next call at the latest. */
uint64_t signature_next(struct comm *comm, const struct call *call)
{
	const struct record *r = &call->record;
	uint64_t hash = mix((uint64_t)r->coll + 1, (uint64_t)r->type << 8 | (uint64_t)op_kind(r->op));
	hash = r->op == RECORD_BY_MPI ? hash : mix(hash, r->count);
	hash = mix(hash, (uint64_t)r->root);
	hash = r->target ? mix(hash, r->target) : hash;
	const uint64_t number = atomic_load_explicit(&comm->number, memory_order_relaxed) + 1;
	atomic_store_explicit(&comm->number, number, memory_order_release);
	comm->signature_chain = mix(comm->signature_chain, hash);
	struct record record = *r;
	record.number = number;
	record.signature = comm->signature_chain << 32 | (number & 0xffffffff);
	record.op = op_kind(r->op);
	struct window_control *own = comm->engine.windows[comm->engine.local];
	journal_write(own->calls, WINDOW_CALLS, number, number, &record);
	return record.signature;
}

uint64_t signature_of_counts(const size_t *counts, int n)
{
	uint64_t hash = 1;
	for (int i = 0; i < n; i++)
		hash = mix(hash, counts[i]);
	return hash ? hash : 1;
}

static uint64_t pair_hash(corale_type type)
{
	return mix(0x70326b, (uint64_t)type) << 32;
}

corale_type signature_type_of_pair(uint64_t signature)
{
	int type = 0;
	while (type < CORALE_NUM_TYPES && pair_hash((corale_type)type) >> 32 != signature >> 32)
		type++;
	return (corale_type)type;
}

uint64_t signature_of_pair(struct comm *comm, const struct call *call)
{
	uint64_t *calls = call->record.coll == CORALE_SEND ? comm->sends : comm->recvs;
	uint64_t number = ++calls[call->record.root];
	return pair_hash(call->record.type) | (number & 0xffffffff);
}

void signature_of_refused(struct comm *comm, const struct call *refused)
{
	signature_next(comm, refused);
	for (int r = 0; call_is_pair(refused) && r < comm->size; r++) {
		comm->sends[r]++;
		comm->recvs[r]++;
	}
	diagnose_send_refusal(comm);
}

int signature_mismatch(struct comm *comm, const struct call *call)
{
	if (!call_is_pair(call))
		signature_next(comm, call);
	return diagnose_mismatch(comm, &call->record, NULL);
}
