/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames on a byte stream: a header {bytes, kind, number}, then the payload. Incomplete frames are kept, on both sides, so
 * neither side ever blocks on one connection.
 */
#ifndef BOOT_FRAME_H
#define BOOT_FRAME_H

#include <stddef.h>
#include <stdint.h>

enum { FRAME_HEADER_BYTES = 16, FRAME_MAX_BYTES = 64 << 20 };

/* Little-endian numbers of so many bytes, the lowest of value. */
void frame_put(unsigned char *to, uint64_t value, int bytes);
uint64_t frame_get(const unsigned char *from, int bytes);

/* ---- Reading */

struct frame_reader {
	uint32_t limit; /* longer payloads are refused */
	unsigned char header[FRAME_HEADER_BYTES];
	size_t got; /* bytes of this frame, with its header */
	uint32_t bytes, kind;
	uint64_t number;
	unsigned char *data; /* the payload; grows with what arrives, not with what the header promises */
	size_t room;
};

enum frame_status { FRAME_MORE, FRAME_WHOLE, FRAME_CLOSED, FRAME_TOO_LONG, FRAME_NO_MEMORY };

/* From a non-blocking socket. FRAME_WHOLE: the reader holds a frame, until frame_next; FRAME_MORE: nothing more is there; FRAME_CLOSED: the peer
 * closed, or the connection broke. */
enum frame_status frame_read(struct frame_reader *r, int fd);
void frame_next(struct frame_reader *r);
/* The payload is the caller's now, to be freed. */
unsigned char *frame_steal(struct frame_reader *r);
void frame_reader_free(struct frame_reader *r);

/* ---- Writing */

/* A frame to be sent, to several peers perhaps. Counted without locks: one that the listener has is used under its lock alone. */
struct frame {
	int users;
	size_t bytes; /* with the header */
	unsigned char data[];
};

/* A frame of one user, its payload at frame_payload. NULL: no memory. */
struct frame *frame_new(uint32_t kind, uint64_t number, size_t bytes);
unsigned char *frame_payload(struct frame *f);
void frame_free(struct frame *f);

struct frame_item {
	struct frame *frame;
	struct frame_item *next;
};

struct frame_writer {
	struct frame_item *first, **last;
	size_t sent; /* of the first */
	int items;
};

/* Takes over one use of f (NULL: there was no memory for it). 0, or CORALE_ENOMEM without a line. */
int frame_queue(struct frame_writer *w, struct frame *f);
/* 1: all is sent; 0: the socket is full; -1: the connection is broken (errno). */
int frame_flush(struct frame_writer *w, int fd);
void frame_writer_free(struct frame_writer *w);

#endif
