/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device memory for messages that their sender copies before they are read: of types with gaps, of MPI_Bsend and the like, and to receivers that are late. Receivers map it
 * once and read it as they read programs' memory. 256 MB a process at most; messages without a part go through shared host memory. Any thread.
 */
#ifndef PMPI_PEER_POOL_H
#define PMPI_PEER_POOL_H

#include <stddef.h>

struct peer_part;
/* Memory of a device of at least so many bytes, of undefined content. NULL: there is none. */
struct peer_part *peer_part_take(int ordinal, size_t bytes);
void *peer_part_memory(const struct peer_part *part);
void peer_part_give(struct peer_part *part);
/* In MPI_Finalize, when all messages have been read. */
void peer_pool_end(void);

#endif
