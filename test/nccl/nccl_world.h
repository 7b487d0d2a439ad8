/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks of the NCCL door for tests: processes or threads, without a GPU. Each case runs in processes of its own, so that the door's
 * settings, its end of the process and crashes are part of what is tested, and under a deadline.
 */
#ifndef NCCL_WORLD_H
#define NCCL_WORLD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "test/helpers/clock.h"
#include "corale.h"
#include "nccl_glue/nccl.h"

enum { WORLD_IDS = 16, WORLD_RANKS = 1024 };

/* In memory that all ranks share. */
struct world {
	int size, threads; /* threads: ranks are threads of one process */
	_Atomic int faults, late, printed;
	_Atomic int flags[WORLD_IDS]; /* what ranks tell each other without the library */
	int pids[WORLD_RANKS];
	ncclUniqueId ids[WORLD_IDS];
	pthread_barrier_t barrier;
};

struct world_rank {
	struct world *world;
	int rank, size;
	ncclComm_t comm; /* of all ranks, made by world_comm */
	unsigned seed; /* of world_random */
};

struct world_case {
	const char *name;
	int ranks;
	enum world_kind { WORLD_PROCESSES = 1, WORLD_THREADS = 2, WORLD_BOTH = 3 } kinds;
	void (*body)(struct world_rank *me);
	const char *settings; /* "NAME=value ...", or NULL */
	int may_die; /* ranks that end by a signal, or without returning from the body, are part of the case */
};

/* The main function: `test N` runs case N alone and prints faults, `test` runs all of them. */
int world_main(int argc, char **argv, const struct world_case *cases, int n);

/* All ranks meet, without the library. */
void world_barrier(struct world_rank *me);
/* Waits until another rank has set the flag; a fault after 20 s. */
void world_await(struct world_rank *me, int flag, int value);

/* Counts a fault; the first few are printed. */
void world_fault(struct world_rank *me, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A fault that is only that something took too long (late.h). */
#define world_late(me, ...) (atomic_fetch_add(&(me)->world->late, 1), world_fault(me, __VA_ARGS__))
/* A fault unless got is the expected code. */
void world_expect(struct world_rank *me, ncclResult_t got, ncclResult_t expected, const char *what);
/* A fault unless ncclGetLastError holds the text. Ranks that are threads share it, so nothing is checked there. */
void world_expect_text(struct world_rank *me, const char *text, const char *what);
#define WORLD_OK(me, call) world_expect(me, call, ncclSuccess, #call)

/* A communicator of all ranks by id number `id`, which rank 0 makes. All ranks call it. */
ncclComm_t world_comm(struct world_rank *me, int id);
/* Makes an id that others find in world->ids, behind a barrier. */
void world_id(struct world_rank *me, int id);
/* All ranks sum a number and look at the result. */
void world_check(struct world_rank *me, ncclComm_t comm, const char *what);

uint32_t world_random(struct world_rank *me);

/* The reference's names for NCCL's types and operators, by hand: not the door's tables. */
corale_type world_type(ncclDataType_t type);
corale_op world_op(int op); /* an ncclRedOp_t; ncclNumOps: a premultiplied sum */
const char *world_type_name(ncclDataType_t type);

#endif
