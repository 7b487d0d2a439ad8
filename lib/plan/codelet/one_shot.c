/* SPDX-License-Identifier: BSD-3-Clause */
/* One exchange of packets: each rank stores its vector or blocks into the others' windows, and folds or copies what it receives. Protocol LL128. */
#include "cut.h"

#include "base/collectives.h"

enum { LEAN_VECTORS = 640 /* 8 KB and a little more */ };

static int has_blocks(corale_coll coll)
{
	return coll_sends_each(coll) || coll_receives_each(coll);
}

/* Blocks larger than the packets' room go piece by piece. */
static int can(const struct row *row, const struct gpu_machine *machine, const struct plan_call *call)
{
	return packets_vectors(call->bytes, 0) * 16 <= machine->lines_bytes ||
	       (has_blocks(row->coll) && machine->ranks > 1 &&
		packets_piece(machine->lines_bytes, 0, 1, 1, machine->max_blocks));
}

static struct codelet_rate rate(const struct row *row, const struct gpu_machine *machine)
{
	const int blocks = has_blocks(row->coll);
	struct codelet_rate rate = codelet_rate(1.8, 260, 2.7, 173, 1, RATES_MOVING);
	if (blocks)
		rate = codelet_rate(3.5, 320, 5.3, 213, 1, RATES_MOVING_BLOCKS);
	if (coll_folds(row->coll))
		rate.block = RATES_FOLDING_BLOCKS;
	else if (!blocks && coll_is_rooted(row->coll) && machine->ranks > 2)
		rate.block = RATES_SCATTERING;
	return rate;
}

static uint64_t pieces(const struct row *row, const struct gpu_machine *machine, uint64_t bytes)
{
	(void)row;
	return packets_pieces(bytes, packets_piece(machine->lines_bytes, 0, 1, 1, machine->max_blocks));
}

static void cut(struct launch *l)
{
	if (has_blocks(l->coll))
		packets_cut_pieces(l, 0, 1, 1);
	const uint64_t vectors = packets_vectors(l->piece, 0);
	l->grid = packets_grid(l->machine, vectors, LEAN_VECTORS);
	const int one_turn =
	    l->pieces == 1 && vectors <= (uint64_t)l->grid.blocks * (uint64_t)l->grid.threads;
	l->variant = !packets_have_few_ranks(l) || (!one_turn && !has_blocks(l->coll)) ? ONE_SHOT_ANY
		     : one_turn                                                        ? ONE_SHOT_FEW
										       : ONE_SHOT_FEW_LONG;
	if (l->variant == ONE_SHOT_FEW_LONG)
		l->grid.threads = packets_long_threads(l->machine);
}

static const char *const kernels[] = { [ONE_SHOT_ANY] = "one_shot",
				       [ONE_SHOT_FEW] = "one_shot_few",
				       [ONE_SHOT_FEW_LONG] = "one_shot_few_long" };

const struct codelet one_shot_codelet = {
	"one_shot", codelet_index_one_shot, PLAN_SM, can, codelet_us, rate, codelet_sent_to_all, pieces,
	cut,        launch_block,           kernels, NULL
};
