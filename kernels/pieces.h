/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A kernel that copies many short pieces between a GPU and pinned host memory: the copy unit takes some microseconds for each, and long for narrow rows.
 * Compiles as C and as CUDA.
 */
#ifndef PIECES_H
#define PIECES_H

#include <stddef.h>
#include <stdint.h>

/* rows of width bytes, whose starts are so many bytes apart. */
struct piece {
	void *to;
	size_t to_pitch;
	const void *from;
	size_t from_pitch, width, rows;
};

enum { PIECES_BLOCKS = 64, PIECES_THREADS = 256, PIECES_WARPS = PIECES_BLOCKS * PIECES_THREADS / 32 };

/* A warp copies a part of a piece at a time, of `parts` equal ones. */
struct pieces_args {
	const struct piece *pieces; /* in memory that the GPU reads, until the kernel has ended */
	uint64_t n, parts;
};

#ifdef __cplusplus
extern "C" {
#endif

/* 0, or a cudaError_t. */
int codelets_copy_pieces(const struct pieces_args *args, void *stream);

#ifdef __cplusplus
}
#endif

#endif
