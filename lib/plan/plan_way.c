/* The table of ways, what each of them can run, and the choice. What they cost is in plan_way_cost.c. */
#include "plan_way.h"

#include <string.h>

#include "base/collectives.h"
#include "base/status.h"
#include "plan_way_cost.h"

/* A line holds 120 bytes of data. */
static uint64_t packed(uint64_t bytes)
{
	return (bytes + 119) / 120 * 128;
}

uint64_t plan_packets_piece(uint64_t area_bytes, int words, int exchanges, uint64_t parts, int max_blocks)
{
	uint64_t room = area_bytes / (uint64_t)exchanges;
	uint64_t turn = (uint64_t)max_blocks * PLAN_CODELET_THREADS * 16;
	room = room > turn ? room / turn * turn : room;
	return (words ? room : room / 128 * 120) / PLAN_UNIT_BYTES * PLAN_UNIT_BYTES * parts;
}

int plan_in_words(corale_type type)
{
	return type_is_float(type) && corale_type_bytes(type) <= sizeof(float);
}

/* ---- What a way can run --------------------------------------------------------------------------------- */

static int is_registered(const struct plan_call *call)
{
	return call->memory & PLAN_MEMORY_REGISTERED;
}

static int any(const struct plan_node *node, const struct plan_call *call)
{
	(void)node;
	(void)call;
	return 1;
}

static int registered(const struct plan_node *node, const struct plan_call *call)
{
	(void)node;
	return is_registered(call);
}

/* A DIRECT row has the others. */
static int not_registered(const struct plan_node *node, const struct plan_call *call)
{
	(void)node;
	return !is_registered(call);
}

static int fits_lines(const struct plan_node *node, const struct plan_call *call)
{
	return packed(call->bytes) <= node->lines_bytes;
}

/* Blocks go piece by piece beyond the room. */
static int has_lines(const struct plan_node *node, const struct plan_call *call)
{
	return fits_lines(node, call) ||
	       (node->ranks > 1 && plan_packets_piece(node->lines_bytes, 0, 1, 1, node->max_blocks));
}

static int in_words(const struct plan_node *node, const struct plan_call *call)
{
	(void)node;
	return call->words;
}

static int in_lines(const struct plan_node *node, const struct plan_call *call)
{
	(void)node;
	return !call->words;
}

/* Of a broadcast: its root has no part. */
static int few_ranks(const struct plan_node *node, const struct plan_call *call)
{
	(void)call;
	return node->ranks > 1 && node->ranks <= PLAN_NEAR_RANKS;
}

static int has_scratch(const struct plan_node *node, const struct plan_call *call)
{
	(void)node;
	return (call->memory & PLAN_MEMORY_SCRATCH) != 0;
}

/* Of moves. As slow as copies into some registered buffers may be without scratch, or where no blocks may move data. */
int plan_copies_direct(const struct plan_node *node, const struct plan_call *call)
{
	int no_other_way =
	    (node->zero_ctas && coll_moves(call->coll)) || !(call->memory & PLAN_MEMORY_SCRATCH);
	return (call->memory & PLAN_MEMORY_EXPORTED) || (is_registered(call) && no_other_way);
}

static int direct_or_scratch(const struct plan_node *node, const struct plan_call *call)
{
	return plan_copies_direct(node, call) || has_scratch(node, call);
}

/* ---- The table ------------------------------------------------------------------------------------------ */

static const struct plan_way all_reduces[] = {
	{ CORALE_ALL_REDUCE, "oneshot", PLAN_SM, PLAN_LL128, CODELET_PACKETS, fits_lines, plan_kernel_us,
	  RATES_PACKETS, RATES_PACKETS, RATES_FOLDING, RATES_FOLDING, NULL },
	{ CORALE_ALL_REDUCE, "twoshot", PLAN_SM, PLAN_SENTINEL, CODELET_TWO_SHOT, in_words, plan_kernel_us,
	  RATES_PAIR_TWO_SHOT, RATES_TWO_SHOT, RATES_FOLDING, RATES_FOLDING, NULL },
	{ CORALE_ALL_REDUCE, "twoshot", PLAN_SM, PLAN_LL128, CODELET_TWO_SHOT, in_lines, plan_kernel_us,
	  RATES_PAIR_TWO_SHOT, RATES_TWO_SHOT, RATES_FOLDING, RATES_FOLDING, NULL },
	{ CORALE_ALL_REDUCE, "twoshot", PLAN_SM, PLAN_FIFO, CODELET_SLOTS_TWO_SHOT, not_registered,
	  plan_kernel_us, RATES_TWO_FOLDS, RATES_TWO_FOLDS, RATES_FOLDING, RATES_FOLDING, NULL },
	{ CORALE_ALL_REDUCE, "twoshot", PLAN_SM, PLAN_DIRECT, CODELET_SLOTS_TWO_SHOT, registered,
	  plan_kernel_us, RATES_PASSED, RATES_PASSED, RATES_FOLDING, RATES_FOLDING, NULL },
	{ CORALE_ALL_REDUCE, "ce", PLAN_CE, PLAN_COPIED, CODELET_COPIES, has_scratch, plan_copies_us,
	  RATES_COPIES, RATES_COPIES, RATES_FOLDING, RATES_FOLDING, NULL },
};

static const struct plan_way all_gathers[] = {
	{ CORALE_ALL_GATHER, "oneshot", PLAN_SM, PLAN_LL128, CODELET_PACKETS, has_lines, plan_kernel_us,
	  RATES_BLOCKS, RATES_BLOCKS, RATES_MOVING, RATES_MOVING, NULL },
	{ CORALE_ALL_GATHER, "oneshot", PLAN_SM, PLAN_FIFO, CODELET_SLOTS, not_registered, plan_kernel_us,
	  RATES_PAIR_STAGED, RATES_STAGED, RATES_MOVING, RATES_MOVING, NULL },
	{ CORALE_ALL_GATHER, "oneshot", PLAN_SM, PLAN_DIRECT, CODELET_SLOTS, registered, plan_kernel_us,
	  RATES_DIRECT, RATES_DIRECT, RATES_MOVING, RATES_MOVING, NULL },
	{ CORALE_ALL_GATHER, "oneshot", PLAN_CE, PLAN_COPIED, CODELET_COPIES, direct_or_scratch,
	  plan_copies_us, RATES_COPIES, RATES_COPIES, RATES_MOVING, RATES_MOVING, NULL },
};

static const struct plan_way reduce_scatters[] = {
	{ CORALE_REDUCE_SCATTER, "oneshot", PLAN_SM, PLAN_LL128, CODELET_PACKETS, has_lines, plan_kernel_us,
	  RATES_BLOCKS, RATES_BLOCKS, RATES_FOLDING, RATES_FOLDING, NULL },
	{ CORALE_REDUCE_SCATTER, "oneshot", PLAN_SM, PLAN_FIFO, CODELET_SLOTS, any, plan_kernel_us,
	  RATES_PAIR_FOLD, RATES_FOLD, RATES_FOLDING, RATES_FOLDING, NULL },
	{ CORALE_REDUCE_SCATTER, "ce", PLAN_CE, PLAN_COPIED, CODELET_COPIES, has_scratch, plan_copies_us,
	  RATES_COPIES, RATES_COPIES, RATES_FOLDING, RATES_FOLDING, NULL },
};

static const char tells_root[] = "the root hears of each part, by its first line or by all of it";
static const char interleaved[] = "a rank's part is dealt message by message, not one run of bytes";

static const struct plan_way broadcasts[] = {
	{ CORALE_BROADCAST, "flat", PLAN_SM, PLAN_LL128, CODELET_PACKETS, fits_lines, plan_kernel_us,
	  RATES_PACKETS, RATES_PACKETS, RATES_MOVING, RATES_DEALING, NULL },
	{ CORALE_BROADCAST, "dealt", PLAN_SM, PLAN_LL128, CODELET_TWO_SHOT, few_ranks, plan_kernel_us,
	  RATES_DEALT, RATES_DEALT, RATES_MOVING, RATES_DEALING, tells_root },
	{ CORALE_BROADCAST, "dealt", PLAN_SM, PLAN_FIFO, CODELET_SLOTS, not_registered, plan_kernel_us,
	  RATES_PAIR_SLOTS, RATES_DEALT_SLOTS, RATES_MOVING, RATES_PASSING, interleaved },
	{ CORALE_BROADCAST, "dealt", PLAN_SM, PLAN_DIRECT, CODELET_SLOTS, registered, plan_kernel_us,
	  RATES_MAPPED_PAIR, RATES_MAPPED_DEALT, RATES_MOVING, RATES_PASSING, interleaved },
	{ CORALE_BROADCAST, "chain", PLAN_CE, PLAN_COPIED, CODELET_COPIES, direct_or_scratch, plan_copies_us,
	  RATES_COPIES, RATES_COPIES, RATES_MOVING, RATES_MOVING, NULL },
};

static const struct plan_way all_to_alls[] = {
	{ CORALE_ALL_TO_ALL, "pairwise", PLAN_SM, PLAN_LL128, CODELET_PACKETS, has_lines, plan_kernel_us,
	  RATES_BLOCKS, RATES_BLOCKS, RATES_MOVING, RATES_MOVING, NULL },
	{ CORALE_ALL_TO_ALL, "pairwise", PLAN_SM, PLAN_FIFO, CODELET_SLOTS, not_registered, plan_kernel_us,
	  RATES_PAIR_STAGED, RATES_STAGED, RATES_MOVING, RATES_MOVING, NULL },
	{ CORALE_ALL_TO_ALL, "pairwise", PLAN_SM, PLAN_DIRECT, CODELET_SLOTS, registered, plan_kernel_us,
	  RATES_DIRECT, RATES_DIRECT, RATES_MOVING, RATES_MOVING, NULL },
	{ CORALE_ALL_TO_ALL, "pairwise", PLAN_CE, PLAN_COPIED, CODELET_COPIES, direct_or_scratch,
	  plan_copies_us, RATES_COPIES, RATES_COPIES, RATES_MOVING, RATES_MOVING, NULL },
};

static const struct plan_way uneven_all_to_alls[] = {
	{ CORALE_ALL_TO_ALL_V, "pairwise", PLAN_SM, PLAN_FIFO, CODELET_SLOTS, any, plan_kernel_us,
	  RATES_PAIR_STAGED, RATES_STAGED, RATES_MOVING, RATES_MOVING, NULL },
};

static const struct plan_way sends[] = {
	{ CORALE_SEND, "edge", PLAN_SM, PLAN_GRANTED, CODELET_SLOTS, any, plan_kernel_us, RATES_PAIR_STAGED,
	  RATES_STAGED, RATES_MOVING, RATES_MOVING, NULL },
};

static const struct plan_way receives[] = {
	{ CORALE_RECV, "edge", PLAN_SM, PLAN_GRANTED, CODELET_SLOTS, any, plan_kernel_us, RATES_PAIR_STAGED,
	  RATES_STAGED, RATES_MOVING, RATES_MOVING, NULL },
};

static const struct plan_way barriers[] = {
	{ CORALE_BARRIER, "flat", PLAN_SM, PLAN_LL128, CODELET_PACKETS, fits_lines, plan_kernel_us,
	  RATES_PACKETS, RATES_PACKETS, RATES_MOVING, RATES_MOVING, NULL },
	{ CORALE_BARRIER, "flat", PLAN_SM, PLAN_FIFO, CODELET_SLOTS, any, plan_kernel_us, RATES_PAIR_STAGED,
	  RATES_STAGED, RATES_MOVING, RATES_MOVING, NULL },
};

static const struct ways {
	const struct plan_way *rows;
	int count;
} table[CORALE_NUM_COLLS] = {
	[CORALE_ALL_REDUCE] = { all_reduces, sizeof all_reduces / sizeof *all_reduces },
	[CORALE_ALL_GATHER] = { all_gathers, sizeof all_gathers / sizeof *all_gathers },
	[CORALE_REDUCE_SCATTER] = { reduce_scatters, sizeof reduce_scatters / sizeof *reduce_scatters },
	[CORALE_BROADCAST] = { broadcasts, sizeof broadcasts / sizeof *broadcasts },
	[CORALE_ALL_TO_ALL] = { all_to_alls, sizeof all_to_alls / sizeof *all_to_alls },
	[CORALE_ALL_TO_ALL_V] = { uneven_all_to_alls, 1 },
	[CORALE_SEND] = { sends, 1 },
	[CORALE_RECV] = { receives, 1 },
	[CORALE_BARRIER] = { barriers, sizeof barriers / sizeof *barriers },
};

const struct plan_way *plan_ways(corale_coll coll, int *count)
{
	*count = table[coll].count;
	return table[coll].rows;
}

/* ---- The choice ----------------------------------------------------------------------------------------- */

double plan_way_time(const struct plan_way *way, const struct plan_node *node, const struct plan_call *call)
{
	if (node->refused[call->coll] >> way->codelet & 1 || !way->can(node, call))
		return -1;
	return way->us(way, node, call);
}

/* Of the codelets in a mask the one of least modelled time. */
static const struct plan_way *least_of(const struct plan_node *node, uint32_t mask,
				       const struct plan_call *call)
{
	const struct ways *ways = &table[call->coll];
	const struct plan_way *best = NULL;
	double best_us = 0;
	for (const struct plan_way *way = ways->rows; way < ways->rows + ways->count; way++) {
		double us = mask >> way->codelet & 1 ? plan_way_time(way, node, call) : -1;
		if (us < 0 || (best && us >= best_us))
			continue;
		best = way;
		best_us = us;
	}
	return best;
}

const struct plan_way *plan_way_choose(const struct plan_node *node, const struct plan_call *call)
{
	const int copies = node->zero_ctas && coll_moves(call->coll) && is_registered(call);
	const struct plan_way *best = node->forced ? least_of(node, node->forced, call) : NULL;
	if (!best && copies && !node->forced)
		best = least_of(node, 1u << CODELET_COPIES, call);
	return best ? best : least_of(node, ~0u, call);
}

int plan_way_scratch(const struct plan_way *way, const struct plan_node *node, const struct plan_call *call)
{
	if (way->engine == PLAN_CE)
		return coll_folds(call->coll) || !plan_copies_direct(node, call);
	int stages = way->protocol == PLAN_FIFO && (coll_folds(call->coll) || coll_moves(call->coll)),
	    passes = way->protocol == PLAN_DIRECT && coll_folds(call->coll);
	return (stages || passes) &&
	       plan_way_sent(way, node, call->bytes) >= (double)node->rates->scratch_bytes;
}

int plan_way_direct(const struct plan_way *way, const struct plan_node *node, const struct plan_call *call)
{
	if (!is_registered(call))
		return 0;
	if (way->engine == PLAN_CE)
		return call->coll != CORALE_REDUCE_SCATTER && plan_copies_direct(node, call);
	return way->protocol == PLAN_DIRECT;
}
