/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which rows without a codelet have room for their connections between nodes. A rank has pinned memory for so many ends of connections (net/connections.h), and
 * rows get it in an order that no call changes. Rows that know nodes, or that CORALE_ALGO names, come first. Of these, and then of the others, rows of
 * collectives without a root come before rows with one, which get room for all roots; either in the table's order. What is left goes to rows without room for
 * all their channels, on fewer. A row without any may have it on one channel, among the connections of single-channel plans; otherwise no call runs by it.
 * Pure: it follows from what all ranks know alike, so both ends of a connection agree without a message.
 */
#ifndef PLANNER_ROOM_H
#define PLANNER_ROOM_H

#include "planner.h"
#include "plan/plan.h"

enum { PLANNER_ROOM_ROWS = 128 };

/* Of a row, or-ed: for plans of several channels; of one, by connections of their own. */
enum { ROOM_MULTI = 1, ROOM_SINGLE = 2 };

struct planner_room {
	uint8_t of[PLANNER_ROOM_ROWS]; /* by row of the table */
	uint8_t channels[PLANNER_ROOM_ROWS]; /* of a multi-channel plan, */
	uint8_t wanted
	    [PLANNER_ROOM_ROWS]; /* and as its largest calls would have them; 0: no call can run by it */
};

/* planner: of GPUs over nodes, whose connections are counted, with its single-channel one. CORALE_ENOMEM. */
int planner_room_init(struct planner_room *room, const struct planner *planner);

/* The planner by which a row runs calls of a key, by the room of its connections: planner, its single-channel one, or NULL: none does. */
const struct planner *planner_by_room(const struct planner *planner, const struct plan_key *key, int row);

/* Which rows have no room for all channels, and for which they have: "gather hier (4 channels), broadcast flat (1 channel), gather flat (none)"; returns the
 * length it needs, like snprintf. */
size_t planner_room_print(const struct planner_room *room, char *buf, size_t bytes);

/*
 * Ends of connections between nodes that rows use, counted over all ranks and, of rooted collectives, all roots. Pure.
 *
 * Plans for another root have the same edges elsewhere: those of rows that ignore nodes between ranks as far apart, those of rows that know nodes between
 * the same rails of nodes as far apart. So one root is enough, and the time grows with the ranks, not with their square.
 */

/* What a row sends along. Of so many ranks that an edge each is too much, cells are by how far sender and receiver are apart. */
struct connection_edges {
	const struct plan_map *map;
	int exact; /* a cell each sender and receiver */
	int alike; /* all nodes are of one size, and ranks follow each other from node to node */
	uint8_t *queues; /* by cell: a bit each queue */
	uint8_t *apart; /* the same by how far ranks, or nodes, are apart */
};

/* Ends that rows have room for. */
struct connection_ends {
	size_t most; /* of a rank */
	uint32_t *connections; /* by cell: a bit each channel and queue */
	uint32_t *of_rank, *more; /* ends, and those of the row in question */
};

/* map: stays. CORALE_ENOMEM. */
int connection_edges_open(struct connection_edges *edges, const struct plan_map *map);
void connection_edges_close(struct connection_edges *edges);
int connection_ends_open(struct connection_ends *ends, const struct connection_edges *edges, size_t most);
void connection_ends_close(struct connection_ends *ends);

/* Forgets the row before. */
void connection_edges_begin(struct connection_edges *edges);
/* One of the row's plans. flat: the row ignores nodes. */
void connection_edges_add(struct connection_edges *edges, const struct plan *plan, int flat);
/* 1: there is room for the row on so many channels, and it is counted; else 0. */
int connection_ends_take(struct connection_ends *ends, const struct connection_edges *edges, int channels);

#endif
