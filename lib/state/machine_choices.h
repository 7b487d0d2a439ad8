/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lists of choices that a process has made, by machine: most communicators are alike, and a list of a large machine takes longer than all else that
 * a first call does. Machines are distinguished by the hash of all that a choice looks at (plan/choose/choices_hash.h). Any thread.
 */
#ifndef MACHINE_CHOICES_H
#define MACHINE_CHOICES_H

#include <stdatomic.h>

#include "plan/choose/choices.h"
#include "plan/choose/planner_room.h"

struct machine_choices {
	uint64_t inputs; /* choices_hash_inputs */
	uint64_t sample; /* choices_hash_sample; 0: not made yet */
	int users;
	int has_room; /* room was counted */
	struct planner_room room;
	struct machine_choices *next;
	_Atomic(const struct choices *) lists[CORALE_NUM_COLLS][CHOICES_KINDS][PLAN_MEMORY_CLASSES];
};

/* Of a planner's machine, until as many closes; NULL: no memory. */
struct machine_choices *machine_choices_open(const struct planner *planner);
void machine_choices_close(struct machine_choices *machine);

/* The hash of what is chosen at sample keys. */
uint64_t machine_choices_sample(struct machine_choices *machine, const struct planner *planner);

/* Which rows have room for their connections, of GPUs over nodes. CORALE_ENOMEM. */
int machine_choices_room(struct machine_choices *machine, const struct planner *planner, int rank);

/* Makes a list that is not there yet. rank: for messages. CORALE_ENOMEM, CORALE_EINTERNAL. */
int machine_choices_make(struct machine_choices *machine, const struct planner *planner, int rank,
			 corale_coll coll, corale_type type, int memory, const struct choices **out);

#endif
