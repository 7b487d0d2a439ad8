/* SPDX-License-Identifier: BSD-3-Clause */
#include "boot_conn.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/wait.h"
#include "boot_fds.h"

/* How long a new connection may be silent, and one that was refused may linger. */
static const int64_t NEW_NS = 5000000000, CLOSING_NS = 2000000000;

struct boot_conn *boot_conn_new(int fd)
{
	struct boot_conn *c = calloc(1, sizeof(*c));
	if (!c || boot_random(c->challenge, sizeof(c->challenge))) {
		boot_fds_close(fd);
		free(c);
		return NULL;
	}
	boot_fds_tune(fd);
	c->fd = fd;
	c->deadline = wait_now_ns() + NEW_NS;
	c->reader.limit = BOOT_PROOF_BYTES;
	boot_conn_send(c, boot_challenge(c->challenge));
	return c;
}

void boot_conn_free(struct boot_conn *c)
{
	boot_fds_close(c->fd);
	frame_reader_free(&c->reader);
	frame_writer_free(&c->writer);
	free(c);
}

void boot_conn_send(struct boot_conn *c, struct frame *f)
{
	if (c->state == BOOT_CONN_DEAD)
		frame_free(f);
	else if (frame_queue(&c->writer, f))
		c->state = BOOT_CONN_DEAD;
	else
		boot_conn_flush(c);
}

static void close_soon(struct boot_conn *c)
{
	c->state = BOOT_CONN_CLOSING;
	c->deadline = wait_now_ns() + CLOSING_NS;
}

void boot_conn_finish(struct boot_conn *c)
{
	c->source = NULL;
	if (c->state != BOOT_CONN_DEAD)
		boot_conn_flush(c);
}

void boot_conn_dismiss(struct boot_conn *c, enum boot_kind kind, const struct boot_reason *reason)
{
	if (c->state == BOOT_CONN_DEAD)
		return;
	c->group = NULL;
	close_soon(c);
	boot_conn_send(c, boot_reason_frame(kind, reason));
}

void boot_conn_flush(struct boot_conn *c)
{
	int ret = frame_flush(&c->writer, c->fd);
	/* A broken connection is seen by reading, which may still find why its rank has left. */
	if (ret < 0 && c->state == BOOT_CONN_CLOSING)
		c->state = BOOT_CONN_DEAD;
	if (ret > 0 && c->state == BOOT_CONN_FED && !c->source)
		close_soon(c);
	if (ret > 0 && c->state == BOOT_CONN_CLOSING)
		shutdown(c->fd, SHUT_WR);
}

void boot_conn_drain(struct boot_conn *c)
{
	char dropped[4096];
	ssize_t n;
	do
		n = recv(c->fd, dropped, sizeof(dropped), 0);
	while (n < 0 && errno == EINTR);
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK))
		c->state = BOOT_CONN_DEAD;
}
