/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranges around the calls of GPU communicators for profilers that take NVTX (Nsight Systems and others): the collective,
 * what runs it, and as payload the bytes. Implementations: trace_nvtx.c; trace_none.c where a build has no NVTX.
 */
#ifndef TRACE_H
#define TRACE_H

#include <stdint.h>

#include "corale.h"
#include "plan/codelet/row.h"

struct trace;

/* NULL when no tool listens, or memory is short: then all that follows does nothing. */
struct trace *trace_open(void);
void trace_close(struct trace *trace);

/* bytes: of a block or vector; of a group of sends and receives of all its messages. Ranges of a thread nest. Never blocks. */
void trace_begin(struct trace *trace, corale_coll coll, const struct codelet *codelet, uint64_t bytes);
void trace_end(struct trace *trace);

#endif
