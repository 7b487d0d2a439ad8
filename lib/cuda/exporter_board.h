/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The board of an exporter: shared memory that its process alone writes; other processes of the node map it read-only, and check what they read, as a
 * stray store in one process must not crash another one.
 */
#ifndef EXPORTER_BOARD_H
#define EXPORTER_BOARD_H

#include <stdatomic.h>
#include <stdint.h>

#include "kernels/exports.h"

enum {
	BOARD_PEERS = 64, /* that an exporter has attached at a time */
	BOARD_HANDLE_WORDS = 64 / 8 + 2 /* of a struct export_handle */
};

struct board_entry {
	_Atomic uint64_t number; /* 0: none, or it is being written */
	_Atomic uint64_t is_dead, handle[BOARD_HANDLE_WORDS];
};

/* What a board's owner tells the owner of another one of the other one's exports. */
enum board_answer { BOARD_OPEN = 1, BOARD_FAILED, BOARD_CLOSED /* or was dead already */ };

struct board {
	uint64_t magic, version, bytes;
	uint64_t process; /* process_number */
	uint64_t context; /* the owner's CUcontext, which only its own process uses */
	uint64_t instance; /* no other board's */
	_Atomic uint64_t looks; /* of the owner's thread, which looks twenty times a second at least */
	_Atomic uint64_t published; /* the highest number */
	_Atomic uint64_t deaths; /* so many exports have died */
	struct board_entry entries[EXPORTS_ROOM];
	/* by peer, the owner of the exports: its board's instance, or 0; and by index the answer: board_word. Those to an earlier owner say closed */
	_Atomic uint64_t owners[BOARD_PEERS], answers[BOARD_PEERS][EXPORTS_ROOM];
};

static inline uint64_t board_word(uint64_t number, enum board_answer answer)
{
	return number << 2 | (uint64_t)answer;
}

/* CORALE_ENOMEM, CORALE_ESYSTEM, logged. */
int board_create(int rank, int *fd, struct board **out);
/* A peer's; fd stays the caller's. CORALE_EPEER, CORALE_ENOMEM, logged. */
int board_map(int fd, int rank, struct board **out);
void board_unmap(struct board *board); /* NULL is nothing */

/* By the owner: its index is free. */
void board_publish(struct board *board, uint64_t number, const void *handle);
/* 0: it is dead, and its entry may have another number. */
int board_has(const struct board *board, uint64_t number);
int board_read(const struct board *board, uint64_t number, void *handle);
/* 1: what is published contradicts itself, or a number that was seen before. */
int board_is_damaged(const struct board *board, uint64_t published, uint64_t seen);

#endif
