/* SPDX-License-Identifier: BSD-3-Clause */
/* What corale_hwloc.so exports. */
#include "module.h"

const struct module corale_module = { .bytes = MODULE_BYTES,
				      .version = CORALE_VERSION,
				      .start = module_start,
				      .read_tree = adapters_read_tree };
