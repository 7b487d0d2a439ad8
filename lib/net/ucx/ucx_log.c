/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "ucx_context.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <ucs/debug/log_def.h>

#include "base/log.h"
#include "base/text.h"

/* A UCX that has no such function keeps its lines. */
#pragma weak ucs_log_push_handler

static enum log_level level_of(ucs_log_level_t level)
{
	if (level <= UCS_LOG_LEVEL_WARN)
		return LOG_WARN;
	return level <= UCS_LOG_LEVEL_INFO ? LOG_INFO : LOG_TRACE;
}

/*
 * UCX's tcp moves a connection that it has accepted to the endpoint that it makes for the same peer. Where an event of the connection was fetched before, it
 * then reads from no socket, and says so as an error: nothing is lost. Many connections at a time on a busy machine make it common.
 */
static int is_of_no_socket(const char *text)
{
	return strstr(text, "recv(-1) failed") != NULL;
}

static ucs_log_func_rc_t take_line(const char *file, unsigned line, const char *function,
				   ucs_log_level_t level, const ucs_log_component_config_t *component,
				   const char *message, va_list args)
{
	char text[640];
	(void)file, (void)line, (void)function, (void)component;
	if (level_of(level) <= log_level && text_format_args(text, sizeof(text), message, args) >= 0)
		log_line(is_of_no_socket(text) ? LOG_INFO : level_of(level), -1, "UCX: %s", text);
	return level == UCS_LOG_LEVEL_FATAL ? UCS_LOG_FUNC_RC_CONTINUE
					    : UCS_LOG_FUNC_RC_STOP; /* its own handler ends the process */
}

static void take(void)
{
	if (ucs_log_push_handler && !secure_getenv("UCX_LOG_FILE"))
		ucs_log_push_handler(take_line);
}

void ucx_log_take(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, take);
}
