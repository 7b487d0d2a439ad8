/* SPDX-License-Identifier: BSD-3-Clause */
/* What an emulated world of several nodes has beside its engines: places of ranks, memory of messages, the wire, the proxies. */
#ifndef NODES_H
#define NODES_H

#include "world.h"

struct nodes;

/* The ids of the ranks' nodes, to be freed, of nodes of such sizes; NULL without memory. */
uint64_t *nodes_ids(const int *sizes, int ranks);

enum { NODES_POISON = 0x7b /* of pinned memory that is not used */ };

/* Of a world whose topology is made: sets what its engines know of other nodes. slab_rails: a bit each, slots lie in a slab. 0 or CORALE_ENOMEM. */
int nodes_open(struct world *world, uint32_t slot_bytes, unsigned slab_rails);
void nodes_close(struct world *world);

/* The place of each rank as a rank sees it; NULL: that is the rank. */
const int *nodes_places(const struct world *world, int rank);

/* By a host of its own: one step of a rank's proxy. */
void nodes_carry(struct world *world, int rank);

/* Where an end's slots are in pinned memory, whether messages lie in these or in a slab. */
unsigned char *nodes_pinned_slots(const struct remote *remote, remote_offset offset,
				  const struct remote_slots *slots);

/* Against what proxies owe to the transport, and slots in a slab that were taken for pinned ones; printed. */
int nodes_faults(const struct world *world);

#endif
