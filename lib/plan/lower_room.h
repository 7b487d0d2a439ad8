/* SPDX-License-Identifier: BSD-3-Clause */
/* What a lowered call needs of a window where its messages go through slots: the size of a slot, of all slots, and of scratch. */
#ifndef LOWER_ROOM_H
#define LOWER_ROOM_H

#include "lower.h"

struct lowered_room {
	uint64_t message; /* bytes of the largest one */
	uint32_t slot; /* bytes, a multiple of LAUNCH_LINE */
	uint32_t slots; /* of all queues and channels, from one rank to one other */
	uint64_t scratch; /* bytes of a channel */
	uint64_t bytes; /* of all slots, and of all channels' scratch behind those of one rank */
};

/* From the plan's steps, which all ranks share, not from one rank's list: all ranks place slots alike. */
void lowered_room_init(struct lowered_room *room, const struct plan *plan, const struct lowered_call *call);

#endif
