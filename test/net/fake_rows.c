/* SPDX-License-Identifier: BSD-3-Clause */
/* In the place of lib/comm/transport_rows.c: the same rows, and one more. */
#include "comm/transport_rows.h"
#include "fake_transport.h"
#include "net/ucx/transport_ucx.h"
#include "test/helpers/transport_inproc.h"

const struct transport_row *const transport_rows[TRANSPORT_ROWS + 1] = { &transport_fake, &transport_inproc,
									 &transport_ucx,
									 &transport_mpi_absent };
