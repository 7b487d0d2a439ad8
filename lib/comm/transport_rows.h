/* SPDX-License-Identifier: BSD-3-Clause */
/* All transports, and which of them a communicator may use. */
#ifndef TRANSPORT_ROWS_H
#define TRANSPORT_ROWS_H

#include "net/transport.h"

/* All rows of this library, in order of preference; ends with NULL. */
extern const struct transport_row *const transport_rows[TRANSPORT_ROWS + 1];

/* The i-th row of a communicator, or NULL behind the last. own: a front door's (NULL: none), in the place of the row of its name. */
const struct transport_row *transport_row_at(int i, const struct transport_row *own);
/* 0, or CORALE_ESETTING, logged: CORALE_TRANSPORT names no row. */
int transport_check_wanted(const struct settings *settings, int rank);
/* 1 if CORALE_TRANSPORT allows the row. */
int transport_is_wanted(const struct settings *settings, const struct transport_row *row);

#endif
