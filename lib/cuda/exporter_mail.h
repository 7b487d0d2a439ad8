/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * File descriptors from one exporter to another of the node, asked for and sent over local sockets with abstract names. Nobody waits: mail that finds no room, or
 * is read before it is all there, is lost, and the one that needs it asks again. Only processes of this user get any, and are heard.
 */
#ifndef EXPORTER_MAIL_H
#define EXPORTER_MAIL_H

#include <stdint.h>

enum { MAIL_PIECES = 32 /* descriptors */ };

/* No pieces: `from` asks for the receiver's export of that number, from piece `first` on. Else an export of `from`, and the descriptors of some pieces. */
struct mail {
	uint64_t from; /* a board's instance */
	uint64_t number;
	uint32_t first, pieces;
	uint64_t bytes[MAIL_PIECES]; /* of each piece */
};

/* The socket of a board's owner. -1: see errno. */
int mail_open(uint64_t instance);
/* To the owner of another board. The descriptors stay the caller's. */
void mail_send(uint64_t to, const struct mail *mail, const int *fds);
/* 1: some mail, whose descriptors are the caller's. 0: mail that was dropped. -1: there is none. */
int mail_receive(int listening, struct mail *mail, int fds[MAIL_PIECES]);

#endif
