/* SPDX-License-Identifier: BSD-3-Clause */
/* What NCCL's variables say of the network between nodes, for all programs. CORALE_NET_DEVICES and UCX's own variables come first. Pure. */
#ifndef NETWORK_H
#define NETWORK_H

#include <stddef.h>

#include "base/settings.h"

enum network_kind { NETWORK_ANY, NETWORK_SOCKET, NETWORK_IB };

/* By NCCL_IB_DISABLE, then NCCL_NET; other values of it are plugins' names, and say nothing here. */
enum network_kind network_kind(const struct settings *settings);

/* The variable that the kind is by, with its value: "NCCL_IB_DISABLE=1"; "": none. */
const char *network_kind_reason(const struct settings *settings, char *text, size_t bytes);

/* A whole number, decimal, hexadecimal or octal as NCCL reads them; 0, or CORALE_EINVAL: it is none from least to most. */
int network_number(const char *text, long least, long most, long *out);

/*
 * Names of ports, as NCCL_IB_HCA has them: [^][=]name[:port[:rail[:plane]]],... '^': all but these; '=': names are exact, else they are
 * beginnings, so mlx5_1 is mlx5_10 too. No port is any port. Rail and plane, which are NCCL's own, are not used. Pure.
 */

enum { ADAPTERS_NAMES = 64 };

struct adapters_names {
	int is_except, is_exact, n;
	struct adapters_name {
		char name[32];
		int port; /* 0: any */
	} entry[ADAPTERS_NAMES];
};

/* 0, or CORALE_EINVAL, and error says what is wrong and where. */
int adapters_names_parse(const char *text, struct adapters_names *names, char *error, size_t bytes);
int adapters_names_match(const struct adapters_names *names, const char *name, int port);

/* UCX's list, "mlx5_0:1,eth0", "^mlx5_0:1" or "all". port 0: an entry without one. */
int adapters_devices_match(const char *list, const char *name, int port);

#endif
