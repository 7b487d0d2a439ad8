/* Not written yet: refuses. */
#include <stdio.h>

#include "transport_mpi.h"

static int available(const struct settings *settings, char *why_not, size_t bytes)
{
	(void)settings;
	snprintf(why_not, bytes, "the MPI transport is not written yet");
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

const struct transport_ops transport_mpi = { .name = "mpi", .available = available, .open = open_none };
