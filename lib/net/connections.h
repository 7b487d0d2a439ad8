/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The size of connections between nodes (kernels/remote.h), from the pinned memory of a rank. Pure: it depends on facts that all ranks share, so both ends of
 * a connection agree without a message.
 *
 * Sends, all_to_all and all_to_all_v have three eighths of the memory, enough for all their connections. Plans of one channel have an eighth, enough for up
 * to CONNECTIONS_FAR ranks of other nodes. All other plans have half, in large slots, for one or a few ranks of each node; plan/choose/planner_room.h says
 * which rows have room there.
 */
#ifndef CONNECTIONS_H
#define CONNECTIONS_H

#include <stddef.h>

#include "kernels/remote.h"
#include "plan/lower.h"

enum { CONNECTIONS_FAR = LOWERED_MOST_RANKS - 1 };

/* Slots and channels for nodes of such sizes, without memory. peers: the most that a rank has on other nodes. cap: connections_least_cap of these at
 * least. */
struct remote connections_shape(int ranks, int nodes, int most_each, int least_each, size_t cap);

/* The least cap within which a rank with so many peers on other nodes has all connections for sends. */
size_t connections_least_cap(int peers);

/* Bytes of all ends of a rank, and of the progress before them. */
size_t connections_bytes(const struct remote *shape, size_t cap);

/* How many ends of plans' connections a rank has memory for. */
size_t connections_ends(const struct remote *shape, enum remote_use use, size_t cap);

#endif
