/* SPDX-License-Identifier: BSD-3-Clause */
/* The plans of a communicator's calls, made on first use. */
#ifndef PLANS_H
#define PLANS_H

#include "machine_choices.h"
#include "plan/lower.h"
#include "plan/choose/planner.h"

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
