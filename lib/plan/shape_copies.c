/* How calls by copy engines are cut into rounds and chunks, and the blocks that work beside them. */
#include "shape_copies.h"

#include "base/collectives.h"

/*
 * Blocks of work. COPYING: of one warp, which find room beside a kernel that fills the GPU: 264 while it runs, so that two calls and
 * their barriers do. OWN: the same of what a rank keeps, by the copy unit, which is faster beside such a kernel and slower alone: they
 * need as long as the call; a longer one has fewer of them, but twice its share. FEWER: copies by fewer blocks, or at odd addresses, have the largest ones; so have folds by half of
 * SHAPE_FOLDING_BLOCKS or less.
 */
enum { COPYING_BLOCKS = 120, OWN_BLOCKS = 60, FOLDING_THREADS = 512, FEWER = 64 };
enum { SCRATCH_UNIT = 2 << 20 };
#define SCRATCH_CHUNK ((uint64_t)128 << 20) /* of one rank; larger ones gain nothing */
#define LEAST_CHUNK ((uint64_t)4 << 20) /* below, scratch is not worth its steps */

/* ---- Work beside copies --------------------------------------------------------------------------------- */

static struct codelet_shape limited(const struct plan_node *node, int blocks, int threads)
{
	return (struct codelet_shape){ blocks < node->max_blocks ? blocks : node->max_blocks, threads };
}

static struct codelet_shape shape_of_copies(const struct plan_node *node, int blocks, int odd)
{
	int large = odd || node->max_blocks < FEWER;
	return large ? limited(node, FEWER, SHAPE_WORK_THREADS) : limited(node, blocks, 32);
}

struct codelet_shape shape_taken(const struct plan_node *node, int odd)
{
	return shape_of_copies(node, COPYING_BLOCKS, odd);
}

struct codelet_shape shape_own(const struct plan_node *node, int times, int odd)
{
	return shape_of_copies(node, times < 2 ? OWN_BLOCKS : 2 * OWN_BLOCKS / times, odd);
}

struct codelet_shape shape_folds(const struct plan_node *node, int odd)
{
	if (odd)
		return shape_of_copies(node, 0, odd);
	int large = node->max_blocks <= SHAPE_FOLDING_BLOCKS / 2;
	return limited(node, SHAPE_FOLDING_BLOCKS, large ? SHAPE_WORK_THREADS : FOLDING_THREADS);
}

/* ---- Scratch, rounds and chunks -------------------------------------------------------------------------- */

uint64_t shape_scratch_chunk(int ranks, uint64_t window, uint64_t memory_cap)
{
	uint64_t buffers = 2 * (uint64_t)(ranks - 1), left = memory_cap > window ? memory_cap - window : 0,
		 chunk = buffers ? left / buffers : 0;
	chunk = chunk < SCRATCH_CHUNK ? chunk / SCRATCH_UNIT * SCRATCH_UNIT : SCRATCH_CHUNK;
	return chunk < LEAST_CHUNK ? 0 : chunk;
}

uint64_t shape_scratch_part(uint64_t scratch_bytes, int buffers)
{
	return scratch_bytes / (uint64_t)buffers / SHAPE_COPY_ALIGN * SHAPE_COPY_ALIGN;
}

uint64_t shape_copied_part(uint64_t bytes, int ranks)
{
	return shape_round((bytes + (uint64_t)ranks - 1) / (uint64_t)ranks, SHAPE_COPY_ALIGN);
}

/* As many rounds as `all` bytes need of so much room. */
static void cut_rounds(struct plan_shape *s, uint64_t all, uint64_t room)
{
	s->piece = all < room ? all : room;
	s->pieces = s->piece ? (all + s->piece - 1) / s->piece : 1;
}

/* What scratch does not hold at a time goes in rounds, each in half of it, so that one comes while the one before is taken out. */
static void cut_chain(const struct plan_launch *l, struct plan_shape *s)
{
	const int ranks = l->node->ranks;
	const uint64_t all = l->bytes,
		       scratch = shape_scratch_part(l->node->scratch_bytes, 1) * (uint64_t)(ranks - 1),
		       half = scratch / 2 / SHAPE_COPY_ALIGN * SHAPE_COPY_ALIGN;
	s->message = shape_round(all / plan_chain_chunks(l->node->rates, ranks, all) + 1, SHAPE_COPY_ALIGN);
	if (l->direct || (all <= scratch && all <= SHAPE_MOST_CHUNKS * s->message))
		return;
	s->message = s->message < half ? s->message : half;
	cut_rounds(s, all, half < SHAPE_MOST_CHUNKS * s->message ? half : SHAPE_MOST_CHUNKS * s->message);
}

/* Of rounds where all that comes is folded or taken out. */
static void cut_blocks(const struct plan_launch *l, struct plan_shape *s)
{
	const uint64_t scratch = shape_scratch_part(l->node->scratch_bytes, 1);
	cut_rounds(s, l->bytes, l->bytes > scratch ? shape_scratch_part(l->node->scratch_bytes, 2) : scratch);
}

void shape_copies(const struct plan_launch *l, struct plan_shape *s)
{
	s->kernel = KERNEL_COPIES;
	s->depth = 0;
	s->grid = shape_taken(l->node, 0);
	if (coll_folds(l->coll))
		s->grid = shape_folds(l->node, 0);
	if (l->coll == CORALE_ALL_REDUCE)
		cut_rounds(s, shape_copied_part(l->bytes, l->node->ranks),
			   shape_scratch_part(l->node->scratch_bytes, l->direct ? 1 : 2));
	else if (l->coll == CORALE_BROADCAST)
		cut_chain(l, s);
	else if (coll_folds(l->coll) || !l->direct)
		cut_blocks(l, s);
	else
		s->grid = shape_own(l->node, l->node->ranks - 1, 0);
}
