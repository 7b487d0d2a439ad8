#include "plan_codelet.h"

#include <string.h>

#include "plan.h"
#include "planner_algo.h"
#include "base/collectives.h"
#include "base/status.h"

static const double STEP_US = 5.5; /* of a copy to each other rank */
static const double HOP_US = 14,
		    CHUNK_US = 4; /* of a chain of copies: from one rank to the next; between two copies */
static const double PIECES_US = 12; /* of copies that a kernel works on piece by piece */
static const double LAST_BYTES = 12e6; /* of the last one, about */
static const double MEMORY_GBS = 2500; /* of a kernel's reads and writes */
static const double FOLDING_GBS = 9, MOVING_GBS = 14; /* of one block */
static const double DEALING_GBS = 5.5,
		    PASSING_GBS = 17; /* the same of broadcasts to several ranks: by packets, through slots */
enum { MOST_CHUNKS = 256, SCRATCH_BYTES = 6000000 /* sent, from which scratch is made */ };
/* Of the policy `efficient`. Beside the backward pass of examples/train on 2 H200, whose 57.2 ms hide nothing of calls without a
 * limit, 32, 16, 8 and 4 blocks have 11, 34, 71 and 79 % of the calls' time hidden (docs/performance.md). */
enum { EFFICIENT_BLOCKS = 4 };

/* A line holds 120 bytes of data. */
static uint64_t packed(uint64_t bytes)
{
	return (bytes + 119) / 120 * 128;
}

int plan_codelet_most_blocks(int given, int efficient)
{
	return given || !efficient ? given : EFFICIENT_BLOCKS;
}

uint64_t plan_codelet_piece(uint64_t area_bytes, int words, int exchanges, uint64_t parts, int max_blocks)
{
	uint64_t room = area_bytes / (uint64_t)exchanges;
	uint64_t turn = (uint64_t)max_blocks * PLAN_CODELET_THREADS * 16;
	room = room > turn ? room / turn * turn : room;
	return (words ? room : room / 128 * 120) / PLAN_UNIT_BYTES * PLAN_UNIT_BYTES * parts;
}

/* Bytes that a call by packets moves at a time. */
static uint64_t piece_of(const struct plan_node *node, enum plan_codelet codelet, corale_coll coll, int words)
{
	if (codelet == CODELET_PACKETS)
		return plan_codelet_piece(node->lines_bytes, 0, 1, 1, node->max_blocks);
	int dealt = coll == CORALE_BROADCAST, in_words = words && !dealt;
	return plan_codelet_piece(in_words ? node->words_bytes : node->lines_bytes, in_words, 2,
				  (uint64_t)(node->ranks - dealt), node->max_blocks);
}

static int has_blocks(corale_coll coll)
{
	return coll_sends_each(coll) || coll_receives_each(coll);
}

/* Whether copies go straight into receive buffers: as slow as it may be without scratch, or where no blocks may move data. */
static int copy_direct(const struct plan_node *node, corale_coll coll, int memory)
{
	int no_other_way = (node->zero_ctas && coll_moves(coll)) || !(memory & PLAN_MEMORY_SCRATCH);
	return (memory & PLAN_MEMORY_EXPORTED) || ((memory & PLAN_MEMORY_REGISTERED) && no_other_way);
}

static int can_copy(const struct plan_node *node, corale_coll coll, int memory)
{
	if (coll_folds(coll))
		return (memory & PLAN_MEMORY_SCRATCH) != 0;
	if (!coll_moves(coll) || copy_direct(node, coll, memory))
		return coll_moves(coll);
	return (memory & PLAN_MEMORY_SCRATCH) != 0;
}

int plan_codelet_knows(corale_coll coll)
{
	return !coll_is_rooted(coll) || coll == CORALE_BROADCAST;
}

/* Whether a codelet can run the call at all. */
static int can(const struct plan_node *node, enum plan_codelet codelet, corale_coll coll, uint64_t bytes,
	       int memory)
{
	if (!plan_codelet_knows(coll))
		return 0;
	switch (codelet) {
	case CODELET_PACKETS: /* blocks piece by piece beyond the room */
		return !coll_is_uneven(coll) &&
		       (packed(bytes) <= node->lines_bytes ||
			(node->ranks > 1 && has_blocks(coll) && piece_of(node, codelet, coll, 0)));
	case CODELET_TWO_SHOT: /* piece by piece beyond its room; a broadcast's root has no part */
		return coll == CORALE_ALL_REDUCE ||
		       (coll == CORALE_BROADCAST && node->ranks > 1 && node->ranks <= PLAN_NEAR_RANKS);
	case CODELET_SLOTS:
		return coll != CORALE_ALL_REDUCE;
	case CODELET_SLOTS_TWO_SHOT:
		return coll == CORALE_ALL_REDUCE;
	case CODELET_COPIES:
		return can_copy(node, coll, memory);
	default:
		return 0;
	}
}

/* us before the first byte, GB/s of one GPU's link; us of each further piece. */
struct rate {
	double start_us, gbs, piece_us;
};

/* Measured on H200 behind one NVSwitch, 2 and 4 ranks, float sums (docs/performance.md). */
static const struct rate packets_rate = { 1.8, 260, 0 }, blocks_rate = { 3.5, 320, 0 },
			 two_shot_rate = { 3.3, 338, 0.5 }, pair_two_shot_rate = { 3.3, 353, 0.3 },
			 dealt_rate = { 4, 280, 0 }, fold_rate = { 22, 300, 0 },
			 pair_fold_rate = { 21, 277, 0 }, two_folds_rate = { 28, 323, 0 },
			 passed_rate = { 14, 362, 0 }, staged_rate = { 11, 340, 0 },
			 direct_rate = { 8, 360, 0 }, pair_staged_rate = { 9, 344, 0 },
			 pair_slots_rate = { 14, 362, 0 }, mapped_pair_rate = { 10, 367, 0 },
			 dealt_slots_rate = { 30, 355, 0 }, mapped_dealt_rate = { 22, 359, 0 },
			 copies_rate = { 17.5, 392, 0 };

static struct rate rate_of(const struct plan_node *node, enum plan_codelet codelet, corale_coll coll,
			   int memory)
{
	int direct = memory & PLAN_MEMORY_REGISTERED;
	switch (codelet) {
	case CODELET_PACKETS:
		return has_blocks(coll) ? blocks_rate : packets_rate;
	case CODELET_TWO_SHOT:
		if (coll == CORALE_BROADCAST)
			return dealt_rate;
		return node->ranks == 2 ? pair_two_shot_rate : two_shot_rate;
	case CODELET_SLOTS:
		if (coll == CORALE_BROADCAST && node->ranks == 2)
			return direct ? mapped_pair_rate : pair_slots_rate;
		if (coll == CORALE_BROADCAST)
			return direct ? mapped_dealt_rate : dealt_slots_rate;
		if (coll == CORALE_REDUCE_SCATTER)
			return node->ranks == 2 ? pair_fold_rate : fold_rate;
		return direct ? direct_rate : node->ranks == 2 ? pair_staged_rate : staged_rate;
	case CODELET_SLOTS_TWO_SHOT:
		return direct ? passed_rate : two_folds_rate;
	default:
		return copies_rate;
	}
}

/* Epochs that a call takes: it may be larger than the packets' room. */
static double pieces(const struct plan_node *node, enum plan_codelet codelet, corale_coll coll,
		     uint64_t bytes, int words)
{
	uint64_t most = piece_of(node, codelet, coll, words);
	int packets = codelet == CODELET_PACKETS || codelet == CODELET_TWO_SHOT;
	return packets && bytes && most ? (double)((bytes + most - 1) / most) : 1;
}

/* Bytes that leave one GPU at most. */
static double sent(const struct plan_node *node, enum plan_codelet codelet, corale_coll coll, uint64_t bytes)
{
	double others = node->ranks - 1, all = (double)bytes;
	if (coll == CORALE_BROADCAST && codelet != CODELET_PACKETS)
		return all;
	if (coll != CORALE_ALL_REDUCE || codelet == CODELET_PACKETS)
		return others * all;
	return 2 * others / node->ranks * all;
}

uint32_t plan_codelet_chunks(int ranks, uint64_t bytes)
{
	const double hops_us = (ranks - 2) * (double)bytes / copies_rate.gbs / 1e3; /* of one chunk */
	uint32_t chunks = 1;
	while (chunks < MOST_CHUNKS && CHUNK_US * chunks * (chunks + 1) < hops_us)
		chunks++;
	return chunks;
}

/* Until the last rank has the last chunk, beyond the time of all bytes on one link. */
static double chain_us(int ranks, uint64_t bytes)
{
	uint32_t chunks = plan_codelet_chunks(ranks, bytes);
	double chunk_us = (double)bytes / chunks / copies_rate.gbs / 1e3;
	return (ranks - 2) * (HOP_US + chunk_us) + CHUNK_US * (chunks - 1);
}

/* Of what is left to a kernel when the last copy has ended: of so many bytes the last piece, each of which it reads or writes n times. */
static double last_us(double bytes, int n)
{
	return (bytes < LAST_BYTES ? bytes : LAST_BYTES) * n / MEMORY_GBS / 1e3;
}

/* Of copies, beyond the first byte's time and that of all bytes: steps, pieces, and what kernels do behind the last one. */
static double copies_us(const struct plan_node *node, corale_coll coll, uint64_t bytes, int memory)
{
	double us = STEP_US * (node->ranks - 1), part = (double)bytes, taken_us;
	int staged = !copy_direct(node, coll, memory);
	if (coll == CORALE_ALL_REDUCE)
		part /= node->ranks;
	taken_us = staged ? PIECES_US + last_us(part, 2) : 0;
	switch (coll) {
	case CORALE_ALL_REDUCE:
		return 2 * us + PIECES_US + last_us(part, node->ranks + 1) + taken_us;
	case CORALE_REDUCE_SCATTER:
		return us + PIECES_US + last_us(part, node->ranks + 1);
	case CORALE_BROADCAST:
		return STEP_US + chain_us(node->ranks, bytes) + taken_us;
	default:
		return us + taken_us;
	}
}

static double block_gbs(const struct plan_node *node, enum plan_codelet codelet, corale_coll coll)
{
	if (coll == CORALE_BROADCAST && node->ranks > 2)
		return codelet == CODELET_SLOTS ? PASSING_GBS : DEALING_GBS;
	return coll_folds(coll) ? FOLDING_GBS : MOVING_GBS;
}

double plan_codelet_time(const struct plan_node *node, enum plan_codelet codelet, corale_coll coll,
			 uint64_t bytes, int words, int memory)
{
	if (node->refused[coll] >> codelet & 1 || !can(node, codelet, coll, bytes, memory))
		return -1;
	struct rate rate = rate_of(node, codelet, coll, memory);
	double blocks_gbs = block_gbs(node, codelet, coll) * node->max_blocks;
	if (codelet != CODELET_COPIES && rate.gbs > blocks_gbs)
		rate.gbs = blocks_gbs;
	double more = codelet == CODELET_COPIES ? copies_us(node, coll, bytes, memory) : 0;
	return more + rate.start_us + rate.piece_us * (pieces(node, codelet, coll, bytes, words) - 1) +
	       sent(node, codelet, coll, bytes) / rate.gbs / 1e3;
}

/* Of the codelets in a mask the one of least modelled time. */
static enum plan_codelet least_of(const struct plan_node *node, uint32_t mask, corale_coll coll,
				  uint64_t bytes, int words, int memory)
{
	enum plan_codelet best = CODELET_NONE;
	double best_us = 0;
	for (int c = CODELET_PACKETS; c < CODELET_KINDS; c++) {
		double us = mask >> c & 1
				? plan_codelet_time(node, (enum plan_codelet)c, coll, bytes, words, memory)
				: -1;
		if (us < 0 || (best != CODELET_NONE && us >= best_us))
			continue;
		best = (enum plan_codelet)c;
		best_us = us;
	}
	return best;
}

enum plan_codelet plan_codelet_choose(const struct plan_node *node, corale_coll coll, uint64_t bytes,
				      int words, int memory)
{
	const int copies = node->zero_ctas && coll_moves(coll) && (memory & PLAN_MEMORY_REGISTERED);
	enum plan_codelet best = least_of(node, node->forced, coll, bytes, words, memory);
	if (best == CODELET_NONE && copies && !node->forced)
		best = least_of(node, 1u << CODELET_COPIES, coll, bytes, words, memory);
	return best != CODELET_NONE ? best : least_of(node, ~0u, coll, bytes, words, memory);
}

int plan_codelet_scratch(const struct plan_node *node, enum plan_codelet codelet, corale_coll coll,
			 uint64_t bytes, int memory)
{
	int direct = memory & PLAN_MEMORY_REGISTERED;
	if (codelet == CODELET_COPIES)
		return coll_folds(coll) || !copy_direct(node, coll, memory);
	int stages = coll_folds(coll) || (!direct && coll_moves(coll));
	return stages && (codelet == CODELET_SLOTS || codelet == CODELET_SLOTS_TWO_SHOT) &&
	       sent(node, codelet, coll, bytes) >= SCRATCH_BYTES;
}

int plan_codelet_direct(const struct plan_node *node, enum plan_codelet codelet, corale_coll coll, int memory)
{
	if (!(memory & PLAN_MEMORY_REGISTERED))
		return 0;
	switch (codelet) {
	case CODELET_SLOTS:
		return coll_moves(coll);
	case CODELET_SLOTS_TWO_SHOT:
		return coll == CORALE_ALL_REDUCE;
	case CODELET_COPIES:
		return coll != CORALE_REDUCE_SCATTER && copy_direct(node, coll, memory);
	default:
		return 0;
	}
}

static const char *const names[CODELET_KINDS] = { "lowered", "packets",        "two_shot",
						  "slots",   "slots_two_shot", "copies" };

const char *plan_codelet_algo(enum plan_codelet codelet, corale_coll coll)
{
	if (coll == CORALE_ALL_TO_ALL || coll == CORALE_ALL_TO_ALL_V)
		return "pairwise";
	if (coll_is_rooted(coll))
		return codelet == CODELET_PACKETS ? "flat" : codelet == CODELET_COPIES ? "chain" : "dealt";
	if (!coll_has_data(coll))
		return "flat";
	if (coll != CORALE_ALL_REDUCE || codelet == CODELET_PACKETS)
		return "oneshot";
	return codelet == CODELET_COPIES ? "ce" : "twoshot";
}

const char *plan_codelet_name(enum plan_codelet codelet)
{
	return names[codelet];
}

uint32_t plan_codelet_forced(const char *name)
{
	static const struct {
		const char *name;
		uint32_t codelets;
	} protocols[] = { { "LL128", 1u << CODELET_PACKETS | 1u << CODELET_TWO_SHOT },
			  { "SENTINEL", 1u << CODELET_TWO_SHOT },
			  { "FIFO", 1u << CODELET_SLOTS | 1u << CODELET_SLOTS_TWO_SHOT },
			  { "DIRECT", 1u << CODELET_SLOTS | 1u << CODELET_SLOTS_TWO_SHOT },
			  { "CE", 1u << CODELET_COPIES } };
	for (size_t i = 0; i < sizeof protocols / sizeof *protocols; i++)
		if (!strcmp(protocols[i].name, name))
			return protocols[i].codelets;
	for (int c = CODELET_PACKETS; c < CODELET_KINDS; c++)
		if (!strcmp(names[c], name))
			return 1u << c;
	return 0;
}

void plan_codelet_settings(struct plan_node *node, const struct settings *s)
{
	node->zero_ctas = s->cta_policy == SETTINGS_CTA_ZERO;
	node->forced = plan_codelet_forced(s->proto);
	node->words_only = !strcmp(s->proto, "LL");
	for (int coll = 0; coll < CORALE_NUM_COLLS; coll++)
		for (int c = CODELET_PACKETS; c < CODELET_KINDS; c++) {
			const char *algo = plan_codelet_algo((enum plan_codelet)c, (corale_coll)coll);
			int may = s->codelets && planner_algo_allows_name(s->algo, (corale_coll)coll, algo);
			/* An all_to_all_v has no lines that a link could tear. */
			int runs = may && (!node->words_only || coll_is_uneven(coll));
			node->refused[coll] |= (uint8_t)(!runs << c);
		}
}
