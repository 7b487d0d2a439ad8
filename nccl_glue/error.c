/* SPDX-License-Identifier: BSD-3-Clause */
#include "error.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "corale.h"
#include "base/log.h"
#include "base/process.h"
#include "export.h"

/* A program reads the text that ncclGetLastError returned without a lock, also while other threads fail. So a text is never changed
 * where it stands: each new one takes the next slot, and a slot is used anew after TEXTS - 1 other errors. */
enum { TEXTS = 64 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char texts[TEXTS][DOOR_ERROR_BYTES];
static unsigned next = 1;
static _Atomic(const char *) last = texts[0];

void door_keep_error(const char *text)
{
	pthread_mutex_lock(&lock);
	if (strncmp(text, atomic_load_explicit(&last, memory_order_relaxed), DOOR_ERROR_BYTES - 1)) {
		char *slot = texts[next++ % TEXTS];
		snprintf(slot, DOOR_ERROR_BYTES, "%s", text);
		atomic_store_explicit(&last, slot, memory_order_release);
	}
	pthread_mutex_unlock(&lock);
}

void door_copy_error(char text[DOOR_ERROR_BYTES])
{
	pthread_mutex_lock(&lock);
	snprintf(text, DOOR_ERROR_BYTES, "%s", atomic_load_explicit(&last, memory_order_relaxed));
	pthread_mutex_unlock(&lock);
}

ncclResult_t door_refuse(ncclResult_t code, const char *format, ...)
{
	char text[DOOR_ERROR_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	door_keep_error(text);
	log_line(LOG_ERROR, -1, "%s", text);
	return code;
}

ncclResult_t door_error_of(int corale_code)
{
	switch (corale_code) {
	case CORALE_OK:
		return ncclSuccess;
	case CORALE_EINVAL:
		return ncclInvalidArgument;
	case CORALE_ENOTSUP:
	case CORALE_EMISMATCH:
	case CORALE_ESETTING:
		return ncclInvalidUsage;
	case CORALE_ENOMEM:
	case CORALE_ESYSTEM:
		return ncclSystemError;
	case CORALE_EDEVICE:
		return ncclUnhandledCudaError;
	case CORALE_EPEER:
	case CORALE_ETRANSPORT:
	case CORALE_ETIMEDOUT:
	case CORALE_EABORTED:
	case CORALE_ECOMM:
		return ncclRemoteError;
	default:
		return ncclInternalError;
	}
}

ncclResult_t door_logged_error(int corale_code)
{
	if (corale_code)
		door_keep_error(log_last_error());
	return door_error_of(corale_code);
}

ncclResult_t door_refuse_forked(const char *call)
{
	char name[64];
	snprintf(name, sizeof(name), "nccl%s", call);
	if (!process_is_forked() || !process_refuses(name))
		return ncclSuccess;
	door_keep_error(log_last_error());
	return ncclInvalidUsage;
}

DOOR_EXPORT(ncclGetLastError);
const char *pncclGetLastError(ncclComm_t comm)
{
	(void)comm;
	return atomic_load_explicit(&last, memory_order_acquire);
}

DOOR_EXPORT(ncclGetErrorString);
const char *pncclGetErrorString(ncclResult_t result)
{
	/* NCCL's own texts: programs and their tests compare them. */
	static const char *const names[] = {
		"no error",
		"unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
		"unhandled system error (run with NCCL_DEBUG=INFO for details)",
		"internal error - please report this issue to the NCCL developers",
		"invalid argument (run with NCCL_DEBUG=WARN for details)",
		"invalid usage (run with NCCL_DEBUG=WARN for details)",
		"remote process exited or there was a network error",
		"NCCL operation in progress",
		"timeout",
	};
	size_t index = (size_t)(unsigned)result;

	return index < sizeof(names) / sizeof(names[0]) ? names[index] : "unknown result code";
}
