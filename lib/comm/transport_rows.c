/* SPDX-License-Identifier: BSD-3-Clause */
/* The transports, the preferred one first. A new one is its files, its row here and its lines of the build (docs/adding.md). */
#include "transport_rows.h"

#include "net/ucx/transport_ucx.h"

const struct transport_row *const transport_rows[TRANSPORT_ROWS + 1] = { &transport_ucx,
									 &transport_mpi_absent };
