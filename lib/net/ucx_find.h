/* SPDX-License-Identifier: BSD-3-Clause */
/* Where UCX's libraries are, for a program that does not link them. */
#ifndef UCX_FIND_H
#define UCX_FIND_H

#include <stddef.h>

/*
 * Loads libucp.so.0 and what it needs, the first that opens of: one that the process has already; that of wanted (CORALE_UCX_LIBRARY: a file, or its
 * folder), which is then the only one; that of HPCX_UCX_DIR; that of the Python package libucx: of the folder package, or, where that is NULL, in a
 * site-packages folder from which the process has loaded another library; the loader's; that of /opt/hpcx/ucx. Where the process may open RDMA adapters,
 * those of the last four that were built with verbs come first. They stay loaded. UCX's
 * signal handlers are taken off where this has loaded it. 0, with the path in where, and why others before it were passed by; -1: where has the reason and what to do.
 */
int ucx_find(const char *wanted, const char *package, char *where, size_t bytes);

#endif
