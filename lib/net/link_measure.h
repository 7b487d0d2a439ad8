/*
 * What a message costs on a link: both ends measure together, one after the other as the sender of bursts. The parameters are LogGP's
 * (Alexandrov, Ionescu, Schauser and Scheiman 1995); how they are told apart follows Culler, Liu, Martin and Yoshikawa, "Assessing fast network
 * interfaces" (1996): the sender's time is that of a burst's posts, the receiver's that of taking messages which are all there.
 */
#ifndef LINK_MEASURE_H
#define LINK_MEASURE_H

#include "link.h"

/* Of one end, in ns. */
struct link_costs {
	double one_way_ns; /* of a small message, from its post until it is taken */
	double post_ns, recv_ns; /* of that, of this end's core as its sender and its receiver */
	double pace_ns; /* between two of a burst, as they arrive: the sender's adapter included */
	double byte_ns; /* of each byte of a large one beyond that; 0: slots are too small to tell */
};

/*
 * Both ends call it at about the same time, leads is 1 at one of them and 0 at the other; the link has no other user meanwhile and no message
 * under way, and is so again afterwards. Takes some milliseconds, spins. 0; CORALE_ETIMEDOUT: the other end did not answer
 * within timeout_ns; or the link's error: not logged.
 */
int link_measure(struct transport *t, struct link *l, int leads, int64_t timeout_ns, struct link_costs *out);

#endif
