/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank's window: shared memory that all ranks of its node map. Its layout is a pure function of agreed numbers. It holds:
 *   control    abort word, the owner's last calls
 *   consumed   one counter per sender, queue and channel: how many of the sender's messages the owner has read
 *   headers    WINDOW_HEADERS lines for every queue that the owner sends on, used in turn; a queue leads to one local rank, or to ALL of them
 *   slots      the payloads of those messages: room for two of the largest, or for many small ones
 * A rank's queue to itself is its queue to ALL. The only rank of a node has no slots. No payload ever lies where headers do, so that no stale byte can
 * pass for a header.
 */
#ifndef WINDOW_H
#define WINDOW_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/journal.h"
#include "plan/plan.h"

enum { WINDOW_LINE = 64, WINDOW_HEADERS = 64, WINDOW_CALLS = 64, WINDOW_INLINE = WINDOW_LINE - 4 * 8 };
enum { WINDOW_REASON = 192 };
enum {
	WINDOW_CACHED = 128 << 10
}; /* bytes of a queue that its payloads go round, if as many of them fit: they stay in a cache */
enum { WINDOW_RANKS = 4096 }; /* of a node: for more a struct window_control has no room */

enum window_message { WINDOW_SLOT, WINDOW_INLINED, WINDOW_REFERENCE };

/* What a rank says: why it has ended the communicator; the number of its last refusal, a blank, and why it has refused that call. */
enum window_text { WINDOW_ENDED, WINDOW_REFUSED, WINDOW_TEXTS };

/* How a rank has left its communicator in order. A call that waits for it then fails. */
enum window_left {
	WINDOW_PRESENT,
	WINDOW_DESTROYED,
	WINDOW_EXITED,
	WINDOW_ABORTED,
	WINDOW_REVOKED /* it makes no more calls, but may make communicators of this one's ranks; one of the others may follow */
};

/* The call, or the making of a communicator of this one's ranks, in which a rank has waited for another one for a while; kept until it waits longer for a further one. */
enum window_wait {
	WINDOW_IN_COLLECTIVE = 1,
	WINDOW_IN_RECV,
	WINDOW_IN_SEND,
	WINDOW_IN_SPLIT,
	WINDOW_IN_SHRINK
};

/* rank: of the communicator, 17 bits. number: of the collective, or how many receives from, or sends to, that rank were called, with this one; of a making: as
 * its ranks alone number it. 44 bits. */
static inline uint64_t window_wait_of(enum window_wait kind, uint64_t number, int rank)
{
	return number << 20 | (uint64_t)kind << 17 | (uint64_t)rank;
}
/* In a word of a making: no other thread of the owner's process can make calls meanwhile. */
static const uint64_t window_wait_sole = (uint64_t)1 << 63;
static inline int window_wait_rank(uint64_t word)
{
	return (int)(word & 0x1ffff);
}
static inline enum window_wait window_wait_kind(uint64_t word)
{
	return (enum window_wait)(word >> 17 & 7);
}
static inline uint64_t window_wait_number(uint64_t word)
{
	return word >> 20;
}

/* Where a rank is among its calls: at the sends and receives before a collective, or at the collective. */
static inline uint64_t window_position(uint64_t collective, int pairs)
{
	return 2 * collective + !pairs;
}

/* One line: readiness, signature and small payloads arrive together (P5). */
struct window_header {
	_Atomic uint64_t sequence; /* message k of a queue has k + 1 here, written last */
	uint64_t signature;
	_Atomic uint64_t bytes_kind; /* payload bytes << 8 | enum window_message */
	uint64_t edge; /* elements of the whole edge, where only its two ends know it (v-forms, send/recv) */
	union {
		unsigned char inlined[WINDOW_INLINE];
		struct { /* apart: what went by reference may get a slot later (host_lend.c) */
			const void *reference; /* in the sender's address space */
			uint64_t offset; /* of the payload in its queue */
		};
	};
};

static inline uint64_t window_bytes(const struct window_header *header)
{
	return atomic_load_explicit(&header->bytes_kind, memory_order_relaxed) >> 8;
}

struct window_control {
	_Atomic uint64_t
	    abort; /* 0, or how << 48 | reason << 32 | rank + 1 of the rank that failed first; how: 1 + enum window_left, 0: it is present */
	_Atomic uint64_t
	    abort_at; /* the earliest call that has failed anywhere, as window_position says: earlier ones go on; 0: all end */
	_Atomic uint64_t users; /* ranks of the owner's process; the last one unmaps it */
	_Atomic uint64_t left; /* enum window_left: that the owner's process ends then is no failure */
	_Atomic uint64_t asks_unmap; /* the owner asks all others to store nothing more into its memory */
	_Atomic uint64_t waits; /* window_wait_of: of the owner; 0: it has not waited for long */
	_Atomic uint64_t readers; /* threads of the owner's process that load from memory that it lends */
	uint64_t pad[1];
	/* [local rank]: the owner can read that process's memory, as far as it knows; its GPU stores nothing more into that rank's memory */
	_Atomic uint8_t can_read[WINDOW_RANKS];
	_Atomic uint8_t unmapped[WINDOW_RANKS];
	struct journal_entry calls[WINDOW_CALLS]; /* by number */
	_Atomic uint64_t texts[WINDOW_TEXTS][WINDOW_REASON / 8]; /* that end */
};

struct window_layout {
	int locals, channels, slots;
	size_t slot_bytes, queue_bytes; /* the largest payload; all payloads of a queue */
	size_t consumed, headers, payload, bytes; /* offsets, and the whole */
};

void window_layout_init(struct window_layout *layout, int locals, int channels, int slots, size_t slot_bytes);

/* The index of a queue to local rank d among the queues of its kind. */
static inline size_t window_queue(const struct window_layout *layout, int d, int channel, int queue)
{
	return ((size_t)d * (size_t)layout->channels + (size_t)channel) * PLAN_MAX_QUEUES + (size_t)queue;
}

/* Of the owner's queue to local rank d; d is the owner: to ALL. */
struct window_header *window_headers(const struct window_layout *layout, void *window, int d, int channel,
				     int queue);
unsigned char *window_payload(const struct window_layout *layout, void *window, int d, int channel,
			      int queue);
/* How many messages of local rank `sender`'s queue (the one to the owner, or its ALL queue) the owner has read. The word behind it (window_asked): 1 + the
 * message that came by reference from memory that the owner can't read. The next one (window_took): what it took the owner to read a message (host_path.c). */
_Atomic uint64_t *window_consumed(const struct window_layout *layout, void *window, int sender, int all,
				  int channel, int queue);

static inline _Atomic uint64_t *window_asked(_Atomic uint64_t *consumed)
{
	return consumed + 1;
}

static inline _Atomic uint64_t *window_took(_Atomic uint64_t *consumed)
{
	return consumed + 2;
}

/* Anonymous shared memory: *fd for others (close it when they have it), mapped at *window, zeroed. */
int window_create(size_t bytes, int rank, int *fd, void **window);
/* Maps what a peer has passed on; CORALE_EPEER if it isn't a window of so many bytes that stays so. */
int window_map_peer(int fd, size_t bytes, int rank, int peer, void **window);
/* 1 if fd is shared memory of at least so many bytes, and nobody can make it shorter. */
int window_is_sealed(int fd, size_t bytes);
/* Touches the headers and first payloads of a window's queues of channel 0, so that the first calls meet no page fault: about a megabyte. By its owner,
 * or by another process that has mapped it. */
void window_touch(const struct window_layout *layout, void *window, int is_owner);
void window_unmap(void *window, size_t bytes);
/* Bytes of a window that have pages: those that some rank has touched. */
size_t window_used(void *window, size_t bytes);

#endif
