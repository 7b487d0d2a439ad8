/*
 * The board of an exporter: shared memory that its process alone writes; other processes of the node map it read-only but for the first page, and check
 * what they read, as a stray store in one process must not crash another one.
 */
#ifndef EXPORTER_BOARD_H
#define EXPORTER_BOARD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "kernels/exports.h"

enum {
	BOARD_PEERS = 240, /* that an exporter has attached at a time */
	BOARD_PAGE = 4096,
	BOARD_HANDLE_WORDS = 64 / 8 /* of a cudaIpcMemHandle_t */
};

struct board_entry {
	_Atomic uint64_t number; /* 0: none, or it is being written */
	_Atomic uint64_t is_dead, handle[BOARD_HANDLE_WORDS];
};

/* What the board's owner tells the owner of another one about the other one's exports. */
struct board_answer {
	_Atomic uint64_t owner; /* the other board's instance; 0: none */
	_Atomic uint64_t answered; /* exports up to this number were opened, or tried */
	_Atomic uint64_t deaths; /* what has died by this count of the other board's is closed here */
	_Atomic uint64_t failed[EXPORTS_ROOM / 64]; /* by index, a bit: could not be opened */
};

struct board {
	union {
		struct {
			pthread_mutex_t held; /* robust: by the owner's thread while it lives */
			_Atomic uint32_t
			    gone; /* said by that thread when it ends, or by a peer that finds `held` without its owner */
		};
		unsigned char page[BOARD_PAGE];
	};
	uint64_t magic, version, bytes;
	uint64_t process; /* process_number */
	uint64_t instance; /* random: of this board */
	_Atomic uint64_t published; /* the highest number */
	_Atomic uint64_t deaths; /* so many exports have died */
	struct board_entry entries[EXPORTS_ROOM];
	struct board_answer answers[BOARD_PEERS];
};

/* CORALE_ENOMEM, CORALE_ESYSTEM, logged. */
int board_create(int rank, int *fd, struct board **out);
/* A peer's; fd stays the caller's. CORALE_EPEER, CORALE_ENOMEM, logged. */
int board_map(int fd, int rank, struct board **out);
void board_unmap(struct board *board); /* NULL is nothing */

/* By the owner's thread, when it begins and ends. */
void board_hold(struct board *board);
void board_leave(struct board *board);
/* 1: that thread has ended, however it did. */
int board_is_gone(struct board *board);

/* By the owner: its index is free. */
void board_publish(struct board *board, uint64_t number, const void *handle);
/* 0: it is dead, and its entry may have another number. */
int board_has(const struct board *board, uint64_t number);
int board_read(const struct board *board, uint64_t number, void *handle);
/* 1: what is published contradicts itself, or a number that was seen before. */
int board_is_damaged(const struct board *board, uint64_t published, uint64_t seen);

#endif
