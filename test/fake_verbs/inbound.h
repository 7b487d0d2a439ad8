/* SPDX-License-Identifier: BSD-3-Clause */
/* What this process receives: the connections of others. */
#ifndef FAKE_VERBS_INBOUND_H
#define FAKE_VERBS_INBOUND_H

#include "sockets.h"

/* The `ready` of the listening socket. */
void fake_inbound_accept(struct fake_source *listener);

/* Closes all connections. */
void fake_inbound_close(void);

#endif
