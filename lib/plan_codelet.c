#include "plan_codelet.h"

#include <string.h>

/* Packets hold 16 bytes of words, or 120 of a line's 128. */
static uint64_t packed(uint64_t bytes, int words)
{
	return words ? (bytes + 15) / 16 * 16 : (bytes + 119) / 120 * 128;
}

static uint64_t part_bytes(const struct plan_node *node, uint64_t bytes)
{
	uint64_t units = (bytes + 63) / 64, n = (uint64_t)node->ranks;
	return (units + n - 1) / n * 64;
}

static int folds(corale_coll coll)
{
	return coll == CORALE_ALL_REDUCE || coll == CORALE_REDUCE_SCATTER;
}

/* Whether a codelet can run the call at all. */
static int can(const struct plan_node *node, enum plan_codelet codelet, corale_coll coll, uint64_t bytes, int words)
{
	uint64_t room = words && folds(coll) ? node->words_bytes : node->lines_bytes;
	switch (codelet) {
	case CODELET_PACKETS:
		return coll != CORALE_ALL_TO_ALL_V && packed(bytes, words && folds(coll)) <= room;
	case CODELET_TWO_SHOT:
		return coll == CORALE_ALL_REDUCE && packed(part_bytes(node, bytes), words) <= room / 2;
	case CODELET_SLOTS:
		return coll != CORALE_ALL_REDUCE;
	case CODELET_SLOTS_TWO_SHOT:
		return coll == CORALE_ALL_REDUCE;
	case CODELET_COPY:
		return node->copy_bytes > 0 && coll != CORALE_BARRIER && coll != CORALE_ALL_TO_ALL_V;
	default:
		return 0;
	}
}

/* GB/s of one GPU's link by each way of moving; us before the first byte. Measured on H200 behind one NVSwitch. */
static const struct {
	double start_us, gbs;
} rates[CODELET_KINDS] = {
	[CODELET_PACKETS] = { 2.0, 170 },	   [CODELET_TWO_SHOT] = { 3.4, 300 },
	[CODELET_SLOTS] = { 8, 345 },		   [CODELET_SLOTS_TWO_SHOT] = { 11, 350 },
	[CODELET_COPY] = { 45, 388 },
};

/* Bytes that leave one GPU at most. */
static double sent(const struct plan_node *node, enum plan_codelet codelet, corale_coll coll, uint64_t bytes)
{
	double others = node->ranks - 1, all = (double)bytes;
	if (coll != CORALE_ALL_REDUCE || codelet == CODELET_PACKETS)
		return others * all;
	return 2 * others / node->ranks * all;
}

double plan_codelet_time(const struct plan_node *node, enum plan_codelet codelet, corale_coll coll, uint64_t bytes,
			 int words)
{
	if (!can(node, codelet, coll, bytes, words))
		return -1;
	return rates[codelet].start_us + sent(node, codelet, coll, bytes) / rates[codelet].gbs / 1e3;
}

enum plan_codelet plan_codelet_choose(const struct plan_node *node, corale_coll coll, uint64_t bytes, int words)
{
	enum plan_codelet best = CODELET_NONE;
	double best_us = 0;
	for (int c = CODELET_PACKETS; c < CODELET_KINDS; c++) {
		double us = plan_codelet_time(node, (enum plan_codelet)c, coll, bytes, words);
		if (us < 0 || (c == CODELET_COPY && node->forced != c && !node->zero && us < 400))
			continue;
		if (c == node->forced || (node->zero && c == CODELET_COPY))
			return (enum plan_codelet)c;
		if (best == CODELET_NONE || us < best_us) {
			best = (enum plan_codelet)c;
			best_us = us;
		}
	}
	return best;
}

static const char *const names[CODELET_KINDS] = { "steps", "packets", "two_shot", "slots", "slots_two_shot", "copy" };

const char *plan_codelet_name(enum plan_codelet codelet)
{
	return names[codelet];
}

enum plan_codelet plan_codelet_named(const char *name)
{
	for (int c = CODELET_PACKETS; c < CODELET_KINDS; c++)
		if (!strcmp(names[c], name))
			return (enum plan_codelet)c;
	return CODELET_NONE;
}
