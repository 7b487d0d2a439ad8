/* SPDX-License-Identifier: BSD-3-Clause */
/* The plans of a communicator's calls, made on first use. */
#ifndef PLANS_H
#define PLANS_H

#include <stdatomic.h>

#include "plan/lower.h"
#include "plan/choose/planner.h"
#include "plan/choose/choices.h"
#include "plan/choose/planner_room.h"

/*
 * The lists of choices that a process has made, by machine: most communicators are alike, and a list of a large machine takes longer than all else that
 * a first call does. Machines are distinguished by the hash of all that a choice looks at (plan/choose/choices_hash.c). Any thread.
 */

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

/* A lowered plan. */
struct plans_list {
	int made, number; /* number: the engine's */
	int counted; /* messages are */
	struct lowered_messages messages;
};

/* An entry; it stays where it is until the cache is freed. */
struct plans_entry {
	struct plan plan;
	int single_channel; /* between nodes: by the connections of such plans */
	struct plans_list *lists; /* on GPUs: by root; NULL: none is lowered */
	struct host_fast *fast; /* on hosts: of small calls; NULL: none was made */
};

struct plans {
	struct planner planner;
	struct plans_slot *slots; /* open addressing; their number is a power of two */
	size_t nslots, count;
	struct machine_choices *choices; /* NULL: no call has asked for a choice */
	uint32_t warned; /* collectives of which a warning names calls that CORALE_ALGO can't run */
};

/* As plans_choices, of a list that the process may not have made yet. */
int plans_make_choices(struct plans *plans, int rank, corale_coll coll, corale_type type, int memory,
		       const struct choices **out);

/* Which rows run calls like this one, whatever their bytes. rank: for messages. CORALE_ENOMEM, CORALE_EINTERNAL. */
static inline int plans_choices(struct plans *plans, int rank, corale_coll coll, corale_type type, int memory,
				const struct choices **out)
{
	if (plans->choices &&
	    (*out = atomic_load_explicit(&plans->choices->lists[coll][choices_kind(type)][memory],
					 memory_order_acquire)))
		return 0;
	return plans_make_choices(plans, rank, coll, type, memory, out);
}

/* By one rank, once a list: which rows run what CORALE_PROTO can't. */
void plans_log_forced(const struct plans *plans, int rank, corale_coll coll, corale_type type, int memory,
		      const struct choices *list);

/* The plan of a key whose choice has no codelet; choice NULL: as hosts choose, on GPUs among rows without one. CORALE_ENOTSUP (nothing runs it), CORALE_ENOMEM. */
int plans_find(struct plans *plans, int rank, const struct plan_key *key, const struct row_choice *choice,
	       struct plans_entry **out);
/* The same as hosts choose, without the cache: any thread, once a list was asked for. */
int plans_make(struct plans *plans, int rank, const struct plan_key *key, struct plan *out);
void plans_free(struct plans *plans);
size_t plans_bytes(const struct plans *plans);

#endif
