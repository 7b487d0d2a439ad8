#include "planner_room.h"

#include <stdio.h>

#include "base/collectives.h"
#include "base/status.h"
#include "lane_ends.h"
#include "planner_algo.h"

/* ---- Rows' plans ------------------------------------------------------------------------------------------ */

/* Adds the edges of a row's plans by one planner, whose steps may depend on size and type; returns the most channels, 0: it runs no call. */
static int add_plans(struct lane_edges *edges, const struct planner *planner, int index, uint64_t *counted)
{
	static const uint8_t classes[] = { 36, 20, 0 }, types[] = { CORALE_FLOAT32, CORALE_FLOAT16 };
	enum { CLASSES = sizeof classes };
	const struct row *row = row_table(&(int){ 0 }) + index;
	int channels = 0;
	for (int i = 0; i < CLASSES * (planner->partials_float32 ? 2 : 1); i++) {
		const struct plan_key key = { .coll = (uint8_t)row->coll,
					      .type = types[i / CLASSES],
					      .size_class = classes[i % CLASSES] };
		struct plan plan;
		if (planner_build_steps(planner, &key, index, &plan))
			continue;
		const uint64_t steps = plan_hash_steps(&plan);
		if (steps != *counted)
			lane_edges_add(edges, &plan, row->traits & ROW_FLAT);
		*counted = steps;
		channels = plan.channels > channels ? plan.channels : channels;
	}
	return channels;
}

/* ---- Their order ------------------------------------------------------------------------------------------ */

enum { PASSES = 8 };

/* In which pass a row gets room; -1: in none, as nothing runs by it. */
static int pass_of(const struct planner *planner, int index)
{
	const struct row *row = row_table(&(int){ 0 }) + index;
	const struct plan_call call = { .coll = row->coll };
	if (row->codelet || coll_is_pair(row->coll) || planner_algo_excludes(planner->algo, index) ||
	    planner_codelet(planner->node, &call))
		return -1;
	const int named = *planner->algo && planner_algo_allows(planner->algo, index);
	return (coll_is_rooted(row->coll) ? 4 : 0) + (named ? 0 : 2) + (row->traits & ROW_FLAT ? 1 : 0);
}

struct rooms {
	struct lane_edges edges;
	struct lane_ends wide, narrow;
};

static int open_rooms(struct rooms *r, const struct planner *planner)
{
	*r = (struct rooms){ 0 };
	int ret = lane_edges_open(&r->edges, &planner->topo->map);
	ret = ret ? ret : lane_ends_open(&r->wide, &r->edges, planner->lane_ends);
	return ret ? ret : lane_ends_open(&r->narrow, &r->edges, planner->small->lane_ends);
}

static void close_rooms(struct rooms *r)
{
	lane_ends_close(&r->narrow);
	lane_ends_close(&r->wide);
	lane_edges_close(&r->edges);
}

/* Both lane classes are asked with the edges of the plans of both. */
static uint8_t room_of(struct rooms *r, const struct planner *planner, int row)
{
	uint64_t counted = 0;
	lane_edges_begin(&r->edges);
	const int channels = add_plans(&r->edges, planner, row, &counted);
	if (!channels)
		return 0;
	add_plans(&r->edges, planner->small, row, &counted);
	return (uint8_t)(ROOM_WANTED | (lane_ends_take(&r->wide, &r->edges, channels) ? ROOM_WIDE : 0) |
			 (lane_ends_take(&r->narrow, &r->edges, 1) ? ROOM_NARROW : 0));
}

int planner_room_init(struct planner_room *room, const struct planner *planner)
{
	struct rooms rooms;
	int rows, ret = open_rooms(&rooms, planner);
	*room = (struct planner_room){ 0 };
	row_table(&rows);
	ret = ret || rows <= PLANNER_ROOM_ROWS ? ret : CORALE_EINTERNAL;
	for (int pass = 0; !ret && pass < PASSES; pass++)
		for (int row = 0; row < rows; row++)
			if (pass_of(planner, row) == pass)
				room->of[row] = room_of(&rooms, planner, row);
	close_rooms(&rooms);
	return ret;
}

/* ---- Questions -------------------------------------------------------------------------------------------- */

const struct planner *planner_by_room(const struct planner *planner, const struct plan_key *key, int row)
{
	const struct planner *rather = planner_of(planner, key);
	if (!planner->room)
		return rather;
	const int room = planner->room->of[row];
	if (room & (rather == planner ? ROOM_WIDE : ROOM_NARROW))
		return rather;
	return room & ROOM_WIDE ? planner : room & ROOM_NARROW ? planner->small : NULL;
}

size_t planner_room_print(const struct planner_room *room, char *buf, size_t bytes)
{
	int rows;
	const struct row *table = row_table(&rows);
	size_t used = 0;
	for (int row = 0; row < rows; row++) {
		if (room->of[row] & ROOM_WIDE || !(room->of[row] & ROOM_WANTED))
			continue;
		const int fits = used < bytes;
		used += (size_t)snprintf(fits ? buf + used : NULL, fits ? bytes - used : 0, "%s%s %s (%s)",
					 used ? ", " : "", corale_coll_name(table[row].coll), table[row].name,
					 room->of[row] & ROOM_NARROW ? "1 channel" : "none");
	}
	return used;
}
