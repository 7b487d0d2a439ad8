/* SPDX-License-Identifier: BSD-3-Clause */
#include "planner_room.h"

#include <stdio.h>

#include "base/collectives.h"

/* ---- Rows' plans ------------------------------------------------------------------------------------------ */

/* Adds the edges of a row's plans by one planner, whose steps may depend on size and type; returns the most channels, 0: it runs no call. */
static int add_plans(struct connection_edges *edges, const struct planner *planner, int index,
		     uint64_t *counted)
{
	static const uint8_t classes[] = { 36, 20, 0 };
	const struct row *row = row_table(&(int){ 0 }) + index;
	int channels = 0;
	for (int i = 0; i < (int)sizeof classes; i++) {
		const struct plan_key key = { .coll = (uint8_t)row->coll,
					      .type = CORALE_FLOAT32,
					      .size_class = classes[i] };
		struct plan plan;
		if (planner_build_steps(planner, &key, index, &plan))
			continue;
		const uint64_t steps = plan_hash_steps(&plan);
		if (steps != *counted)
			connection_edges_add(edges, &plan, row->traits & ROW_FLAT);
		*counted = steps;
		channels = plan.channels > channels ? plan.channels : channels;
	}
	return channels;
}

/* ---- Their order ------------------------------------------------------------------------------------------ */

enum { PASSES = 4, FLAT = 2, ROOTED = 1 };

/* In which pass a row gets room, of PASSES; -1: in none, as nothing runs by it. */
static int pass_of(const struct planner *planner, int index)
{
	const struct row *row = row_table(&(int){ 0 }) + index;
	const struct plan_call call = { .coll = row->coll };
	const int named = *planner->algo && planner_algo_allows(planner->algo, index);
	if (row->codelet || coll_is_pair(row->coll) || planner_algo_excludes(planner->algo, index) ||
	    (planner_codelet(planner->machine, &call) && !(row->traits & ROW_BESIDE_CODELET)))
		return -1;
	const int spreads = row->traits & ROW_FLAT && !(row->traits & ROW_BESIDE_CODELET);
	return (spreads && !named ? FLAT : 0) | (coll_is_rooted(row->coll) ? ROOTED : 0);
}

struct rooms {
	struct connection_edges edges;
	struct connection_ends multi, single; /* of plans of several channels, and of one */
};

static int open_rooms(struct rooms *r, const struct planner *planner)
{
	*r = (struct rooms){ 0 };
	int ret = connection_edges_open(&r->edges, &planner->topo->map);
	ret = ret ? ret : connection_ends_open(&r->multi, &r->edges, planner->connection_ends);
	return ret ? ret : connection_ends_open(&r->single, &r->edges, planner->single->connection_ends);
}

static void close_rooms(struct rooms *r)
{
	connection_ends_close(&r->single);
	connection_ends_close(&r->multi);
	connection_edges_close(&r->edges);
}

/* Finds the edges of a row's plans on several channels and on one; returns the most channels. */
static int find_edges(struct rooms *r, const struct planner *planner, int row)
{
	uint64_t counted = 0;
	connection_edges_begin(&r->edges);
	const int channels = add_plans(&r->edges, planner, row, &counted);
	if (channels)
		add_plans(&r->edges, planner->single, row, &counted);
	return channels;
}

static void give_room(struct rooms *r, const struct planner *planner, int row, struct planner_room *room)
{
	const int channels = find_edges(r, planner, row);
	room->wanted[row] = (uint8_t)channels;
	if (!channels)
		return;
	if (connection_ends_take(&r->multi, &r->edges, channels))
		room->channels[row] = (uint8_t)channels;
	room->of[row] = (uint8_t)((room->channels[row] ? ROOM_MULTI : 0) |
				  (connection_ends_take(&r->single, &r->edges, 1) ? ROOM_SINGLE : 0));
}

/* On half of the channels, or a quarter, and so on. */
static void give_rest(struct rooms *r, const struct planner *planner, int row, struct planner_room *room)
{
	if (!room->wanted[row] || room->channels[row])
		return;
	int channels = find_edges(r, planner, row) / 2;
	while (channels && !connection_ends_take(&r->multi, &r->edges, channels))
		channels /= 2;
	room->channels[row] = (uint8_t)channels;
	room->of[row] |= channels ? ROOM_MULTI : 0;
}

/* Of the rows of a pass, and of those with a root behind it. */
static void give_all(struct rooms *r, const struct planner *planner, int pass,
		     void (*give)(struct rooms *r, const struct planner *planner, int row,
				  struct planner_room *room),
		     struct planner_room *room)
{
	int rows;
	row_table(&rows);
	for (int rooted = 0; rooted <= ROOTED; rooted++)
		for (int row = 0; row < rows; row++)
			if (pass_of(planner, row) == (pass | rooted))
				give(r, planner, row, room);
}

int planner_room_init(struct planner_room *room, const struct planner *planner)
{
	struct rooms rooms;
	int rows, ret = open_rooms(&rooms, planner);
	*room = (struct planner_room){ 0 };
	row_table(&rows);
	ret = ret || rows <= PLANNER_ROOM_ROWS ? ret : CORALE_EINTERNAL;
	for (int pass = 0; !ret && pass < PASSES; pass += FLAT) {
		give_all(&rooms, planner, pass, give_room, room);
		give_all(&rooms, planner, pass, give_rest, room);
	}
	close_rooms(&rooms);
	return ret;
}

/* ---- Questions -------------------------------------------------------------------------------------------- */

const struct planner *planner_by_room(const struct planner *planner, const struct plan_key *key, int row)
{
	const struct planner *preferred = planner_for(planner, key, row);
	if (!planner->room)
		return preferred;
	const int room = planner->room->of[row];
	if (room & (preferred == planner ? ROOM_MULTI : ROOM_SINGLE))
		return preferred;
	return room & ROOM_MULTI ? planner : room & ROOM_SINGLE ? planner->single : NULL;
}

static const char *room_text(const struct planner_room *room, int row, char text[24])
{
	if (!(room->of[row] & ROOM_MULTI))
		return room->of[row] & ROOM_SINGLE ? "1 channel" : "none";
	snprintf(text, 24, "%d channel%s", room->channels[row], room->channels[row] == 1 ? "" : "s");
	return text;
}

size_t planner_room_print(const struct planner_room *room, char *buf, size_t bytes)
{
	int rows;
	const struct row *table = row_table(&rows);
	size_t used = 0;
	for (int row = 0; row < rows; row++) {
		char text[24];
		if (room->channels[row] == room->wanted[row])
			continue;
		const int fits = used < bytes;
		used += (size_t)snprintf(fits ? buf + used : NULL, fits ? bytes - used : 0, "%s%s %s (%s)",
					 used ? ", " : "", corale_coll_name(table[row].coll), table[row].name,
					 room_text(room, row, text));
	}
	return used;
}
