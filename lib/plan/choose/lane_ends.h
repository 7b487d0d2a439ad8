/*
 * Ends of lanes between nodes that rows use, counted over all ranks and, of rooted collectives, all roots. Pure.
 *
 * Plans for another root have the same edges elsewhere: those of rows that ignore nodes between ranks as far apart, those of rows that know nodes between
 * the same rails of nodes as far apart. So one root tells all, and the time grows with the ranks, not with their square.
 */
#ifndef LANE_ENDS_H
#define LANE_ENDS_H

#include "plan/plan.h"

/* What a row sends along. Of so many ranks that an edge each is too much, cells are by how far sender and receiver are apart. */
struct lane_edges {
	const struct plan_map *map;
	int exact; /* a cell each sender and receiver */
	int alike; /* all nodes are of one size, and ranks follow each other from node to node */
	uint8_t *queues; /* by cell: a bit each queue */
	uint8_t *apart; /* the same by how far ranks, or nodes, are apart */
};

/* Ends that rows have room for. */
struct lane_ends {
	size_t most; /* of a rank */
	uint32_t *lanes; /* by cell: a bit each channel and queue */
	uint32_t *of_rank, *more; /* ends, and those of the row in question */
};

/* map: stays. CORALE_ENOMEM. */
int lane_edges_open(struct lane_edges *edges, const struct plan_map *map);
void lane_edges_close(struct lane_edges *edges);
int lane_ends_open(struct lane_ends *ends, const struct lane_edges *edges, size_t most);
void lane_ends_close(struct lane_ends *ends);

/* Forgets the row before. */
void lane_edges_begin(struct lane_edges *edges);
/* One of the row's plans. flat: the row ignores nodes. */
void lane_edges_add(struct lane_edges *edges, const struct plan *plan, int flat);
/* 1: there is room for the row on so many channels, and it is counted; else 0. */
int lane_ends_take(struct lane_ends *ends, const struct lane_edges *edges, int channels);

#endif
