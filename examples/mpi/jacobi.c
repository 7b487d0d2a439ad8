/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Jacobi's iteration for Laplace's equation on a square, its rows dealt to MPI ranks: MPI_Sendrecv exchanges the rows at the edges, MPI_Allreduce sums
 * the residual. The arrays are an OpenMP device's, and go to MPI as they are, which needs an MPI that takes device buffers, or Corale's door:
 *     mpicc -O2 -fopenmp jacobi.c -lm -o jacobi              a compiler that offloads (nvc -mp=gpu, clang --offload-arch=sm_90); else all is host memory
 *     mpirun -n 4 corale-run --mpi ./jacobi 1000
 */
#include <math.h>
#include <mpi.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 512 };

static double *device_array(size_t n)
{
	double *array = omp_target_alloc(n * sizeof(double), omp_get_default_device());
	if (!array)
		MPI_Abort(MPI_COMM_WORLD, 1);
#pragma omp target teams distribute parallel for is_device_ptr(array)
	for (size_t i = 0; i < n; i++)
		array[i] = 0;
	return array;
}

/* The square's upper side is 1, the other ones are 0. */
static void heat(double *row)
{
#pragma omp target teams distribute parallel for is_device_ptr(row)
	for (int x = 0; x < WIDTH; x++)
		row[x] = 1;
}

static void step(const double *from, double *to, int rows, double *residual)
{
	double sum = 0;
#pragma omp target teams distribute parallel for collapse(2) reduction(+ : sum) is_device_ptr(from, to)
	for (int y = 1; y <= rows; y++)
		for (int x = 1; x < WIDTH - 1; x++) {
			const double *at = from + (size_t)y * WIDTH + x;
			const double mean = 0.25 * (at[-1] + at[1] + at[-WIDTH] + at[WIDTH]);
			to[(size_t)y * WIDTH + x] = mean;
			sum += (mean - *at) * (mean - *at);
		}
#pragma omp target is_device_ptr(residual)
	*residual = sum;
}

static void exchange(double *grid, int rows, int above, int below)
{
	MPI_Sendrecv(grid + WIDTH, WIDTH, MPI_DOUBLE, above, 0, grid + (size_t)(rows + 1) * WIDTH, WIDTH,
		     MPI_DOUBLE, below, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	MPI_Sendrecv(grid + (size_t)rows * WIDTH, WIDTH, MPI_DOUBLE, below, 1, grid, WIDTH, MPI_DOUBLE, above,
		     1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
	const int steps = argc > 1 ? atoi(argv[1]) : 200;
	int rank, size;
	if (argc > 1 && argv[1][0] == '-') {
		const int asks = !strcmp(argv[1], "--version") || !strcmp(argv[1], "--help");
		puts(strcmp(argv[1], "--version") ? "usage: mpirun -n RANKS jacobi [steps]    (default: 200)"
						  : "jacobi, an example of Corale's for MPI alone");
		return asks ? 0 : 2;
	}
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	const int rows = (WIDTH - 2) / size + (rank < (WIDTH - 2) % size);
	const int above = rank > 0 ? rank - 1 : MPI_PROC_NULL,
		  below = rank + 1 < size ? rank + 1 : MPI_PROC_NULL;
	double *from = device_array((size_t)(rows + 2) * WIDTH),
	       *to = device_array((size_t)(rows + 2) * WIDTH);
	double *residual = device_array(1), sum = 0;
	if (rank == 0) {
		heat(from);
		heat(to);
	}
	for (int i = 0; i < steps; i++) {
		exchange(from, rows, above, below);
		step(from, to, rows, residual);
		MPI_Allreduce(MPI_IN_PLACE, residual, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
		double *next = from;
		from = to;
		to = next;
	}
	omp_target_memcpy(&sum, residual, sizeof sum, 0, 0, omp_get_initial_device(),
			  omp_get_default_device());
	if (rank == 0)
		printf("%d ranks, %d steps: residual %.9f\n", size, steps, sqrt(sum));
	omp_target_free(from, omp_get_default_device());
	omp_target_free(to, omp_get_default_device());
	omp_target_free(residual, omp_get_default_device());
	MPI_Finalize();
	return 0;
}
