/* SPDX-License-Identifier: BSD-3-Clause */
/* A transport among threads of one process, so that tests have several nodes of them (CORALE_NODE_SIZE). */
#ifndef TRANSPORT_INPROC_H
#define TRANSPORT_INPROC_H

#include "net/transport.h"

extern const struct transport_row transport_inproc;
extern const struct transport_ops transport_inproc_ops;

#endif
