/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "peer_table.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/log.h"
#include "base/wait.h"
#include "corale.h"
#include "door.h"
#include "host/liveness.h"

/* The file is as large as this, and has memory where it is used. Slots get memory SLOTS_STEP at a time. */
enum {
	SLOTS = 1 << 20,
	SLOTS_STEP = 256,
	MOST_RANKS = 1 << 14,
	ALLOCATIONS = 1024,
	LEAST_BITS = 12,
	SIZES = 48,
	OFTEN = 4
};
static const size_t arena_bytes = (size_t)4 << 30;

struct file {
	_Atomic uint32_t used; /* slots below it have memory */
	_Atomic int64_t reading_ns; /* when this rank last went on with a copy, or will */
	_Atomic unsigned char reaches
	    [MOST_RANKS]; /* of this rank, by owners: REACHED, or how often it has failed; later ones are never reached */
	_Atomic uint64_t
	    allocations[ALLOCATIONS]; /* ids, by their last bits; one that others displace is mapped again */
	struct peer_slot slots[SLOTS];
};

static size_t file_bytes(void)
{
	return (sizeof(struct file) + 4095) / 4096 * 4096 + arena_bytes;
}

/* Of a slot's part: whether this process has registered it. */
enum pinning { PIN_UNTRIED, PIN_DONE, PIN_FAILED };
static unsigned char **pinned; /* by rank and slot; NULL: none is */

static struct file **files; /* of all ranks of MPI_COMM_WORLD; NULL: not mapped */
static struct liveness **lives; /* the same; NULL: this rank's */

/* What the sender knows of its slots. Each has a part of the arena for ever, of a power of two of bytes. */
static struct {
	pthread_mutex_t lock;
	int fd;
	uint32_t taken; /* slots that were ever taken */
	size_t arena_used;
	uint32_t
	    unused[SIZES]; /* lists of free slots, by the bits of their part's size: number + 1; 0: none */
	uint32_t *next; /* of these, by number */
	struct peer_part **kept; /* by number; NULL: none */
	size_t pinned_bytes;
	int pins_no_more; /* the system does not let it */
	uint32_t *left; /* a stack of numbers, of complete sends that are not pulled yet */
	int left_n, left_most; /* left_most: more are looked through */
	const void *_Atomic allocated_at[ALLOCATIONS];
	_Atomic uint64_t counted[ALLOCATIONS]; /* OFTEN * id + messages before, by the last bits of the id */
} own = { .lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1 };

/* ---- Files --------------------------------------------------------------------------------------------- */

static struct file *map_file(int fd)
{
	void *at = mmap(NULL, file_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	return at == MAP_FAILED ? NULL : at;
}

int peer_table_open(int rank, const int fds[2])
{
	files[rank] = map_file(fds[0]);
	lives[rank] = liveness_open(fds[1]);
	close(fds[0]);
	close(fds[1]);
	return files[rank] && lives[rank] ? 0 : -1;
}

/* Without memory behind it a store would be a SIGBUS. */
static int back(size_t at, size_t bytes)
{
	int error;
	while ((error = posix_fallocate(own.fd, (off_t)at, (off_t)bytes)) == EINTR)
		;
	return error;
}

int peer_table_create(void)
{
	const char *failed_at = "calloc";
	files = calloc((size_t)pmpi.size, sizeof(struct file *));
	lives = calloc((size_t)pmpi.size, sizeof(struct liveness *));
	own.next = malloc(SLOTS * sizeof *own.next);
	own.left = malloc(SLOTS * sizeof *own.left);
	own.kept = calloc(SLOTS, sizeof(struct peer_part *));
	pinned = calloc((size_t)pmpi.size, sizeof(unsigned char *));
	if (files && lives && own.next && own.left && own.kept && pinned)
		own.fd = descriptor_memory("corale-messages", file_bytes(), &failed_at);
	if (own.fd < 0 || back(0, offsetof(struct file, slots)) || !(files[pmpi.rank] = map_file(own.fd))) {
		log_line(LOG_INFO, pmpi.rank,
			 "no messages by peer copies: no table in shared memory (%s: %s)",
			 own.fd < 0 ? failed_at : "its memory", strerror(errno));
		return -1;
	}
	return own.fd;
}

enum { REACHED = 255, TRIES = 8 };

enum peer_reach peer_reach_of(int reader, int owner)
{
	const int word = owner < MOST_RANKS ? files[reader]->reaches[owner] : TRIES;
	return word == REACHED ? PEER_REACHED : word < TRIES ? PEER_UNTRIED : PEER_NOT_REACHED;
}

void peer_note_reach(int owner, int is_reached)
{
	if (is_reached)
		files[pmpi.rank]->reaches[owner] = REACHED;
	else
		files[pmpi.rank]->reaches[owner]++;
}

void peer_note_allocation(uint64_t id, const void *p)
{
	own.allocated_at[id % ALLOCATIONS] = p;
	files[pmpi.rank]->allocations[id % ALLOCATIONS] = id;
}

int peer_is_used_often(uint64_t id)
{
	_Atomic uint64_t *word = &own.counted[id % ALLOCATIONS];
	const uint64_t before = *word / OFTEN == id ? *word % OFTEN : 0;
	if (before < OFTEN - 1)
		*word = OFTEN * id + before + 1;
	return before == OFTEN - 1;
}

void peer_note_freed(uint64_t (*allocation)(const void *p))
{
	for (int i = 0; i < ALLOCATIONS; i++) {
		uint64_t id = files[pmpi.rank]->allocations[i];
		if (id && allocation(own.allocated_at[i]) != id)
			atomic_compare_exchange_strong(&files[pmpi.rank]->allocations[i], &id, 0);
	}
}

int peer_has_allocation(int owner, uint64_t id)
{
	return files[owner]->allocations[id % ALLOCATIONS] == id;
}

int peer_is_gone(int rank)
{
	liveness_look();
	return lives[rank] && liveness_state(lives[rank]) != LIVENESS_ALIVE;
}

struct peer_slot *peer_slot(int rank, uint32_t number)
{
	struct file *file = files[rank];
	return file && number < atomic_load(&file->used) ? &file->slots[number] : NULL;
}

char *peer_arena(int rank, const struct peer_slot *slot)
{
	return (char *)files[rank] + slot->arena_at;
}

int peer_slot_fill(const struct peer_slot *slot)
{
	const int error = back(slot->arena_at, slot->bytes);
	return error ? log_error(CORALE_ENOMEM, pmpi.rank, "no %llu bytes of shared memory for a message: %s",
				 (unsigned long long)slot->bytes, strerror(error))
		     : 0;
}

/* ---- Slots of this rank -------------------------------------------------------------------------------- */

/* Memory of large parts goes back to the system. */
static void drop(int number)
{
	struct peer_slot *slot = &files[pmpi.rank]->slots[number];
	const int bits = peer_bits_of(slot->bytes, LEAST_BITS);
	if (slot->bytes > 1 << 20 && slot->where == PEER_IN_ARENA && !slot->is_pinned)
		fallocate(own.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)slot->arena_at,
			  (off_t)1 << bits);
	if (own.kept[number])
		peer_part_give(own.kept[number]);
	own.kept[number] = NULL;
	slot->state = PEER_FREE;
	own.next[number] = own.unused[bits];
	own.unused[bits] = (uint32_t)number + 1;
}

static void reap(void)
{
	for (int i = 0; i < own.left_n;) {
		const uint32_t number = own.left[i];
		if (files[pmpi.rank]->slots[number].state == PEER_DONE) {
			own.left[i] = own.left[--own.left_n];
			drop((int)number);
		} else {
			i++;
		}
	}
	own.left_most = 2 * own.left_n + 32;
}

/* -1: all are in use, or there is no memory for more. */
static int new_slot(size_t part)
{
	struct file *file = files[pmpi.rank];
	if (own.taken == SLOTS || part > arena_bytes - own.arena_used)
		return -1;
	if (own.taken == file->used) {
		if (back(offsetof(struct file, slots) + own.taken * sizeof(struct peer_slot),
			 SLOTS_STEP * sizeof(struct peer_slot)))
			return -1;
		atomic_store(&file->used, own.taken + SLOTS_STEP);
	}
	own.arena_used += part;
	file->slots[own.taken].arena_at = file_bytes() - own.arena_used;
	return (int)own.taken++;
}

static int take(size_t bytes)
{
	const int bits = peer_bits_of(bytes, LEAST_BITS);
	if (!own.unused[bits] || own.left_n > own.left_most)
		reap();
	const int number = own.unused[bits] ? (int)own.unused[bits] - 1 : new_slot((size_t)1 << bits);
	if (number < 0)
		return -1;
	if (own.unused[bits])
		own.unused[bits] = own.next[number];
	files[pmpi.rank]->slots[number].bytes = bytes;
	return number;
}

void peer_slot_keep(int number, struct peer_part *part)
{
	own.kept[number] = part;
}

int peer_slot_take(size_t bytes)
{
	pthread_mutex_lock(&own.lock);
	const int number = take(bytes);
	pthread_mutex_unlock(&own.lock);
	return number;
}

void peer_slot_drop(int number)
{
	pthread_mutex_lock(&own.lock);
	drop(number);
	pthread_mutex_unlock(&own.lock);
}

void peer_slot_leave(int number)
{
	pthread_mutex_lock(&own.lock);
	if (files[pmpi.rank]->slots[number].state == PEER_DONE)
		drop(number);
	else
		own.left[own.left_n++] = (uint32_t)number;
	pthread_mutex_unlock(&own.lock);
}

/* ---- Parts of the arena that devices reach --------------------------------------------------------------- */

static const size_t most_pinned = (size_t)256 << 20;

static size_t part_bytes(const struct peer_slot *slot)
{
	return (size_t)1 << peer_bits_of(slot->bytes, LEAST_BITS);
}

/* This rank's own: it has all its pages before, and keeps them. */
static int may_pin(struct peer_slot *slot)
{
	const size_t bytes = part_bytes(slot);
	if (own.pins_no_more || bytes > most_pinned - own.pinned_bytes || back(slot->arena_at, bytes))
		return 0;
	own.pinned_bytes += bytes;
	return slot->is_pinned = 1;
}

static enum pinning pin(int owner, struct peer_slot *slot)
{
	const int is_own = owner == pmpi.rank;
	if (is_own && !slot->is_pinned && !may_pin(slot))
		return PIN_UNTRIED;
	const int failed = pmpi.device->pin_mapped(peer_arena(owner, slot), part_bytes(slot));
	own.pins_no_more |= is_own && failed;
	return failed ? PIN_FAILED : PIN_DONE;
}

int peer_slot_is_pinned(int owner, struct peer_slot *slot)
{
	if (owner != pmpi.rank && !slot->is_pinned)
		return 0;
	pthread_mutex_lock(&own.lock);
	if (!pinned[owner])
		pinned[owner] = calloc(SLOTS, 1);
	unsigned char *state = pinned[owner] ? &pinned[owner][slot - files[owner]->slots] : NULL;
	if (state && *state == PIN_UNTRIED)
		*state = (unsigned char)pin(owner, slot);
	pthread_mutex_unlock(&own.lock);
	return state && *state == PIN_DONE;
}

int peer_table_pins(size_t bytes)
{
	const int bits = peer_bits_of(bytes, LEAST_BITS);
	pthread_mutex_lock(&own.lock);
	if (!own.unused[bits])
		reap();
	const uint32_t first = own.unused[bits];
	const int has_one = first && files[pmpi.rank]->slots[first - 1].is_pinned;
	const int pins =
	    !own.pins_no_more && (has_one || (size_t)1 << bits <= most_pinned - own.pinned_bytes);
	pthread_mutex_unlock(&own.lock);
	return pins;
}

/* ---- Slots of senders to this rank --------------------------------------------------------------------- */

/* Its owner may be giving the slot to another message: the sequence tells them apart. */
int peer_slot_names(const struct peer_slot *slot, uint64_t comm, int tag)
{
	const uint64_t sequence = atomic_load(&slot->sequence);
	const int is_mine =
	    slot->to == pmpi.rank && slot->comm == comm && slot->tag == tag && !slot->is_claimed;
	const uint32_t state = atomic_load(&slot->state);
	return is_mine && (state == PEER_POSTED || state == PEER_BUFFERING || state == PEER_BUFFERED) &&
	       slot->sequence == sequence;
}

int peer_slot_oldest(int owner, uint64_t comm, int tag)
{
	const struct peer_slot *slot, *oldest = NULL;
	int found = -1;
	for (uint32_t i = 0; (slot = peer_slot(owner, i)); i++)
		if (peer_slot_names(slot, comm, tag) && (!oldest || slot->sequence < oldest->sequence)) {
			oldest = slot;
			found = (int)i;
		}
	return found;
}

int peer_slot_pull(int owner, struct peer_slot *slot)
{
	uint32_t state = slot->state;
	if ((state == PEER_POSTED || state == PEER_BUFFERED) &&
	    atomic_compare_exchange_strong(&slot->state, &state, PEER_PULLING))
		return 0;
	if (!peer_is_gone(owner))
		return 1;
	return log_error(CORALE_EPEER, pmpi.rank, "rank %d died while it copied a message for this rank",
			 owner);
}

void peer_note_reading(int64_t ahead_ns)
{
	files[pmpi.rank]->reading_ns = wait_now_ns() + ahead_ns;
}

int64_t peer_reading_ns(int rank)
{
	return files[rank]->reading_ns;
}

void peer_slot_pulled(struct peer_slot *slot)
{
	atomic_store(&slot->state, PEER_DONE);
}
