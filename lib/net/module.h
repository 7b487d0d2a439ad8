/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parts of the library that need a library which not every machine has, as shared objects of their own: corale_ucx.so has the transport over UCX,
 * corale_hwloc.so the reading of PCI trees. libnccl.so.2 links neither library, and opens a module when a communicator first needs it. A module has its own
 * copy of lib/base, whose log it is given; module and library share the structs of this folder, so they must be of one build.
 */
#ifndef MODULE_H
#define MODULE_H

#include <stddef.h>

#include "adapters.h"
#include "base/log.h"
#include "link.h"
#include "transport.h"

struct module {
	size_t bytes[8]; /* MODULE_BYTES of its build: of another build they differ, or the version does */
	int version; /* CORALE_VERSION */
	/* Before all else, once: where its log lines go, and what it calls at the process's end, before the library ends that it links. */
	void (*start)(enum log_level level, log_writer *writer, void (*end)(void));
	const struct transport_row *row; /* NULL: it has no transport */
	int (*read_tree)(const struct adapters_source *source,
			 struct adapters *adapters); /* NULL: it reads none */
};

#define MODULE_BYTES                                                                                         \
	{                                                                                                    \
		sizeof(struct module), sizeof(struct settings), sizeof(struct transport_row),                \
		    sizeof(struct transport_params), sizeof(struct transport_ops), sizeof(struct transport), \
		    sizeof(struct link_ops), sizeof(struct adapters)                                         \
	}

/* The one name that a module exports. */
extern const struct module corale_module __attribute__((visibility("default")));
void module_start(enum log_level level, log_writer *writer, void (*end)(void)); /* its start */

enum module_name { MODULE_UCX, MODULE_HWLOC, MODULES };

/* The module, opened by the first call of the process; NULL: why_not says why, and what to do. The module stays loaded. Any thread; the first call blocks
 * while files are read. */
const struct module *module_find(enum module_name name, char *why_not, size_t bytes);

/* Where UCX's libraries are, for a program that does not link them. */

/*
 * Loads libucp.so.0 and what it needs, the first that opens of: one that the process has already; that of wanted (CORALE_UCX_LIBRARY: a file, or its
 * folder), which is then the only one; that of HPCX_UCX_DIR; that of the Python package libucx: of the folder package, or, where that is NULL, in a
 * site-packages folder from which the process has loaded another library; the loader's; that of /opt/hpcx/ucx. Where the process may open RDMA adapters,
 * those of the last four that were built with verbs come first. They stay loaded. UCX's
 * signal handlers are taken off where this has loaded it. 0, with the path in where, and why others before it were passed by; -1: where has the reason and what to do.
 */
int ucx_find(const char *wanted, const char *package, char *where, size_t bytes);

#endif
