/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "tools.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

__thread char *pmpi_inside;
const char pmpi_no_tool;
static _Atomic int no_tools;

void *pmpi_find_next(pmpi_link *link, const char *name)
{
	void *next = dlsym(RTLD_NEXT, name);
	if (!next) {
		log_line(LOG_ERROR, -1,
			 "the MPI beneath has no %s, which the MPI that Corale is built for has: build "
			 "Corale for that one (configure --with-mpi=WRAPPER)",
			 name);
		abort();
	}
	atomic_store_explicit(link, next, memory_order_relaxed);
	return next;
}

/* The object that has a function. */
static Dl_info object_of(const void *function)
{
	Dl_info info;
	return dladdr(function, &info) ? info : (Dl_info){ .dli_fname = "?" };
}

const char *pmpi_file_of(const void *function)
{
	return object_of(function).dli_fname;
}

/* MPI has MPI_X and PMPI_X; a tool has MPI_X alone. */
void *pmpi_find_tool(pmpi_link *link, const char *name)
{
	char profiling[80] = "P";
	void *next = no_tools ? NULL : dlsym(RTLD_NEXT, name);
	const void *mpi = dlsym(RTLD_NEXT, strncat(profiling, name, sizeof profiling - 2));
	if (!next || object_of(next).dli_fbase == object_of(mpi).dli_fbase)
		next = (void *)(uintptr_t)&pmpi_no_tool;
	atomic_store_explicit(link, next, memory_order_relaxed);
	return next;
}

void pmpi_forget_tools(void)
{
	no_tools = 1;
}
