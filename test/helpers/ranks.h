/* SPDX-License-Identifier: BSD-3-Clause */
/* A test whose ranks MPI starts (test/run/run-ranks.sh): one TAP line a case for all of them. */
#ifndef RANKS_H
#define RANKS_H

extern int rank, size;

/* MPI_Init_thread; the level that MPI gives. Where the launcher has started another number of ranks (TEST_RANKS) none goes on. */
int ranks_open(int *argc, char ***argv, int level);
/* A case: good if no rank has a fault. */
void ranks_report(const char *name, int faults);
/* Prints how many cases there were; whether one has failed. */
int ranks_plan(void);
/* That, then MPI_Finalize. */
int ranks_close(void);

#endif
