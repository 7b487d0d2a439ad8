/* SPDX-License-Identifier: BSD-3-Clause */
/* Result codes and the last error. ncclGetLastError has one text for the whole process, as NCCL's; programs print it as the reason. */
#ifndef DOOR_ERROR_H
#define DOOR_ERROR_H

#include "nccl.h"

enum { DOOR_ERROR_BYTES = 1024 };

/* The text that ncclGetLastError returns, while other threads may fail. */
void door_copy_error(char text[DOOR_ERROR_BYTES]);
/* Keeps the text for ncclGetLastError, logs it as one ERROR line and returns code: `return door_refuse(ncclInvalidUsage, ...)`. */
ncclResult_t door_refuse(ncclResult_t code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* In a child that was forked when its parent had communicators: an error that names the call, "GroupStart" of ncclGroupStart. Else ncclSuccess. */
ncclResult_t door_refuse_forked(const char *call);

/* Keeps a text that is logged already. Any thread. */
void door_keep_error(const char *text);

/* NCCL's result for a CORALE_E* code. CORALE_ENOMEM is ncclSystemError: whoever knows that GPU memory is exhausted says
 * ncclUnhandledCudaError instead. */
ncclResult_t door_error_of(int corale_code);

/* The same of an error that was logged just now, with its text kept. */
ncclResult_t door_logged_error(int corale_code);

#endif
