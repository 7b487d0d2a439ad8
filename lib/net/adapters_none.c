/* SPDX-License-Identifier: BSD-3-Clause */
/* In the place of adapters_hwloc.c where hwloc was not there at build time: adapters without their places. */
#include <stdio.h>

#include "corale.h"
#include "adapters.h"
#include "base/log.h"

int adapters_read_tree(const struct adapters_source *source, struct adapters *adapters)
{
	snprintf(adapters->tree, sizeof(adapters->tree),
		 "none: this build has no hwloc: configure --with-hwloc");
	if (source->tree)
		return log_error(CORALE_ESETTING, -1,
				 "CORALE_TOPO_FILE=%s can't be read: this build has no hwloc; unset it, or "
				 "configure --with-hwloc",
				 source->tree);
	adapters_read_files(source, adapters);
	return 0;
}
