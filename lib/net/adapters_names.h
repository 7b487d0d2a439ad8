/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of ports, as NCCL_IB_HCA has them: [^][=]name[:port[:rail[:plane]]],... '^': all but these; '=': names are exact, else they are
 * beginnings, so mlx5_1 is mlx5_10 too. No port is any port. Rail and plane, which are NCCL's own, are not used. Pure.
 */
#ifndef ADAPTERS_NAMES_H
#define ADAPTERS_NAMES_H

#include <stddef.h>

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
