/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where a communicator's buffers are, as the door itself needs it: a GPU by the CUDA runtime (device_cuda.c), or host memory
 * (device_host.c), which needs no GPU and is for tests of all that is not a kernel. All functions return 0 or a CORALE_E* code, logged.
 */
#ifndef DEVICE_H
#define DEVICE_H

#include <stddef.h>
#include <stdint.h>

struct door_device {
	int is_gpu;
	/* CUDA's: 13000. 0: none. */
	int (*version)(void);
	/* The thread's current GPU. peek: 1 if it is known, without a word in the log. */
	int (*current)(int *ordinal);
	int (*peek)(int *ordinal);
	int (*select)(int ordinal);
	/* GPUs that this process sees. */
	int (*count)(int *n);
	/* As NCCL prints it: domain, bus, device and function as one number. */
	int64_t (*bus_id)(int ordinal);
	int (*alloc)(size_t bytes, void **memory);
	int (*free)(void *memory);
};

extern const struct door_device door_device_host;
/* NULL: this build has no CUDA. */
extern const struct door_device *const door_device_gpu;

struct settings;

/* The settings, with what NCCL's variables say; before all else of the library. 0 or CORALE_ESETTING, logged. */
int door_settings(const struct settings **out);

/* What CORALE_NCCL_DEVICE asks for; NULL with an error logged: it can't be had. */
const struct door_device *door_device_find(void);

#endif
