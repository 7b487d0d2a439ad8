/* SPDX-License-Identifier: BSD-3-Clause */
/* In the place of transport_ucx.c where UCX was not there at build time. */
#include <stdio.h>

#include "transport_ucx.h"

static uint64_t probe(const struct transport_row *row, int gpus, char *why_not, size_t bytes)
{
	(void)row, (void)gpus;
	snprintf(why_not, bytes, "this build has no UCX: configure --with-ucx");
	return 0;
}

const struct transport_row transport_ucx = { .name = "ucx", .probe = probe };
