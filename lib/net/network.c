/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "network.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "corale.h"

int network_number(const char *text, long least, long most, long *out)
{
	char *end;
	errno = 0;
	const long number = strtol(text, &end, 0);
	if (errno || end == text || *end || number < least || number > most)
		return CORALE_EINVAL;
	*out = number;
	return 0;
}

static int is_ib_disabled(const struct settings *settings)
{
	long number;
	return !network_number(settings->ib_disable, -1, 1 << 20, &number) && number != 0;
}

enum network_kind network_kind(const struct settings *settings)
{
	if (is_ib_disabled(settings) || !strcasecmp(settings->nccl_net, "Socket"))
		return NETWORK_SOCKET;
	return strcasecmp(settings->nccl_net, "IB") ? NETWORK_ANY : NETWORK_IB;
}

const char *network_kind_reason(const struct settings *settings, char *text, size_t bytes)
{
	if (network_kind(settings) == NETWORK_ANY)
		snprintf(text, bytes, "%s", "");
	else if (is_ib_disabled(settings))
		snprintf(text, bytes, "NCCL_IB_DISABLE=%s", settings->ib_disable);
	else
		snprintf(text, bytes, "NCCL_NET=%s", settings->nccl_net);
	return text;
}
