/* SPDX-License-Identifier: BSD-3-Clause */
/* What the parts of corale-info share. */
#ifndef INFO_H
#define INFO_H

#include <stdio.h>

#include "base/settings.h"

static inline void heading(const char *text)
{
	printf("\n%s\n", text);
}

static inline void line(const char *name, const char *value)
{
	printf("  %-24s %s\n", name, value);
}

/* A section: each transport, and what it opens. */
void info_transports(const struct settings *settings);

/* Whether the kernel lets processes share memory by descriptors, and read each other's: tried, in words. */
void info_probe_memfd(char *text, size_t bytes);
void info_probe_reference(char *text, size_t bytes);

/* What messages inside a node take each way: lines of the section on engines. */
void info_ways(void);

/* corale-info --net, whole; returns the exit status. */
int info_net(void);

#endif
