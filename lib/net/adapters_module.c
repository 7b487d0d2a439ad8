/* SPDX-License-Identifier: BSD-3-Clause */
/* The reading of the PCI tree in libnccl.so.2, which does not link hwloc: that of a module, or adapters without their places. */
#include <stdio.h>

#include "corale.h"
#include "adapters.h"
#include "base/log.h"
#include "module.h"

int adapters_read_tree(const struct adapters_source *source, struct adapters *adapters)
{
	char why_not[1024];
	const struct module *module = module_find(MODULE_HWLOC, why_not, sizeof why_not);
	if (module)
		return module->read_tree(source, adapters);
	snprintf(adapters->tree, sizeof adapters->tree, "none: %.270s", why_not);
	if (source->tree)
		return log_error(CORALE_ESETTING, -1, "CORALE_TOPO_FILE=%s can't be read: %s; or unset it",
				 source->tree, why_not);
	adapters_read_files(source, adapters);
	return 0;
}
