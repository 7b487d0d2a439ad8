/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The descriptors of this folder. They are opened and closed here, so that a forked child can close its copies: as long as a
 * child held them, peers would not see that the parent's process has ended. (exec closes them by itself.)
 */
#ifndef BOOT_FDS_H
#define BOOT_FDS_H

#include "boot_wire.h"

/* All are non-blocking and closed by exec. -1: see errno. */
int boot_fds_socket(int family); /* of TCP */
/* One that listens, or -1 after a line. The port is the kernel's choice if address has none. where: of the address, for the line. */
int boot_fds_listen(struct boot_address *address, const char *where);
int boot_fds_accept(int listening);
int boot_fds_event(void);
/* For a connected socket: small frames go at once, and a peer whose host is gone is found within a minute or two. */
void boot_fds_tune(int fd);
/* For the process that opened it; a child's copy is closed already. -1 does nothing. */
void boot_fds_close(int fd);

/* For pthread_atfork: before a fork; after it in the parent; after it in the child, before unlocking. */
void boot_fds_lock(void);
void boot_fds_unlock(void);
void boot_fds_close_all(void);

#endif
