/* SPDX-License-Identifier: BSD-3-Clause */
/* In the place of lib/comm/transport_rows.c, in all tests that link libtest.la: the same rows, and the one among threads. */
#include "comm/transport_rows.h"
#include "net/ucx/transport_ucx.h"
#include "transport_inproc.h"

const struct transport_row *const transport_rows[TRANSPORT_ROWS + 1] = { &transport_inproc, &transport_ucx,
									 &transport_mpi_absent };
