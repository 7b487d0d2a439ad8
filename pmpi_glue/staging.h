/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device buffer in host memory, for one call of MPI. The host's copy is pinned, and packed where the datatype has gaps, so that only the type's bytes are
 * copied in either direction. MPI sees one message of the same length and count. A buffer that MPI can read itself is handed on as it is.
 */
#ifndef PMPI_STAGING_H
#define PMPI_STAGING_H

#include <mpi.h>
#include <stddef.h>

#include "memory.h"
#include "types.h"

struct pmpi_staged {
	/* For MPI: count elements of type at buffer. */
	void *buffer;
	MPI_Count count;
	MPI_Datatype type;
	/* The program's buffer; ordinal: of its device, -1: not staged, and all functions below do nothing. */
	char *device;
	int ordinal;
	size_t bytes; /* of data */
	struct pmpi_layout *layout; /* NULL: not staged */
};

/* Whether a buffer is staged, as its memory is a device's: then pmpi_stage_take or pmpi_stage_in before MPI has it, and pmpi_stage_end at last. */
int pmpi_stage_find(struct pmpi_staged *s, const void *buffer, MPI_Count count, MPI_Datatype type);

/*
 * The same of any memory, with a layout: ordinal is -1 for the host's, and bytes may be 0. 0: there is no layout, as the arguments are none that MPI takes, or memory
 * is short.
 */
int pmpi_stage_any(struct pmpi_staged *s, const void *buffer, MPI_Count count, MPI_Datatype type);
/* Copies of data of layouts between a buffer and memory in which they are packed, or lie alike; one of both may be a device's. They are copied together. */
enum pmpi_direction { PMPI_TO_PACKED, PMPI_FROM_PACKED };
struct pmpi_transfer {
	enum pmpi_direction direction;
	int ordinal; /* of the device; -1: a processor copies */
	int is_alike;
	char *buffer, *packed; /* of the layout that is walked */
	struct pmpi_copying copies;
};
/* is_pinned: as of pmpi_copying_begin. */
void pmpi_transfer_begin(struct pmpi_transfer *t, enum pmpi_direction direction, int ordinal, int is_pinned);
/* The first `bytes` of count elements. */
int pmpi_transfer_add(struct pmpi_transfer *t, const struct pmpi_layout *layout, size_t count, size_t bytes,
		      void *buffer, void *packed);
/* Behind all, also after an error, ret. stream: as of pmpi_copying_leave; NULL: the copies end here. 0 or CORALE_E*, logged: ret first. */
int pmpi_transfer_end(struct pmpi_transfer *t, int ret, struct pmpi_stream **stream);

/*
 * Copies the first `bytes` of a buffer's data to or from packed bytes elsewhere, which need not be pinned. ordinal: of the packed bytes' device, -1: host memory.
 * The buffer's device reaches them.
 */
int pmpi_stage_copy(const struct pmpi_staged *s, enum pmpi_direction direction, void *packed, int ordinal,
		    size_t bytes);
/* Only starts the copy, as pmpi_copying_leave. */
int pmpi_stage_start(const struct pmpi_staged *s, enum pmpi_direction direction, void *packed, int ordinal,
		     size_t bytes, struct pmpi_stream **stream);
/* From host memory; is_pinned: it is pmpi_pinned's. */
int pmpi_stage_unpack(const struct pmpi_staged *s, void *packed, size_t bytes, int is_pinned);
/* Of pmpi_stage_any. */
void pmpi_stage_forget(struct pmpi_staged *s);

/* The host's copy: of undefined content; with the buffer's; brought up to date. 0 or a CORALE_E* code, logged. */
int pmpi_stage_take(struct pmpi_staged *s);
int pmpi_stage_in(struct pmpi_staged *s);
int pmpi_stage_again(struct pmpi_staged *s);
void pmpi_stage_end(struct pmpi_staged *s);

#endif
