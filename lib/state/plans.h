/* The plans of a communicator's calls, made on first use. */
#ifndef PLANS_H
#define PLANS_H

#include "plan/choices.h"
#include "plan/lower.h"
#include "plan/planner.h"

/* A lowered plan. */
struct plans_list {
	int made, number; /* number: the engine's */
	int counted; /* messages are */
	int refused; /* by lanes_admit */
	struct lowered_messages messages;
};

/* An entry; it stays where it is until the cache is freed. */
struct plans_entry {
	struct plan plan;
	struct plans_list *lists; /* on GPUs: by root; NULL: none is lowered */
};

struct plans {
	struct planner planner;
	struct plans_slot *slots; /* open addressing; their number is a power of two */
	size_t nslots, count;
	/* Of GPUs: by collective, words or lines, and class of memory; NULL: not asked yet. */
	struct choices *codelets[CORALE_NUM_COLLS][2][PLAN_MEMORY_CLASSES];
};

/* Which rows with a codelet run calls like this one, whatever its bytes; NULL: no memory for the list, logged. */
const struct choices *plans_codelets(struct plans *plans, int rank, const struct plan_call *call);

/* The plan of a key; rank is for messages. CORALE_ENOTSUP (no algorithm), CORALE_ENOMEM. */
int plans_find(struct plans *plans, int rank, const struct plan_key *key, struct plans_entry **out);
void plans_free(struct plans *plans);
/* Of memory held. */
size_t plans_bytes(const struct plans *plans);

#endif
