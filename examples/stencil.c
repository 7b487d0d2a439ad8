/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Heat in a square plate, after Jacobi: each rank holds a band of rows, exchanges the rows at its borders with its
 * neighbours (send and receive in one group) and ends when the largest change anywhere is small (all_reduce). Rank 0
 * then compares the plate, gathered, with its own serial run, bit for bit.
 *
 * Usage: mpirun -n RANKS stencil [rows] [steps]
 */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <corale_mpi.h>

#include "about.h"

enum { COLUMNS = 128, CHECK_EVERY = 16 };
static const float ENOUGH = 1e-4f;

/* Rows 0 and rows + 1 are the halo: a neighbour's border, or the plate's fixed edge. */
struct band {
	int rows;
	float *now, *next;
};

static int band_create(struct band *band, int rows, int is_top)
{
	size_t cells = (size_t)(rows + 2) * COLUMNS;
	band->rows = rows;
	band->now = calloc(cells, sizeof(*band->now));
	band->next = calloc(cells, sizeof(*band->next));
	if (!band->now || !band->next)
		return -1;
	for (int i = 0; is_top && i < COLUMNS; i++)
		band->now[i] = band->next[i] = 100; /* the plate's upper edge is hot */
	return 0;
}

static void band_destroy(struct band *band)
{
	free(band->now);
	free(band->next);
}

/* One step; the largest change of a cell. */
static float relax(struct band *band)
{
	float change = 0, *swap = band->now;
	for (int row = 1; row <= band->rows; row++) {
		const float *at = band->now + (size_t)row * COLUMNS;
		float *to = band->next + (size_t)row * COLUMNS;
		for (int i = 1; i < COLUMNS - 1; i++) {
			to[i] = 0.25f * (at[i - 1] + at[i + 1] + at[i - COLUMNS] + at[i + COLUMNS]);
			change = fmaxf(change, fabsf(to[i] - at[i]));
		}
	}
	band->now = band->next;
	band->next = swap;
	return change;
}

/* Calls of a group start together, so nobody waits for a neighbour's turn. */
static int exchange(struct band *band, corale_comm *comm)
{
	int rank = corale_comm_rank(comm), last = corale_comm_size(comm) - 1;
	float *halo_above = band->now, *first_row = halo_above + COLUMNS;
	float *last_row = band->now + (size_t)band->rows * COLUMNS, *halo_below = last_row + COLUMNS;
	corale_group_begin();
	if (rank > 0) {
		corale_send(first_row, COLUMNS, CORALE_FLOAT32, rank - 1, comm, NULL);
		corale_recv(halo_above, COLUMNS, CORALE_FLOAT32, rank - 1, comm, NULL);
	}
	if (rank < last) {
		corale_send(last_row, COLUMNS, CORALE_FLOAT32, rank + 1, comm, NULL);
		corale_recv(halo_below, COLUMNS, CORALE_FLOAT32, rank + 1, comm, NULL);
	}
	return corale_group_end(); /* also returns the error of a call that was refused */
}

/* Steps until little changes; the number of steps done, or an error. */
static int solve(struct band *band, int most, corale_comm *comm)
{
	for (int step = 1; step <= most; step++) {
		int ret = comm ? exchange(band, comm) : 0;
		float change = relax(band), largest = change;
		if (!ret && comm && step % CHECK_EVERY == 0)
			ret = corale_all_reduce(&change, &largest, 1, CORALE_FLOAT32, CORALE_MAX, comm, NULL);
		if (ret)
			return ret;
		if (step % CHECK_EVERY == 0 && largest < ENOUGH)
			return step;
	}
	return most;
}

/* The plate on rank 0 (NULL elsewhere): bands have equal heights. */
static int gather(const struct band *band, corale_comm *comm, float **plate)
{
	size_t count = (size_t)band->rows * COLUMNS;
	float *all = malloc(count * sizeof(*all) * (size_t)corale_comm_size(comm));
	if (!all)
		return CORALE_ENOMEM;
	int ret = corale_all_gather(band->now + COLUMNS, all, count, CORALE_FLOAT32, comm, NULL);
	*plate = all;
	return ret;
}

static int same_as_serial(const float *plate, int rows, int most, int steps)
{
	struct band whole;
	if (band_create(&whole, rows, 1))
		return 0;
	int same = solve(&whole, most, NULL) == steps &&
		   memcmp(plate, whole.now + COLUMNS, (size_t)rows * COLUMNS * sizeof(*plate)) == 0;
	band_destroy(&whole);
	return same;
}

static int run(corale_comm *comm, int rows, int most)
{
	int rank = corale_comm_rank(comm), ranks = corale_comm_size(comm), same = 1;
	float *plate = NULL;
	struct band band;
	rows = (rows + ranks - 1) / ranks * ranks;
	if (band_create(&band, rows / ranks, rank == 0))
		return 1;
	int steps = solve(&band, most, comm);
	int ret = steps < 0 ? steps : gather(&band, comm, &plate);
	if (!ret && rank == 0) {
		same = same_as_serial(plate, rows, most, steps);
		printf("%d ranks, %d x %d cells, %d steps: %s the serial run\n", ranks, rows, COLUMNS, steps,
		       same ? "equal to" : "DIFFERENT from");
	}
	free(plate);
	band_destroy(&band);
	return ret || !same;
}

int main(int argc, char **argv)
{
	int level, status;
	corale_comm *comm;
	static const char usage[] = "usage: mpirun -n RANKS stencil [rows] [steps]    (default: 120 2000)\n"
				    "       stencil --help | --version";
	if (about(argc, argv, usage))
		return 0;
	if (argc > 3 || (argc > 1 && !isdigit((unsigned char)argv[1][0])))
		return fprintf(stderr, "%s\n", usage) < 0 ? 1 : 2;
	MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
	if (corale_comm_create_mpi(MPI_COMM_WORLD, NULL, &comm))
		MPI_Abort(MPI_COMM_WORLD, 1);
	status = run(comm, argc > 1 ? atoi(argv[1]) : 120, argc > 2 ? atoi(argv[2]) : 2000);
	corale_comm_destroy(comm);
	MPI_Finalize();
	return status;
}
