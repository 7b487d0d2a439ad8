/* SPDX-License-Identifier: BSD-3-Clause */
/* What NCCL's variables say of the network between nodes, for all programs. CORALE_NET_DEVICES and UCX's own variables come first. Pure. */
#ifndef NETWORK_H
#define NETWORK_H

#include "base/settings.h"

enum network_kind { NETWORK_ANY, NETWORK_SOCKET, NETWORK_IB };

/* By NCCL_IB_DISABLE, then NCCL_NET; other values of it are plugins' names, and say nothing here. */
enum network_kind network_kind(const struct settings *settings);

/* The variable that the kind is by, with its value: "NCCL_IB_DISABLE=1"; "": none. */
const char *network_kind_reason(const struct settings *settings, char *text, size_t bytes);

/* A whole number, decimal, hexadecimal or octal as NCCL reads them; 0, or CORALE_EINVAL: it is none from least to most. */
int network_number(const char *text, long least, long most, long *out);

#endif
