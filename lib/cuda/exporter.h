/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exports of this process and one GPU (kernels/exports.h): finds the allocation that holds a call's buffer, publishes it for the other processes of the
 * node, and maps what they publish. Each process and GPU has a board (exporter_state.h) in shared memory, which it alone writes and the others read.
 *
 * A thread of the exporter opens what peers publish, in the order of their numbers, and closes what they give up. No caller waits for it: a call whose
 * buffers are not mapped everywhere goes through slots. The life of an export:
 *   1. exporter_find publishes an allocation of cudaMalloc, or the allocations of cuMemCreate that a buffer lies in (exporter_pieces.c), at its third call (the
 *      first one, if that is captured, or when it is registered). From then on calls name its number.
 *   2. Peers open it, store its address into their table in GPU memory, then `opened`, and answer on their boards.
 *   3. When all peers that are attached have opened it, usable[index] is set, so that kernels name it. If one of them answers that it can't, the export
 *      is dead before any kernel has named it: no kernel that runs can meet a number that `opened` passes without an address. A peer that was attached
 *      later and can't open it lets `opened` not pass it, so calls with that peer go through slots, until the program frees the memory.
 *   4. The program frees the memory. CUDA lets cudaFree wait for the kernels that run, and cuMemUnmap is for programs that have, so none of this process names the
 *      export any more. The thread finds
 *      out within some 50 ms, clears usable[index] and says on the board that the export is dead. Peers clear its address, close it, and answer.
 *      The GPU has the memory again when the last peer has closed it.
 *   5. The index is used again when all peers have answered; peers that were detached, or whose process is gone, are not waited for.
 * While peers hold more than 1 GiB that was freed, nothing more is published. Nothing that lives is ever closed: to register memory is to find it once with
 * `captured`.
 * A kernel that reads an address of 0 runs a call that is over (its rank has failed, and the memory was freed): it must not read there.
 *
 * Closing waits for all kernels of the process that run, and the driver lets none be launched meanwhile (cudaIpcCloseMemHandle, driver 580). A kernel of a call that
 * waits for a peer, whose launch waits for a close there, would wait for ever: so mappings are closed while no call of the library runs in the process, and calls that
 * are made meanwhile wait for the close (exporter_user). Kernels of the program hold a close up, and launches with it, as cudaFree does. A second thread closes, which
 * holds no lock meanwhile, so exporter_find, attach, detach and the opening of other exports go on. Runs are unmapped there, too: that waits for no kernel, but kernels may
 * read them.
 *
 * While nothing is exported or mapped, and no large call has been made for two seconds, the thread sleeps: without a timer, until the next one. Once a call was
 * captured it doesn't.
 *
 * Any thread may call these functions. A child made by fork does nothing here. Once exit() has begun nothing is opened or closed any more.
 */
#ifndef EXPORTER_H
#define EXPORTER_H

#include <stddef.h>

#include "kernels/exports.h"

struct cuda_driver;
struct exporter; /* of this process and one GPU, counted */

/* Made by the first call for the GPU, whose context is current; driver need not stay. rank: for log lines. CORALE_ENOMEM, CORALE_EDEVICE, CORALE_ESYSTEM, logged. */
int exporter_open(const struct cuda_driver *driver, int ordinal, int rank, struct exporter **out);
/*
 * The last call ends it: all that is mapped is closed and its GPU memory freed, which is waited for 200 ms at most, as a kernel of the program may hold up a
 * close; what is left then the thread does later. The kernels that read the tables have ended. NULL is nothing.
 */
void exporter_close(struct exporter *exporter);

/* An engine whose calls read mappings, from exporter_add_user to exporter_remove_user; its memory. */
struct exporter_user {
	int (*rests)(void *arg); /* 1 if no call of it runs, or is being launched. May copy from the GPU. */
	void *arg;
	struct exporter_user *next;
};

void exporter_add_user(struct exporter *exporter, struct exporter_user *user);
void exporter_remove_user(struct exporter *exporter, const struct exporter_user *user);
/* 1 while mappings are closed: who begins a call says that it runs, then asks this, and waits. */
int exporter_closes(const struct exporter *exporter);

/* The descriptor of the board, for peers. It stays the exporter's. */
int exporter_fd(const struct exporter *exporter);

/*
 * Attaches a peer (a process and GPU of this node) by its board's descriptor, which stays the caller's; counted. *table: its exports, in GPU memory. The own
 * board gives the own table: `opened` is UINT64_MAX and the addresses are the own ones. The table of another GPU of this process stays empty where peer access
 * can't be enabled, which is said at INFO.
 * CORALE_EPEER: that is no board. CORALE_ENOMEM, CORALE_ESYSTEM. Logged.
 */
int exporter_attach(struct exporter *exporter, int fd, const struct exports **table);
/* The last call for a table closes all that is mapped of the peer, by the thread: no kernel reads the table any more. NULL is nothing. */
void exporter_detach(struct exporter *exporter, const struct exports *table);

/* Of this process, in GPU memory. Each large call asks for it, which tells the thread that peers may publish what the call reads. */
const struct exports_own *exporter_own(struct exporter *exporter);
/* A call was captured: replays read what peers publish, and no host tells of them. */
void exporter_note_capture(struct exporter *exporter);

/*
 * Where a call's buffer lies. Number 0: in no export (yet), or it can't be in one, which an INFO line tells once with the reason: memory of the host, of another
 * GPU, managed, of a pool (cudaMallocAsync), or of cuMemCreate without descriptors; its allocations end before the buffer does; or there is no room. Never blocks.
 */
struct export_ref exporter_find(struct exporter *exporter, const void *buffer, size_t bytes, int captured);

/* GPU memory held, without mappings of peers' memory. */
size_t exporter_bytes(const struct exporter *exporter);

#endif
