/* SPDX-License-Identifier: BSD-3-Clause */
/* Takes frames from the connections of other processes and hands them to their queue pairs. */
#define _GNU_SOURCE
#include "inbound.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "faults.h"
#include "late.h"
#include "wire.h"

enum {
	CORRUPTION = 0x40,
	BUFFER_BYTES = 16384,
	ROUNDS = 64
}; /* of reading, before other connections have their turn */

struct connection {
	struct fake_source source;
	struct connection *next;
	size_t begin, end; /* of what is in the buffer */
	struct fake_frame frame;
	int has_frame, is_dropped;
	size_t got; /* of its payload */
	unsigned char *data;
	unsigned char buffer[BUFFER_BYTES];
};

static struct connection *connections;

static void close_connection(struct connection *c)
{
	struct connection **at = &connections;
	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	close(c->source.fd);
	free(c->data);
	free(c);
}

static size_t payload_of(const struct fake_frame *frame)
{
	return frame->kind <= FAKE_READ_DATA ? frame->bytes : 0;
}

/* Where the rest of the payload goes: a number of iovecs, 0: it is dropped. */
static int place_rest(struct connection *c, struct iovec *places)
{
	if (c->data) {
		places[0].iov_base = c->data + c->got;
		places[0].iov_len = c->frame.bytes - c->got;
		return 1;
	}
	const int count = c->is_dropped ? 0 : fake_arrival_place(&c->frame, c->got, places);
	c->is_dropped = !count;
	return count;
}

static void put(struct connection *c, const unsigned char *bytes, size_t n)
{
	struct iovec places[FAKE_MAX_SGE];
	const int count = place_rest(c, places);
	c->got += n;
	for (int i = 0; i < count && n; i++) {
		const size_t part = places[i].iov_len < n ? places[i].iov_len : n;
		memcpy(places[i].iov_base, bytes, part);
		bytes += part;
		n -= part;
	}
}

static int begin_frame(struct connection *c)
{
	if (c->end - c->begin < sizeof(c->frame))
		return 0;
	memcpy(&c->frame, c->buffer + c->begin, sizeof(c->frame));
	c->begin += sizeof(c->frame);
	c->has_frame = 1;
	c->is_dropped = 0;
	c->got = 0;
	if (c->frame.kind == FAKE_SEND || c->frame.kind == FAKE_DATAGRAM || fake_late_takes(&c->frame))
		c->data = malloc(c->frame.bytes + 1);
	return 1;
}

/* Another byte in the middle. */
static void corrupt(struct connection *c)
{
	const size_t at = c->frame.bytes / 2;
	struct iovec places[FAKE_MAX_SGE];
	if (c->data)
		c->data[at] ^= CORRUPTION;
	else if (!c->is_dropped && fake_arrival_place(&c->frame, at, places))
		*(unsigned char *)places[0].iov_base ^= CORRUPTION;
}

static int end_frame(struct connection *c)
{
	if (c->got < payload_of(&c->frame))
		return 0;
	if (fake_faults_corrupts(payload_of(&c->frame)))
		corrupt(c);
	fake_arrival(&c->frame, c->data, !c->is_dropped);
	c->data = NULL;
	c->has_frame = 0;
	return 1;
}

static void read_frames(struct connection *c)
{
	while (c->has_frame || begin_frame(c)) {
		const size_t rest = payload_of(&c->frame) - c->got, here = c->end - c->begin;
		const size_t part = rest < here ? rest : here;
		if (part)
			put(c, c->buffer + c->begin, part);
		c->begin += part;
		if (!end_frame(c))
			break;
	}
	memmove(c->buffer, c->buffer + c->begin, c->end - c->begin);
	c->end -= c->begin;
	c->begin = 0;
}

/* Large payloads go to their place without the buffer. */
static ssize_t read_payload(struct connection *c)
{
	struct iovec places[FAKE_MAX_SGE];
	const int count = place_rest(c, places);
	if (!count)
		return -EFAULT;
	const ssize_t got = readv(c->source.fd, places, count);
	if (got > 0) {
		c->got += (size_t)got;
		if (end_frame(c))
			read_frames(c);
	}
	return got < 0 ? -errno : got;
}

static ssize_t read_buffer(struct connection *c)
{
	const ssize_t got = recv(c->source.fd, c->buffer + c->end, sizeof(c->buffer) - c->end, 0);
	if (got > 0) {
		c->end += (size_t)got;
		read_frames(c);
	}
	return got < 0 ? -errno : got;
}

static void become_ready(struct fake_source *source)
{
	struct connection *c = (struct connection *)source;
	for (int round = 0; round < ROUNDS; round++) {
		ssize_t got = -EFAULT;
		if (c->has_frame && !c->is_dropped && payload_of(&c->frame) - c->got >= BUFFER_BYTES)
			got = read_payload(c);
		if (got == -EFAULT) { /* what has no place is read, and dropped, too */
			c->is_dropped |=
			    c->has_frame && !c->data && payload_of(&c->frame) - c->got >= BUFFER_BYTES;
			got = read_buffer(c);
		}
		if (got == -EAGAIN)
			return;
		if (got <= 0) {
			close_connection(c);
			return;
		}
	}
}

void fake_inbound_accept(struct fake_source *listener)
{
	const int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct connection *c = fd < 0 ? NULL : calloc(1, sizeof(*c));
	if (!c) {
		if (fd >= 0)
			close(fd);
		return;
	}
	c->source = (struct fake_source){ .fd = fd, .ready = become_ready };
	c->next = connections;
	connections = c;
	fake_wire_watch(&c->source, EPOLLIN);
}

void fake_inbound_close(void)
{
	while (connections)
		close_connection(connections);
}
