/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How calls by copy engines are cut into rounds and chunks, and how many blocks work beside the copies. Copy engines move the bytes, in steps: straight into
 * registered memory, else into scratch. Kernels of a few blocks fold, or take out of scratch, meanwhile.
 */
#include "cut.h"

#include "base/collectives.h"

/*
 * Blocks of work. COPYING: blocks of one warp. 264 of them are resident beside a kernel that fills the GPU, enough for two calls and their barriers. OWN: the
 * TMA unit copies the rank's own block: faster than warps beside such a kernel, slower alone. It may take as long as the call, so a longer call has fewer of
 * these blocks. FEWER: copies by fewer blocks, or at unaligned addresses, use the largest blocks; so do folds by half of LAUNCH_FOLDING_BLOCKS or less.
 */
enum { COPYING_BLOCKS = 120, OWN_BLOCKS = 60, FOLDING_THREADS = 512, FEWER = 64 };
enum { SCRATCH_UNIT = 2 << 20, MOST_CHUNKS = 256 };
#define SCRATCH_CHUNK ((uint64_t)128 << 20) /* of one rank; larger chunks are not faster */
#define LEAST_CHUNK ((uint64_t)4 << 20) /* below this the steps cost more than scratch gains */

/* ---- Work beside copies --------------------------------------------------------------------------------- */

static struct grid limited(const struct gpu_machine *machine, int blocks, int threads)
{
	return (struct grid){ blocks < machine->max_blocks ? blocks : machine->max_blocks, threads };
}

static struct grid grid_of_copies(const struct gpu_machine *machine, int blocks, int unaligned)
{
	int large = unaligned || machine->max_blocks < FEWER;
	return large ? limited(machine, FEWER, LAUNCH_WORK_THREADS) : limited(machine, blocks, 32);
}

struct grid launch_taken(const struct gpu_machine *machine, int unaligned)
{
	return grid_of_copies(machine, COPYING_BLOCKS, unaligned);
}

struct grid launch_own(const struct gpu_machine *machine, int times, int unaligned)
{
	return grid_of_copies(machine, times < 2 ? OWN_BLOCKS : 2 * OWN_BLOCKS / times, unaligned);
}

struct grid launch_folds(const struct gpu_machine *machine, int unaligned)
{
	if (unaligned)
		return grid_of_copies(machine, 0, unaligned);
	int large = machine->max_blocks <= LAUNCH_FOLDING_BLOCKS / 2;
	return limited(machine, LAUNCH_FOLDING_BLOCKS, large ? LAUNCH_WORK_THREADS : FOLDING_THREADS);
}

/* ---- Time ----------------------------------------------------------------------------------------------- */

static int can(const struct row *row, const struct gpu_machine *machine, const struct plan_call *call)
{
	const int has_scratch = (call->memory & PLAN_MEMORY_SCRATCH) != 0;
	return has_scratch || (!coll_folds(row->coll) && row_copies_direct(machine, call));
}

static struct codelet_rate rate(const struct row *row, const struct gpu_machine *machine)
{
	(void)row, (void)machine;
	return codelet_rate(17.5, 392, 26, 261, 1, RATES_MOVING);
}

uint32_t launch_chain_chunks(const struct rates *rates, int ranks, uint64_t bytes)
{
	const double hops_us = (ranks - 2) * (double)bytes / rates_link_gbs(rates) / 1e3; /* of one chunk */
	uint32_t chunks = 1;
	while (chunks < MOST_CHUNKS && rates->chunk_us * chunks * (chunks + 1) < hops_us)
		chunks++;
	return chunks;
}

/* Time until the last rank has the last chunk, beyond that of all bytes on one link. */
static double chain_us(const struct rates *rates, int ranks, uint64_t bytes)
{
	uint32_t chunks = launch_chain_chunks(rates, ranks, bytes);
	double chunk_us = (double)bytes / chunks / rates_link_gbs(rates) / 1e3;
	return (ranks - 2) * (rates->hop_us + chunk_us) + rates->chunk_us * (chunks - 1);
}

/* Time of the kernel after the last copy: of so many bytes it handles the last piece, and reads or writes each byte n times. */
static double last_us(const struct rates *rates, double bytes, int n)
{
	return (bytes < rates->last_bytes ? bytes : rates->last_bytes) * n / rates->memory_gbs / 1e3;
}

/* Beyond the time of the first byte and of all bytes: steps, pieces, and the kernels after the last copy. */
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

/* Beyond the time of all bytes on a link: few blocks fold, or take data out of scratch, more slowly than copies bring them. */
static double blocks_us(const struct row *row, const struct gpu_machine *machine,
			const struct plan_call *call)
{
	const struct codelet_speed speed = codelet_speed_of(row, machine);
	const double gbs = machine->rates->block_gbs[zero_copy_block(call->coll)] * machine->max_blocks;
	const int works = coll_folds(call->coll) || !row_copies_direct(machine, call);
	return works && gbs < speed.link_gbs
		   ? row->codelet->sent(row, machine, call->bytes) * (1 / gbs - 1 / speed.link_gbs) / 1e3
		   : 0;
}

static double us(const struct row *row, const struct gpu_machine *machine, const struct plan_call *call)
{
	return steps_us(machine, call) + blocks_us(row, machine, call) + codelet_us(row, machine, call);
}

static double sent(const struct row *row, const struct gpu_machine *machine, uint64_t bytes)
{
	const int in_parts = row->coll == CORALE_ALL_REDUCE || row->coll == CORALE_BROADCAST;
	return in_parts ? codelet_sent_in_parts(row, machine, bytes)
			: codelet_sent_to_all(row, machine, bytes);
}

/* ---- Scratch, rounds and chunks -------------------------------------------------------------------------- */

uint64_t launch_scratch_bytes(int ranks, uint64_t window, uint64_t memory_cap)
{
	uint64_t buffers = 2 * (uint64_t)(ranks - 1), left = memory_cap > window ? memory_cap - window : 0,
		 chunk = buffers ? left / buffers : 0;
	chunk = chunk < SCRATCH_CHUNK ? chunk / SCRATCH_UNIT * SCRATCH_UNIT : SCRATCH_CHUNK;
	return chunk < LEAST_CHUNK ? 0 : 2 * chunk;
}

uint64_t launch_scratch_part(uint64_t scratch_bytes, int buffers)
{
	return scratch_bytes / (uint64_t)buffers / LAUNCH_COPY_ALIGN * LAUNCH_COPY_ALIGN;
}

uint64_t launch_copied_part(uint64_t bytes, int ranks)
{
	return plan_round((bytes + (uint64_t)ranks - 1) / (uint64_t)ranks, LAUNCH_COPY_ALIGN);
}

/* How many rounds `all` bytes take in so much room. */
static void cut_rounds(struct launch *l, uint64_t all, uint64_t room)
{
	l->piece = all < room ? all : room;
	l->pieces = l->piece ? (all + l->piece - 1) / l->piece : 1;
}

/* Calls larger than scratch go in rounds, each in half of it: one arrives while kernels take out the one before. */
static void cut_chain(struct launch *l)
{
	const int ranks = l->machine->ranks;
	const uint64_t all = l->bytes,
		       scratch = launch_scratch_part(l->machine->scratch_bytes, 1) * (uint64_t)(ranks - 1),
		       half = scratch / 2 / LAUNCH_COPY_ALIGN * LAUNCH_COPY_ALIGN;
	l->message =
	    plan_round(all / launch_chain_chunks(l->machine->rates, ranks, all) + 1, LAUNCH_COPY_ALIGN);
	if (l->direct || (all <= scratch && all <= LAUNCH_MOST_CHUNKS * l->message))
		return;
	l->message = l->message < half ? l->message : half;
	cut_rounds(l, all, half < LAUNCH_MOST_CHUNKS * l->message ? half : LAUNCH_MOST_CHUNKS * l->message);
}

/* Rounds of calls whose every arrival is folded or taken out. */
static void cut_blocks(struct launch *l)
{
	const uint64_t scratch = launch_scratch_part(l->machine->scratch_bytes, 1);
	cut_rounds(l, l->bytes,
		   l->bytes > scratch ? launch_scratch_part(l->machine->scratch_bytes, 2) : scratch);
}

int launch_copies_unaligned(const struct launch *l)
{
	const int blocks = coll_sends_each(l->coll) || coll_receives_each(l->coll);
	return l->unaligned != PLAN_ALIGNED_16 || (blocks && l->bytes % 16);
}

static void cut(struct launch *l)
{
	const int unaligned = launch_copies_unaligned(l);
	l->depth = 0;
	l->grid = launch_taken(l->machine, unaligned);
	if (coll_folds(l->coll))
		l->grid = launch_folds(l->machine, unaligned);
	if (l->coll == CORALE_ALL_REDUCE)
		cut_rounds(l, launch_copied_part(l->bytes, l->machine->ranks),
			   launch_scratch_part(l->machine->scratch_bytes, l->direct ? 1 : 2));
	else if (l->coll == CORALE_BROADCAST)
		cut_chain(l);
	else if (coll_folds(l->coll) || !l->direct)
		cut_blocks(l);
	else
		l->grid = launch_own(l->machine, l->machine->ranks - 1, unaligned);
}

static uint64_t to_peer(const struct launch *l)
{
	const uint64_t parts = 2 * launch_copied_part(l->bytes, l->machine->ranks);
	return l->coll == CORALE_ALL_REDUCE && parts < l->bytes ? parts : l->bytes;
}

static const char *const kernels[] = { "copies" };

const struct codelet copies_codelet = {
	"copies", codelet_index_copies, PLAN_CE, can, us, rate, sent, NULL, cut, to_peer, kernels, NULL
};
