/* SPDX-License-Identifier: BSD-3-Clause */
/* What both kernels of lowered plans share (lib/plan/lower.h): where data lie, and what a fold is. */
#ifndef LOWERED_CUH
#define LOWERED_CUH

#include "call.cuh"

enum { LOWERED_THREADS = CODELET_THREADS, LOWERED_FEW_THREADS = 128 };

/* Loads the kernels of lowered_packets.cu. */
int lowered_load_packets(void);

/* A span's place at an offset in elements. */
__device__ static inline unsigned char *lowered_address(const codelet_lowered &a, uint32_t channel, const lowered_span &span, size_t at,
						      uint32_t element)
{
	if (span.space == PLAN_SCRATCH)
		return a.scratch + (uint64_t)channel * a.scratch_bytes + at * element;
	return (span.space == PLAN_SEND ? (unsigned char *)a.args.send : a.args.recv) + at * element;
}

/* SHARED: kernels that signed and unsigned types share. */
template <bool SHARED> __device__ static inline bool lowered_is_avg(int op)
{
	return (SHARED ? op & ~CODELET_UNSIGNED : op) == CORALE_AVG;
}

/* One input alone keeps its bits, unless the operator multiplies or divides it. */
template <bool SHARED> __device__ static inline bool lowered_folds(const codelet_lowered &a, const lowered_op &op, int sources, bool own_alone)
{
	const bool divides = op.flags & PLAN_FINAL && lowered_is_avg<SHARED>(a.args.op) && a.world > 1;
	return sources > 1 || divides || (own_alone && a.args.op == CORALE_NUM_OPS);
}

/* What finishes a fold: partial sums of an average are not divided. */
template <bool SHARED> __device__ static inline int lowered_last_op(int op, const lowered_op &o)
{
	return !(o.flags & PLAN_FINAL) && lowered_is_avg<SHARED>(op) ? (int)CORALE_SUM : op;
}

#endif
