/* SPDX-License-Identifier: BSD-3-Clause */
/* Stands in for kernels/shared.cuh. */
#ifndef SHARED_CUH
#define SHARED_CUH

#include "gpu.h"

template <class T> static inline T *shared_object(void)
{
	return (T *)gpu_shared(sizeof(T));
}

#endif
