/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long lists under slow sanitizers: TEST_THIN=7 takes every seventh case, beginning with one that TEST_SEED chooses. Without TEST_THIN
 * all cases are taken, whatever the seed. test/run/run-unit.sh draws a seed where there is none, and prints both.
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

/*
 * Whether a test takes the i-th case of a list that is too long for each run: with TEST_DRAW one of each so many neighbours, by draws of others
 * the others, otherwise all. Without TEST_THIN test/run/run-unit.sh and test/run/run-ranks.sh draw TEST_DRAW and print it.
 */
int thin_takes(uint64_t i, unsigned one_in);

/* The same of lists that are not thinned by a step: with TEST_THIN one of each so many, by TEST_SEED. */
int thin_keeps(uint64_t i, unsigned one_in);
/* The same of cases that are few and long: with TEST_THIN or TEST_DRAW one of each three. */
int thin_takes_case(uint64_t i);

#endif
