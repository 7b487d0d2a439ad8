/* How calls by messages through slots are cut, and the parts of a reduce-scatter and an all-gather. */
#include "cut.h"

uint64_t slots_bytes(uint64_t room, int channels, int rings, uint32_t depth, uint64_t most)
{
	uint64_t bytes = room / ((uint64_t)(channels * rings) * depth);
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

struct codelet_rate slots_rate_of_moves(int ranks)
{
	static const struct codelet_rate
	    pair = { { [RATES_HOPPER] = { 9, 344, 0 }, [RATES_UNKNOWN] = { 14, 229, 0 } },
		     1,
		     RATES_MOVING_BLOCKS },
	    several = { { [RATES_HOPPER] = { 11, 340, 0 }, [RATES_UNKNOWN] = { 17, 227, 0 } },
			1,
			RATES_MOVING_BLOCKS };
	return ranks == 2 ? pair : several;
}

/* Rank 0 sends rank 1 that one's part, then its own. */
uint64_t launch_two_parts(const struct launch *l)
{
	uint64_t sum = 0;
	for (uint64_t at = 0; at < l->bytes; at += l->piece) {
		uint64_t left = l->bytes - at, piece = left < l->piece ? left : l->piece;
		size_t first, second, n = (size_t)l->machine->ranks;
		sum += plan_cut(piece, PLAN_UNIT_BYTES, n, 0, &first);
		sum += plan_cut(piece, PLAN_UNIT_BYTES, n, 1, &second);
	}
	return sum;
}
