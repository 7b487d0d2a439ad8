/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How what all ranks get reaches many of them: ranks pass it on. Rank r sends to ranks 16 (r + 1) to 16 (r + 1) + 15, so the listener where the
 * group meets sends to ranks 0 to 15 alone.
 *
 * A source is the sending end: what a rank has its process's listener send. It has no locks of its own: the listener (boot_listener.c) calls these
 * functions under its lock.
 */
#ifndef BOOT_SOURCE_H
#define BOOT_SOURCE_H

#include "boot_conn.h"
#include "boot_wire.h"

enum { BOOT_FANOUT = 16, BOOT_STAR = 64 };

struct boot_source;

/* Whether ranks of a group pass frames on. In small ones each has all from the listener. */
static inline int boot_passes_on(int size)
{
	return size > BOOT_STAR;
}

/* The rank that sends to this one; -1: the listener does. */
static inline int boot_source_of(int rank, int size)
{
	return boot_passes_on(size) && rank >= BOOT_FANOUT ? rank / BOOT_FANOUT - 1 : -1;
}

static inline int boot_has_children(int rank, int size)
{
	return boot_passes_on(size) && (int64_t)BOOT_FANOUT * (rank + 1) < size;
}

/* NULL: no memory. */
struct boot_source *boot_source_add(struct boot_source **all, const unsigned char key[BOOT_KEY_BYTES],
				    int rank, int size);
/* NULL: there is none of that name, or h is of none of its ranks. */
struct boot_source *boot_source_find(struct boot_source *all, const struct boot_hello *h);
const unsigned char *boot_source_key(const struct boot_source *s);
/* Ranks that sources wait for. */
int boot_source_await(const struct boot_source *all);
/* A connection of a rank that has proved the key: it gets the first frame that was sent, which is the table, the last one, and later ones. */
void boot_source_join(struct boot_source *s, struct boot_conn *c, int rank);
/* A connection is closed or broken. */
void boot_source_lost(struct boot_conn *c);
/* To all ranks that have joined and will join. One use of f is taken over. */
void boot_source_send(struct boot_source *s, struct frame *f);
/* Its rank has ended, and nothing more is sent. What was sent still gets to the ranks, also to those that have not joined yet. */
void boot_source_leave(struct boot_source *s);
/* Frees those whose ranks have ended, when all that they send to have joined, or some time is over. 1 if there are others whose ranks have ended. */
int boot_source_forget(struct boot_source **all);
/* Also those that are in use. */
void boot_source_free(struct boot_source **all);

#endif
