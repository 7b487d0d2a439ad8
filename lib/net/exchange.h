/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exchanges of a creation: a program's all-gather, of which nothing is believed but what its records show. One that fails or is cut short ends the
 * creation on this rank, as its next records may be another step's.
 */
#ifndef EXCHANGE_H
#define EXCHANGE_H

#include <stdint.h>

#include "corale.h"

struct exchanges {
	corale_bootstrap given;
	uint32_t number; /* of the last exchange */
	int failed; /* the code with which one has ended: those after it end at once */
};

/* A bootstrap whose all-gather adds the step and the rank to each record and checks them. e stays while it is used. */
corale_bootstrap exchanges_check(struct exchanges *e, const corale_bootstrap *given);

#endif
