/* SPDX-License-Identifier: BSD-3-Clause */

#include <stdio.h>
#include <string.h>

#include "base/process.h"
#include "health/diagnose.h"
#include "runner.h"
#include "signature.h"

static int concerns_others(const struct comm *comm)
{
	return comm->size > 1 && !atomic_load(&((struct comm *)(uintptr_t)comm)->error) &&
	       !process_is_forked();
}

void refuse_end(struct comm *comm, const char *what, const char *why)
{
	char text[COMM_ERROR_BYTES];
	if (!concerns_others(comm))
		return;
	snprintf(text, sizeof text,
		 "rank %d has refused %s that other ranks may start, so communicator %016llx ends. It was "
		 "refused because: %s",
		 comm->rank, what, (unsigned long long)comm->id, why);
	comm_fail_next(comm, CORALE_EMISMATCH, text);
	if (comm->gpu)
		engine_cuda.abort(comm->gpu, CORALE_EMISMATCH);
}

void refuse_call(struct comm *comm, const struct call *call, struct corale_stream *stream, const char *why)
{
	const int pair = call_is_pair(call);
	if (!concerns_others(comm))
		return;
	if (comm->gpu && pair && call->record.root != comm->rank) {
		refuse_end(comm, "a send or receive", why);
		return;
	}
	const struct call refused = { .record = { .count = ++comm->refusals,
						  .coll = pair ? CORALE_SEND : call->record.coll,
						  .op = RECORD_REFUSED } };
	diagnose_refuse(comm, comm->refusals, why);
	if (comm->gpu || comm->issued == atomic_load(&comm->completed))
		signature_of_refused(comm, &refused);
	else if (runner_refused(comm, &refused,
				stream && !stream_check(stream, "a refused call") ? stream : NULL))
		refuse_end(comm, "a call", why);
}

void refuse_door_call(corale_comm *handle, corale_coll coll, int root, int in_group, const char *why)
{
	struct comm *comm = comm_enter(handle, coll_table[coll].name);
	if (comm && in_group)
		refuse_end(comm, "a group", why);
	else if (comm)
		refuse_call(comm, &(struct call){ .record = { .coll = coll, .root = root } }, NULL, why);
	comm_leave(handle);
}

void refuse_left_to_mpi(corale_comm *handle, const char *name, uint64_t bytes)
{
	struct comm *comm = comm_enter(handle, name);
	struct call call = { .record = { .op = RECORD_BY_MPI, .count = bytes } };
	memcpy(&call.record.target, name, strnlen(name, sizeof call.record.target));
	if (comm && concerns_others(comm))
		signature_next(comm, &call);
	comm_leave(handle);
}
