/* SPDX-License-Identifier: BSD-3-Clause */
/* What corale_ucx.so exports. */
#include "net/module.h"

#include "transport_ucx.h"

const struct module corale_module = {
	.bytes = MODULE_BYTES, .version = CORALE_VERSION, .start = module_start, .row = &transport_ucx
};
