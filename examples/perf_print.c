/* SPDX-License-Identifier: BSD-3-Clause */
/* What is printed for people. */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "perf.h"
#include "perf_row.h"

/* Collective, type, operator and root stand before their lines, once. */
static void print_call(const struct perf_call *call)
{
	static const struct perf_coll *coll;
	static struct perf_call last;
	const struct perf_job *job = call->job;
	if (coll == job->coll && last.type == call->type && last.op == call->op && last.root == call->root)
		return;
	coll = job->coll;
	last = *call;
	printf("# %s, %s", job->coll->name, corale_type_name(call->type));
	if (job->coll->has_op)
		printf(", %s", perf_op_name(call->op));
	if (job->coll->has_root)
		printf(", root %d", call->root);
	printf("\n");
}

/* How calls are timed one at a time, or why not. */
static void print_clock(const struct perf_job *job)
{
	const struct perf_clock *clock = &job->clock;
	if (clock->hosts > 1) {
		printf("# one call: not timed, because the ranks are on %d hosts, whose clocks differ\n",
		       clock->hosts);
		return;
	}
	printf("# one call: one at a time, from the last rank's entry to the last rank's exit, medians\n");
	if (job->options->cuda)
		printf("# one call: entry is when the host launches, exit when its stream has been "
		       "synchronized\n");
	if (perf_clock_yields(clock))
		printf("# one call: %d ranks share %d cores, so ranks yield before they start, and start "
		       "unevenly\n",
		       clock->ranks, clock->cores);
}

/* Whether the lines compare ours with that peer. */
static int is_versus(const struct perf_job *job, enum perf_library peer)
{
	return job->options->only == PERF_CORALE &&
	       (peer == PERF_NCCL ? job->nccl != NULL : job->options->vs_mpi);
}

static void print_memory(const struct perf_job *job)
{
	if (!job->options->cuda)
		printf("; host memory, %s %s calls\n", perf_registration_name(job),
		       job->stream ? "asynchronous" : "blocking");
	else if (job->options->replays)
		printf("; %s, %s buffers, graphs launched at most %d times\n", job->gpu,
		       perf_registration_name(job), job->options->replays);
	else
		printf("; %s, %s buffers, eager calls\n", job->gpu, perf_registration_name(job));
}

/* What changes NCCL's ways from outside belongs to the figures. */
static void print_nccl(const struct perf_job *job)
{
	if (!job->nccl)
		return;
	printf("# %s, %s, %s %s\n", perf_nccl_version(job), job->options->vs_nccl,
	       job->options->only ? "alone:" : "compared",
	       job->options->only                               ? "no Corale in these processes"
	       : job->options->in_place && job->coll->has_place ? "in place"
								: "out of place");
	for (char **e = environ; *e; e++)
		if (strncmp(*e, "NCCL_", 5) == 0)
			printf("# %s\n", *e);
}

static const char *best_name(const struct perf_versus *v)
{
	for (int mode = 0; mode < PERF_NCCL_MODES; mode++)
		if (v->us[mode] == v->best_us)
			return perf_nccl_mode_name(mode);
	return "";
}

static void add_wrong(struct row *row, const struct perf_result *result, int sampled)
{
	char *text = row_add_cell(row, "#wrong", "", 6);
	if (result && result->wrong < 0)
		strcpy(text, "N/A");
	else if (result)
		snprintf(text, sizeof row->cells[0].text, "%ld%s", result->wrong, sampled ? "~" : "");
}

static void add_result(struct row *row, const struct perf_job *job, const char *place, size_t bytes,
		       const struct perf_result *result, int sampled)
{
	const double us = result ? result->us : 0, algbw = us > 0 ? (double)bytes / us / 1e3 : 0;
	row_begin_group(row, place);
	row_add_number(row, "time", "(us)", 8, us);
	row_add_number(row, "algbw", "(GB/s)", 7, algbw);
	row_add_number(row, "busbw", "(GB/s)", 7, algbw * perf_bus_factor(job));
	add_wrong(row, result, sampled);
}

/* Beside a peer there is room for the bandwidth and for what is wrong in either place. */
static void add_both_results(struct row *row, const struct perf_job *job, size_t bytes,
			     const struct perf_result *apart, const struct perf_result *in_place, int sampled)
{
	struct perf_result both = apart ? *apart : (struct perf_result){ 0 };
	if (in_place && in_place->wrong > 0)
		both.wrong = in_place->wrong + (both.wrong > 0 ? both.wrong : 0);
	row_begin_group(row, "");
	row_add_number(row, "busbw", "(GB/s)", 7,
		       both.us > 0 ? (double)bytes / both.us / 1e3 * perf_bus_factor(job) : 0);
	add_wrong(row, apart ? &both : NULL, sampled);
}

static void add_versus(struct row *row, const struct perf_job *job, const struct perf_versus *v)
{
	row_begin_group(row, job->nccl ? "against NCCL, medians" : "against MPI, medians");
	row_add_number(row, "ours", "(us)", 8, v->ours_us);
	if (job->nccl)
		row_add_number(row, "stock", "(us)", 8, v->us[PERF_NCCL_STOCK]);
	row_add_number(row, job->nccl ? "best" : "mpi", "(us)", 8, v->best_us);
	row_add_number(row, job->nccl ? "best/" : "mpi/", "ours", 6, v->ratio);
	row_add_number(row, "noise", "", 5, v->noise);
	if (job->nccl)
		row_add_text(row, "best is", 7, v->blocks ? best_name(v) : "-");
	else
		row_add_number(row, "blocks", "", 6, 0);
	if (!job->nccl && v->blocks)
		snprintf(row->cells[row->n - 1].text, sizeof row->cells[0].text, "%d", v->blocks);
}

static void add_one_call(struct row *row, const struct perf_job *job, const struct perf_one_call *one)
{
	row_begin_group(row, "one call");
	row_add_number(row, job->options->only ? perf_library_name(job->options->only) : "ours", "(us)", 8,
		       one->ours_us);
	if (!is_versus(job, PERF_MPI) && !is_versus(job, PERF_NCCL))
		return;
	row_add_number(row, job->nccl ? "best" : "mpi", "(us)", 8, one->peer_us);
	row_add_number(row, job->nccl ? "best/" : "mpi/", "ours", 6, one->peer_us > 0 ? one->ratio : 0);
}

/* A line of at most 100 characters; for the titles without values. */
static void make_row(struct row *row, const struct perf_job *job, size_t bytes, size_t count,
		     const struct perf_result *apart, const struct perf_result *in_place,
		     const struct perf_versus *versus, const struct perf_one_call *one, int sampled)
{
	*row = (struct row){ 0 };
	row_add_integer(row, "size", "(B)", 11, (long long)bytes);
	if (is_versus(job, PERF_MPI) || is_versus(job, PERF_NCCL)) {
		add_both_results(row, job, bytes, apart, in_place, sampled);
		add_versus(row, job, versus);
	} else {
		row_add_integer(row, "count", "", 10, (long long)count);
		add_result(row, job, "out of place", bytes, apart, sampled);
		add_result(row, job, "in place", bytes, in_place, sampled);
	}
	add_one_call(row, job, one);
}

static const struct perf_versus not_compared;
static const struct perf_one_call not_timed;

static void print_columns(const struct perf_job *job)
{
	struct row row;
	print_clock(job);
	make_row(&row, job, 0, 0, NULL, NULL, &not_compared, &not_timed, 0);
	row_print_titles(&row);
}

/* Beside products: a way of a case, or the titles. */
static void make_beside_row(struct row *row, size_t bytes, size_t count, const char *way, const char *place,
			    const struct perf_beside *b)
{
	*row = (struct row){ 0 };
	row_add_integer(row, "size", "(B)", 11, (long long)bytes);
	row_add_integer(row, "count", "", 10, (long long)count);
	row_add_text(row, "way", 12, way);
	row_add_text(row, "place", 5, place);
	row_begin_group(row, "call");
	row_add_number(row, "alone", "(us)", 9, b->alone);
	row_add_number(row, "beside", "(us)", 9, b->beside);
	snprintf(row_add_cell(row, "slower", "(%)", 6), sizeof row->cells[0].text, "%.1f",
		 (b->beside / b->alone - 1) * 100);
	row_begin_group(row, "product");
	row_add_number(row, "alone", "(us)", 9, b->product_alone);
	row_add_number(row, "beside", "(us)", 9, b->product_beside);
	snprintf(row_add_cell(row, "slower", "(%)", 6), sizeof row->cells[0].text, "%.1f",
		 (b->product_beside / b->product_alone - 1) * 100);
}

static void print_beside_columns(const struct perf_job *job)
{
	static const struct perf_beside nothing;
	struct row row;
	printf("#\n# beside bf16 products of 8192^3");
	if (job->options->beside_sms)
		printf(" on %d SMs", job->options->beside_sms);
	if (job->options->every_us)
		printf("; a call every %d us, median latency", job->options->every_us);
	printf("\n");
	make_beside_row(&row, 0, 0, "", "", &nothing);
	row_print_titles(&row);
}

void perf_print_header(const struct perf_job *job)
{
	char mpi[MPI_MAX_LIBRARY_VERSION_STRING];
	int length, version = corale_version(), hosts = job->clock.hosts;
	MPI_Get_library_version(mpi, &length);
	mpi[strcspn(mpi, ",\n")] = '\0';
	for (char *tab;
	     (tab = strchr(
		  mpi, '\t'));) /* MPICH has one behind "Version:", and fields of raw files end with one */
		*tab = ' ';
	if (job->rank)
		return;
	printf("# corale_%s_perf: Corale %d.%d.%d, %s\n", job->coll->name, version / 10000,
	       version / 100 % 100, version % 100, mpi);
	printf("# ranks %d, hosts %d, nodes %d", job->size, hosts, job->nodes);
	print_memory(job);
	print_nccl(job);
	perf_raw_header(job, mpi, hosts);
	if (job->options->beside)
		print_beside_columns(job);
	else
		print_columns(job);
}

void perf_print_line(const struct perf_job *job, const struct perf_call *call,
		     const struct perf_result *out_of_place, const struct perf_result *in_place,
		     const struct perf_versus *versus, const struct perf_one_call *one, int slot)
{
	size_t bytes = perf_blocks(job->coll, job->size) * call->count * corale_type_bytes(call->type);
	const int sampled = perf_is_sampled(call);
	struct row row;
	if (job->rank)
		return;
	print_call(call);
	make_row(&row, job, bytes, call->count, out_of_place, in_place, versus ? versus : &not_compared,
		 one ? one : &not_timed, sampled);
	row_print(&row, ' ');
	perf_raw_line(job, call, out_of_place, in_place, versus ? versus : &not_compared,
		      one ? one : &not_timed, slot);
}

void perf_print_beside(const struct perf_way *way, int in_place, const struct perf_beside *b)
{
	const struct perf_call *call = &way->call;
	const struct perf_job *job = call->job;
	size_t bytes = perf_blocks(job->coll, job->size) * call->count * corale_type_bytes(call->type);
	const char *place = in_place ? "in" : "out";
	struct row row;
	if (job->rank)
		return;
	print_call(call);
	make_beside_row(&row, bytes, call->count, way->name, place, b);
	row_print(&row, ' ');
	perf_raw_beside(way, in_place, b);
}

void perf_add_ratio(struct perf_ratios *ratios, double ratio, size_t bytes)
{
	if (!ratios->count || ratio < ratios->min) {
		ratios->min = ratio;
		ratios->min_at = bytes;
	}
	ratios->log_sum += log(ratio);
	ratios->count++;
}

static void print_ratios(const char *peer, const struct perf_ratios *ratios, double noise)
{
	if (ratios->count)
		printf("# vs %s: min %.3f at %zu, geomean %.3f, noise %.3f\n", peer, ratios->min,
		       ratios->min_at, exp(ratios->log_sum / ratios->count), noise);
}

void perf_print_summary(const struct perf_job *job, const struct perf_summary *summary)
{
	if (job->rank)
		return;
	if (job->options->checks || job->options->beside)
		printf("# Out of bounds values : %ld %s\n", summary->wrong, summary->wrong ? "FAILED" : "OK");
	else
		printf("# Out of bounds values : not checked\n");
	if (job->options->beside) {
		fflush(stdout);
		return;
	}
	if (summary->sampled)
		printf("# ~: of %d lines above %zu bytes samples were checked (--check-max)\n",
		       summary->sampled, perf_check_limit(job));
	printf("# Avg bus bandwidth    : %g GB/s\n",
	       summary->bus_count ? summary->bus_sum / summary->bus_count : 0);
	print_ratios(job->nccl ? "nccl best" : "mpi", &summary->best, summary->noise);
	print_ratios("nccl stock", &summary->stock, summary->noise);
	if (summary->one_call.count)
		printf("# vs %s, one call: min %.3f at %zu, geomean %.3f\n", job->nccl ? "nccl best" : "mpi",
		       summary->one_call.min, summary->one_call.min_at,
		       exp(summary->one_call.log_sum / summary->one_call.count));
	if (summary->spread_us >= 0)
		printf("# one call: ranks entered within %.2f us of each other, in the median\n",
		       summary->spread_us);
	if (is_versus(job, PERF_NCCL) && !summary->best.count)
		printf("# vs nccl: no line was compared\n");
	else if (is_versus(job, PERF_NCCL))
		printf(
		    "# not slower than nccl best, or no more than it differs from itself: %d of %d lines\n",
		    summary->passed, summary->best.count);
	fflush(stdout);
}
