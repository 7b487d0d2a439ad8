/* SPDX-License-Identifier: BSD-3-Clause */
/* The process that copies a GPU's memory for adapters in user space: its parts. */
#ifndef FAKE_COPIER_H
#define FAKE_COPIER_H

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stddef.h>

#include "test/helpers/clock.h"
#include "copier_board.h"

struct copier_options {
	const char *path;
	double rate; /* GB/s of an adapter; 0: no limit */
	size_t bytes; /* of a copy that is measured; 0: copy for others */
	int depth;
	double seconds;
};

/* Both return what main does. */
int copier_serve(const struct copier_options *options);
int copier_measure(const struct copier_options *options);

double copier_seconds(void);

/* Ends the process where CUDA has failed. */
void copier_check(int error, const char *what);

/* ---- Memory of GPUs ------------------------------------------------------------------------------------------ */

struct copier_memory {
	CUdeviceptr at;
	size_t bytes;
	int device;
};

/* Makes memory that can be exported; maps what a descriptor stands for (0: it can't be); unmaps it. */
void copier_memory_make(int device, size_t bytes, struct copier_memory *out);
int copier_memory_import(int descriptor, int device, size_t bytes, struct copier_memory *out);
void copier_memory_unmap(const struct copier_memory *memory);

#endif
