/* SPDX-License-Identifier: BSD-3-Clause */
/* A connection as the listener's thread sees it. */
#ifndef BOOT_CONN_H
#define BOOT_CONN_H

#include "boot_frame.h"
#include "boot_wire.h"

struct boot_group;
struct boot_source;

enum boot_conn_state {
	BOOT_CONN_NEW, /* has not proved that it knows a group's key */
	BOOT_CONN_MEMBER,
	BOOT_CONN_FED, /* of a rank that a source of this process feeds */
	BOOT_CONN_CLOSING, /* the last frames are on their way; what comes in is dropped */
	BOOT_CONN_DEAD /* to be freed */
};

struct boot_conn {
	struct boot_conn *next;
	enum boot_conn_state state;
	int fd;
	int64_t deadline; /* of those that are new or closing: dropped then */
	unsigned char challenge[BOOT_NONCE_BYTES];
	struct frame_reader reader;
	struct frame_writer writer;
	struct boot_group *group; /* of a member */
	struct boot_source *source; /* of one that is fed; NULL: it gets what is queued, then it is closed */
	int rank; /* of both */
};

/* Takes fd over and sends the challenge. NULL: no memory or no random bytes; fd is closed. */
struct boot_conn *boot_conn_new(int fd);
void boot_conn_free(struct boot_conn *c);
/* Queues a frame, of which one use is taken over, and sends what the socket takes. NULL (no memory) ends the connection. */
void boot_conn_send(struct boot_conn *c, struct frame *f);
/* Nothing follows what is queued. */
void boot_conn_finish(struct boot_conn *c);
/* Sends a reason as the last frame. */
void boot_conn_dismiss(struct boot_conn *c, enum boot_kind kind, const struct boot_reason *reason);
/* Sends what the socket takes; a connection that is broken, or has sent its last frame, advances to its next state. */
void boot_conn_flush(struct boot_conn *c);
/* Reads and drops what comes after the last frame: closing with unread bytes would reset the connection, and the peer would miss that frame. */
void boot_conn_drain(struct boot_conn *c);

#endif
