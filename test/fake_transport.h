/* The smallest transport: between threads of one process. It is added by its files, a row of fake_rows.c and lines of the build. */
#ifndef FAKE_TRANSPORT_H
#define FAKE_TRANSPORT_H

#include "net/link.h"

extern const struct transport_row transport_fake;

#endif
