/* SPDX-License-Identifier: BSD-3-Clause */
/* Scenes of point to point: each runs twice, by the MPI door on buffers of which some are a device's, and by MPI alone on host memory. */
#ifndef PMPI_P2P_TEST_H
#define PMPI_P2P_TEST_H

#include <mpi.h>
#include <stddef.h>

/* The functions that a scene calls. */
/* clang-format off */
#define CALLS(F) \
	F(Send) F(Ssend) F(Rsend) F(Bsend) F(Recv) F(Isend) F(Issend) F(Irsend) F(Ibsend) F(Irecv) \
	F(Send_init) F(Ssend_init) F(Rsend_init) F(Bsend_init) F(Recv_init) F(Sendrecv) F(Sendrecv_replace) \
	F(Mrecv) F(Imrecv) F(Wait) F(Test) F(Waitall) F(Testall) F(Waitany) F(Testany) F(Waitsome) \
	F(Testsome) F(Start) F(Startall) F(Request_free) F(Request_get_status)
/* clang-format on */
#define CALL_MEMBER(name) __typeof__(&PMPI_##name) name;
struct calls {
	CALLS(CALL_MEMBER)
};

enum { BUFFERS = 4, BUFFER_BYTES = 1 << 20, NOTES = 4096 };

/* Of one of both ways. */
struct run {
	const struct calls *mpi;
	MPI_Comm comm;
	char *b[BUFFERS];
	int notes[NOTES], n; /* what the scene saw: the same in both */
};

extern int rank, size;
/* MPI_STATUSES_IGNORE: as a constant, MPICH's leads gcc 12 to warn of an array without elements. */
extern MPI_Status *no_statuses;

/* The neighbours on a ring. */
int right(void);
int left(void);

void note(struct run *r, int value);
void note_status(struct run *r, const MPI_Status *status, MPI_Datatype type);
/* The program's own access to a buffer. */
void poke(struct run *r, int buffer, size_t at, int value);
int peek(struct run *r, int buffer, size_t at);

/* Random numbers, alike on all ranks. */
int below(int n);

struct scene {
	const char *name;
	void (*run)(struct run *r);
};
extern const struct scene blocking_scenes[], request_scenes[], type_scenes[], random_scenes[];

/* Cases beside the scenes: report each. */
void report(const char *name, int ok);
void refused_cases(void);
void short_row_cases(void);
void pinned_memory_cases(void);
void thread_cases(int level);

#endif
