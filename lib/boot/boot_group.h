/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The groups that meet at this process: who has come, and the all-gathers. No sockets and no locks of their own: the listener
 * (boot_listener.c) calls these functions under its lock.
 */
#ifndef BOOT_GROUP_H
#define BOOT_GROUP_H

#include "boot_conn.h"
#include "boot_source.h"
#include "boot_wire.h"

enum { BOOT_SERVED = 1024 };

struct boot_groups {
	struct boot_group *first;
	struct boot_source *sources; /* of ranks of this process, in groups that meet anywhere */
	struct { /* the last groups that met and ended: their ids can't be used again */
		uint64_t name;
		int size;
	} served[BOOT_SERVED];
	unsigned nserved;
	struct boot_peer maker; /* this process */
};

/* Expects the ranks of id from now on. An id that is expected already (of an address, of a child) serves once more after that. 0 or CORALE_ENOMEM. */
int boot_groups_add(struct boot_groups *all, const struct boot_id *id);
/* 1 if a group of that name is expected, meets, or has failed lately. */
int boot_groups_has(const struct boot_groups *all, uint64_t name);
/* Ranks that groups which meet here still wait for. */
int boot_groups_await(const struct boot_groups *all);
/* The frame in the reader of a connection that is new, or a member. */
void boot_groups_frame(struct boot_groups *all, struct boot_conn *c);
/* A member's connection is closed or broken. */
void boot_groups_lost(struct boot_groups *all, struct boot_conn *c);
/* Forgets groups that failed some time ago. 1 if there are others that failed. */
int boot_groups_forget(struct boot_groups *all);
void boot_groups_free(struct boot_groups *all);

#endif
