/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies of many short pieces (pieces.h). */
#include <cuda_runtime.h>

#include "launch.cuh"
#include "pieces.h"

template <class Unit> __device__ static inline void copy_units(const piece &p, uint64_t first, uint64_t step)
{
	const uint64_t a_row = p.width / sizeof(Unit);
	for (uint64_t i = first; i < a_row * p.rows; i += step) {
		const uint64_t row = i / a_row, at = (i - row * a_row) * sizeof(Unit);
		*(Unit *)((char *)p.to + row * p.to_pitch + at) =
		    *(const Unit *)((const char *)p.from + row * p.from_pitch + at);
	}
}

/* By the widest unit that all rows are multiples of. */
__device__ static inline void copy_piece(const piece &p, uint64_t first, uint64_t step)
{
	uint64_t bits = (uint64_t)p.to | (uint64_t)p.from | p.width;
	if (p.rows > 1)
		bits |= p.to_pitch | p.from_pitch;
	if (bits % 16 == 0)
		copy_units<uint4>(p, first, step);
	else if (bits % 8 == 0)
		copy_units<uint64_t>(p, first, step);
	else if (bits % 4 == 0)
		copy_units<uint32_t>(p, first, step);
	else if (bits % 2 == 0)
		copy_units<uint16_t>(p, first, step);
	else
		copy_units<uint8_t>(p, first, step);
}

__global__ __launch_bounds__(PIECES_THREADS) void pieces(const __grid_constant__ pieces_args a)
{
	const unsigned lane = threadIdx.x % 32;
	uint64_t i = (uint64_t)blockIdx.x * (PIECES_THREADS / 32) + threadIdx.x / 32;
	for (; i < a.n * a.parts; i += PIECES_WARPS) {
		const piece p = a.pieces[i / a.parts];
		copy_piece(p, i % a.parts * 32 + lane, a.parts * 32);
	}
}

int codelets_copy_pieces(const pieces_args *args, void *stream)
{
	const uint64_t parts = args->n * args->parts, warps = PIECES_THREADS / 32, needed = (parts + warps - 1) / warps;
	const int blocks = needed < (uint64_t)PIECES_BLOCKS ? (int)needed : (int)PIECES_BLOCKS;
	return launch_behind((const void *)pieces, { blocks, PIECES_THREADS }, 0, args, stream);
}
