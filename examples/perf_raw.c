/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The raw file, whose fields are separated by tabs.
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
#include "perf.h"

void perf_raw_header(const struct perf_job *job, const char *mpi, int hosts)
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
	    perf_registration_name(job), job->nccl ? perf_nccl_version(job) : "", job->nccl ? " " : "",
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

static void print_result(const struct perf_job *job, size_t bytes, const struct perf_result *result)
{
	if (!result) {
		fprintf(job->raw, "\t\t\t\t");
		return;
	}
	const double algbw = (double)bytes / result->us / 1e3;
	fprintf(job->raw, "\t%.4f\t%.6f\t%.6f\t", result->us, algbw, algbw * perf_bus_factor(job));
	if (result->wrong < 0)
		fprintf(job->raw, "N/A");
	else
		fprintf(job->raw, "%ld", result->wrong);
}

static void print_number(const struct perf_job *job, double value)
{
	if (value > 0)
		fprintf(job->raw, "\t%.4f", value);
	else
		fprintf(job->raw, "\t");
}

/* The columns of a comparison in the raw file; those of the other peer stay empty. */
static void print_versus(const struct perf_job *job, const struct perf_versus *v, int sampled)
{
	static const struct perf_versus nothing;
	const struct perf_versus *mpi = job->nccl ? &nothing : v, *nccl = job->nccl ? v : &nothing;
	print_number(job, v->ours_us);
	print_number(job, mpi->best_us);
	print_number(job, mpi->ratio);
	print_number(job, mpi->noise);
	if (v->blocks)
		fprintf(job->raw, "\t%d\t%d", v->blocks, sampled);
	else
		fprintf(job->raw, "\t\t%d", sampled);
	for (int mode = 0; mode < PERF_NCCL_MODES; mode++)
		print_number(job, nccl->us[mode]);
	print_number(job, nccl->best_us);
	print_number(job, nccl->ratio);
	print_number(job, nccl->stock_ratio);
	print_number(job, nccl->noise);
}

static void print_one_call(const struct perf_job *job, const struct perf_one_call *one)
{
	print_number(job, one->ours_us);
	print_number(job, job->nccl ? 0 : one->peer_us);
	print_number(job, job->nccl ? one->peer_us : 0);
	print_number(job, one->ratio);
	print_number(job, one->spread_us);
}

static void print_library(const struct perf_job *job, int slot)
{
	const enum perf_library only = job->options->only;
	fprintf(job->raw, "\t%s\t%s\n", perf_library_name(only),
		only == PERF_NCCL ? perf_nccl_mode_name(slot) : "");
	fflush(job->raw);
}

/* The call, which each line begins with. */
static void print_call(const struct perf_call *call)
{
	const struct perf_job *job = call->job;
	const struct perf_coll *coll = job->coll;
	const size_t bytes = perf_blocks(coll, job->size) * call->count * corale_type_bytes(call->type);
	fprintf(job->raw, "%s\t%zu\t%zu\t%s\t%s\t%d", coll->name, bytes, call->count,
		corale_type_name(call->type), coll->has_op ? perf_op_name(call->op) : "none",
		coll->has_root ? call->root : -1);
}

void perf_raw_line(const struct perf_job *job, const struct perf_call *call,
		   const struct perf_result *out_of_place, const struct perf_result *in_place,
		   const struct perf_versus *versus, const struct perf_one_call *one, int slot)
{
	const size_t bytes = perf_blocks(job->coll, job->size) * call->count * corale_type_bytes(call->type);
	if (!job->raw)
		return;
	print_call(call);
	print_result(job, bytes, out_of_place);
	print_result(job, bytes, in_place);
	print_versus(job, versus, perf_is_sampled(call));
	print_one_call(job, one);
	print_library(job, slot);
}

void perf_raw_beside(const struct perf_way *way, int in_place, const struct perf_beside *b)
{
	FILE *raw = way->call.job->raw;
	if (!raw)
		return;
	print_call(&way->call);
	fprintf(raw, "\t%s\t%s\t%.4f\t%.4f\t%.4f\t%.4f\t%d\n", way->name, in_place ? "in" : "out", b->alone,
		b->beside, b->product_alone, b->product_beside, b->blocks);
	fflush(raw);
}
