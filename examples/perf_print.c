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

static void print_beside_columns(const struct perf_job *job)
{
	printf("#\n# beside bf16 products of 8192^3");
	if (job->options->beside_sms)
		printf(" on %d SMs", job->options->beside_sms);
	if (job->options->every_us)
		printf("; a call every %d us, median latency", job->options->every_us);
	printf("\n#%11s %12s %11s %7s %5s %12s %5s   %10s %10s %8s   %10s %10s %8s\n", "size", "count",
	       "type", "redop", "root", "way", "place", "call alone", "beside", "slower", "prod.alone",
	       "beside", "slower");
	printf("#%11s %12s %11s %7s %5s %12s %5s   %10s %10s %8s   %10s %10s %8s\n", "(B)", "(elements)", "",
	       "", "", "", "", "(us)", "(us)", "(%)", "(us)", "(us)", "(%)");
	fflush(stdout);
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

static void print_columns(const struct perf_job *job)
{
	const int mpi = is_versus(job, PERF_MPI), nccl = is_versus(job, PERF_NCCL);
	const char *title = mpi ? "   against MPI, medians" : nccl ? "   against NCCL, medians" : "";
	const int title_width = nccl ? 65 : mpi ? 44 : 0;
	print_clock(job);
	printf("#\n#%11s %12s %11s %7s %5s   %27s%8s  %27s%8s%-*s   %s\n", "", "", "", "", "",
	       "out of place     ", "", "in place       ", "", title_width, title, "one call");
	printf("#%11s %12s %11s %7s %5s   %9s %8s %8s %7s   %9s %8s %8s %7s", "size", "count", "type",
	       "redop", "root", "time", "algbw", "busbw", "#wrong", "time", "algbw", "busbw", "#wrong");
	if (mpi)
		printf("   %9s %9s %7s %6s %6s", "ours", "mpi", "mpi/", "noise", "blocks");
	if (nccl)
		printf("   %9s %9s %9s %7s %7s %6s %6s %6s", "ours", "stock", "best", "best/", "stock/",
		       "noise", "blocks", "best");
	printf("   %9s", job->options->only ? perf_library_name(job->options->only) : "ours");
	if (mpi)
		printf(" %9s %7s", "mpi", "mpi/");
	if (nccl)
		printf(" %9s %7s", "best", "best/");
	printf("\n#%11s %12s %11s %7s %5s   %9s %8s %8s %7s   %9s %8s %8s %7s", "(B)", "(elements)", "", "",
	       "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)", "");
	if (mpi)
		printf("   %9s %9s %7s %6s %6s", "(us)", "(us)", "ours", "", "");
	if (nccl)
		printf("   %9s %9s %9s %7s %7s %6s %6s %6s", "(us)", "(us)", "(us)", "ours", "ours", "", "",
		       "is");
	printf("   %9s", "(us)");
	if (mpi || nccl)
		printf(" %9s %7s", "(us)", "ours");
	printf("\n");
	fflush(stdout);
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

static double bus_factor(const struct perf_job *job)
{
	return job->coll->bus_constant + job->coll->bus_per_rank / job->size;
}

static void print_result(const struct perf_job *job, size_t bytes, int sampled,
			 const struct perf_result *result)
{
	double algbw;
	char wrong[24] = "N/A";
	if (!result) {
		printf("   %9s %8s %8s %7s", "-", "-", "-", "-");
		if (job->raw)
			fprintf(job->raw, "\t\t\t\t");
		return;
	}
	algbw = (double)bytes / result->us / 1e3;
	if (result->wrong >= 0)
		snprintf(wrong, sizeof(wrong), "%ld", result->wrong);
	printf("   %9.2f %8.3f %8.3f %6s%c", result->us, algbw, algbw * bus_factor(job), wrong,
	       sampled ? '~' : ' ');
	if (job->raw)
		fprintf(job->raw, "\t%.4f\t%.6f\t%.6f\t%s", result->us, algbw, algbw * bus_factor(job),
			wrong);
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

static void print_us(double us)
{
	if (us > 0)
		printf(" %9.2f", us);
	else
		printf(" %9s", "-");
}

static const char *best_name(const struct perf_versus *v)
{
	for (int mode = 0; mode < PERF_NCCL_MODES; mode++)
		if (v->us[mode] == v->best_us)
			return perf_nccl_mode_name(mode);
	return "";
}

static void print_versus(const struct perf_job *job, const struct perf_versus *v)
{
	if (!v->blocks && is_versus(job, PERF_NCCL))
		printf("   %9s %9s %9s %7s %7s %6s %6s %6s", "-", "-", "-", "-", "-", "-", "-", "-");
	else if (!v->blocks && is_versus(job, PERF_MPI))
		printf("   %9s %9s %7s %6s %6s", "-", "-", "-", "-", "-");
	if (!v->blocks)
		return;
	if (!job->nccl) {
		printf("   %9.2f %9.2f %7.3f %6.3f %6d", v->ours_us, v->best_us, v->ratio, v->noise,
		       v->blocks);
		return;
	}
	printf("   %9.2f", v->ours_us);
	print_us(v->us[PERF_NCCL_STOCK]);
	printf(" %9.2f %7.3f %7.3f %6.3f %6d %6s", v->best_us, v->ratio, v->stock_ratio, v->noise, v->blocks,
	       best_name(v));
}

static void print_one_call(const struct perf_job *job, const struct perf_one_call *one)
{
	printf("  ");
	print_us(one->ours_us);
	if (!is_versus(job, PERF_MPI) && !is_versus(job, PERF_NCCL))
		return;
	print_us(one->peer_us);
	if (one->peer_us > 0)
		printf(" %7.3f", one->ratio);
	else
		printf(" %7s", "-");
}

/* Of several collectives (--coll) each is named before its first line. */
static void print_coll(const struct perf_job *job)
{
	static const struct perf_coll *last;
	if (job->options->ncolls > 1 && job->coll != last)
		printf("# %s\n", job->coll->name);
	last = job->coll;
}

void perf_print_line(const struct perf_job *job, const struct perf_call *call,
		     const struct perf_result *out_of_place, const struct perf_result *in_place,
		     const struct perf_versus *versus, const struct perf_one_call *one, int slot)
{
	size_t bytes = perf_blocks(job->coll, job->size) * call->count * corale_type_bytes(call->type);
	const char *op = job->coll->has_op ? perf_op_name(call->op) : "none";
	int root = job->coll->has_root ? call->root : -1, sampled = perf_is_sampled(call);
	static const struct perf_versus nothing;
	static const struct perf_one_call untimed;
	if (job->rank)
		return;
	print_coll(job);
	printf(" %11zu %12zu %11s %7s %5d", bytes, call->count, corale_type_name(call->type), op, root);
	if (job->raw)
		fprintf(job->raw, "%s\t%zu\t%zu\t%s\t%s\t%d", job->coll->name, bytes, call->count,
			corale_type_name(call->type), op, root);
	print_result(job, bytes, sampled, out_of_place);
	print_result(job, bytes, sampled, in_place);
	print_versus(job, versus ? versus : &nothing);
	print_one_call(job, one ? one : &untimed);
	print_raw_versus(job, versus ? versus : &nothing, sampled);
	print_raw_one_call(job, one ? one : &untimed);
	printf("\n");
	fflush(stdout);
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
	double slower = (b->beside / b->alone - 1) * 100,
	       product_slower = (b->product_beside / b->product_alone - 1) * 100;
	if (job->rank)
		return;
	printf(" %11zu %12zu %11s %7s %5d %12s %5s   %10.2f %10.2f %8.1f   %10.1f %10.1f %8.1f\n", bytes,
	       call->count, corale_type_name(call->type), op, root, way->name, place, b->alone, b->beside,
	       slower, b->product_alone, b->product_beside, product_slower);
	fflush(stdout);
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
