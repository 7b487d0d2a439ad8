/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cost of a message on a link. Both ends measure together; each in turn sends bursts. The parameters are LogGP's
 * (Alexandrov, Ionescu, Schauser and Scheiman 1995); how they are separated follows Culler, Liu, Martin and Yoshikawa, "Assessing fast network
 * interfaces" (1996): the sender's time is that of a burst's posts, the receiver's that of taking messages which are all there.
 */
#ifndef LINK_MEASURE_H
#define LINK_MEASURE_H

#include "link.h"

/* Of one end, in ns. */
struct link_costs {
	double one_way_ns; /* of a small message, from its post until it is taken */
	double post_ns, recv_ns; /* the core's share of that, as sender and as receiver */
	double pace_ns; /* between arrivals of a burst: the sender's adapter is included */
	double byte_ns; /* of each byte of a large one beyond that; 0: slots are too small to measure it */
};

/*
 * Both ends call it at about the same time, one with leads 1, the other with 0. The link has no other user and no message in flight, before and
 * afterwards. Takes some milliseconds, spins. 0; CORALE_ETIMEDOUT: the other end did not answer
 * within timeout_ns; or the link's error: not logged.
 */
int link_measure(struct transport *t, struct link *l, int leads, int64_t timeout_ns, struct link_costs *out);

#endif
