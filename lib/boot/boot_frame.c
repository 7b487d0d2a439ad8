/* SPDX-License-Identifier: BSD-3-Clause */
#include "boot_frame.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/array.h"
#include "corale.h"

enum { READ_BYTES = 65536 };

void frame_put(unsigned char *to, uint64_t value, int bytes)
{
	for (int i = 0; i < bytes; i++)
		to[i] = (unsigned char)(value >> 8 * i);
}

uint64_t frame_get(const unsigned char *from, int bytes)
{
	uint64_t value = 0;
	for (int i = 0; i < bytes; i++)
		value |= (uint64_t)from[i] << 8 * i;
	return value;
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Reads the header, then the payload, each into its place: never into the next frame. */
enum frame_status frame_read(struct frame_reader *r, int fd)
{
	for (;;) {
		const int is_header = r->got < FRAME_HEADER_BYTES;
		const size_t have = is_header ? r->got : r->got - FRAME_HEADER_BYTES,
			     wanted =
				 is_header ? FRAME_HEADER_BYTES - have : least(r->bytes - have, READ_BYTES);
		if (!is_header && !array_grow(&r->data, &r->room, have + wanted, 1))
			return FRAME_NO_MEMORY;
		const ssize_t n = recv(fd, (is_header ? r->header : r->data) + have, wanted, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return FRAME_MORE;
		if (n <= 0)
			return FRAME_CLOSED;
		r->got += (size_t)n;
		if (r->got < FRAME_HEADER_BYTES)
			continue;
		if (is_header) {
			r->bytes = (uint32_t)frame_get(r->header, 4);
			r->kind = (uint32_t)frame_get(r->header + 4, 4);
			r->number = frame_get(r->header + 8, 8);
		}
		if (r->bytes > r->limit)
			return FRAME_TOO_LONG;
		if (r->got - FRAME_HEADER_BYTES == r->bytes)
			return FRAME_WHOLE;
	}
}

void frame_next(struct frame_reader *r)
{
	r->got = 0;
	if (r->room > READ_BYTES) /* large frames are rare */
		free(frame_steal(r));
}

unsigned char *frame_steal(struct frame_reader *r)
{
	unsigned char *data = r->data;
	r->data = NULL;
	r->room = 0;
	return data;
}

void frame_reader_free(struct frame_reader *r)
{
	free(r->data);
	memset(r, 0, sizeof(*r));
}

struct frame *frame_new(uint32_t kind, uint64_t number, size_t bytes)
{
	struct frame *f = bytes <= FRAME_MAX_BYTES ? malloc(sizeof(*f) + FRAME_HEADER_BYTES + bytes) : NULL;
	if (!f)
		return NULL;
	f->users = 1;
	f->bytes = FRAME_HEADER_BYTES + bytes;
	frame_put(f->data, (uint32_t)bytes, 4);
	frame_put(f->data + 4, kind, 4);
	frame_put(f->data + 8, number, 8);
	return f;
}

unsigned char *frame_payload(struct frame *f)
{
	return f->data + FRAME_HEADER_BYTES;
}

void frame_free(struct frame *f)
{
	if (f && --f->users == 0)
		free(f);
}

int frame_queue(struct frame_writer *w, struct frame *f)
{
	struct frame_item *item = f ? malloc(sizeof(*item)) : NULL;
	if (!item) {
		frame_free(f);
		return CORALE_ENOMEM;
	}
	item->frame = f;
	item->next = NULL;
	if (!w->first)
		w->last = &w->first;
	*w->last = item;
	w->last = &item->next;
	w->items++;
	return 0;
}

static void drop_first(struct frame_writer *w)
{
	struct frame_item *item = w->first;
	w->first = item->next;
	w->sent = 0;
	w->items--;
	frame_free(item->frame);
	free(item);
}

int frame_flush(struct frame_writer *w, int fd)
{
	while (w->first) {
		struct frame *f = w->first->frame;
		ssize_t n = send(fd, f->data + w->sent, f->bytes - w->sent, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -1;
		w->sent += (size_t)n;
		if (w->sent == f->bytes)
			drop_first(w);
	}
	return 1;
}

void frame_writer_free(struct frame_writer *w)
{
	while (w->first)
		drop_first(w);
}
