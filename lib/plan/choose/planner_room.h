/*
 * Which rows without a codelet have room for their lanes between nodes. A rank has pinned memory for so many ends of lanes (net/lanes.h), and rows get it
 * in an order that no call changes. First come rows that know nodes or are named by CORALE_ALGO, then the others. Of either, those of collectives without a
 * root come first, in the table's order, then those with one, each for all roots; what is left is for those without room for all their channels, on fewer. A
 * row without any may have it for one channel in the lanes of narrow plans; else no call runs by it. Pure: it follows from what all ranks know alike, so
 * both ends of a lane agree without a message.
 */
#ifndef PLANNER_ROOM_H
#define PLANNER_ROOM_H

#include "planner.h"

enum { PLANNER_ROOM_ROWS = 128 };

/* Of a row, or-ed. */
enum { ROOM_WIDE = 1, ROOM_NARROW = 2 };

struct planner_room {
	uint8_t of[PLANNER_ROOM_ROWS]; /* by row of the table */
	uint8_t channels[PLANNER_ROOM_ROWS]; /* in wide lanes, */
	uint8_t wanted
	    [PLANNER_ROOM_ROWS]; /* and as its largest calls would have them; 0: no call can run by it */
};

/* planner: of GPUs over nodes, whose lanes are counted, with its narrow one. CORALE_ENOMEM. */
int planner_room_init(struct planner_room *room, const struct planner *planner);

/* The planner by which a row runs calls of a key, by the room of its lanes: planner, its narrow one, or NULL: none does. */
const struct planner *planner_by_room(const struct planner *planner, const struct plan_key *key, int row);

/* Which rows have no room for all channels, and for which they have: "gather hier (4 channels), broadcast flat (narrow), gather flat (none)"; returns the
 * length it needs, like snprintf. */
size_t planner_room_print(const struct planner_room *room, char *buf, size_t bytes);

#endif
