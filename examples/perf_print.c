/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is printed, and the raw file, whose fields are separated by tabs.
 *
 * Line 1: "# corale-perf-raw 1", then NAME=VALUE: version, mpi, ranks, hosts, nodes, stream (1: asynchronous host
 * calls); device (host, cuda), gpu (its name), mode (eager, graph), replays (of a graph), registration (plain,
 * registered, allocated), nccl (its version and path, empty without), place (out, in: how NCCL and ours are compared),
 * library (that of the lines: corale, mpi, nccl).
 * Line 2: the columns' names. Readers go by these names: later versions add columns at the end.
 * Then a line for each that is printed; a field is empty where a value has no meaning or was not measured.
 *   coll bytes count type op root      the call; root -1: has none
 *   us algbw busbw wrong               out of place: microseconds, GB/s, GB/s, wrong elements (N/A: not checked)
 *   in_us in_algbw in_busbw in_wrong   the same in place
 *   ours_us mpi_us ratio noise blocks  medians beside a peer. mpi_us, ratio (MPI's time / ours) and noise (MPI
 *                                      against itself, at most 1): with --vs-mpi; ours_us and blocks: with either
 *   sampled                            1: samples were checked instead of all
 *   nccl_stock_us nccl_window_us nccl_zero_us nccl_sockets_us nccl_best_us   with --vs-nccl; best: the least of those measured
 *   best_ratio stock_ratio nccl_noise  NCCL's best, stock time / ours; its best against itself
 *   one_us one_mpi_us one_nccl_us one_ratio   one call at a time, medians (perf_clock.h): ours, MPI's, the best of NCCL's, and the
 *                                      peer's / ours; empty where the ranks are on several hosts
 *   one_spread_us                      from the first rank's entry into such a call to the last rank's
 *   library nccl_mode                  corale; with --only mpi or nccl that library, whose us ... in_wrong and one_us then are; the
 *                                      mode of NCCL that was timed
 *
 * With --beside line 1 begins with "# corale-perf-beside 1" and has beside, sms (how many the products may use; 0: all)
 * and every (microseconds from call to call; 0: one after the other), too. There is a line for each way of a case:
 *   coll bytes count type op root way place   way: corale, "NCCL stock" and so on; place: in, out
 *   alone_us beside_us                        of a call: the average, with every the median latency
 *   product_alone_us product_beside_us        of a product
 *   blocks                                    of which all these are medians
 */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "perf.h"

/* What stands in one column: its titles in the two lines of the header, or a value. */
struct cell {
	const char *title, *unit;
	int width;
	char text[24];
};
enum { MAX_CELLS = 20 };
struct row {
	int n, starts[MAX_CELLS]; /* starts: 1: a group of columns begins here */
	const char *groups[MAX_CELLS]; /* its title */
	struct cell cells[MAX_CELLS];
};

/* The next columns belong to a group. */
static void begin_group(struct row *row, const char *title)
{
	row->starts[row->n] = 1;
	row->groups[row->n] = title;
}

static char *add_cell(struct row *row, const char *title, const char *unit, int width)
{
	struct cell *cell = &row->cells[row->n++];
	*cell = (struct cell){ title, unit, width, "-" };
	return cell->text;
}

/* A value as its column has room, at least two digits of it: what is small has more behind the point. "-" if it is not above 0. */
static void add_number(struct row *row, const char *title, const char *unit, int width, double value)
{
	int decimals = 2;
	char *text = add_cell(row, title, unit, width);
	if (!(value > 0))
		return;
	for (double least = 0.1; decimals < width - 2 && value < least; least /= 10)
		decimals++;
	if (value < 1.5 * pow(10, -decimals))
		snprintf(text, sizeof row->cells[0].text, "%.0e", value);
	else
		while (snprintf(text, sizeof row->cells[0].text, "%.*f", decimals, value) > width && decimals)
			decimals--;
}

static void add_integer(struct row *row, const char *title, const char *unit, int width, long long value)
{
	snprintf(add_cell(row, title, unit, width), sizeof row->cells[0].text, "%lld", value);
}

static void add_text(struct row *row, const char *title, int width, const char *text)
{
	snprintf(add_cell(row, title, "", width), sizeof row->cells[0].text, "%s", text);
}

/* mark: in front of the first column, "#" of a title. */
static void print_row(const struct row *row, char mark)
{
	for (int i = 0; i < row->n; i++)
		printf(row->starts[i] ? "%c %*s" : "%c%*s", i ? ' ' : mark, row->cells[i].width,
		       row->cells[i].text);
	printf("\n");
	fflush(stdout);
}

/* The titles: of groups, over the middle of theirs, then of columns, then units. */
static void print_titles(struct row *row)
{
	printf("#\n#");
	for (int i = 0; i < row->n;) {
		int width = -!i;
		const int first = i;
		do
			width += row->cells[i].width + 1 + row->starts[i];
		while (++i < row->n && !row->starts[i]);
		const char *title = row->groups[first] ? row->groups[first] : "";
		const int right = (width - (int)strlen(title)) / 2;
		printf("%*s%*s", width - right, title, i < row->n ? right : 0, "");
	}
	printf("\n");
	for (int line = 0; line < 2; line++) {
		for (int i = 0; i < row->n; i++)
			snprintf(row->cells[i].text, sizeof row->cells[i].text, "%s",
				 line ? row->cells[i].unit : row->cells[i].title);
		print_row(row, '#');
	}
	fflush(stdout);
}

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

static const char *registration_name(const struct perf_job *job)
{
	const char *const names[] = { "plain", "registered", "allocated" };
	return names[job->options->registration];
}

static void print_memory(const struct perf_job *job)
{
	if (!job->options->cuda)
		printf("; host memory, %s %s calls\n", registration_name(job),
		       job->stream ? "asynchronous" : "blocking");
	else if (job->options->replays)
		printf("; %s, %s buffers, graphs launched at most %d times\n", job->gpu,
		       registration_name(job), job->options->replays);
	else
		printf("; %s, %s buffers, eager calls\n", job->gpu, registration_name(job));
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

static void print_raw_header(const struct perf_job *job, const char *mpi, int hosts)
{
	const struct perf_options *options = job->options;
	int version = corale_version();
	if (!job->raw)
		return;
	fprintf(job->raw,
		"# corale-perf-%s 1\tversion=%d.%d.%d\tmpi=%s\tranks=%d\thosts=%d\tnodes=%d\tstream=%d",
		options->beside ? "beside" : "raw", version / 10000, version / 100 % 100, version % 100, mpi,
		job->size, hosts, job->nodes, job->stream != NULL && !options->cuda);
	fprintf(
	    job->raw,
	    "\tdevice=%s\tgpu=%s\tmode=%s\treplays=%d\tregistration=%s\tnccl=%s%s%s\tplace=%s\tlibrary=%s",
	    job->device->name, job->gpu, options->replays ? "graph" : "eager", options->replays,
	    registration_name(job), job->nccl ? perf_nccl_version(job) : "", job->nccl ? " " : "",
	    job->nccl ? perf_file_name(options->vs_nccl) : "",
	    options->in_place && job->coll->has_place ? "in" : "out", perf_library_name(options->only));
	if (options->beside) {
		fprintf(job->raw,
			"\tbeside=gemm\tsms=%d\tevery=%d\ncoll\tbytes\tcount\ttype\top\troot\tway\tplace\t"
			"alone_us\tbeside_us\tproduct_alone_us\tproduct_beside_us\tblocks\n",
			options->beside_sms, options->every_us);
		return;
	}
	fprintf(job->raw,
		"\ncoll\tbytes\tcount\ttype\top\troot\tus\talgbw\tbusbw\twrong\tin_us\tin_algbw\tin_busbw\t"
		"in_wrong\tours_us\tmpi_us\tratio\tnoise\tblocks\tsampled\tnccl_stock_us\tnccl_window_us\t"
		"nccl_zero_us\tnccl_sockets_us\tnccl_best_us\tbest_ratio\tstock_ratio\tnccl_noise\t"
		"one_us\tone_mpi_us\tone_nccl_us\tone_ratio\tone_spread_us\tlibrary\tnccl_mode\n");
}

static double bus_factor(const struct perf_job *job)
{
	return job->coll->bus_constant + job->coll->bus_per_rank / job->size;
}

static void print_raw_result(const struct perf_job *job, size_t bytes, const struct perf_result *result)
{
	if (!job->raw)
		return;
	if (!result) {
		fprintf(job->raw, "\t\t\t\t");
		return;
	}
	const double algbw = (double)bytes / result->us / 1e3;
	fprintf(job->raw, "\t%.4f\t%.6f\t%.6f\t", result->us, algbw, algbw * bus_factor(job));
	if (result->wrong < 0)
		fprintf(job->raw, "N/A");
	else
		fprintf(job->raw, "%ld", result->wrong);
}

static void print_raw_number(const struct perf_job *job, double value)
{
	if (job->raw && value > 0)
		fprintf(job->raw, "\t%.4f", value);
	else if (job->raw)
		fprintf(job->raw, "\t");
}

/* The columns of a comparison in the raw file; those of the other peer stay empty. */
static void print_raw_versus(const struct perf_job *job, const struct perf_versus *v, int sampled)
{
	static const struct perf_versus nothing;
	const struct perf_versus *mpi = job->nccl ? &nothing : v, *nccl = job->nccl ? v : &nothing;
	if (!job->raw)
		return;
	print_raw_number(job, v->ours_us);
	print_raw_number(job, mpi->best_us);
	print_raw_number(job, mpi->ratio);
	print_raw_number(job, mpi->noise);
	if (v->blocks)
		fprintf(job->raw, "\t%d\t%d", v->blocks, sampled);
	else
		fprintf(job->raw, "\t\t%d", sampled);
	for (int mode = 0; mode < PERF_NCCL_MODES; mode++)
		print_raw_number(job, nccl->us[mode]);
	print_raw_number(job, nccl->best_us);
	print_raw_number(job, nccl->ratio);
	print_raw_number(job, nccl->stock_ratio);
	print_raw_number(job, nccl->noise);
}

static void print_raw_one_call(const struct perf_job *job, const struct perf_one_call *one)
{
	print_raw_number(job, one->ours_us);
	print_raw_number(job, job->nccl ? 0 : one->peer_us);
	print_raw_number(job, job->nccl ? one->peer_us : 0);
	print_raw_number(job, one->ratio);
	print_raw_number(job, one->spread_us);
}

static void print_raw_library(const struct perf_job *job, int slot)
{
	const enum perf_library only = job->options->only;
	if (!job->raw)
		return;
	fprintf(job->raw, "\t%s\t%s\n", perf_library_name(only),
		only == PERF_NCCL ? perf_nccl_mode_name(slot) : "");
	fflush(job->raw);
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
	char *text = add_cell(row, "#wrong", "", 6);
	if (result && result->wrong < 0)
		strcpy(text, "N/A");
	else if (result)
		snprintf(text, sizeof row->cells[0].text, "%ld%s", result->wrong, sampled ? "~" : "");
}

static void add_result(struct row *row, const struct perf_job *job, const char *place, size_t bytes,
		       const struct perf_result *result, int sampled)
{
	const double us = result ? result->us : 0, algbw = us > 0 ? (double)bytes / us / 1e3 : 0;
	begin_group(row, place);
	add_number(row, "time", "(us)", 8, us);
	add_number(row, "algbw", "(GB/s)", 7, algbw);
	add_number(row, "busbw", "(GB/s)", 7, algbw * bus_factor(job));
	add_wrong(row, result, sampled);
}

/* Beside a peer there is room for the bandwidth and for what is wrong in either place. */
static void add_both_results(struct row *row, const struct perf_job *job, size_t bytes,
			     const struct perf_result *apart, const struct perf_result *in_place, int sampled)
{
	struct perf_result both = apart ? *apart : (struct perf_result){ 0 };
	if (in_place && in_place->wrong > 0)
		both.wrong = in_place->wrong + (both.wrong > 0 ? both.wrong : 0);
	begin_group(row, "");
	add_number(row, "busbw", "(GB/s)", 7,
		   both.us > 0 ? (double)bytes / both.us / 1e3 * bus_factor(job) : 0);
	add_wrong(row, apart ? &both : NULL, sampled);
}

static void add_versus(struct row *row, const struct perf_job *job, const struct perf_versus *v)
{
	begin_group(row, job->nccl ? "against NCCL, medians" : "against MPI, medians");
	add_number(row, "ours", "(us)", 8, v->ours_us);
	if (job->nccl)
		add_number(row, "stock", "(us)", 8, v->us[PERF_NCCL_STOCK]);
	add_number(row, job->nccl ? "best" : "mpi", "(us)", 8, v->best_us);
	add_number(row, job->nccl ? "best/" : "mpi/", "ours", 6, v->ratio);
	add_number(row, "noise", "", 5, v->noise);
	if (job->nccl)
		add_text(row, "best is", 7, v->blocks ? best_name(v) : "-");
	else
		add_number(row, "blocks", "", 6, 0);
	if (!job->nccl && v->blocks)
		snprintf(row->cells[row->n - 1].text, sizeof row->cells[0].text, "%d", v->blocks);
}

static void add_one_call(struct row *row, const struct perf_job *job, const struct perf_one_call *one)
{
	begin_group(row, "one call");
	add_number(row, job->options->only ? perf_library_name(job->options->only) : "ours", "(us)", 8,
		   one->ours_us);
	if (!is_versus(job, PERF_MPI) && !is_versus(job, PERF_NCCL))
		return;
	add_number(row, job->nccl ? "best" : "mpi", "(us)", 8, one->peer_us);
	add_number(row, job->nccl ? "best/" : "mpi/", "ours", 6, one->peer_us > 0 ? one->ratio : 0);
}

/* A line of at most 100 characters; for the titles without values. */
static void make_row(struct row *row, const struct perf_job *job, size_t bytes, size_t count,
		     const struct perf_result *apart, const struct perf_result *in_place,
		     const struct perf_versus *versus, const struct perf_one_call *one, int sampled)
{
	*row = (struct row){ 0 };
	add_integer(row, "size", "(B)", 11, (long long)bytes);
	if (is_versus(job, PERF_MPI) || is_versus(job, PERF_NCCL)) {
		add_both_results(row, job, bytes, apart, in_place, sampled);
		add_versus(row, job, versus);
	} else {
		add_integer(row, "count", "", 10, (long long)count);
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
	print_titles(&row);
}

/* Beside products: a way of a case, or the titles. */
static void make_beside_row(struct row *row, size_t bytes, size_t count, const char *way, const char *place,
			    const struct perf_beside *b)
{
	*row = (struct row){ 0 };
	add_integer(row, "size", "(B)", 11, (long long)bytes);
	add_integer(row, "count", "", 10, (long long)count);
	add_text(row, "way", 12, way);
	add_text(row, "place", 5, place);
	begin_group(row, "call");
	add_number(row, "alone", "(us)", 9, b->alone);
	add_number(row, "beside", "(us)", 9, b->beside);
	snprintf(add_cell(row, "slower", "(%)", 6), sizeof row->cells[0].text, "%.1f",
		 (b->beside / b->alone - 1) * 100);
	begin_group(row, "product");
	add_number(row, "alone", "(us)", 9, b->product_alone);
	add_number(row, "beside", "(us)", 9, b->product_beside);
	snprintf(add_cell(row, "slower", "(%)", 6), sizeof row->cells[0].text, "%.1f",
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
	print_titles(&row);
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
	print_raw_header(job, mpi, hosts);
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
	const char *op = job->coll->has_op ? perf_op_name(call->op) : "none";
	int root = job->coll->has_root ? call->root : -1, sampled = perf_is_sampled(call);
	struct row row;
	if (job->rank)
		return;
	print_call(call);
	make_row(&row, job, bytes, call->count, out_of_place, in_place, versus ? versus : &not_compared,
		 one ? one : &not_timed, sampled);
	print_row(&row, ' ');
	if (job->raw)
		fprintf(job->raw, "%s\t%zu\t%zu\t%s\t%s\t%d", job->coll->name, bytes, call->count,
			corale_type_name(call->type), op, root);
	print_raw_result(job, bytes, out_of_place);
	print_raw_result(job, bytes, in_place);
	print_raw_versus(job, versus ? versus : &not_compared, sampled);
	print_raw_one_call(job, one ? one : &not_timed);
	print_raw_library(job, slot);
}

void perf_print_beside(const struct perf_way *way, int in_place, const struct perf_beside *b)
{
	const struct perf_call *call = &way->call;
	const struct perf_job *job = call->job;
	size_t bytes = perf_blocks(job->coll, job->size) * call->count * corale_type_bytes(call->type);
	const char *op = job->coll->has_op ? perf_op_name(call->op) : "none",
		   *place = in_place ? "in" : "out";
	int root = job->coll->has_root ? call->root : -1;
	struct row row;
	if (job->rank)
		return;
	print_call(call);
	make_beside_row(&row, bytes, call->count, way->name, place, b);
	print_row(&row, ' ');
	if (!job->raw)
		return;
	fprintf(job->raw, "%s\t%zu\t%zu\t%s\t%s\t%d\t%s\t%s\t%.4f\t%.4f\t%.4f\t%.4f\t%d\n", job->coll->name,
		bytes, call->count, corale_type_name(call->type), op, root, way->name, place, b->alone,
		b->beside, b->product_alone, b->product_beside, b->blocks);
	fflush(job->raw);
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
