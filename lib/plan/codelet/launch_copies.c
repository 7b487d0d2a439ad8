/* How calls by copy engines are cut into rounds and chunks, and the blocks that work beside them. */
#include "launch_copies.h"

#include "base/collectives.h"

/*
 * Blocks of work. COPYING: of one warp, which find room beside a kernel that fills the GPU: 264 while it runs, so that two calls and
 * their barriers do. OWN: the rank's own block, copied by the TMA unit: faster than warps beside such a kernel, slower alone. They
 * take as long as the call; a longer one has fewer of them, but twice its share. FEWER: copies by fewer blocks, or at odd addresses, have the largest ones; so have folds by half of
 * LAUNCH_FOLDING_BLOCKS or less.
 */
enum { COPYING_BLOCKS = 120, OWN_BLOCKS = 60, FOLDING_THREADS = 512, FEWER = 64 };
enum { SCRATCH_UNIT = 2 << 20 };
#define SCRATCH_CHUNK ((uint64_t)128 << 20) /* of one rank; larger ones gain nothing */
#define LEAST_CHUNK ((uint64_t)4 << 20) /* below, scratch is not worth its steps */

/* ---- Work beside copies --------------------------------------------------------------------------------- */

static struct grid limited(const struct gpu_machine *machine, int blocks, int threads)
{
	return (struct grid){ blocks < machine->max_blocks ? blocks : machine->max_blocks, threads };
}

static struct grid grid_of_copies(const struct gpu_machine *machine, int blocks, int odd)
{
	int large = odd || machine->max_blocks < FEWER;
	return large ? limited(machine, FEWER, LAUNCH_WORK_THREADS) : limited(machine, blocks, 32);
}

struct grid launch_taken(const struct gpu_machine *machine, int odd)
{
	return grid_of_copies(machine, COPYING_BLOCKS, odd);
}

struct grid launch_own(const struct gpu_machine *machine, int times, int odd)
{
	return grid_of_copies(machine, times < 2 ? OWN_BLOCKS : 2 * OWN_BLOCKS / times, odd);
}

struct grid launch_folds(const struct gpu_machine *machine, int odd)
{
	if (odd)
		return grid_of_copies(machine, 0, odd);
	int large = machine->max_blocks <= LAUNCH_FOLDING_BLOCKS / 2;
	return limited(machine, LAUNCH_FOLDING_BLOCKS, large ? LAUNCH_WORK_THREADS : FOLDING_THREADS);
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

/* As many rounds as `all` bytes need of so much room. */
static void cut_rounds(struct launch *l, uint64_t all, uint64_t room)
{
	l->piece = all < room ? all : room;
	l->pieces = l->piece ? (all + l->piece - 1) / l->piece : 1;
}

/* What scratch does not hold at a time goes in rounds, each in half of it, so that one comes while the one before is taken out. */
static void cut_chain(struct launch *l)
{
	const int ranks = l->machine->ranks;
	const uint64_t all = l->bytes,
		       scratch = launch_scratch_part(l->machine->scratch_bytes, 1) * (uint64_t)(ranks - 1),
		       half = scratch / 2 / LAUNCH_COPY_ALIGN * LAUNCH_COPY_ALIGN;
	l->message =
	    plan_round(all / plan_chain_chunks(l->machine->rates, ranks, all) + 1, LAUNCH_COPY_ALIGN);
	if (l->direct || (all <= scratch && all <= LAUNCH_MOST_CHUNKS * l->message))
		return;
	l->message = l->message < half ? l->message : half;
	cut_rounds(l, all, half < LAUNCH_MOST_CHUNKS * l->message ? half : LAUNCH_MOST_CHUNKS * l->message);
}

/* Of rounds where all that comes is folded or taken out. */
static void cut_blocks(struct launch *l)
{
	const uint64_t scratch = launch_scratch_part(l->machine->scratch_bytes, 1);
	cut_rounds(l, l->bytes,
		   l->bytes > scratch ? launch_scratch_part(l->machine->scratch_bytes, 2) : scratch);
}

void launch_copies(struct launch *l)
{
	l->kernel = KERNEL_COPIES;
	l->depth = 0;
	l->grid = launch_taken(l->machine, 0);
	if (coll_folds(l->coll))
		l->grid = launch_folds(l->machine, 0);
	if (l->coll == CORALE_ALL_REDUCE)
		cut_rounds(l, launch_copied_part(l->bytes, l->machine->ranks),
			   launch_scratch_part(l->machine->scratch_bytes, l->direct ? 1 : 2));
	else if (l->coll == CORALE_BROADCAST)
		cut_chain(l);
	else if (coll_folds(l->coll) || !l->direct)
		cut_blocks(l);
	else
		l->grid = launch_own(l->machine, l->machine->ranks - 1, 0);
}
