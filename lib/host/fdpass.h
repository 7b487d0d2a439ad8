/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * File descriptors between processes of one machine and one user, over AF_UNIX sockets with random abstract names: nothing appears in the file system.
 * Everybody listens; the caller exchanges names by its own allgather; then everybody calls fdpass_exchange with the names of the others, and closes.
 */
#ifndef FDPASS_H
#define FDPASS_H

#include <stdint.h>

#include "corale.h"

enum {
	FDPASS_NAME_BYTES = 108, /* of a socket's name, with its terminating zero */
	FDPASS_MAX_FDS = 64, /* that one participant sends to each peer */
	FDPASS_WHY_BYTES = 160
};

struct fdpass;

/* Starts to listen; name gets this participant's name, a printable text. Returns 0, CORALE_ENOMEM or CORALE_ESYSTEM. Any thread. */
int fdpass_listen(struct fdpass **out, char name[FDPASS_NAME_BYTES]);

/*
 * Sends nfds of my descriptors to each peer and receives as many from each: fds_out[i * nfds + k] is the k-th descriptor of peer i, close-on-exec and
 * the caller's to close. All participants pass the same cookie and nfds, and list each other by distinct ids. Strangers (another user or cookie, the
 * longest silent ones of many) are turned away. Blocks without spinning, timeout_s at most (negative: no limit). On failure all received descriptors
 * are closed. 0, CORALE_ETIMEDOUT (the log names the peers that did not come), CORALE_EPEER (a peer no longer listens, seen within a second),
 * CORALE_ENOTSUP (the kernel forbids it, or a peer is another user's or says so of itself; not logged: fdpass_why), CORALE_EINVAL, CORALE_ENOMEM, CORALE_ESYSTEM. One thread at a time per struct fdpass.
 */
int fdpass_exchange(struct fdpass *pass, int peers, const char (*names)[FDPASS_NAME_BYTES],
		    const int *peer_ids, int my_id, uint64_t cookie, const int *my_fds, int nfds,
		    int *fds_out, double timeout_s);

/* Why fdpass_exchange returned CORALE_ENOTSUP; "": a peer can't, and has said so. */
const char *fdpass_why(const struct fdpass *pass);

/* Stops to listen; what peers sent meanwhile is dropped. NULL is allowed. */
void fdpass_close(struct fdpass *pass);

#endif
