/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that stands for a GPU's. */
#ifndef FAKE_VERBS_GPU_H
#define FAKE_VERBS_GPU_H

#include <stddef.h>

/*
 * Whether this memory is a GPU's: a file's pages, mapped here without access. `readable` is then where this process has the same pages mapped to
 * read and write, or NULL.
 */
int fake_gpu_find(const void *address, size_t bytes, unsigned char **readable);

#endif
