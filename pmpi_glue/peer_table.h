/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tables of messages by peer copies (peer.h). Each rank has a file in shared memory, which the ranks of its host map: slots, and an arena for what it has
 * copied of messages whose receiver is late. The sender writes a slot before the header that names it leaves; then its state says whose it is:
 *
 *   POSTED > PULLING > DONE                             the receiver reads the sender's memory
 *   POSTED > BUFFERING > BUFFERED > PULLING > DONE      the sender has copied it meanwhile, and its send is complete
 *
 * A slot is free again when it is DONE and the sender has completed its send.
 */
#ifndef PMPI_PEER_TABLE_H
#define PMPI_PEER_TABLE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "memory.h"

enum { PEER_HEADER = 3 }; /* bytes of a header: the slot's number, the lowest byte first */

enum peer_state { PEER_FREE, PEER_POSTED, PEER_PULLING, PEER_BUFFERING, PEER_BUFFERED, PEER_DONE };
/* PEER_IN_POOL: copied to device memory of the sender's (peer_pool.c). */
enum peer_where { PEER_IN_ARENA, PEER_IN_POOL, PEER_IN_MEMORY };

/*
 * Device memory for messages that their sender copies before they are read: of types with gaps, of MPI_Bsend and the like, and to receivers that are late. Receivers map it
 * once and read it as they read programs' memory. 256 MB a process at most; messages without a part go through shared host memory. Any thread.
 */
struct peer_part {
	struct peer_part *next; /* among the unused ones */
	int ordinal, bits; /* of 2 to the power of bits bytes */
	void *memory;
	struct pmpi_exported exported; /* as others map it */
};

/* The least power of two that is so many bytes or more, and not below 2 to the power of `least`. */
static inline int peer_bits_of(size_t bytes, int least)
{
	int bits = least;
	while ((size_t)1 << bits < bytes)
		bits++;
	return bits;
}

struct peer_slot {
	_Atomic uint32_t state;
	int to, tag; /* to: in MPI_COMM_WORLD */
	int where; /* enum peer_where, before PULLING */
	int is_claimed; /* by a receive or MPI_Mprobe of the receiver */
	uint64_t comm; /* the communicator's id */
	_Atomic uint64_t sequence; /* of the sender's messages, in the order of their headers */
	uint64_t bytes;
	int is_pinned; /* its part of the arena keeps its pages, which devices may reach */
	uint64_t arena_at; /* where its part of the arena is */
	int is_exported; /* memory is there, also where the message was copied */
	struct pmpi_exported memory;
};

/* The own file. -1: there is none, and an INFO line says why. */
int peer_table_create(void);
/* Maps rank's, and its page that tells of its end (host/liveness.h), by their descriptors, which are closed. 0: done. */
int peer_table_open(int rank, const int fds[2]);

struct peer_slot *peer_slot(int rank, uint32_t number);
char *peer_arena(int rank, const struct peer_slot *slot);

/* Slots of this rank: any thread. For a message of so many bytes; -1: there is none. */
int peer_slot_take(size_t bytes);
/* The arena's part gets memory. CORALE_ENOMEM. */
int peer_slot_fill(const struct peer_slot *slot);
/*
 * Whether devices reach a slot's part of the arena as fast as pinned memory, for which it is registered when it is first asked. Its owner asks before it copies to it; 256 MB at most.
 * peer_table_pins: whether a message of so many bytes is likely to get such a part.
 */
int peer_slot_is_pinned(int owner, struct peer_slot *slot);
int peer_table_pins(size_t bytes);
/* The part is given back when the slot is free. */
void peer_slot_keep(int number, struct peer_part *part);
/* The send is complete: free as soon as it is pulled. */
void peer_slot_leave(int number);
/* No receiver has it, or will. */
void peer_slot_drop(int number);

/* Whether a slot names a message to this rank that nothing has claimed: on the communicator, with the tag. */
int peer_slot_names(const struct peer_slot *slot, uint64_t comm, int tag);
/* The number of the oldest of these; -1: none. */
int peer_slot_oldest(int owner, uint64_t comm, int tag);

/*
 * The receiver's: takes the slot for reading; the sender's memory is what it was until peer_slot_pulled. 1: not yet, as the sender copies it. CORALE_EPEER: it has died,
 * logged.
 */
int peer_slot_pull(int owner, struct peer_slot *slot);
void peer_slot_pulled(struct peer_slot *slot);
/* This rank reads messages, now or so much later at the latest; what another one last said (wait_now_ns). */
void peer_note_reading(int64_t ahead_ns);
int64_t peer_reading_ns(int rank);

/*
 * Whether a reader maps the memory of an owner's device: until it has done so once, as it tries with exported messages, messages to it are copied. It tries several times,
 * because the owner may have freed the memory of a message that was copied. And the reader's word.
 */
enum peer_reach { PEER_UNTRIED, PEER_REACHED, PEER_NOT_REACHED };
enum peer_reach peer_reach_of(int reader, int owner);
void peer_note_reach(int owner, int is_reached);

/* Allocations that this rank's slots have named, by addresses in them; and whether another rank's still are what they were. */
void peer_note_allocation(uint64_t id, const void *p);
/* Counts a message of an allocation: whether it had several before. */
int peer_is_used_often(uint64_t id);
void peer_note_freed(uint64_t (*allocation)(const void *p));
int peer_has_allocation(int owner, uint64_t id);

/* Whether that rank's process has ended, in whatever PID namespace. */
int peer_is_gone(int rank);

/* ---- peer_pool.c: parts */

/* Memory of a device of at least so many bytes, of undefined content. NULL: there is none. */
struct peer_part *peer_part_take(int ordinal, size_t bytes);
void peer_part_give(struct peer_part *part);
/* In MPI_Finalize, when all messages have been read. */
void peer_pool_end(void);

#endif
