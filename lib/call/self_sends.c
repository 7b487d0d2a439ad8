/* SPDX-License-Identifier: BSD-3-Clause */

#include <string.h>

#include "base/log.h"
#include "start.h"

int self_next(const struct comm *comm, const struct call *calls, int n, int i, corale_coll coll)
{
	while (i < n && (calls[i].record.coll != coll || calls[i].record.root != comm->rank))
		i++;
	return i;
}

int self_check(const struct comm *comm, const struct call *calls, int n)
{
	for (int s = 0, r = 0;; s++, r++) {
		s = self_next(comm, calls, n, s, CORALE_SEND);
		r = self_next(comm, calls, n, r, CORALE_RECV);
		if (s == n && r == n)
			return 0;
		if (s == n || r == n)
			return log_error(CORALE_EINVAL, comm->rank, "a %s oneself has no %s in its group",
					 r == n ? "send to" : "receive from", r == n ? "receive" : "send");
		if (calls[r].record.count != calls[s].record.count ||
		    calls[r].record.type != calls[s].record.type)
			return log_error(CORALE_EINVAL, comm->rank,
					 "send to oneself: %zu elements of %s sent, %zu of %s expected",
					 calls[s].record.count, corale_type_name(calls[s].record.type),
					 calls[r].record.count, corale_type_name(calls[r].record.type));
	}
}

int self_copy(const struct comm *comm, const struct call *calls, int n)
{
	for (int s = 0, r = 0;; s++, r++) {
		s = self_next(comm, calls, n, s, CORALE_SEND);
		r = self_next(comm, calls, n, r, CORALE_RECV);
		if (s == n)
			return 0;
		int ret = buffers_check(comm, &calls[s]);
		ret = ret ? ret : buffers_check(comm, &calls[r]);
		if (ret)
			return ret;
		if (calls[s].record.count && calls[r].recv != calls[s].send)
			memmove(calls[r].recv, calls[s].send,
				calls[s].record.count * corale_type_bytes(calls[s].record.type));
	}
}
