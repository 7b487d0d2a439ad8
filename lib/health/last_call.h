/*
 * The end of a communicator: whether its ranks agree on their last collective. A collective with a root may end on a rank that has heard of no
 * other one (two ranks that are both the root of a broadcast only send), and no later call is there to show it.
 */
#ifndef LAST_CALL_H
#define LAST_CALL_H

#include "state/comm.h"

/*
 * Fails comm, with the line, if the next rank has made another call in its place: CORALE_EMISMATCH; so do the others that have not left. Each rank
 * tells the one before it what it has called, so a ring of comparisons finds any difference. Waits only after a collective with a root, and
 * until that rank is known to have made the call: 2 s at most, beyond which an INFO line says so. Once all calls are complete.
 */
int last_call_compare(struct comm *comm);

#endif
