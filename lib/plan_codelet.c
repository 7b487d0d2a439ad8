#include "plan_codelet.h"

#include <string.h>

/* A line holds 120 bytes of data. */
static uint64_t packed(uint64_t bytes)
{
	return (bytes + 119) / 120 * 128;
}

/* Whether a codelet can run the call at all. */
static int can(const struct plan_node *node, enum plan_codelet codelet, corale_coll coll, uint64_t bytes)
{
	switch (codelet) {
	case CODELET_PACKETS:
		return coll != CORALE_ALL_TO_ALL_V && packed(bytes) <= node->lines_bytes;
	case CODELET_TWO_SHOT: /* piece by piece beyond its room */
		return coll == CORALE_ALL_REDUCE ||
		       (coll == CORALE_BROADCAST && node->ranks <= PLAN_NEAR_RANKS);
	case CODELET_SLOTS:
		return coll != CORALE_ALL_REDUCE;
	case CODELET_SLOTS_TWO_SHOT:
		return coll == CORALE_ALL_REDUCE;
	default:
		return 0;
	}
}

/* GB/s of one GPU's link by each way of moving; us before the first byte. Measured on H200 behind one NVSwitch. */
static const struct {
	double start_us, gbs;
} rates[CODELET_KINDS] = {
	[CODELET_PACKETS] = { 3.0, 240 },
	[CODELET_TWO_SHOT] = { 5.0, 340 },
	[CODELET_SLOTS] = { 11, 330 },
	[CODELET_SLOTS_TWO_SHOT] = { 14, 330 },
};

/* Bytes that leave one GPU at most. */
static double sent(const struct plan_node *node, enum plan_codelet codelet, corale_coll coll, uint64_t bytes)
{
	double others = node->ranks - 1, all = (double)bytes;
	if (coll != CORALE_ALL_REDUCE || codelet == CODELET_PACKETS)
		return others * all;
	return 2 * others / node->ranks * all;
}

double plan_codelet_time(const struct plan_node *node, enum plan_codelet codelet, corale_coll coll,
			 uint64_t bytes, int words)
{
	if (!can(node, codelet, coll, bytes))
		return -1;
	return rates[codelet].start_us + sent(node, codelet, coll, bytes) / rates[codelet].gbs / 1e3;
}

enum plan_codelet plan_codelet_choose(const struct plan_node *node, corale_coll coll, uint64_t bytes,
				      int words)
{
	enum plan_codelet best = CODELET_NONE;
	double best_us = 0;
	for (int c = CODELET_PACKETS; c < CODELET_KINDS; c++) {
		double us = plan_codelet_time(node, (enum plan_codelet)c, coll, bytes, words);
		if (us < 0)
			continue;
		if (c == node->forced)
			return (enum plan_codelet)c;
		if (best == CODELET_NONE || us < best_us) {
			best = (enum plan_codelet)c;
			best_us = us;
		}
	}
	return best;
}

int plan_codelet_direct(enum plan_codelet codelet, corale_coll coll)
{
	switch (codelet) {
	case CODELET_SLOTS:
		return coll == CORALE_ALL_GATHER || coll == CORALE_ALL_TO_ALL || coll == CORALE_BROADCAST;
	case CODELET_SLOTS_TWO_SHOT:
		return coll == CORALE_ALL_REDUCE;
	default:
		return 0;
	}
}

static const char *const names[CODELET_KINDS] = { "steps", "packets", "two_shot", "slots", "slots_two_shot" };

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
