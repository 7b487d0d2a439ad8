/* SPDX-License-Identifier: BSD-3-Clause */
/* This process's listening socket and its thread. Both are started on first need and live as long as the process. */
#ifndef BOOT_LISTENER_H
#define BOOT_LISTENER_H

#include "boot_source.h"
#include "boot_wire.h"

/* Starts it, if it does not run: the first caller's ifname and family count. *self is this process, with the listener's address. 0 or a
 * CORALE_E* with a line. Any thread. */
int boot_listener_start(const struct boot_options *o, struct boot_peer *self);
/* Expects the ranks of id at this process; with BOOT_ID_ADDRESS it listens at the id's address too, until the group has ended. */
int boot_listener_expect(const struct boot_options *o, const struct boot_id *id);

/* Sources (boot_source.h) of ranks of this process, once the listener runs. NULL: no memory. */
struct boot_source *boot_listener_add_source(const unsigned char key[BOOT_KEY_BYTES], int rank, int size);
/* Takes f over. NULL: there was no memory for it. */
void boot_listener_send(struct boot_source *s, struct frame *f);
void boot_listener_leave_source(struct boot_source *s);

#endif
