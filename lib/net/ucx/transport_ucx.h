/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRANSPORT_UCX_H
#define TRANSPORT_UCX_H

#include "net/transport.h"

extern const struct transport_row transport_ucx; /* without UCX at build time, by none.c: probe says so */

#endif
