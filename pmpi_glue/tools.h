/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The door between tools and MPI. A program's call goes to the tools that wrap it, then to the door, then to MPI. Tools wrap MPI_ names and call PMPI_ names, so
 * the door exports both:
 * - MPI_X is the program's call, or a tool's of a function that it does not wrap. If a tool that is linked to the program lies behind the door, in front of
 *   MPI, it is handed on to that: the door hears of it again as PMPI_X.
 * - PMPI_X is a tool's call, or one of MPI's Fortran. A call that is made while the thread is inside the door is the door's own, or MPI's own, and goes to the
 *   next definition.
 */
#ifndef PMPI_TOOLS_H
#define PMPI_TOOLS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* The frame in which this thread has entered the door; NULL: it is outside. A frame above it is no callee: an error handler has left the door by longjmp. */
extern __thread char *pmpi_inside __attribute__((tls_model("initial-exec")));

/* A function that is looked up at its first call. */
typedef void *_Atomic pmpi_link;

/* That of the object behind the door. It is there, or the process ends. */
void *pmpi_find_next(pmpi_link *link, const char *name);
/* That of a tool behind the door, or &pmpi_no_tool. */
void *pmpi_find_tool(pmpi_link *link, const char *name);
extern const char pmpi_no_tool;

/* From here on no call is handed on to tools behind the door: they pass it by. */
void pmpi_forget_tools(void);
/* The file that has a function, for messages. */
const char *pmpi_file_of(const void *function);

static inline void *pmpi_next(pmpi_link *link, const char *name)
{
	void *next = atomic_load_explicit(link, memory_order_relaxed);
	return next ? next : pmpi_find_next(link, name);
}

static inline void *pmpi_tool(pmpi_link *link, const char *name)
{
	void *tool = atomic_load_explicit(link, memory_order_relaxed);
	if (!tool)
		tool = pmpi_find_tool(link, name);
	return tool == &pmpi_no_tool ? NULL : tool;
}

/* What PMPI_INSIDE restores: an outer call of the door, if it still lasts. */
static inline char *pmpi_outer(const char *frame)
{
	return (uintptr_t)frame < (uintptr_t)pmpi_inside ? pmpi_inside : NULL;
}

/* PMPI_ENTRY(MPI_X, parameters, arguments) { what the door does } defines MPI_X and PMPI_X. */
#define PMPI_ENTRY(name, parameters, arguments) PMPI_ENTRY_OF(name, parameters, arguments)
#define PMPI_ENTRY_OF(name, parameters, arguments)                                                           \
	PMPI_INSIDE(name, parameters, arguments)                                                             \
	PMPI_EXPORT int name parameters                                                                      \
	{                                                                                                    \
		static pmpi_link link;                                                                       \
		__typeof__(name) *const tool = pmpi_tool(&link, #name);                                      \
		return tool ? tool arguments : inside_##name arguments;                                      \
	}                                                                                                    \
	static int own_##name parameters

/* PMPI_X, and inside_MPI_X, which runs own_MPI_X with the thread inside the door. */
#define PMPI_INSIDE(name, parameters, arguments)                                                             \
	static int own_##name parameters;                                                                    \
	static int inside_##name parameters                                                                  \
	{                                                                                                    \
		char *const frame = __builtin_frame_address(0), *const outer = pmpi_outer(frame);            \
		pmpi_inside = frame;                                                                         \
		const int ret = own_##name arguments;                                                        \
		pmpi_inside = outer;                                                                         \
		return ret;                                                                                  \
	}                                                                                                    \
	PMPI_EXPORT int P##name parameters                                                                   \
	{                                                                                                    \
		static pmpi_link link;                                                                       \
		if (!pmpi_outer(__builtin_frame_address(0)))                                                 \
			return inside_##name arguments;                                                      \
		return ((__typeof__(name) *)pmpi_next(&link, "P" #name))arguments;                           \
	}

#endif
