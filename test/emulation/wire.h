/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A network between emulated ranks: a transport whose messages are late at random and come in any order but that of their link. What a
 * network may do it does: it reads a message long after it was given it, and fills a buffer piece by piece. It sees to it that its users
 * keep their side: what is under way is not changed, and a slot is free at the other end before its message is sent.
 *
 * Slots may lie in a GPU's memory, a slab: there what is sent as few bytes comes as few bytes alone, and its slot then holds WIRE_NOTHING.
 */
#ifndef WIRE_H
#define WIRE_H

#include "net/transport.h"

struct wire;

enum { WIRE_NOTHING = 0xa5 };

/* Of message number n of a link, from 0. */
typedef int wire_says(void *ctx, int from, int to, int index, uint64_t n);

/* For so many ranks; NULL without memory. has_room: the receiver has a place for it. */
struct wire *wire_new(int ranks, wire_says *has_room, void *ctx);
void wire_free(struct wire *wire);

/* A rank's end of it: links in their users' memory, and progress alone. Within gpu_run; the wire's. */
struct transport *wire_end(struct wire *wire, int rank);

/* Of its users, printed. */
int wire_faults(const struct wire *wire);

#endif
