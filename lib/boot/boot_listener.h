/* This process's listening socket and its thread. Both are started on first need and live as long as the process. */
#ifndef BOOT_LISTENER_H
#define BOOT_LISTENER_H

#include "boot_wire.h"

/* Starts it, if it does not run: the first caller's ifname and family count. *self is this process, with the listener's address. 0 or a
 * CORALE_E* with a line. Any thread. */
int boot_listener_start(const struct boot_options *o, struct boot_peer *self);
/* Expects the ranks of id at this process; with BOOT_ID_ADDRESS it listens at the id's address too, until the group has ended. */
int boot_listener_expect(const struct boot_options *o, const struct boot_id *id);

#endif
