/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Faults between the ranks of a CUDA communicator: calls that differ, aborts, ranks that come late, never, or die.
 * Each must become an error on every rank in time, leave the GPU usable and a new communicator working.
 *
 * Usage: test/gpus/cuda_faults [--ranks N] [--only PATTERN] [--verbose] [--list]
 * Starts its ranks itself, by turns on the GPUs. PATTERN: a shell pattern of case names. With CORALE_NODE_SIZE they are several nodes.
 */
#define _GNU_SOURCE
#include "cuda_faults.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SKIPPED = 77, FAULTY = 3, LOG_SHOWN = 2500, SMALL = 2, MIDDLE = 300000, LARGE = 20 << 20 };

#define WORDS(a, b) .words = { a, b }
#define NOT_MAPPED .not_over_nodes = "no call stores into memory of another rank that is registered"

static const struct faults_case cases[] = {
	{ "mismatch_count_small", faults_mismatch, FAULTS_COUNT, SMALL, WORDS("count 2", "count 3") },
	{ "mismatch_count_middle", faults_mismatch, FAULTS_COUNT, MIDDLE,
	  WORDS("count 300000", "count 300001") },
	{ "mismatch_count_large", faults_mismatch, FAULTS_COUNT, LARGE,
	  WORDS("count 20971520", "count 20971521") },
	{ "mismatch_count_far", faults_mismatch, FAULTS_COUNT_FAR, SMALL,
	  WORDS("count 2,", "count 20971520") },
	{ "mismatch_count_far_middle", faults_mismatch, FAULTS_COUNT_FAR, MIDDLE,
	  WORDS("count 300000", "count 20971520") },
	{ "mismatch_type_small", faults_mismatch, FAULTS_TYPE, SMALL, WORDS("int32", "float32") },
	{ "mismatch_type_middle", faults_mismatch, FAULTS_TYPE, MIDDLE, WORDS("int32", "float32") },
	{ "mismatch_type_large", faults_mismatch, FAULTS_TYPE, LARGE, WORDS("int32", "float32") },
	{ "mismatch_op_small", faults_mismatch, FAULTS_OP, SMALL, WORDS("sum", "max") },
	{ "mismatch_op_large", faults_mismatch, FAULTS_OP, LARGE, WORDS("sum", "max") },
	{ "mismatch_root_small", faults_mismatch, FAULTS_ROOT, SMALL, WORDS("root 0", "root 1") },
	{ "mismatch_root_large", faults_mismatch, FAULTS_ROOT, LARGE, WORDS("root 0", "root 1") },
	{ "mismatch_collective_small", faults_mismatch, FAULTS_COLLECTIVE, SMALL,
	  WORDS("all_reduce", "all_gather") },
	{ "mismatch_collective_middle", faults_mismatch, FAULTS_COLLECTIVE, MIDDLE,
	  WORDS("all_reduce", "all_gather") },
	{ "mismatch_collective_large", faults_mismatch, FAULTS_COLLECTIVE, LARGE,
	  WORDS("all_reduce", "all_gather") },
	{ "mismatch_barrier", faults_mismatch, FAULTS_BARRIER, MIDDLE, WORDS("all_reduce", "barrier") },
	{ "mismatch_order", faults_mismatch, FAULTS_ORDER, MIDDLE, WORDS("all_reduce", "broadcast") },
	{ "mismatch_graphs", faults_mismatch, FAULTS_GRAPHS, MIDDLE, WORDS(NULL, NULL) },
	{ "mismatch_edge_small", faults_pair, FAULTS_EDGE, SMALL, WORDS("must agree", NULL) },
	{ "mismatch_edge_large", faults_pair, FAULTS_EDGE, LARGE, WORDS("must agree", NULL) },
	{ "mismatch_message_small", faults_pair, FAULTS_MESSAGE, SMALL, WORDS("must agree", NULL) },
	{ "mismatch_message_large", faults_pair, FAULTS_MESSAGE, LARGE, WORDS("must agree", NULL) },
	{ "mismatch_message_type_small", faults_pair, FAULTS_MESSAGE_TYPE, SMALL, WORDS("float32", "int32") },
	{ "mismatch_message_type_large", faults_pair, FAULTS_MESSAGE_TYPE, LARGE, WORDS("float32", "int32") },
	{ "abort_by_waiter_small", faults_abort, FAULTS_BY_WAITER, SMALL, WORDS(NULL, NULL) },
	{ "abort_by_waiter_large", faults_abort, FAULTS_BY_WAITER, LARGE, WORDS(NULL, NULL) },
	{ "abort_by_absent_small", faults_abort, FAULTS_BY_ABSENT, SMALL, WORDS(NULL, NULL) },
	{ "abort_by_absent_middle", faults_abort, FAULTS_BY_ABSENT, MIDDLE, WORDS(NULL, NULL) },
	{ "abort_by_thread_large", faults_abort, FAULTS_BY_THREAD, LARGE, WORDS(NULL, NULL) },
	{ "abort_idle", faults_abort, FAULTS_IDLE, SMALL, WORDS(NULL, NULL) },
	{ "absent_small", faults_absent, FAULTS_ALL_REDUCE, SMALL, WORDS("all_reduce(", NULL) },
	{ "absent_middle", faults_absent, FAULTS_ALL_REDUCE, MIDDLE, WORDS("all_reduce(", NULL) },
	{ "absent_large", faults_absent, FAULTS_ALL_REDUCE, LARGE, WORDS("all_reduce(", NULL) },
	{ "absent_all_gather", faults_absent, FAULTS_ALL_GATHER, LARGE, WORDS("all_gather(", NULL) },
	{ "absent_first_large", faults_absent, FAULTS_ALL_GATHER, LARGE, WORDS(NULL, NULL), .cold = 1,
	  .not_over_nodes = "there is no scratch that a first large call makes" },
	{ "absent_root", faults_absent, FAULTS_BROADCAST, MIDDLE, WORDS("broadcast(count 300000", NULL) },
	{ "absent_exchange", faults_absent, FAULTS_EXCHANGE, LARGE, WORDS("peer ", NULL) },
	{ "absent_barrier", faults_absent, FAULTS_WAIT, SMALL, WORDS("barrier(", NULL) },
	{ "absent_replay", faults_absent, FAULTS_REPLAY, MIDDLE, WORDS("all_reduce(", NULL) },
	{ "late", faults_late, FAULTS_JUST_LATE, LARGE, WORDS(NULL, NULL) },
	{ "late_other_work", faults_late, FAULTS_OTHER_WORK, MIDDLE, WORDS(NULL, NULL) },
	{ "late_other_work_large", faults_late, FAULTS_OTHER_WORK, LARGE, WORDS(NULL, NULL) },
	{ "late_first_calls", faults_late, FAULTS_FIRST_CALLS, SMALL, WORDS(NULL, NULL) },
	{ "late_capture", faults_late, FAULTS_CAPTURE, SMALL, WORDS(NULL, NULL) },
	{ "late_create", faults_late, FAULTS_CREATE, SMALL, WORDS(NULL, NULL) },
	{ "late_create_large", faults_late, FAULTS_CREATE, LARGE, WORDS(NULL, NULL) },
	{ "late_free", faults_late, FAULTS_FREE, MIDDLE, WORDS(NULL, NULL) },
	{ "use_two_streams_small", faults_use, FAULTS_TWO_STREAMS, SMALL, WORDS(NULL, NULL) },
	{ "use_two_streams_large", faults_use, FAULTS_TWO_STREAMS, LARGE, WORDS(NULL, NULL) },
	{ "use_plain_in_capture", faults_use, FAULTS_PLAIN_IN_CAPTURE, SMALL, WORDS(NULL, NULL) },
	{ "use_plain_in_vain", faults_use, FAULTS_PLAIN_IN_VAIN, SMALL, WORDS(NULL, NULL) },
	{ "use_captured_since", faults_use, FAULTS_CAPTURED_SINCE, SMALL, WORDS(NULL, NULL) },
	{ "use_around_capture", faults_use, FAULTS_AROUND_CAPTURE, SMALL, WORDS(NULL, NULL) },
	{ "use_stream_destroyed", faults_use, FAULTS_STREAM_DESTROYED, SMALL, WORDS(NULL, NULL) },
	{ "use_handle_reused", faults_use, FAULTS_HANDLE_REUSED, SMALL, WORDS(NULL, NULL) },
	{ "use_stream_per_thread", faults_use, FAULTS_PER_THREAD, SMALL, WORDS(NULL, NULL) },
	{ "use_stream_per_ended_thread", faults_use, FAULTS_PER_ENDED_THREAD, SMALL, WORDS(NULL, NULL) },
	{ "use_wrong_arguments", faults_use, FAULTS_ARGUMENTS, SMALL, WORDS(NULL, NULL) },
	{ "use_other_gpu_current", faults_use, FAULTS_OTHER_GPU, SMALL, WORDS(NULL, NULL) },
	{ "use_split_elsewhere", faults_use, FAULTS_SPLIT, SMALL, WORDS(NULL, NULL) },
	{ "use_buffer_elsewhere", faults_use, FAULTS_BUFFER_ELSEWHERE, SMALL, WORDS(NULL, NULL) },
	{ "capture_beside_create", faults_capture, FAULTS_OPENED, SMALL, WORDS(NULL, NULL) },
	{ "capture_beside_destroy", faults_capture, FAULTS_DESTROYED, MIDDLE, WORDS(NULL, NULL) },
	{ "capture_implicit", faults_capture, FAULTS_IMPLICIT, SMALL, WORDS(NULL, NULL) },
	{ "capture_invalidated", faults_capture, FAULTS_INVALIDATED, SMALL, WORDS(NULL, NULL) },
	{ "refused_then_alloc", faults_refused, FAULTS_THEN_ALLOC, SMALL, WORDS(NULL, NULL) },
	{ "refused_then_register", faults_refused, FAULTS_THEN_REGISTER, SMALL, WORDS(NULL, NULL) },
	{ "refused_then_split", faults_refused, FAULTS_THEN_SPLIT, SMALL, WORDS(NULL, NULL) },
	{ "refused_group_in_capture", faults_refused, FAULTS_GROUP_IN_CAPTURE, SMALL, WORDS(NULL, NULL) },
	{ "refused_group_on_bad_stream", faults_refused, FAULTS_GROUP_ON_BAD_STREAM, SMALL,
	  WORDS(NULL, NULL) },
	{ "refused_group_half_captured", faults_refused, FAULTS_GROUP_HALF_CAPTURED, SMALL,
	  WORDS(NULL, NULL) },
	{ "refused_address_reused", faults_refused, FAULTS_ADDRESS_REUSED, SMALL, WORDS(NULL, NULL) },
	{ "refused_plain_mismatch_small", faults_refused, FAULTS_PLAIN_MISMATCH, SMALL, WORDS(NULL, NULL) },
	{ "refused_plain_mismatch_middle", faults_refused, FAULTS_PLAIN_MISMATCH, MIDDLE, WORDS(NULL, NULL) },
	{ "refused_plain_mismatch_pair", faults_refused, FAULTS_PLAIN_MISMATCH_PAIR, MIDDLE,
	  WORDS(NULL, NULL) },
	{ "after_unasked_small", faults_after, FAULTS_UNASKED, SMALL, WORDS("count 2", "count 3") },
	{ "after_unasked_large", faults_after, FAULTS_UNASKED, LARGE, WORDS("count 20971520", NULL) },
	{ "after_replayed_small", faults_after, FAULTS_REPLAYED, SMALL, WORDS(NULL, NULL) },
	{ "after_replayed_middle", faults_after, FAULTS_REPLAYED, MIDDLE, WORDS(NULL, NULL) },
	{ "after_replayed_large", faults_after, FAULTS_REPLAYED, LARGE, WORDS(NULL, NULL) },
	{ "after_outlived", faults_after, FAULTS_OUTLIVED, SMALL, WORDS(NULL, NULL) },
	{ "after_alone", faults_after, FAULTS_ALONE, MIDDLE, WORDS(NULL, NULL) },
	{ "after_all_gather_memory", faults_after, FAULTS_GATHER, SMALL, WORDS(NULL, NULL), NOT_MAPPED },
	{ "after_all_to_all_memory", faults_after, FAULTS_ALL_TO_ALL, SMALL, WORDS(NULL, NULL), NOT_MAPPED },
	{ "after_broadcast_memory", faults_after, FAULTS_FROM_LATE_ROOT, SMALL, WORDS(NULL, NULL),
	  NOT_MAPPED },
	{ "after_allocated_memory", faults_after, FAULTS_ALLOCATED, SMALL, WORDS(NULL, NULL), NOT_MAPPED },
	{ "after_deregistered_memory", faults_after, FAULTS_DEREGISTERED, SMALL, WORDS(NULL, NULL),
	  NOT_MAPPED },
	{ "after_freed_memory", faults_after, FAULTS_FREED, SMALL, WORDS(NULL, NULL), NOT_MAPPED },
	{ "after_replayed_memory", faults_after, FAULTS_REPLAYED_LATE, SMALL, WORDS(NULL, NULL), NOT_MAPPED },
	{ "after_replayed_allocated", faults_after, FAULTS_REPLAYED_ALLOCATED, SMALL, WORDS(NULL, NULL),
	  NOT_MAPPED },
	{ "after_raced_late", faults_after, FAULTS_RACED_LATE, SMALL, WORDS(NULL, NULL) },
	{ "after_raced_abort", faults_after, FAULTS_RACED_ABORT, SMALL, WORDS(NULL, NULL) },
	{ "after_lost", faults_after, FAULTS_LOST, MIDDLE, .alone = 1 },
	{ "killed_with_memory", faults_death, FAULTS_KILLED_LARGE, MIDDLE, .alone = 1 },
	{ "killed_waited_for_small", faults_death, FAULTS_KILLED_WAITED_FOR, SMALL, .alone = 1 },
	{ "killed_waited_for_large", faults_death, FAULTS_KILLED_WAITED_FOR, LARGE, .alone = 1 },
	{ "killed_busy_small", faults_death, FAULTS_KILLED_BUSY, SMALL, .alone = 1 },
	{ "killed_busy_middle", faults_death, FAULTS_KILLED_BUSY, MIDDLE, .alone = 1 },
	{ "killed_busy_large", faults_death, FAULTS_KILLED_BUSY, LARGE, .alone = 1 },
	{ "exited", faults_death, FAULTS_EXITED, MIDDLE, .alone = 1 },
	{ "left", faults_death, FAULTS_LEFT, MIDDLE, .alone = 1 },
};
enum { CASES = sizeof(cases) / sizeof(cases[0]) };

struct plan {
	const char *pattern;
	int over_nodes;
	int next; /* the case to begin with */
};

static int is_named(const struct plan *plan, int i)
{
	return i < CASES && (!plan->pattern || !fnmatch(plan->pattern, cases[i].name, 0));
}

static int is_wanted(const struct plan *plan, int i)
{
	return is_named(plan, i) && !(plan->over_nodes && cases[i].not_over_nodes);
}

/* ---- A rank ---- */

static int open_rank(struct faults_rank *r, struct cuda_children *children, int rank)
{
	int gpus = 0;
	memset(r, 0, sizeof(*r));
	r->rank = rank;
	r->size = children->n;
	r->name = "start";
	cuda_group_join(&r->world, children, 0, rank, rank, r->size);
	cuda_group_join(&r->fresh, children, 1, rank, rank, r->size);
	if (!faults_cuda(r, cudaGetDeviceCount(&gpus), "cudaGetDeviceCount") || !gpus)
		return -1;
	return faults_cuda(r, cudaSetDevice(rank % gpus), "cudaSetDevice") &&
		       faults_cuda(r, cudaMalloc(&r->send, FAULTS_BUFFER), "cudaMalloc") &&
		       faults_cuda(r, cudaMalloc(&r->recv, FAULTS_BUFFER), "cudaMalloc") &&
		       faults_cuda(r, cudaMemset(r->send, 1, FAULTS_BUFFER), "cudaMemset") &&
		       faults_cuda(r, cudaStreamSynchronize(NULL), "cudaStreamSynchronize") &&
		       faults_cuda(r, cudaStreamCreateWithFlags(&r->stream, cudaStreamNonBlocking),
				   "a stream")
		   ? 0
		   : -1;
}

/* Ends with nonzero if these processes should not go on: after a fault, who knows what is left. */
static int run_case(struct faults_rank *r, int number, struct cuda_group *group)
{
	const struct faults_case *c = &cases[number];
	double begin = clock_s();
	r->name = c->name;
	r->faults = 0;
	r->comm = faults_comm(r, group, FAULTS_TIMEOUT_S);
	if (r->comm) {
		faults_good_reduce(r, r->comm, r->size, r->rank);
		if (!c->cold)
			faults_first_large(r);
		if (cuda_group_largest(&r->world, r->faults) == 0)
			c->run(r, c);
	}
	atomic_fetch_add(&r->world.children->faults, r->faults);
	if (c->alone)
		return 0;
	int faults = cuda_group_largest(&r->world, r->faults);
	if (r->rank == 0 && faults >= 0) {
		printf("%s %s (%.1f s)\n", faults ? "FAIL" : "PASS", c->name, clock_s() - begin);
		fflush(stdout);
		atomic_fetch_add(&r->world.children->failed, faults != 0);
		atomic_store(&r->world.children->done, number + 1);
	}
	return faults;
}

static int body(struct cuda_children *children, int rank, void *arg)
{
	const struct plan *plan = arg;
	struct faults_rank r;
	struct cuda_group group;
	cuda_group_join(&group, children, 2, rank, rank, children->n);
	if (open_rank(&r, children, rank))
		return 1;
	for (int i = plan->next; i < CASES; i++) {
		if (!is_wanted(plan, i))
			continue;
		if (cases[i].alone && i != plan->next)
			break;
		atomic_store(&children->at, i); /* all ranks have left the case before */
		atomic_fetch_add(&children->progress, 1);
		if (run_case(&r, i, &group) || cases[i].alone)
			return r.faults ? FAULTY : 0;
	}
	return 0;
}

/* ---- The parent ---- */

static void show_log(int log_fd, int verbose)
{
	char text[LOG_SHOWN + 1];
	off_t end = lseek(log_fd, 0, SEEK_END), from = verbose || end < LOG_SHOWN ? 0 : end - LOG_SHOWN;
	while (from < end) {
		ssize_t n = pread(log_fd, text, LOG_SHOWN, from);
		if (n <= 0)
			break;
		fwrite(text, 1, (size_t)n, stdout);
		from += n;
	}
	fflush(stdout);
}

/* The case in which a rank died on purpose, or with which processes ended that did not report it. */
static void judge(struct cuda_children *children, int number, int bad)
{
	const struct faults_case *c = &cases[number];
	int good = c->alone && bad >= 0 && bad <= 1 && atomic_load(&children->faults) == 0;
	printf("%s %s%s\n", good ? "PASS" : "FAIL", c->name,
	       bad < 0            ? ": HANG, no progress: its processes were killed"
	       : good || c->alone ? ""
				  : ": its processes ended early");
	fflush(stdout);
	atomic_fetch_add(&children->failed, !good);
}

/* Runs cases from plan->next on, as far as one set of processes goes. */
static void run_some(struct cuda_children *children, struct plan *plan, int verbose)
{
	int log_fd = memfd_create("log", 0), failed = atomic_load(&children->failed);
	atomic_store(&children->faults, 0);
	atomic_store(&children->at, plan->next);
	atomic_store(&children->done, plan->next);
	int bad = cuda_children_run(children, body, plan, FAULTS_STALL_S, log_fd);
	int at = atomic_load(&children->at), done = atomic_load(&children->done);
	if (done <= at) /* nobody has reported it */
		judge(children, at, bad);
	if (verbose || atomic_load(&children->failed) > failed)
		show_log(log_fd, verbose);
	close(log_fd);
	plan->next = at + 1;
}

static int probe(struct cuda_children *children, int rank, void *arg)
{
	int n = 0;
	(void)arg;
	if (rank == 0 && cudaGetDeviceCount(&n) == cudaSuccess)
		atomic_store(&children->at, n);
	return 0;
}

static int count_gpus(void)
{
	struct cuda_children *children = cuda_children_create(1);
	if (!children)
		return 0;
	cuda_children_run(children, probe, NULL, FAULTS_STALL_S, STDERR_FILENO);
	return atomic_load(&children->at);
}

static int run_all(struct plan *plan, int ranks, int verbose)
{
	struct cuda_children *children = cuda_children_create(ranks);
	int wanted = 0;
	double begin = clock_s();
	if (!children)
		return 1;
	for (int i = 0; i < CASES; i++) {
		wanted += is_wanted(plan, i);
		if (is_named(plan, i) && !is_wanted(plan, i))
			printf("SKIP %s: %s\n", cases[i].name, cases[i].not_over_nodes);
	}
	while (plan->next < CASES) {
		if (is_wanted(plan, plan->next))
			run_some(children, plan, verbose);
		else
			plan->next++;
	}
	int failed = atomic_load(&children->failed);
	printf("%s cuda_faults, %d of %d cases failed, %d ranks, %.0f s\n",
	       failed ? "FAILED:" : "PASSED:", failed, wanted, ranks, clock_s() - begin);
	return failed != 0;
}

int main(int argc, char **argv)
{
	struct plan plan = { 0 };
	int ranks = 0, verbose = 0;
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--ranks") && i + 1 < argc)
			ranks = atoi(argv[++i]);
		else if (!strcmp(argv[i], "--only") && i + 1 < argc)
			plan.pattern = argv[++i];
		else if (!strcmp(argv[i], "--verbose"))
			verbose = 1;
		else if (!strcmp(argv[i], "--list"))
			for (int k = 0; k < CASES; k++)
				puts(cases[k].name);
		else
			return fprintf(stderr,
				       "usage: %s [--ranks N] [--only PATTERN] [--verbose] [--list]\n",
				       argv[0]),
			       2;
		if (!strcmp(argv[i], "--list"))
			return 0;
	}
	int gpus = count_gpus();
	if (!gpus) {
		printf("SKIP cuda_faults: no CUDA: no GPU, or no driver for it\n");
		return SKIPPED;
	}
	if (!ranks)
		ranks = gpus < 2 ? 2 : gpus < CUDA_CHILDREN_MOST ? gpus : CUDA_CHILDREN_MOST;
	plan.over_nodes = faults_over_nodes(ranks);
	return run_all(&plan, ranks, verbose);
}
