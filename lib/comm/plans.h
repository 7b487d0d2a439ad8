/* The plans of a communicator's calls, made on first use. */
#ifndef PLANS_H
#define PLANS_H

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
};

/* The plan of a key; rank is for messages. CORALE_ENOTSUP (no algorithm), CORALE_ENOMEM. */
int plans_find(struct plans *plans, int rank, const struct plan_key *key, struct plans_entry **out);
void plans_free(struct plans *plans);
/* Of memory held. */
size_t plans_bytes(const struct plans *plans);

#endif
