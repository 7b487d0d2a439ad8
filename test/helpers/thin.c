/* SPDX-License-Identifier: BSD-3-Clause */
/* Takes a share of a long list, beginning where a seed says. */
#include <stdlib.h>

#include "thin.h"

int thin_step(void)
{
	const char *text = getenv("TEST_THIN");
	return text && atoi(text) > 1 ? atoi(text) : 1;
}

int thin_first(int end)
{
	return thin_step() > 1 ? (int)(thin_seed() % (uint64_t)end) : 0;
}

uint64_t thin_seed(void)
{
	const char *text = getenv("TEST_SEED");
	return text && *text ? strtoull(text, NULL, 0) : 1;
}

/* Of each so many neighbours one is drawn anew, so that no property that comes again in a list is left out. */
static int is_drawn(uint64_t seed, uint64_t i, unsigned one_in)
{
	uint64_t x = (seed << 32 ^ i / one_in) * 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 32) * 0xbf58476d1ce4e5b9u;
	return i % one_in == (x >> 33) % one_in;
}

int thin_takes(uint64_t i, unsigned one_in)
{
	const char *text = getenv("TEST_DRAW");
	return !text || !*text || is_drawn(strtoull(text, NULL, 0), i, one_in);
}

int thin_keeps(uint64_t i, unsigned one_in)
{
	return thin_step() == 1 || is_drawn(thin_seed(), i, one_in);
}

int thin_takes_case(uint64_t i)
{
	return thin_step() == 1 ? thin_takes(i, 3) : thin_keeps(i, 3);
}
