/* SPDX-License-Identifier: BSD-3-Clause */
/* Stands in for the CUDA engine in corale-info: GPUs whose PCI ids FAKE_GPUS lists, by commas. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "corale.h"
#include "cuda/engine.h"

/* The i-th id, or NULL. */
static const char *id_of(int i)
{
	const char *at = getenv("FAKE_GPUS");
	for (; at && i; i--)
		at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL;
	return at && *at ? at : NULL;
}

static int available(char *why_not, size_t bytes)
{
	snprintf(why_not, bytes, "FAKE_GPUS is not set");
	return id_of(0) != NULL;
}

static int count(void)
{
	int n = 0;
	while (id_of(n))
		n++;
	return n;
}

static int gpu(int i, struct engine_gpu *out)
{
	const char *id = id_of(i);
	if (!id)
		return CORALE_EDEVICE;
	*out = (struct engine_gpu){ .name = "Fake GPU" };
	snprintf(out->pci, sizeof(out->pci), "%.*s", (int)strcspn(id, ","), id);
	return 0;
}

const struct engine_process_ops engine_process = {
	.available = available,
	.count = count,
	.gpu = gpu,
};
const struct engine_memory_ops engine_memory;
const struct engine_ops engine_cuda;
