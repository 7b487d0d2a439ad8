/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the tests of CUDA communicators share: ranks with a GPU each, communicators with a deadline, waiting that ends,
 * and how results are told. A "FAULT" line is one thing that went wrong on one rank; "PASS" and "FAIL" are the
 * summaries of a part over all ranks; "SKIP" says why there was nothing to do.
 */
#ifndef CUDA_WORLD_H
#define CUDA_WORLD_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#include "test/helpers/clock.h"
#include "corale_mpi.h"

enum {
	CUDA_WORLD_SKIPPED = 77, /* exit status */
	CUDA_WORLD_TIMEOUT_S = 20, /* of communicators */
	CUDA_WORLD_WAIT_S = 30, /* of whoever waits for a stream: a communicator must have given up by then */
	CUDA_WORLD_FAULT_LINES = 6 /* a rank and part */
};

struct cuda_world {
	int rank, size, gpu;
	const char *program;
	double begin; /* seconds of the steady clock */
	int failed; /* parts */
	long faults, cases; /* of the current part, on this rank */
	char part[40];
};

/*
 * Initialises MPI and makes a GPU current, by turns among the ranks of a host. Ends the process with status 77 and a
 * reason if a rank has no GPU. The whole program ends with status 1 after limit_s seconds.
 */
void cuda_world_open(struct cuda_world *world, int *argc, char ***argv, const char *program,
		     unsigned int limit_s);
/* Before the first communicator, where sums are compared bit by bit with those in rank order: between nodes plans pass partial sums on, unless this or the
 * environment says otherwise (CORALE_REPRODUCIBLE). */
void cuda_world_fold_in_order(void);
/* Says whether the program passed; the exit status. */
int cuda_world_close(struct cuda_world *world);

/* A part: begin, fault as often as needed, end (collective: prints the summary; note may be NULL). */
void cuda_world_begin(struct cuda_world *world, const char *part);
void cuda_world_fault(struct cuda_world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Returns the number of faults on all ranks. */
long cuda_world_end(struct cuda_world *world, const char *note);
/* What the program says that it was doing if its time runs out. text is copied. */
void cuda_world_doing(const struct cuda_world *world, const char *text);

/* The same on every rank: the largest of the ranks' values. */
int cuda_world_largest(int value);

/* A CUDA communicator over all ranks; NULL with a fault. timeout_s of 0: the usual one. */
corale_comm *cuda_world_comm(struct cuda_world *world, double timeout_s);

/* 1, or 0 with a fault that names what was tried. */
int cuda_world_good(struct cuda_world *world, cudaError_t error, const char *what);
/* The same for a result of Corale; comm may be NULL. */
int cuda_world_ok(struct cuda_world *world, int ret, corale_comm *comm, const char *what);

/*
 * Waits until a stream is idle. Returns 0, or with CORALE_ETIMEDOUT after seconds or CORALE_EDEVICE after an error of
 * CUDA, without a fault.
 */
int cuda_world_wait(cudaStream_t stream, double seconds);
/*
 * Waits for a stream and then asks comm for errors: 0, or a fault and the error. A stream that does not become idle is
 * given up: comm is aborted, and if that does not help, the process ends.
 */
int cuda_world_drain(struct cuda_world *world, corale_comm *comm, cudaStream_t stream, const char *what);

/* Pseudo-random numbers: a hash of two words, and the next of a sequence. */
uint64_t cuda_world_hash(uint64_t a, uint64_t b);
uint64_t cuda_world_random(uint64_t *state);

#endif
