/* SPDX-License-Identifier: BSD-3-Clause */
/* How calls by packets are cut. A packet is 16 bytes of data, or 16 of a line of 128, of which 120 are data. */
#include "cut.h"

uint64_t packets_piece(uint64_t area_bytes, int words, int exchanges, uint64_t parts, int max_blocks)
{
	uint64_t room = area_bytes / (uint64_t)exchanges;
	uint64_t turn = (uint64_t)max_blocks * PLAN_CODELET_THREADS * 16;
	room = room > turn ? room / turn * turn : room;
	return (words ? room : room / LAUNCH_LINE * LAUNCH_LINE_DATA) / PLAN_UNIT_BYTES * PLAN_UNIT_BYTES *
	       parts;
}

uint64_t packets_pieces(uint64_t bytes, uint64_t most)
{
	return most && bytes ? (bytes + most - 1) / most : 1;
}

void packets_cut_pieces(struct launch *l, int words, int exchanges, uint64_t parts)
{
	const uint64_t area = words ? l->machine->words_bytes : l->machine->lines_bytes,
		       most = packets_piece(area, words, exchanges, parts, l->machine->max_blocks),
		       pieces = packets_pieces(l->bytes, most);
	l->piece =
	    pieces > 1 ? plan_round((l->bytes + pieces - 1) / pieces, parts * PLAN_UNIT_BYTES) : l->bytes;
	l->pieces = packets_pieces(l->bytes, l->piece);
}

uint64_t packets_vectors(uint64_t bytes, int words)
{
	return words ? (bytes + 15) / 16 : (bytes + LAUNCH_LINE_DATA - 1) / LAUNCH_LINE_DATA * 8;
}

struct grid packets_grid(const struct gpu_machine *machine, uint64_t vectors, uint64_t small)
{
	struct grid grid = { 1, 32 };
	const uint64_t most = (uint64_t)machine->max_blocks;
	if (vectors > small) {
		grid.threads = vectors <= 8192 ? 128 : 256;
		while (grid.threads < PLAN_CODELET_THREADS && vectors > (uint64_t)grid.threads * most)
			grid.threads *= 2;
	}
	uint64_t blocks = (vectors + (uint64_t)grid.threads - 1) / (uint64_t)grid.threads;
	grid.blocks = blocks < 1 ? 1 : (int)(blocks < most ? blocks : most);
	return grid;
}

/* A thread has one packet in flight to each other rank: with one other rank only more threads fill the link. */
int packets_long_threads(const struct gpu_machine *machine)
{
	return machine->ranks == 2 ? LAUNCH_LONG_THREADS : PLAN_CODELET_THREADS;
}

int packets_have_few_ranks(const struct launch *l)
{
	return l->machine->ranks > 1 && l->machine->ranks <= PLAN_FEW_RANKS && !launch_is_unaligned(l);
}
