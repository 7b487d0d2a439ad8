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

/* How all ranks of a bootstrap end a phase alike. */

/*
 * Collective: the bootstrap's all-gather. 0; the code that it returned, whose cause it has logged; or CORALE_EPEER, logged, where it returned
 * anything else that is not 0, or CORALE_EINVAL, which programs return for any failure.
 */
int bootstrap_gather(const corale_bootstrap *bootstrap, const void *in, size_t bytes, void *out);

/*
 * Collective: 0 when every rank passes 0, else an error on all, which names the rank that is the cause. what: what that rank could not do.
 * most (NULL: none): becomes the largest of all ranks'.
 */
int bootstrap_agree(const corale_bootstrap *bootstrap, int status, const char *what, int64_t *most);

/* Collective: bootstrap_agree, and what every rank gives, by rank, to be freed; NULL: *status says why, on all ranks. One all-gather where no rank has failed. */
void *bootstrap_agree_gather(const corale_bootstrap *bootstrap, int *status, const char *what,
			     const void *mine, size_t bytes);

#endif
