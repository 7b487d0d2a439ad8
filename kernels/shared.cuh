/* SPDX-License-Identifier: BSD-3-Clause */
/* One object a block in its shared memory, not initialised. */
#ifndef SHARED_CUH
#define SHARED_CUH

template <class T> __device__ static inline T *shared_object(void)
{
	__shared__ __align__(16) unsigned char memory[sizeof(T)];
	return (T *)memory;
}

#endif
