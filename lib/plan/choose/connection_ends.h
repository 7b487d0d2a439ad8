/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ends of connections between nodes that rows use, counted over all ranks and, of rooted collectives, all roots. Pure.
 *
 * Plans for another root have the same edges elsewhere: those of rows that ignore nodes between ranks as far apart, those of rows that know nodes between
 * the same rails of nodes as far apart. So one root is enough, and the time grows with the ranks, not with their square.
 */
#ifndef CONNECTION_ENDS_H
#define CONNECTION_ENDS_H

#include "plan/plan.h"

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
