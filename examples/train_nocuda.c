/* SPDX-License-Identifier: BSD-3-Clause */
/* Stands in for train_cuda.cu in a build without CUDA. */
#include "train.h"

const struct compute_ops *compute_cuda(void)
{
	return NULL;
}
