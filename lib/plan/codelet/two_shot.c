/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A reduce-scatter and an all-gather of packets in one pass: a thread takes its packet through both exchanges. Protocol SENTINEL for sums of floats, else
 * LL128. A broadcast of few ranks likewise: the root scatters parts, which the others pass on.
 */
#include "cut.h"

#include "base/collectives.h"

static int can(const struct row *row, const struct gpu_machine *machine, const struct plan_call *call)
{
	if (row->coll == CORALE_BROADCAST)
		return machine->ranks > 1 && machine->ranks <= PLAN_FEW_RANKS;
	return row->protocol == PLAN_SENTINEL ? call->words : !call->words;
}

static struct codelet_rate rate(const struct row *row, const struct gpu_machine *machine)
{
	static const struct codelet_rate
	    pair = { { [RATES_HOPPER] = { 3.3, 353, 0.3 }, [RATES_UNKNOWN] = { 5, 235, 0.5 } },
		     2,
		     RATES_PAIR_FOLDING },
	    several = { { [RATES_HOPPER] = { 3.3, 338, 0.5 }, [RATES_UNKNOWN] = { 5, 225, 0.8 } },
			2,
			RATES_FOLDING };
	if (row->coll == CORALE_BROADCAST)
		return codelet_rate(4, 280, 6, 187, 2,
				    machine->ranks > 2 ? RATES_SCATTERING : RATES_PAIR_MOVING);
	return machine->ranks == 2 ? pair : several;
}

static uint64_t pieces(const struct row *row, const struct gpu_machine *machine, uint64_t bytes)
{
	const int words = row->protocol == PLAN_SENTINEL;
	const uint64_t parts = (uint64_t)(machine->ranks - (row->coll == CORALE_BROADCAST)),
		       area = words ? machine->words_bytes : machine->lines_bytes;
	return packets_pieces(bytes, packets_piece(area, words, 2, parts, machine->max_blocks));
}

static void cut(struct launch *l)
{
	const int scatters = coll_is_rooted(l->coll), words = !scatters && l->words;
	const uint64_t parts = (uint64_t)(l->machine->ranks - scatters);
	packets_cut_pieces(l, words, 2, parts);
	l->grid = packets_grid(l->machine, packets_vectors((l->piece + parts - 1) / parts, words), 0);
	l->variant = scatters || packets_have_few_ranks(l) ? TWO_SHOT_FEW : TWO_SHOT_ANY;
	if (l->variant == TWO_SHOT_FEW && l->grid.threads == PLAN_CODELET_THREADS && !scatters)
		l->grid.threads = packets_long_threads(l->machine);
}

static const char *const kernels[] = { [TWO_SHOT_ANY] = "two_shot", [TWO_SHOT_FEW] = "two_shot_few" };

const struct codelet two_shot_codelet = {
	"two_shot", codelet_index_two_shot, PLAN_SM, can, codelet_us, rate, codelet_sent_in_parts, pieces,
	cut,        launch_parts,           kernels, NULL
};
