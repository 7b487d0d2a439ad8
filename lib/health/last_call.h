/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of a communicator: whether its ranks agree on their last collective. A collective with a root may end on a rank that has heard of no
 * other one (two ranks that are both the root of a broadcast only send), and no later call is there to show it.
 */
#ifndef LAST_CALL_H
#define LAST_CALL_H

#include "state/comm.h"

/*
 * Fails comm, with the line, if the next rank has made another call in its place: CORALE_EMISMATCH; so do the others that have not left. Each rank
 * tells both ranks beside it what it has called, so a ring of comparisons finds any difference. Waits only after a collective with a root, and
 * until the next rank is known to have made the call: 0.1 s at most, which ranks that end together take at most. A later one finds the
 * difference at its own end, as it knows this rank's call. Once all calls are complete.
 */
int last_call_compare(struct comm *comm);

#endif
