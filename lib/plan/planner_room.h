/*
 * Which rows without a codelet have room for their lanes between nodes. A rank has pinned memory for so many ends of lanes (net/lanes.h), and rows get it
 * in an order that no call changes: rows of collectives without a root first, then those with one, each for all roots or not at all; of either those that
 * CORALE_ALGO names, those that know nodes, the others, in the table's order. A row without room for all its channels may have it for one, in the lanes of
 * narrow plans; else no call runs by it. Pure: it follows from what all ranks know alike, so both ends of a lane agree without a message.
 */
#ifndef PLANNER_ROOM_H
#define PLANNER_ROOM_H

#include "planner.h"

enum { PLANNER_ROOM_ROWS = 128 };

/* Of a row, or-ed. */
enum { ROOM_WIDE = 1, ROOM_NARROW = 2, ROOM_WANTED = 4 /* its lanes were counted: it can run some call */ };

struct planner_room {
	uint8_t of[PLANNER_ROOM_ROWS]; /* by row of the table */
};

/* planner: of GPUs over nodes, whose lanes are counted, with its narrow one. CORALE_ENOMEM. */
int planner_room_init(struct planner_room *room, const struct planner *planner);

/* The planner by which a row runs calls of a key, by the room of its lanes: planner, its narrow one, or NULL: none does. */
const struct planner *planner_by_room(const struct planner *planner, const struct plan_key *key, int row);

/* Which rows have no room for all channels: "broadcast flat (1 channel), gather flat (none)"; returns the length it needs, like snprintf. */
size_t planner_room_print(const struct planner_room *room, char *buf, size_t bytes);

#endif
