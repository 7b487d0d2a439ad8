/* SPDX-License-Identifier: BSD-3-Clause */
/* The transport over UCX in libnccl.so.2, which does not link UCX: that of a module. */

#include "base/log.h"
#include "net/module.h"
#include "transport_ucx.h"

/* Every host: the module is opened where ranks are on several nodes, and what it lacks is said then. */
static uint64_t probe(const struct transport_row *row, int gpus, char *why_not, size_t bytes)
{
	(void)row, (void)gpus, (void)why_not, (void)bytes;
	return 1;
}

/* NULL, logged. */
static const struct transport_row *row_of_module(int rank)
{
	char why_not[1024];
	const struct module *module = module_find(MODULE_UCX, why_not, sizeof why_not);
	if (!module)
		log_line(LOG_ERROR, rank, "ranks on several nodes need UCX: %s", why_not);
	return module ? module->row : NULL;
}

static int devices(const struct settings *settings, char *text, size_t bytes)
{
	const struct transport_row *row = row_of_module(-1);
	return row ? row->devices(settings, text, bytes) : CORALE_ENOTSUP;
}

static int gpudirect(const struct settings *settings, char *text, size_t bytes)
{
	const struct transport_row *row = row_of_module(-1);
	return row ? row->gpudirect(settings, text, bytes) : CORALE_ENOTSUP;
}

static int open_module(const struct transport_row *row, const struct transport_params *params,
		       struct transport **out)
{
	const struct transport_row *other = row_of_module(params->rank);
	(void)row;
	return other ? other->open(other, params, out) : CORALE_ENOTSUP;
}

const struct transport_row transport_ucx = {
	.name = "ucx", .probe = probe, .devices = devices, .gpudirect = gpudirect, .open = open_module
};
