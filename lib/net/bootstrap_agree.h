/* SPDX-License-Identifier: BSD-3-Clause */
/* How all ranks of a bootstrap end a phase alike. */
#ifndef BOOTSTRAP_AGREE_H
#define BOOTSTRAP_AGREE_H

#include <stdint.h>

#include "corale.h"

/*
 * Collective: the bootstrap's all-gather. 0; the code that it returned, whose cause it has logged; or CORALE_EPEER, logged, where it returned
 * anything else that is not 0, or CORALE_EINVAL, which programs return for any failure.
 */
int bootstrap_gather(const corale_bootstrap *bootstrap, const void *in, size_t bytes, void *out);

/*
 * Collective: 0 when every rank passes 0, else an error on all, which names the rank that is the cause. what: what that rank could not do.
 * most (NULL: none): becomes the largest of all ranks'.
 */
int agree(const corale_bootstrap *bootstrap, int status, const char *what, int64_t *most);

/* Collective: agree, and what every rank gives, by rank, to be freed; NULL: *status says why, on all ranks. One all-gather where no rank has failed. */
void *agree_gather(const corale_bootstrap *bootstrap, int *status, const char *what, const void *mine,
		   size_t bytes);

#endif
