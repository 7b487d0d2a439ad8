/* SPDX-License-Identifier: BSD-3-Clause */
#include "start.h"

#include "base/log.h"
#include "base/mapped.h"
#include "coll.h"

/* From so many bytes on. Between nodes messages of this size leave from the caller's memory, which UCX reads in the middle of its own work. */
enum { LEAST_BETWEEN_NODES = 16 << 10, LEAST = 1 << 20 };

static int look_at(const struct comm *comm, const struct call *call, int sending, const char *at,
		   size_t bytes)
{
	const size_t least = comm->engine.transport ? LEAST_BETWEEN_NODES : LEAST;
	if (bytes < least || mapped_seems(at, bytes, !sending))
		return 0;
	char *writable = (char *)(uintptr_t)at;
	const size_t good = sending ? mapped_readable(at, bytes) : mapped_writable(writable, bytes);
	return good == bytes ? 0
			     : log_error(CORALE_ESYSTEM, comm->rank,
					 "%s: %zu bytes at %p are to be %s, of which this rank can %s %zu: "
					 "give a %s buffer that is mapped as a whole%s",
					 coll_table[call->record.coll].name, bytes, (const void *)at,
					 sending ? "sent" : "received", sending ? "read" : "write", good,
					 sending ? "send" : "receive", sending ? "" : ", not read-only");
}

/* A block that is sent in place stays as it is: nothing is written to a broadcast's or scatter's root. */
static int stays(const struct call *call, int rank, const char *recv)
{
	const int coll = call->record.coll, is_root = rank == call->record.root;
	const size_t own =
	    call->send_displs ? call->send_displs[rank] : coll_send_own(coll, rank) * call->record.count;
	return is_root && coll_table[coll].root_sends &&
	       recv == (const char *)call->send + own * corale_type_bytes(call->record.type);
}

static int check_side(const struct comm *comm, const struct call *call, int sending)
{
	const struct record *r = &call->record;
	const char *at = sending ? call->send : call->recv;
	const size_t blocks =
	    (sending ? coll_send_blocks : coll_recv_blocks)(r->coll, comm->size, comm->rank, r->root);
	size_t bytes = blocks * call_bytes(call);
	if (!sending && stays(call, comm->rank, at))
		return 0;
	if (!coll_is_uneven(r->coll))
		return look_at(comm, call, sending, at, bytes);
	int ret = 0;
	for (int i = 0; !ret && uneven_block(comm, call, sending, i, &at, &bytes); i++)
		ret = look_at(comm, call, sending, at, bytes);
	return ret;
}

int buffers_check(const struct comm *comm, const struct call *call)
{
	const int ret = check_side(comm, call, 1);
	return ret ? ret : check_side(comm, call, 0);
}
