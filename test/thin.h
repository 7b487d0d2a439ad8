/*
 * Long lists under slow sanitizers: TEST_THIN=7 takes every seventh case, beginning with one that TEST_SEED chooses. Without TEST_THIN
 * all cases are taken, whatever the seed. test/run-unit.sh draws a seed where there is none, and prints both.
 */
#ifndef THIN_H
#define THIN_H

#include <stdint.h>

/* From one case to the next: 1 without TEST_THIN. */
int thin_step(void);

/* The first case, below end: by TEST_SEED, 0 without TEST_THIN. */
int thin_first(int end);

/* The seed of cases that a test draws itself: TEST_SEED, otherwise 1. */
uint64_t thin_seed(void);

#endif
