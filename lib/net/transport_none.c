/* In the place of transport_ucx.c where UCX was not there at build time. */
#include <stdio.h>

#include "transport.h"

static int available(const struct settings *settings, char *why_not, size_t bytes)
{
	(void)settings;
	snprintf(why_not, bytes, "this build has no UCX: configure --with-ucx");
	return 0;
}

static int open_none(const struct transport_ops *ops, const struct transport_params *params,
		     struct transport **out)
{
	(void)ops;
	(void)params;
	(void)out;
	return CORALE_ENOTSUP;
}

const struct transport_ops transport_ucx = { .name = "ucx", .available = available, .open = open_none };
