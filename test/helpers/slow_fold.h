/* SPDX-License-Identifier: BSD-3-Clause */
/* What reduce_fold must give, one element at a time, in the plainest way. */
#ifndef SLOW_FOLD_H
#define SLOW_FOLD_H

#include "reduce/reduce.h"

/* Element i of the fold, into result. */
void slow_fold(const struct reduce_spec *spec, const struct reduce_input *inputs, int k, size_t i, int final,
	       void *result);

#endif
