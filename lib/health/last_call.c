/* SPDX-License-Identifier: BSD-3-Clause */

#include "base/collectives.h"
#include "base/log.h"
#include "diagnose.h"
#include "presence.h"

enum { MOST_MS = 100 };

struct comparison {
	struct comm *comm;
	uint64_t number; /* of the last call here */
	int next; /* with whose call it is compared, */
	int before; /* and with this one's, if it is known */
	int64_t until;
	int timed_out;
};

static int poll_peer(void *arg)
{
	struct comparison *c = arg;
	transport_progress(c->comm->engine.transport);
	if (diagnose_peers(c->comm))
		return diagnose_peers(c->comm);
	const int called = diagnose_has_called(c->comm, c->next, c->number); /* before its call is read */
	if (diagnose_differs_from(c->comm, c->next, c->number) ||
	    diagnose_differs_from(c->comm, c->before, c->number))
		return CORALE_EMISMATCH;
	c->timed_out = !called && wait_now_ns() > c->until;
	return called || c->timed_out || presence_of(c->comm, c->next) != IS_PRESENT;
}

int last_call_compare(struct comm *comm)
{
	const uint64_t number = atomic_load(&comm->number);
	const int next = (comm->rank + 1) % comm->size, before = (comm->rank + comm->size - 1) % comm->size;
	struct record last;
	/* on GPUs of one node every kernel has a signal from all ranks */
	if (comm->size == 1 || (comm->gpu && !comm->proxy) || atomic_load(&comm->error) ||
	    !diagnose_find_call(comm, comm->rank, number, &last) || !coll_is_rooted(last.coll))
		return 0;
	struct comparison c = { comm, number, next, before, wait_now_ns() + MOST_MS * 1000000ll, 0 };
	if (!host_is_local(&comm->engine, before)) /* ranks of this node read it in the window */
		diagnose_send_calls(comm, before);
	if (!host_is_local(&comm->engine, next)) {
		diagnose_send_calls(comm, next);
		diagnose_ask(comm, next);
	}
	const int ret = wait_until(
	    &(struct wait_policy){ .spin_ns = comm->policy.spin_ns, .sleep_ns = comm->policy.sleep_ns },
	    poll_peer, &c);
	if (ret == CORALE_EMISMATCH)
		return diagnose_mismatch(comm, &last, NULL);
	if (c.timed_out)
		log_line(LOG_INFO, comm->rank,
			 "rank %d has not made call %llu within %d ms after this rank's end: whether it is "
			 "the same call is left to its own end",
			 next, (unsigned long long)number, MOST_MS);
	return 0;
}
