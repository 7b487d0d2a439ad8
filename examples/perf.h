/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * corale_<collective>_perf: times a collective over a range of sizes, checks every element, and compares with
 * the MPI library's or NCCL's own collective in the same run. One program; its name says which collective.
 */
#ifndef PERF_H
#define PERF_H

#include <stddef.h>
#include <stdio.h>

#include "corale_mpi.h"
#include "perf_clock.h"
#include "test/helpers/reference.h"

enum { PERF_GUARD_BYTES = 64, PERF_MAX_WAYS = 13, PERF_COLLS = 15 };

/* What the program's buffers are to the library. */
enum perf_registration { PERF_PLAIN, PERF_REGISTERED, PERF_ALLOCATED };

/* How NCCL is called: plain buffers, registered symmetric windows, windows and a communicator without blocks; plain buffers with
 * each number of threads and sockets that pays, of which the best counts. */
enum perf_nccl_mode { PERF_NCCL_STOCK, PERF_NCCL_WINDOW, PERF_NCCL_ZERO, PERF_NCCL_SOCKETS, PERF_NCCL_MODES };

/* Whose calls the columns without a peer's name are of. */
enum perf_library { PERF_CORALE, PERF_MPI, PERF_NCCL };

struct perf_options {
	size_t min_bytes, max_bytes, step_bytes;
	double factor; /* sizes multiply by it; 0: step_bytes is added */
	int iterations; /* 0: chosen by size */
	int warmup, checks;
	int grouped; /* timed calls in groups of so many */
	int cycles; /* over all sizes; 0: without end */
	size_t check_max; /* larger lines have samples checked; 0: the device's default */
	int types[CORALE_NUM_TYPES], ntypes;
	corale_op ops[CORALE_NUM_OPS + 1]; /* CORALE_NUM_OPS: premultiplied sum */
	int nops;
	int root; /* -1: every rank in turn */
	int cuda; /* buffers on GPUs */
	int replays; /* of a graph; 0: eager calls */
	int registration, priority, in_place;
	int vs_mpi, blocks, stream, verbose;
	int beside, beside_sms; /* a matrix product beside the calls; for how many SMs, 0: all */
	int every_us; /* one call per so many microseconds; 0: one after the other */
	enum perf_library only; /* a peer: no Corale in these processes */
	const char *cublas; /* its library, or NULL */
	const char *vs_nccl; /* NCCL's library, or NULL */
	int nccl_modes; /* a bit for each perf_nccl_mode */
	int colls[PERF_COLLS], ncolls; /* numbers in perf_coll.c's table */
	const char *raw, *json; /* files for machine-readable lines, or NULL */
};

struct perf_pair {
	unsigned char *send, *recv;
};

/* What lasts for the whole run. */
struct perf_job {
	const struct perf_options *options;
	const struct perf_coll *coll;
	const struct perf_device *device;
	MPI_Comm mpi;
	struct perf_clock clock;
	int rank, size, node, nodes, local_rank, local_size;
	char gpu[128]; /* "" without one */
	corale_comm *comm; /* NULL: a peer is timed alone */
	void *stream; /* NULL: blocking calls */
	struct perf_pair pair;
	size_t room; /* bytes of each of a pair's buffers */
	void *registered[2];
	struct perf_data *data;
	struct perf_nccl *nccl;
	struct perf_product *product;
	FILE *raw, *json; /* rank 0's */
	double began; /* seconds */
	int counts_lines, lines,
	    line; /* counts_lines: nothing runs; how many there are in a cycle, and which one it is */
	size_t *send_counts, *send_displs, *recv_counts, *recv_displs; /* v-forms */
	int *mpi_send_counts, *mpi_send_displs, *mpi_recv_counts,
	    *mpi_recv_displs; /* the same for MPI, in bytes; of sums in elements */
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
	void *peer; /* NCCL's communicator */
};

/* Who serves a call, on which buffers: one side of a comparison. */
struct perf_way {
	const char *name;
	int slot; /* column of a peer's times */
	const struct perf_pair *pair;
	struct perf_call call;
	int (*run)(const struct perf_call *call); /* 0, or a code that explain has words for */
	const char *(*explain)(const struct perf_job *job, int code);
	void *graph; /* NULL: eager */
	int captured; /* calls in the graph */
};

/* How many calls make one timing: so many rounds of one call, or of one graph. */
struct perf_batch {
	int captured, rounds;
};

/* Contiguous elements of a buffer. */
struct perf_part {
	size_t at; /* its first element in the buffer */
	int source; /* whose contribution it is; PERF_FOLD: the fold of all ranks' */
	size_t first, count; /* which elements of that */
};
enum { PERF_FOLD = -1 };

struct perf_coll {
	const char *name;
	int has_op, has_root, has_place; /* has_place: in place has a meaning */
	int send_blocks, recv_blocks; /* buffers in units of count; PERF_PER_RANK: one per rank */
	double bus_constant, bus_per_rank; /* busbw / algbw = constant + per_rank / ranks */
	int equal_results; /* all ranks end with the same bytes */
	int (*ours)(const struct perf_call *call);
	int (*mpi)(const struct perf_call *call);
	/* Part i of what a rank sends, of what it must receive; 0 when there are no more. */
	int (*sends)(const struct perf_call *call, int i, struct perf_part *part);
	int (*receives)(const struct perf_call *call, int i, struct perf_part *part);
};
enum { PERF_PER_RANK = -1 };

/*
 * Where buffers lie. All but open end the job when they fail; open says why not, and returns -1.
 * A graph is opaque; capture returns NULL if a call refused to be captured.
 */
struct perf_device {
	const char *name; /* as --device has it */
	size_t check_max; /* --check-max by default */
	int (*open)(struct perf_job *job, char *why_not, size_t bytes); /* before the communicator */
	void (*close)(struct perf_job *job);
	void *(*allocate)(size_t bytes);
	void (*release)(void *buf, size_t bytes);
	void *(*allocate_stage)(size_t bytes); /* host memory from which copies are fast */
	void (*release_stage)(void *buf);
	void (*poison)(const struct perf_job *job, void *to, size_t bytes);
	void (*copy)(const struct perf_job *job, void *to, const void *from, size_t bytes);
	int (*complete)(const struct perf_job *job); /* waits for all calls; the library's code */
	void *(*capture)(const struct perf_way *way, int calls);
	void (*replay)(const struct perf_job *job, void *graph);
	void (*drop)(void *graph);
};

/* One way of running a case: measured values. */
struct perf_result {
	double us;
	long wrong; /* -1: not checked */
};

/* A peer's times beside ours, each peer's mode in its slot; 0: not measured. */
struct perf_versus {
	double ours_us, us[PERF_NCCL_MODES];
	double best_us; /* the least of the peer's */
	double ratio; /* best / ours */
	double stock_ratio; /* us[0] / ours; 0: not measured */
	double noise; /* the best against itself, <= 1 */
	int blocks;
};

/* One call at a time, medians in us (perf_clock.h). */
struct perf_one_call {
	double ours_us;
	double peer_us, ratio; /* the least of the peer's, and that / ours; 0: no peer was timed */
	double spread_us; /* between the first and the last rank's entry; the most of all ways' */
};

/* A collective and a matrix product, alone and side by side: times in us. */
struct perf_beside {
	double alone, beside, product_alone, product_beside;
	int blocks;
};

/* perf_options.c: 0, 1 (asked for help, which was printed) or -1 (a message was printed). say: print messages here. */
int perf_parse(int argc, char **argv, int coll, int say, struct perf_options *options);
void perf_print_help(int coll); /* perf_help.c */

/* perf_values.c */
const char *perf_registration_name(const struct perf_job *job);
const char *perf_op_name(int op);
const char *perf_library_name(int library);

/* perf_coll.c */
const char *perf_file_name(const char *path); /* without its folders */
int perf_coll_of_program(const char *program); /* its number, or -1 */
const struct perf_coll *perf_coll_number(int number);
const char *perf_coll_name(int number);
size_t perf_blocks(const struct perf_coll *coll, int ranks); /* the line's size in units of count */
size_t perf_recv_bytes(const struct perf_job *job, size_t count, corale_type type);
void perf_place(struct perf_call *call, const struct perf_pair *pair, int in_place); /* sets send and recv */
void perf_set_edges(struct perf_job *job, size_t count, corale_type type); /* v-forms: who sends how much */
double perf_bus_factor(const struct perf_job *job); /* busbw / algbw */

/* perf_coll_mpi.c */
int perf_mpi_can(const struct perf_call *call, const char **why_not);

/* perf_host.c; perf_cuda.c, or perf_nocuda.c in a build without CUDA */
extern const struct perf_device perf_host, perf_cuda;

/* perf_data.c. limit: of lines of more bytes only samples are filled and checked. */
void perf_data_open(struct perf_job *job);
void perf_data_close(struct perf_job *job);
size_t perf_check_limit(const struct perf_job *job);
int perf_is_sampled(const struct perf_call *call); /* by the limit of the job */
void perf_fill(const struct perf_call *call, const struct reference *ref, size_t limit);
void perf_poison(const struct perf_call *call, int in_place); /* the receive buffer, and a guard behind it */
/* Wrong elements of this rank after a call. when: for the message about them. */
long perf_check(const struct perf_way *way, const struct reference *ref, size_t limit, int in_place,
		const char *when);

/* perf_time.c */
struct perf_way perf_ours(const struct perf_call *call);
struct perf_way perf_mpi(const struct perf_call *call); /* perf_versus.c */
void perf_way_die(const struct perf_way *way, int code);
void perf_round(
    const struct perf_way *way); /* makes its call, or launches its graph, and waits for the end */
double perf_time(const struct perf_way *way,
		 int rounds); /* average time of a call in us, of the slowest rank */
/* So many calls that they take about target_us together, or as many as the options want. */
struct perf_batch perf_batch_for(const struct perf_job *job, double call_us, double target_us, int least);
int perf_prepare(struct perf_way *way,
		 int captured); /* a graph of so many calls, none for 0; 0 on all ranks or on none */
void perf_finish(struct perf_way *way); /* drops the graph */
struct reference perf_next_reference(const struct perf_call *call,
				     int i); /* new data; i: the how manieth of a line */
/* A premultiplied sum is an operator of its own on each rank; others are there without these. */
void perf_create_op(struct perf_call *call, const struct reference *ref);
void perf_destroy_op(struct perf_call *call, const struct reference *ref);
/* One call with new data into a poisoned buffer: wrong elements of all ranks; -1 if the call was refused. */
long perf_try(struct perf_way *way, const struct reference *ref, size_t limit, int in_place);
struct perf_result perf_measure(const struct perf_way *way, int in_place);

/* perf_versus.c */
double perf_median(const double *values, int n, int stride);
/* Ours and, behind it, the ways of the peer that the options name, as far as these can serve the call; how many. */
int perf_ways(const struct perf_call *call, struct perf_way *ways);
int perf_peer_can(const struct perf_call *call); /* or says why not */
/* Of ways, ours first, and at least one of a peer: whether there is a result. */
int perf_compare(const struct perf_way *ways, int n, struct perf_versus *versus);

/* perf_only.c: what a line is of: ours, or the fastest way of the peer that is timed alone. 0: it can't serve the call */
int perf_way_of_line(const struct perf_call *call, struct perf_way *way);
void perf_place_way(struct perf_way *way, int in_place);

/* perf_one_call.c: whether there is a result; ways as for perf_compare, or ours alone */
int perf_measure_one_call(const struct perf_way *ways, int n, struct perf_one_call *one);

/* perf_nccl.c: NCCL opened at run time, on the job's GPU and stream */
void perf_nccl_open(struct perf_job *job);
void perf_nccl_close(struct perf_job *job); /* before the job's buffers go */
const char *perf_nccl_version(const struct perf_job *job);
const char *perf_nccl_mode_name(int mode); /* "" beyond the last */
int perf_nccl_can(const struct perf_call *call, const char **why_not);
/* The modes asked for as ways of call; how many. */
int perf_nccl_ways(const struct perf_call *call, int in_place, struct perf_way *ways);

/* test/measure/perf_product.c: matrix products on a GPU, beside a job's stream */
void perf_product_open(struct perf_job *job);
void perf_product_close(struct perf_job *job);
void perf_product_start(const struct perf_job *job, int n); /* n >= 3; returns when one is done */
int perf_product_runs(const struct perf_job *job); /* whether some of them are still to be done */
double perf_product_end(const struct perf_job *job); /* waits for all; us a product but for the first two */

/* test/measure/perf_beside.c: one case in all ways, printed; wrong elements of ours */
long perf_measure_beside(const struct perf_call *call);

/* perf_print.c: all print on rank 0 only */
void perf_print_header(const struct perf_job *job);
/* slot: the mode of a peer that is timed alone */
void perf_print_line(const struct perf_job *job, const struct perf_call *call,
		     const struct perf_result *out_of_place, const struct perf_result *in_place,
		     const struct perf_versus *versus, const struct perf_one_call *one, int slot);
void perf_print_beside(const struct perf_way *way, int in_place, const struct perf_beside *beside);
struct perf_ratios {
	int count;
	double min, log_sum;
	size_t min_at;
};
struct perf_summary {
	long wrong;
	double bus_sum, noise;
	int bus_count, sampled, passed;
	struct perf_ratios best, stock, one_call;
	double spread_us; /* of entries: the most of all lines'; < 0: no call was timed alone */
};
void perf_add_ratio(struct perf_ratios *ratios, double ratio, size_t bytes);
void perf_print_summary(const struct perf_job *job, const struct perf_summary *summary);

/* perf_raw.c: the raw file, if there is one, which rank 0 writes */
void perf_raw_header(const struct perf_job *job, const char *mpi, int hosts);
void perf_raw_line(const struct perf_job *job, const struct perf_call *call,
		   const struct perf_result *out_of_place, const struct perf_result *in_place,
		   const struct perf_versus *versus, const struct perf_one_call *one, int slot);
void perf_raw_beside(const struct perf_way *way, int in_place, const struct perf_beside *beside);

/* perf_json.c: a raw file, which is read from its beginning, as JSON */
void perf_write_json(FILE *raw, FILE *out);

/* perf_progress.c */
void perf_progress_open(struct perf_job *job);
void perf_progress_show(const struct perf_job *job, size_t bytes);
void perf_progress_hide(void);

/* Prints a message and ends the whole job with status 1. */
void perf_die(const char *what, int code);

#endif
