/*
 * corale_<collective>_perf: times a collective over a range of sizes, checks every element, and compares with
 * the MPI library's own collective in the same run. One program; its name says which collective.
 */
#ifndef PERF_H
#define PERF_H

#include <stddef.h>
#include <stdio.h>

#include "corale_mpi.h"
#include "reference.h"

enum { PERF_GUARD_BYTES = 64 };

struct perf_options {
	size_t min_bytes, max_bytes, step_bytes;
	double factor; /* sizes multiply by it; 0: step_bytes is added */
	int iterations; /* 0: chosen by size */
	int warmup, checks;
	int types[CORALE_NUM_TYPES], ntypes;
	corale_op ops[CORALE_NUM_OPS + 1]; /* CORALE_NUM_OPS: premultiplied sum */
	int nops;
	int root; /* -1: every rank in turn */
	int vs_mpi, blocks, stream, verbose;
	const char *raw; /* file for machine-readable lines, or NULL */
};

/* What lasts for the whole run. */
struct perf_job {
	const struct perf_options *options;
	const struct perf_coll *coll;
	MPI_Comm mpi;
	int rank, size, nodes;
	corale_comm *comm;
	corale_stream *stream; /* NULL: blocking calls */
	unsigned char *send, *recv;
	FILE *raw; /* rank 0's */
	size_t *send_counts, *send_displs, *recv_counts, *recv_displs; /* all_to_all_v */
	int *mpi_send_counts, *mpi_send_displs, *mpi_recv_counts,
	    *mpi_recv_displs; /* the same for MPI, in bytes */
};

/* One collective call, ready to be made. */
struct perf_call {
	const struct perf_job *job;
	const void *send;
	void *recv;
	size_t count; /* as the public function takes it */
	corale_type type;
	corale_op op;
	int root;
};

struct perf_coll {
	const char *name;
	int has_op, has_root, has_place; /* has_place: in place has a meaning */
	int send_blocks, recv_blocks; /* buffers in units of count; PERF_PER_RANK: one per rank */
	double bus_constant, bus_per_rank; /* busbw / algbw = constant + per_rank / ranks */
	int equal_results; /* all ranks end with the same bytes */
	int (*ours)(const struct perf_call *call);
	int (*mpi)(const struct perf_call *call);
	void (*fill)(const struct perf_call *call, const struct reference *ref);
	size_t (*check)(const struct perf_call *call, const struct reference *ref,
			struct reference_fault *fault);
};
enum { PERF_PER_RANK = -1 };

/* One way of running a case: measured values. */
struct perf_result {
	double us;
	long wrong; /* -1: not checked */
};

struct perf_versus {
	double ours_us, mpi_us;
	double ratio; /* mpi / ours */
	double noise; /* MPI against itself, <= 1 */
	int blocks;
};

/* perf_options.c: 0, 1 (asked for help, which was printed) or -1 (a message was printed). say: print messages here. */
int perf_parse(int argc, char **argv, const char *coll, int say, struct perf_options *options);
const char *perf_op_name(corale_op op);

/* perf_coll.c */
const struct perf_coll *perf_coll_of_program(const char *program);
size_t perf_blocks(const struct perf_coll *coll, int ranks); /* the line's size in units of count */
size_t perf_send_bytes(const struct perf_job *job, size_t count, corale_type type);
size_t perf_recv_bytes(const struct perf_job *job, size_t count, corale_type type);
void perf_place(struct perf_call *call, int in_place); /* sets send and recv */
void perf_set_edges(struct perf_job *job, size_t count,
		    corale_type type); /* all_to_all_v: who sends how much */
int perf_mpi_can(const struct perf_call *call, const char **why_not);

/* perf_time.c */
double perf_time(const struct perf_call *call, int (*run)(const struct perf_call *), int iterations);
struct perf_result perf_measure(struct perf_call *call, int in_place);
struct perf_versus perf_compare(struct perf_call *call);

/* perf_print.c: all print on rank 0 only */
void perf_print_header(const struct perf_job *job);
void perf_print_line(const struct perf_job *job, const struct perf_call *call,
		     const struct perf_result *out_of_place, const struct perf_result *in_place,
		     const struct perf_versus *versus);
struct perf_summary {
	long wrong;
	double bus_sum;
	int bus_count, compared;
	double min_ratio, log_sum, noise;
	size_t min_at;
};
void perf_print_summary(const struct perf_job *job, const struct perf_summary *summary);

/* Prints a message and ends the whole job with status 1. */
void perf_die(const char *what, int code);

#endif
