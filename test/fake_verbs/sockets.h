/* SPDX-License-Identifier: BSD-3-Clause */
/* The sockets of an adapter, and the loop that waits for them. */
#ifndef FAKE_VERBS_SOCKETS_H
#define FAKE_VERBS_SOCKETS_H

#include <stdint.h>

/* A descriptor that the adapter's thread waits for. The function is called under the lock. */
struct fake_source {
	int fd;
	void (*ready)(struct fake_source *source);
};

/* A listening socket under the first lid that is free on this machine, or -1. */
int fake_socket_listen(uint16_t *lid);

/* A socket to the process of a lid, or -1: there is none. */
int fake_socket_connect(uint16_t lid);

/* Waits for these events (of epoll) of a source from now on. */
void fake_wire_watch(struct fake_source *source, uint32_t events);

#endif
