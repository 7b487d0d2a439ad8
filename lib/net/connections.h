/*
 * Which connections between nodes there is memory for (kernels/remote.h). Pure: it follows from what all ranks know alike, so both ends of a connection
 * agree without a message.
 *
 * Of a rank's pinned memory sends, all_to_all and all_to_all_v have three eighths, enough for all that they may ever open; so have plans
 * of one channel (an eighth), while there are no more than CONNECTIONS_FAR ranks elsewhere. The connections of all other plans have half,
 * in large slots for one rank or a few of each node; which rows have room for theirs is in plan/choose/planner_room.h.
 */
#ifndef CONNECTIONS_H
#define CONNECTIONS_H

#include <stddef.h>

#include "kernels/remote.h"
#include "plan/lower.h"
#include "plan/plan.h"

enum { CONNECTIONS_FAR = LOWERED_MOST_RANKS - 1 };

/* Slots and channels, but no memory, for nodes of such sizes; peers: the most that a rank has on other nodes. cap: connections_least_cap of these at
 * least. */
struct remote connections_shape(int ranks, int nodes, int most_each, int least_each, size_t cap);

/* The least cap within which a rank with so many peers on other nodes has all connections for sends. */
size_t connections_least_cap(int peers);

/* Of all ends of a rank together, with what comes before them; at most so many peers of it. */
size_t connections_bytes(const struct remote *shape, size_t cap);

/* As many ends as a rank has memory for, of plans' connections. */
size_t connections_ends(const struct remote *shape, enum remote_use use, size_t cap);

#endif
