/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that stands for a GPU's in tests without one: a file mapped twice, without access and readable. */
#ifndef FAKE_GPU_MEMORY_H
#define FAKE_GPU_MEMORY_H

#include <stddef.h>

struct fake_gpu_memory {
	unsigned char
	    *address; /* as the program, its transport and the network know it: a CPU that touches it dies */
	unsigned char
	    *readable; /* the same bytes, for a stand-in of kernels, and for the adapter of test/fake_verbs */
	size_t bytes;
	int fd; /* stands for its dmabuf */
};

/* 0, or -1 and errno. */
int fake_gpu_memory_map(struct fake_gpu_memory *m, size_t bytes);
void fake_gpu_memory_unmap(struct fake_gpu_memory *m);

#endif
