/* SPDX-License-Identifier: BSD-3-Clause */
/* How calls by messages through slots are cut, and the parts of a reduce-scatter and an all-gather. */
#include "cut.h"

#include "base/collectives.h"

int slots_have_parts(corale_coll coll)
{
	return coll == CORALE_ALL_REDUCE || coll == CORALE_BROADCAST || coll == CORALE_REDUCE;
}

int slots_are_of_bulk(corale_coll coll)
{
	return coll_folds(coll) && coll != CORALE_REDUCE;
}

uint64_t slots_owners(corale_coll coll, int ranks)
{
	return slots_have_parts(coll) && ranks > 1 ? (uint64_t)(ranks - coll_is_rooted(coll)) : 1;
}

double slots_sent(const struct row *row, const struct gpu_machine *machine, uint64_t bytes)
{
	return slots_have_parts(row->coll) ? codelet_sent_in_parts(row, machine, bytes)
					   : codelet_sent_to_all(row, machine, bytes);
}

uint64_t slots_bytes(uint64_t room, int channels, int queues, uint32_t depth, uint64_t most)
{
	uint64_t bytes = room / ((uint64_t)(channels * queues) * depth);
	return (bytes < most ? bytes : most) / LAUNCH_LINE * LAUNCH_LINE;
}

uint64_t slots_room(const struct launch *l)
{
	return l->scratch ? l->machine->scratch_bytes : l->machine->slots_bytes;
}

uint64_t slots_message(const struct launch *l, int exchanges, uint64_t most)
{
	return slots_bytes(slots_room(l), l->machine->max_blocks, exchanges, l->depth, most);
}

enum {
	MOST_TEAM_BYTES = 256 << 10, /* of a message: a fence, which takes 2 to 4 us, for each */
	LEAST_TEAM_BYTES = 8 << 10,
	MOST_TEAM_DEPTH = 8
};

uint64_t slots_team_message(uint64_t bytes, uint64_t pieces, uint64_t room, uint64_t in_flight)
{
	const uint64_t each = plan_round((bytes + pieces - 1) / pieces, LAUNCH_LINE),
		       fitting = room / in_flight,
		       most = fitting < MOST_TEAM_BYTES ? fitting : MOST_TEAM_BYTES,
		       message = each < most ? each : most;
	return message < LEAST_TEAM_BYTES ? LEAST_TEAM_BYTES : message;
}

void slots_cut_teams(struct launch *l, uint64_t room, uint64_t most)
{
	const uint64_t depth = room / most;
	l->grid.threads = LAUNCH_BULK_THREADS;
	l->depth = (uint32_t)(depth < 2 ? 2 : depth < MOST_TEAM_DEPTH ? depth : MOST_TEAM_DEPTH);
	l->message = slots_bytes(room, 1, 1, l->depth, most);
}

struct codelet_rate slots_rate_of_moves(int ranks)
{
	return ranks == 2 ? codelet_rate(9, 344, 14, 229, 1, RATES_MOVING_BLOCKS)
			  : codelet_rate(11, 340, 17, 227, 1, RATES_MOVING_BLOCKS);
}

/* Rank 0 sends rank 1 that one's part, which is the largest, and in an all_reduce its own one behind it. */
uint64_t launch_parts(const struct launch *l)
{
	const size_t owners = slots_owners(l->coll, l->machine->ranks),
		     sent = l->coll == CORALE_ALL_REDUCE ? 2 : 1;
	uint64_t sum = 0;
	for (uint64_t at = 0; at < l->bytes; at += l->piece) {
		const uint64_t left = l->bytes - at, piece = left < l->piece ? left : l->piece;
		size_t begin;
		for (size_t part = 0; part < sent; part++)
			sum += plan_cut(piece, PLAN_UNIT_BYTES, owners, part, &begin);
	}
	return sum;
}
