#include <stdlib.h>
#include <string.h>

#include "perf.h"

enum { MAX_FAULT_LINES = 10 };

void perf_die(const char *what, int code)
{
	fprintf(stderr, "%s: %s\n", what, corale_strerror(code));
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static void complete(const struct perf_job *job)
{
	int ret = job->stream ? corale_stream_synchronize(job->stream) : 0;
	if (ret)
		perf_die("corale_stream_synchronize", ret);
}

/* Average time of a call in us, of the slowest rank. */
double perf_time(const struct perf_call *call, int (*run)(const struct perf_call *), int iterations)
{
	MPI_Barrier(call->job->mpi);
	double start = MPI_Wtime(), us, slowest;
	for (int i = 0; i < iterations; i++) {
		int ret = run(call);
		if (ret)
			perf_die(call->job->coll->name, ret);
	}
	complete(call->job);
	us = (MPI_Wtime() - start) * 1e6 / iterations;
	MPI_Allreduce(&us, &slowest, 1, MPI_DOUBLE, MPI_MAX, call->job->mpi);
	return slowest;
}

/* So many calls that they take about target_us together; the same on all ranks. */
static int choose_iterations(const struct perf_call *call, int (*run)(const struct perf_call *),
			     double target_us, int least)
{
	double us = perf_time(call, run, 2), n = target_us / (us > 0.01 ? us : 0.01);
	return n < least ? least : n > 20000 ? 20000 : (int)n;
}

/* A premultiplied sum is an operator of its own on each rank. */
static void create_op(struct perf_call *call, const struct reference *ref)
{
	unsigned char scalar[8];
	if (ref->op != CORALE_NUM_OPS)
		return;
	reference_scalar(ref, call->job->rank, scalar);
	int ret = corale_op_create_premul_sum(scalar, call->type, call->job->comm, &call->op);
	if (ret)
		perf_die("corale_op_create_premul_sum", ret);
}

static void destroy_op(struct perf_call *call, const struct reference *ref)
{
	if (ref->op == CORALE_NUM_OPS)
		corale_op_destroy(call->op, call->job->comm);
	call->op = ref->op;
}

static void report_fault(const struct perf_call *call, const char *place, size_t wrong,
			 const struct reference_fault *fault)
{
	static int lines;
	if (wrong && lines++ < MAX_FAULT_LINES)
		fprintf(stderr,
			"# rank %d: %s of %zu %s %s: %zu wrong, the first at element %zu: %s, expected %s\n",
			call->job->rank, call->job->coll->name, call->count, corale_type_name(call->type),
			place, wrong, fault->index, fault->got, fault->expected);
}

static int digests_differ(const struct perf_call *call)
{
	size_t bytes = perf_recv_bytes(call->job, call->count, call->type);
	unsigned long long digest = reference_digest(call->recv, bytes), least, most;
	MPI_Allreduce(&digest, &least, 1, MPI_UNSIGNED_LONG_LONG, MPI_MIN, call->job->mpi);
	MPI_Allreduce(&digest, &most, 1, MPI_UNSIGNED_LONG_LONG, MPI_MAX, call->job->mpi);
	return least != most;
}

/* One call with new data into a poisoned buffer with a guard behind it; wrong elements of this rank. */
static size_t check_once(struct perf_call *call, int in_place, const struct reference *ref)
{
	const struct perf_job *job = call->job;
	const char *place = in_place ? "in place" : "out of place";
	struct reference_fault fault = { 0 };
	unsigned char guard[PERF_GUARD_BYTES];
	size_t end = perf_recv_bytes(job, call->count, call->type);
	memset(guard, 0x5a, sizeof(guard));
	memset(call->recv, 0xa5, end);
	job->coll->fill(call, ref);
	/* In place the last block of a larger send buffer may lie behind the result: nothing to guard there. */
	int guarded = !in_place || job->coll->send_blocks == 1;
	if (guarded)
		memcpy((unsigned char *)call->recv + end, guard, sizeof(guard));
	create_op(call, ref);
	int ret = job->coll->ours(call);
	if (ret)
		perf_die(job->coll->name, ret);
	complete(job);
	destroy_op(call, ref);
	size_t wrong = job->coll->check(call, ref, &fault);
	report_fault(call, place, wrong, &fault);
	if (guarded && memcmp((unsigned char *)call->recv + end, guard, sizeof(guard))) {
		fprintf(stderr, "# rank %d: %s wrote behind its receive buffer\n", job->rank,
			job->coll->name);
		wrong++;
	}
	if (job->coll->equal_results && digests_differ(call) && wrong == 0) {
		fprintf(stderr, "# rank %d: the results of %s of %zu differ between ranks\n", job->rank,
			job->coll->name, call->count);
		wrong++;
	}
	return wrong;
}

static long check(struct perf_call *call, int in_place)
{
	static uint64_t seed;
	const struct perf_job *job = call->job;
	int wide = call->type == CORALE_FLOAT32 || call->type == CORALE_FLOAT64;
	long wrong = 0, all;
	for (int i = 0; i < job->options->checks; i++) {
		struct reference ref = { call->type, job->coll->has_op ? call->op : REFERENCE_COPY, job->size,
					 (i + !wide) % 2 ? REFERENCE_EXACT : REFERENCE_RANDOM, ++seed };
		wrong += (long)check_once(call, in_place, &ref);
	}
	MPI_Allreduce(&wrong, &all, 1, MPI_LONG, MPI_SUM, job->mpi);
	return job->options->checks ? all : -1;
}

struct perf_result perf_measure(struct perf_call *call, int in_place)
{
	const struct perf_options *options = call->job->options;
	struct perf_result result;
	struct reference ref = { call->type, call->op, call->job->size, REFERENCE_EXACT, 0 };
	perf_place(call, in_place);
	result.wrong = check(call, in_place);
	create_op(call, &ref);
	if (options->warmup)
		perf_time(call, call->job->coll->ours, options->warmup);
	int iterations = options->iterations;
	if (!iterations)
		iterations = choose_iterations(call, call->job->coll->ours, 50e3, 5);
	result.us = perf_time(call, call->job->coll->ours, iterations);
	destroy_op(call, &ref);
	return result;
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median(const double *values, int n)
{
	double *sorted = malloc((size_t)n * sizeof(*sorted)), result;
	if (!sorted)
		perf_die("median", CORALE_ENOMEM);
	memcpy(sorted, values, (size_t)n * sizeof(*sorted));
	qsort(sorted, (size_t)n, sizeof(*sorted), compare_doubles);
	result = n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
	free(sorted);
	return result;
}

/*
 * Ours, MPI, MPI by turns, so that whatever else the machine does meets all three alike. What MPI shows against
 * itself is the noise; blocks are added until that is small, or five times as many as asked for have run.
 */
struct perf_versus perf_compare(struct perf_call *call)
{
	const struct perf_coll *coll = call->job->coll;
	int least = call->job->options->blocks, most = 5 * least, n = 0;
	double *ours = calloc((size_t)most * 4, sizeof(*ours)), *first = ours + most, *second = first + most;
	struct perf_versus versus = { 0 };
	if (!ours)
		perf_die("perf_compare", CORALE_ENOMEM);
	perf_place(call, coll->has_root); /* MPI_Bcast has one buffer */
	perf_time(call, coll->mpi, 2);
	perf_time(call, coll->ours, 2);
	int iterations = choose_iterations(call, coll->mpi, 5e3, 1);
	while (n < least || (n < most && versus.noise < 0.85)) {
		ours[n] = perf_time(call, coll->ours, iterations);
		first[n] = perf_time(call, coll->mpi, iterations);
		second[n++] = perf_time(call, coll->mpi, iterations);
		double a = median(first, n), b = median(second, n);
		versus.noise = a < b ? a / b : b / a;
	}
	memcpy(first + n, second, (size_t)n * sizeof(*second));
	versus.ours_us = median(ours, n);
	versus.mpi_us = median(first, 2 * n);
	versus.ratio = versus.mpi_us / versus.ours_us;
	versus.blocks = n;
	free(ours);
	return versus;
}
