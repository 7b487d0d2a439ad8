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
