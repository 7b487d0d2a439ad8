/* SPDX-License-Identifier: BSD-3-Clause */
/* The smallest transport: between threads of one process. It is added by its files, a row of fake_rows.c and lines of the build. */
#ifndef FAKE_TRANSPORT_H
#define FAKE_TRANSPORT_H

#include "net/link.h"

extern const struct transport_row transport_fake;

/* What becomes of messages; set before communicators are made. */
enum fake_network {
	FAKE_CARRIES,
	FAKE_DROPS, /* as a firewall does */
	FAKE_LEADS_NOWHERE
};
extern enum fake_network fake_network;

#endif
