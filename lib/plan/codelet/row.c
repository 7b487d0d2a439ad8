/* What a row with a codelet makes of a call: its memory, its pieces, its time. The table is in algo/row_table.c, rates are in machine/rates.c. */
#include "row.h"

#include "base/collectives.h"
#include "base/types.h"
#include "row_us.h"

enum { MOST_CHUNKS = 256 };

uint64_t plan_packets_piece(uint64_t area_bytes, int words, int exchanges, uint64_t parts, int max_blocks)
{
	uint64_t room = area_bytes / (uint64_t)exchanges;
	uint64_t turn = (uint64_t)max_blocks * PLAN_CODELET_THREADS * 16;
	room = room > turn ? room / turn * turn : room;
	return (words ? room : room / 128 * 120) / PLAN_UNIT_BYTES * PLAN_UNIT_BYTES * parts;
}

int plan_in_words(corale_type type)
{
	return type_in_words(type);
}

static int is_registered(const struct plan_call *call)
{
	return call->memory & PLAN_MEMORY_REGISTERED;
}

/* Of moves. As slow as copies into some registered buffers may be without scratch, or where no blocks may move data. */
int row_copies_direct(const struct gpu_machine *machine, const struct plan_call *call)
{
	int no_other_way =
	    (machine->zero_ctas && coll_moves(call->coll)) || !(call->memory & PLAN_MEMORY_SCRATCH);
	return (call->memory & PLAN_MEMORY_EXPORTED) || (is_registered(call) && no_other_way);
}

double row_us(const struct row *row, const struct gpu_machine *machine, const struct plan_call *call)
{
	const int over_nodes = (row->traits & ROW_OVER_NODES) != 0;
	const int refused = !over_nodes && machine->refused[call->coll] >> row->codelet & 1;
	if (over_nodes != machine->over_nodes || refused || !row->can(machine, call))
		return -1;
	return row->us ? row->us(row, machine, call) : 0;
}

int row_uses_scratch(const struct row *row, const struct gpu_machine *machine, const struct plan_call *call)
{
	if (row->engine == PLAN_CE)
		return coll_folds(call->coll) || !row_copies_direct(machine, call);
	int stages = row->protocol == PLAN_FIFO && (coll_folds(call->coll) || coll_moves(call->coll)),
	    passes = row->protocol == PLAN_DIRECT && coll_folds(call->coll);
	return (stages || passes) &&
	       row_sent(row, machine, call->bytes) >= (double)machine->rates->scratch_bytes;
}

int row_stores_direct(const struct row *row, const struct gpu_machine *machine, const struct plan_call *call)
{
	if (!is_registered(call))
		return 0;
	if (row->engine == PLAN_CE)
		return call->coll != CORALE_REDUCE_SCATTER && row_copies_direct(machine, call);
	return row->protocol == PLAN_DIRECT;
}

/* ---- Time ---- */

static const struct rates_row *rate_of(const struct row *row, const struct gpu_machine *machine)
{
	return &machine->rates->row[machine->ranks == 2 ? row->pair : row->several];
}

double row_sent(const struct row *row, const struct gpu_machine *machine, uint64_t bytes)
{
	double others = machine->ranks - 1, all = (double)bytes;
	if (row->coll == CORALE_BROADCAST && row->codelet != CODELET_ONE_SHOT)
		return all;
	if (row->coll != CORALE_ALL_REDUCE || row->codelet == CODELET_ONE_SHOT)
		return others * all;
	return 2 * others / machine->ranks * all;
}

/* ---- Kernels -------------------------------------------------------------------------------------------- */

/* Bytes that a call by packets moves at a time. */
static uint64_t piece_of(const struct row *row, const struct gpu_machine *machine)
{
	if (row->codelet == CODELET_ONE_SHOT)
		return plan_packets_piece(machine->lines_bytes, 0, 1, 1, machine->max_blocks);
	int dealt = row->coll == CORALE_BROADCAST, words = row->protocol == PLAN_SENTINEL;
	return plan_packets_piece(words ? machine->words_bytes : machine->lines_bytes, words, 2,
				  (uint64_t)(machine->ranks - dealt), machine->max_blocks);
}

/* Epochs that a call takes: it may be larger than the packets' room. */
static double pieces(const struct row *row, const struct gpu_machine *machine, uint64_t bytes)
{
	int packets = row->codelet == CODELET_ONE_SHOT || row->codelet == CODELET_TWO_SHOT;
	uint64_t most = packets && bytes ? piece_of(row, machine) : 0;
	return most ? (double)((bytes + most - 1) / most) : 1;
}

double row_kernel_us(const struct row *row, const struct gpu_machine *machine, const struct plan_call *call)
{
	const struct rates_row *rate = rate_of(row, machine);
	enum rates_block block = machine->ranks > 2 ? row->several_block : row->pair_block;
	double blocks_gbs = machine->rates->block_gbs[block] * machine->max_blocks,
	       gbs = rate->gbs > blocks_gbs ? blocks_gbs : rate->gbs;
	return rate->start_us + rate->piece_us * (pieces(row, machine, call->bytes) - 1) +
	       row_sent(row, machine, call->bytes) / gbs / 1e3;
}

/* ---- Copy engines --------------------------------------------------------------------------------------- */

static double copies_gbs(const struct rates *rates)
{
	return rates->row[RATES_COPIES].gbs;
}

uint32_t plan_chain_chunks(const struct rates *rates, int ranks, uint64_t bytes)
{
	const double hops_us = (ranks - 2) * (double)bytes / copies_gbs(rates) / 1e3; /* of one chunk */
	uint32_t chunks = 1;
	while (chunks < MOST_CHUNKS && rates->chunk_us * chunks * (chunks + 1) < hops_us)
		chunks++;
	return chunks;
}

/* Until the last rank has the last chunk, beyond the time of all bytes on one link. */
static double chain_us(const struct rates *rates, int ranks, uint64_t bytes)
{
	uint32_t chunks = plan_chain_chunks(rates, ranks, bytes);
	double chunk_us = (double)bytes / chunks / copies_gbs(rates) / 1e3;
	return (ranks - 2) * (rates->hop_us + chunk_us) + rates->chunk_us * (chunks - 1);
}

/* Of what is left to a kernel when the last copy has ended: of so many bytes the last piece, each of which it reads or writes n times. */
static double last_us(const struct rates *rates, double bytes, int n)
{
	return (bytes < rates->last_bytes ? bytes : rates->last_bytes) * n / rates->memory_gbs / 1e3;
}

/* Beyond the first byte's time and that of all bytes: steps, pieces, and what kernels do behind the last one. */
static double steps_us(const struct gpu_machine *machine, const struct plan_call *call)
{
	const struct rates *rates = machine->rates;
	double us = rates->step_us * (machine->ranks - 1), part = (double)call->bytes, taken_us;
	int staged = !row_copies_direct(machine, call);
	if (call->coll == CORALE_ALL_REDUCE)
		part /= machine->ranks;
	taken_us = staged ? rates->pieces_us + last_us(rates, part, 2) : 0;
	switch (call->coll) {
	case CORALE_ALL_REDUCE:
		return 2 * us + rates->pieces_us + last_us(rates, part, machine->ranks + 1) + taken_us;
	case CORALE_REDUCE_SCATTER:
		return us + rates->pieces_us + last_us(rates, part, machine->ranks + 1);
	case CORALE_BROADCAST:
		return rates->step_us + chain_us(rates, machine->ranks, call->bytes) + taken_us;
	default:
		return us + taken_us;
	}
}

double row_copies_us(const struct row *row, const struct gpu_machine *machine, const struct plan_call *call)
{
	const struct rates_row *rate = rate_of(row, machine);
	return steps_us(machine, call) + rate->start_us +
	       row_sent(row, machine, call->bytes) / rate->gbs / 1e3;
}
