/* SPDX-License-Identifier: BSD-3-Clause */
/* A group that meets here, for the files that serve it: boot_group.c, and boot_join.c, where its ranks come. */
#ifndef BOOT_GROUP_STATE_H
#define BOOT_GROUP_STATE_H

#include "boot_group.h"

enum { BOOT_WHO_BYTES = 128 };

struct member {
	struct boot_conn *conn; /* NULL: has left */
	const char *left_how; /* "was aborted" */
	struct boot_peer peer;
	unsigned char *part; /* of the all-gather under way, of bytes, if it is there (has_part) */
	unsigned char has_come, has_left, has_part;
	unsigned char is_fed; /* it has the table and all-gathers from its source */
};

struct boot_group {
	struct boot_group *next;
	struct boot_id id;
	uint64_t here; /* this process's number */
	int opens; /* groups that this id is still to serve, with this one */
	int size; /* as the first rank said; 0: nobody has come */
	int come, left; /* how many ranks have */
	struct member *members; /* by rank; NULL: nobody has come */
	/* The all-gather under way. */
	uint64_t round; /* how many have ended */
	int parts; /* that are there */
	size_t bytes;
	struct frame *table,
	    *last; /* TABLE, and ALL of that round: kept where ranks pass them on, and one may ask again */
	/* How the group ended, if it failed. */
	int has_failed;
	int64_t failed_at;
	struct boot_reason reason;
};

static inline int boot_group_is_complete(const struct boot_group *g)
{
	return g->size && g->come == g->size;
}

static inline int boot_group_has_come(const struct member *m)
{
	return m->has_come;
}

/* The group of an id's name, or NULL. */
struct boot_group *boot_group_find(const struct boot_groups *all, uint64_t name);
/*
 * The group that a rank joins by an id that serves several: all ranks of the last one have come, so this is the next one, which may meet while
 * the last one lives. NULL: it is not expected yet.
 */
struct boot_group *boot_group_after(struct boot_groups *all, struct boot_group *g);
/* The lowest rank of which that is true; size: there is none. */
int boot_group_first(const struct boot_group *g, int (*is)(const struct member *));
/*
 * Calls f for each rank that is there, those of this process last: when they have their frame, the others' are on their way, so this
 * process may end.
 */
void boot_group_each(struct boot_group *g, void (*f)(struct boot_group *, struct member *, void *),
		     void *arg);
/* One frame for all who are there; one use of it is taken over. kept: where it is kept, if it is. */
void boot_group_send_all(struct boot_group *g, struct frame *f, struct frame **kept);
/* "rank 3 (process 4711 on host)" */
const char *boot_group_who(const struct boot_group *g, int rank, char text[BOOT_WHO_BYTES]);
struct boot_reason boot_reason_of(int code, int what, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Ends the group on all ranks, also on those that come later. */
void boot_group_fail(struct boot_group *g, struct boot_reason reason);

/* The frame in the reader of a member's connection. */
void boot_group_take_frame(struct boot_groups *all, struct boot_conn *c);

#endif
