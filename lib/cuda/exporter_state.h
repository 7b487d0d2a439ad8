/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the exporter share. */
#ifndef EXPORTER_STATE_H
#define EXPORTER_STATE_H

#include <stdatomic.h>
#include <stdint.h>

#include "engine_cuda.h"
#include "exporter.h"
#include "kernels/exports.h"

enum { EXPORTER_SEEN = 4096, EXPORTER_NO_INDEX = -1 };

/*
 * The board of an exporter: shared memory that its process alone writes; other processes of the node map it read-only, and check what they read, as a
 * stray store in one process must not crash another one.
 */

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

/*
 * What is exported together: an allocation of cudaMalloc, or a run: the allocations of cuMemCreate, mapped side by side, that a buffer lies in. As a run has
 * nothing but what its buffer needs, none of its pieces is unmapped while a call that reads it goes on.
 */
struct export_range {
	unsigned long long id; /* the driver's, of a run made of those of its pieces: never used again */
	CUdeviceptr at;
	size_t bytes;
	int is_run;
};

/* As it stands on a board. */
struct export_handle {
	cudaIpcMemHandle_t allocation;
	uint64_t run_bytes; /* of a run, whose descriptors its owner sends; 0: it is that allocation */
	CUdeviceptr at; /* where its own process has it */
};

/* What exporter_find knows of a range. */
struct export_seen {
	unsigned long long id; /* 0: this place is free */
	uint32_t calls;
	int16_t index; /* of its export; EXPORTER_NO_INDEX */
	uint8_t is_refused; /* for ever */
};

enum export_state {
	EXPORT_FREE,
	EXPORT_ASKED /* peers open it */,
	EXPORT_USABLE,
	EXPORT_DEAD /* peers close it */
};

/*
 * A run's pieces. Their handles are held from the call that publishes the run until it is dead: what the program frees meanwhile the driver may not be asked for by its
 * address (580 crashes in cuMemExportToShareableHandle when another thread releases the memory).
 */
struct export_run {
	uint32_t pieces;
	struct {
		CUmemGenericAllocationHandle handle;
		size_t bytes;
	} piece[];
};

/* An export of this process. exporter_find makes it, the thread changes it; under the lock. */
struct export
{
	enum export_state state;
	uint64_t number;
	struct export_range range;
	struct export_run *run; /* or NULL */
};

/* A peer's export as it is mapped here. number 0: none; at NULL: it could not be opened. closes: it is the closing thread's, until that has emptied it. */
struct export_mapping {
	uint64_t number;
	void *at;
	size_t run_bytes; /* 0: it was opened by its handle */
	_Atomic int closes;
};

/* A run whose descriptors come. Each piece is mapped when it is there. number 0: none */
struct export_arrival {
	uint64_t number;
	CUdeviceptr at; /* 0: no addresses are reserved yet */
	size_t bytes, mapped;
	uint32_t pieces;
	int has_failed;
	int64_t began_ns, asked_ns;
};

/* The thread's alone but for users, which the lock protects, and what never changes. */
struct export_peer {
	int users;
	int slot; /* of its table and its answers */
	struct board *board;
	int is_damaged, is_gone;
	uint64_t
	    looks; /* of the board, and since when they stand still: then the peer's process is gone, or its exporter has ended */
	int64_t looks_ns;
	uint64_t scanned; /* the board's deaths whose mappings were given up */
	uint64_t answered, opened; /* numbers */
	struct export_arrival arrival;
	struct export_mapping exports[EXPORTS_ROOM];
};

/* In GPU memory. */
struct export_tables {
	struct exports_own own;
	struct exports self; /* the own exports, for ranks of this process and GPU */
	struct exports none; /* for those of its other GPUs that this one can't reach */
	struct exports peers[BOARD_PEERS];
};

struct exporter {
	struct exporter *next;
	struct cuda_driver functions;
	const struct cuda_driver *driver; /* these: the engine that has made the exporter may end before it */
	CUcontext context;
	int ordinal, rank;
	int fd, mail_fd;
	struct board *board;
	cudaStream_t stream;
	struct export_tables *tables;
	size_t bytes; /* of the memory that they lie in */
	_Atomic unsigned said; /* enum exporter_reason, a bit each: an INFO line */
	_Atomic int
	    stops; /* for good: exit() has begun, or a copy has failed, as the GPU or its context is lost */
	/* Held for short, over no call of the driver. */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_mutex_t calls_lock; /* of callers, also while they are asked; before the other lock */
	struct exporter_user *callers;
	_Atomic int closes;
	int users; /* 0: it ends */
	int workers; /* threads: the one that opens, and one that closes */
	_Atomic int closings; /* mappings to be closed */
	int is_asked; /* the thread is to look at once */
	_Atomic int is_called,
	    sleeps; /* a large call was made since the last look; the thread waits for one */
	_Atomic int captures;
	int64_t called_ns; /* seen by the thread */
	int64_t active_until_ns;
	struct export_peer *peers[BOARD_PEERS];
	struct export own[EXPORTS_ROOM];
	_Atomic uint64_t last_number;
	size_t dead_bytes; /* freed, and mapped by peers yet */
	struct export_seen seen[EXPORTER_SEEN];
};

/* ---- exporter.c */

/* Starts the thread where it does not run. Under the lock. CORALE_ESYSTEM, logged. */
int exporter_start(struct exporter *exporter);

/* ---- exporter_state.c */

/* Whether no call of the library runs in the process; then none begins until exporter_end_closing. */
int exporter_begin_closing(struct exporter *exporter);
void exporter_end_closing(struct exporter *exporter);
/* Under the lock. */
void exporter_wake(struct exporter *exporter);
/* To GPU memory, which has it when this returns. CORALE_EDEVICE: logged, and the exporter stops. */
int exporter_put(struct exporter *exporter, void *to, const void *from, size_t bytes);

enum exporter_reason {
	REASON_NONE,
	REASON_UNKNOWN,
	REASON_SHORT,
	REASON_OTHER_GPU,
	REASON_KIND,
	REASON_ROOM,
	REASON_OWN_PROCESS,
	REASON_FAILED
};

/* 1: the first time. */
int exporter_says(struct exporter *exporter, enum exporter_reason reason);
/* Of a range that has this id, or that of the one with the fewest calls that has no export. NULL: all that could go have one. Under the lock. */
struct export_seen *exporter_place_of(struct exporter *exporter, unsigned long long id);
/* The peer that has that board, or NULL: *slot is the first free one then. Under the lock. */
struct export_peer *exporter_find_peer(const struct exporter *exporter, uint64_t instance, int *slot);
/* The range is in no export any more. refused: for ever. Under the lock. */
void exporter_forget(struct exporter *exporter, const struct export *export, int refused);

/* ---- exporter_mail.c: descriptors from one exporter to another of the node. Only processes of this user get and send any */

enum { MAIL_PIECES = 32 };

/* No pieces: `from` asks for the receiver's export of that number, from piece `first` on. Else an export of `from`, and the descriptors of some pieces. */
struct mail {
	uint64_t from; /* a board's instance */
	uint64_t number;
	uint32_t first, pieces;
	uint64_t bytes[MAIL_PIECES]; /* of each piece */
};

/* The socket of a board's owner. -1: see errno. */
int mail_open(uint64_t instance);
/* To the owner of another board. The descriptors stay the caller's. */
void mail_send(uint64_t to, const struct mail *mail, const int *fds);
/* 1: some mail, whose descriptors are the caller's. 0: mail that was dropped. -1: there is none. */
int mail_receive(int listening, struct mail *mail, int fds[MAIL_PIECES]);

/* ---- exporter_pieces.c: ranges and runs */

/* What is to be exported for these bytes; else REASON_UNKNOWN or REASON_SHORT. */
enum exporter_reason exporter_range(const struct exporter *exporter, CUdeviceptr at, size_t bytes,
				    struct export_range *out);
/* 0: one that was exported is not there any more. */
int exporter_has(const struct exporter *exporter, const struct export_range *range);
/* By a caller whose buffer lies in it. NULL: a piece is another GPU's or has no descriptor, or there is no memory. */
struct export_run *exporter_hold_run(const struct exporter *exporter, const struct export_range *range);
/* NULL is nothing. */
void exporter_drop_run(const struct exporter *exporter, struct export_run *run);
/* 1: it is mapped at *at, or can't be, and *why says why. 0: descriptors have yet to come. */
int exporter_receive_run(struct exporter *exporter, struct export_peer *peer, uint64_t number, size_t bytes,
			 void **at, const char **why);
/* Gives up one that has not come yet. */
void exporter_end_arrival(const struct exporter *exporter, struct export_peer *peer);
/* bytes: of the addresses. */
void exporter_unmap_run(const struct exporter *exporter, CUdeviceptr at, size_t mapped, size_t bytes);
/* Sends what peers ask for, and maps what comes; 1 if there was something. */
int exporter_take_mail(struct exporter *exporter);

/* ---- exporter_peer.c, exporter_thread.c */

/* Closes and opens what a peer's board says; 1 if there was something. */
int exporter_look_at_peer(struct exporter *exporter, struct export_peer *peer);
/* 1 if something of it is mapped, or is being closed. */
int exporter_maps(const struct export_peer *peer);
/* Gives up all that is mapped of it, and the peer when that is closed. */
void exporter_remove_peer(struct exporter *exporter, struct export_peer *peer);
void *exporter_work(void *exporter);

#endif
