/* SPDX-License-Identifier: BSD-3-Clause */
/* Hashes by which ranks compare what they choose by, and what they choose. Pure. */
#ifndef CHOICES_HASH_H
#define CHOICES_HASH_H

#include "planner.h"

/* Machine, rates and settings, all that the choice of a row looks at. */
uint64_t choices_hash_inputs(const struct planner *planner);

/* The rows that run calls of a few sizes of every collective. Some ms on large machines. */
uint64_t choices_hash_sample(const struct planner *planner);

#endif
