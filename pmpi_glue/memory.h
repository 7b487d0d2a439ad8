/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory of devices, as the MPI door needs it. A table of functions stands for the kind of device: GPUs by CUDA (memory_cuda.c), or, in tests, memory that
 * faults when a processor touches it. All else of the door is the same for both.
 */
#ifndef PMPI_MEMORY_H
#define PMPI_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/pieces.h"

/*
 * Ordinals from PMPI_DEVICES on are contexts that the program has made on a device, each with memory of its own, which no other context reaches. Smaller ones
 * are devices' numbers in this process. PMPI_NO_ORDINAL: of memory that is in neither; pmpi_enter refuses it.
 */
enum { PMPI_DEVICES = 64, PMPI_NO_ORDINAL = 2 * PMPI_DEVICES };

struct pmpi_exported;

/* Functions that can fail return 0 or a CORALE_E* code, logged. Any thread. */
struct pmpi_device {
	int corale_device; /* CORALE_DEVICE_*: of communicators that take this memory */
	/* Whether this process could use a device. Makes no context. */
	int (*is_there)(void);
	/* The ordinal of the memory that p is in; -1: memory that a processor reads, managed and pinned memory too. */
	int (*ordinal)(const void *p);
	/* The ordinal of what the thread or the process uses already; -1: no device. */
	int (*in_use)(void);
	/* The address by which Corale's functions take memory at p, of a device or of the host. */
	void *(*reach)(const void *p);
	/* What follows in this thread is of that ordinal. before: for leave, behind which the thread's device and context are what they were. */
	int (*enter)(int ordinal, int *before);
	void (*leave)(int before);
	/* Host memory that copies of all devices reach fast. */
	int (*pin)(size_t bytes, void **memory);
	void (*unpin)(void *memory);
	/* Shared host memory that is mapped already, for as long as it is. */
	int (*pin_mapped)(void *memory, size_t bytes);
	/* Memory of the current device that export_memory takes. alloc: 1: there is none. */
	int (*alloc)(size_t bytes, void **memory);
	void (*free)(void *memory);
	/* A stream of the current device, which waits for no other one. */
	int (*stream_create)(void **stream);
	void (*stream_destroy)(void *stream);
	/* Starts a copy between device and host memory, or inside one of them. rows of width bytes, whose starts are so many bytes apart. */
	int (*copy)(void *to, const void *from, size_t bytes, void *stream);
	int (*copy_rows)(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
			 size_t rows, void *stream);
	/*
	 * Starts the same of n pieces together, within what a kernel of the device reaches: its memory, mapped memory and pinned memory, in which the list is. Many times as fast as
	 * copies for short rows.
	 */
	int (*copy_pieces)(const struct piece *pieces, size_t n, void *stream);
	/* 1: all work of the stream is complete; 0: not yet; else a CORALE_E* code. */
	int (*query)(void *stream);
	/* How another process of the host maps memory at p. 1: it can't be mapped. NULL: none can. */
	int (*export_memory)(const void *p, size_t bytes, struct pmpi_exported *out);
	/* The id of the allocation that p is in now; 0: it is in none. */
	uint64_t (*allocation)(const void *p);
	/* Maps the allocation, for what is entered. 1: it can't be, and an INFO line says why. unmap: behind all copies. */
	int (*map)(const struct pmpi_exported *exported, void **allocation);
	void (*unmap)(void *allocation);
};

/* Memory of a device, for other processes. */
struct pmpi_exported {
	unsigned char handle[64]; /* the device's word for the allocation */
	uint64_t id; /* of the allocation: no later one of the process has the same */
	uint64_t at; /* where in it the memory is */
};

/*
 * The process's kind of device; NULL: it has none, as in a build without CUDA. A program or preloaded library that exports a struct pmpi_device by the
 * name corale_pmpi_device has it used instead: for tests.
 */
const struct pmpi_device *pmpi_device_find(void);
/* NULL: a build without CUDA. */
extern const struct pmpi_device *const pmpi_device_gpu;

/* Whether p is in the program's image, its heap, or the stack that the caller runs on: host memory, whatever the driver. 0: not known. Any thread. */
int pmpi_is_own(const void *p);
/* The ordinal of the memory that p is in; -1: host memory, or the door takes no device memory. The driver is asked at each call, but for what is the program's own. */
int pmpi_ordinal(const void *p);
/* Whether what runs at one ordinal takes memory of another, and of the host (-1). */
int pmpi_ordinal_reaches(int ordinal, int memory);
/* As enter and leave of the device, with an error for PMPI_NO_ORDINAL; nothing without a device. */
int pmpi_enter(int ordinal, int *before);
void pmpi_leave(int before);

/* Until all work of the stream is complete. MPI goes on where that takes longer than 50 us. 0 or a CORALE_E* code, logged. */
int pmpi_wait(void *stream);

/* Pinned memory, from a pool that keeps what it gets back. NULL: there is none, logged. */
void *pmpi_pinned(size_t bytes);
void pmpi_unpinned(void *memory, size_t bytes);

/* Memory for a host's copy of a buffer: the pool's, or malloc's. CORALE_ENOMEM, logged. free: also of what is zero, or was freed. */
struct pmpi_host {
	char *memory;
	size_t pinned; /* bytes of the pool's; 0: malloc's */
};
int pmpi_host_take(struct pmpi_host *host, size_t bytes, int is_pinned);
void pmpi_host_free(struct pmpi_host *host);

/* At MPI_Finalize: what the pool keeps. */
void pmpi_memory_end(void);

#endif
