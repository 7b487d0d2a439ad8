/* SPDX-License-Identifier: BSD-3-Clause */
#include "boot_rank.h"

#include <stdarg.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/log.h"
#include "base/text.h"
#include "base/wait.h"
#include "boot_listener.h"
#include "corale.h"

static const int64_t TOLD_NS = 100000000;

void rank_end_feed(struct boot_rank *b)
{
	dial_close(&b->feed.dial);
	b->feed.dial.state = DIAL_NONE;
	if (b->source)
		boot_listener_leave_source(b->source);
	b->source = NULL;
}

/* This process may exit next, and its listener has yet to tell the others why: it hangs up here last. */
static void await_hang_up(const struct boot_rank *b)
{
	struct pollfd p = { .fd = b->dial.fd, .events = POLLIN };
	const int64_t until = wait_now_ns() + TOLD_NS;
	char dropped[4096];
	while (wait_now_ns() < until)
		if (wait_poll(&p, 1, 5) > 0 && recv(b->dial.fd, dropped, sizeof(dropped), 0) <= 0)
			return;
}

void rank_send_leave(struct boot_rank *b, int code, const char *text)
{
	struct boot_reason reason = { .code = code };
	if (b->dial.fd < 0 || b->dial.state < DIAL_JOINED)
		return;
	snprintf(reason.text, sizeof(reason.text), "%s", text);
	if (frame_queue(&b->dial.writer, boot_reason_frame(BOOT_LEAVE, &reason)))
		return;
	frame_flush(&b->dial.writer, b->dial.fd);
	if (code && code != CORALE_EABORTED && b->maker.process == b->self.process)
		await_hang_up(b);
}

int rank_fail(struct boot_rank *b, int code, const char *format, ...)
{
	char text[BOOT_TEXT_BYTES];
	va_list args;
	va_start(args, format);
	text_format_args(text, sizeof(text), format, args);
	va_end(args);
	b->error = code;
	if (code == CORALE_EABORTED)
		log_line(LOG_INFO, b->base.rank, "bootstrap: %s", text);
	else
		log_error(code, b->base.rank, "bootstrap: %s", text);
	rank_send_leave(b, code, text);
	rank_end_feed(b);
	dial_close(&b->dial);
	return code;
}

int rank_queue(struct boot_rank *b, struct frame *f)
{
	return frame_queue(&b->dial.writer, f) ? rank_fail(b, CORALE_ENOMEM, "no memory for a message") : 0;
}
