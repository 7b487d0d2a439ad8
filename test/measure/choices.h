/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test/measure/choices_ranks: the planner's choice beside every algorithm of the table, forced, in one run of one communicator.
 * test/measure/choices starts it for many machines; test/measure/choices.py makes tables of what it prints.
 */
#ifndef TEST_CHOICES_H
#define TEST_CHOICES_H

#include "state/comm.h"
#include "corale_mpi.h"
#include "examples/perf_clock.h"

enum { CHOICES_MOST_CANDIDATES = 32, CHOICES_MOST_CALLS = 600 };

struct choices_job {
	MPI_Comm mpi;
	int rank, size;
	corale_comm *handle;
	struct comm *comm; /* of handle */
	struct perf_clock clock;
	unsigned char *send, *recv;
};

/* One call of float32 elements, sums and root 0. */
struct choices_call {
	const struct choices_job *job;
	corale_coll coll;
	size_t count; /* as corale.h takes it */
};

/* What can serve a call: the planner's choice, one algorithm forced, or MPI. */
struct choices_candidate {
	const char *kind; /* "choice", "forced", "mpi" */
	int row; /* of the algorithm table that is forced; -1: none */
	struct plans
	    plans; /* whose planner has the row forced; the communicator uses them while this candidate is timed */
	int (*run)(const struct choices_call *call); /* 0, or an error of Corale or MPI */
	/* of the call being timed */
	const struct choices_call *call;
	const char *algo; /* that its plan has; NULL: the candidate can't serve it */
	double model_us; /* 0: of MPI there is no model */
	double us[CHOICES_MOST_CALLS], spread_us[CHOICES_MOST_CALLS];
	int timed; /* entries of these */
};

/* choices_ranks.c: ends the job if ret is not 0. */
void choices_must(const char *what, int ret);

/* choices_calls.c */
/* Blocks of count elements in the larger of a rank's two buffers; 0: the collective has no data. */
size_t choices_blocks(corale_coll coll, int ranks);
int choices_ours(const struct choices_call *call);
int choices_mpi(const struct choices_call *call);

/* choices_rows.c */
/* Candidates for a collective: the choice, then each row, then MPI if vs_mpi; how many. */
int choices_open(const struct choices_job *job, corale_coll coll, int vs_mpi,
		 struct choices_candidate *candidates);
void choices_close(struct choices_candidate *candidates, int n);
/* Makes the plan and sets what a candidate has of the call being timed; 0, or CORALE_E*. */
int choices_plan(struct choices_candidate *candidate, const struct choices_call *call);

/* choices_nodes.c: the communicator made next has ranks[0] ranks on its first node, and so on, whatever the hosts. */
void choices_set_nodes(const int *ranks);

#endif
