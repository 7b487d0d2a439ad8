/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buffers of the program, and copies of their data to and from memory in which it is packed, or lies alike. MPI is given packed bytes in the place of a device's buffer: one message
 * of the same length, and only the type's bytes are copied.
 */
#ifndef PMPI_STAGING_H
#define PMPI_STAGING_H

#include <mpi.h>
#include <stddef.h>

#include "memory.h"
#include "types.h"

/* count elements of a type, in any memory. */
struct pmpi_buffer {
	char *at;
	size_t count;
	size_t bytes; /* of data */
	int ordinal; /* of its device; -1: the host's */
	struct pmpi_layout *layout;
};

/* 0: the arguments are none that MPI takes, there is no memory for a layout, or the door takes no devices. Else pmpi_buffer_end ends it. */
int pmpi_buffer_find(struct pmpi_buffer *b, const void *at, MPI_Count count, MPI_Datatype type);
void pmpi_buffer_end(struct pmpi_buffer *b);
/* Whether a call's buffer is a device's, and not empty. */
int pmpi_is_device(const void *at, MPI_Count count, MPI_Datatype type);

/*
 * Copies that are added are made together, because the end of a copy is what takes long, and MPI goes on until they have ended. ordinal: of the side that is a device's; -1: none
 * is, and a processor copies. is_pinned: a kernel of the device reaches both sides, and may copy short rows.
 */
enum pmpi_direction { PMPI_TO_PACKED, PMPI_FROM_PACKED };
enum { PMPI_FEW_PIECES = 64 };
struct pmpi_stream;
struct pmpi_copies {
	enum pmpi_direction direction;
	int ordinal, is_pinned;
	int is_alike; /* the other side lies as the buffer does, and is not packed */
	char *buffer, *packed; /* of the layout that is walked */
	struct pmpi_stream *stream; /* of the copies that have started; NULL: none has */
	size_t n, room, rows, bytes;
	struct piece *pieces; /* few, or pinned */
	struct piece few[PMPI_FEW_PIECES];
};
void pmpi_copies_begin(struct pmpi_copies *c, enum pmpi_direction direction, int ordinal, int is_pinned);
/* The first `bytes` of count elements. */
int pmpi_copies_add(struct pmpi_copies *c, const struct pmpi_layout *layout, size_t count, size_t bytes,
		    void *buffer, void *packed);
/*
 * Behind all, also after an error, ret, which it returns. stream: NULL: all copies have ended; else they go on, until pmpi_copied says 1 or CORALE_E*, logged. *stream NULL: there are
 * none, or all have ended. 0 or CORALE_E*, logged.
 */
int pmpi_copies_end(struct pmpi_copies *c, int ret, struct pmpi_stream **stream);
int pmpi_copied(struct pmpi_stream *stream);

/* The first `bytes` of a buffer. where: of the packed memory: a device's ordinal, which the buffer's device reaches, or: */
enum { PMPI_IN_HOST = -1, PMPI_IN_PINNED = -2 };
int pmpi_buffer_copy(const struct pmpi_buffer *b, enum pmpi_direction direction, void *packed, int where,
		     size_t bytes, struct pmpi_stream **stream);

#endif
