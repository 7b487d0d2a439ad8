#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "perf.h"

static int count_hosts(MPI_Comm comm)
{
	MPI_Comm host;
	int rank, first, hosts;
	MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
	MPI_Comm_rank(host, &rank);
	first = rank == 0;
	MPI_Allreduce(&first, &hosts, 1, MPI_INT, MPI_SUM, comm);
	MPI_Comm_free(&host);
	return hosts;
}

static void print_columns(const struct perf_job *job)
{
	printf("#\n#%11s %12s %11s %7s %5s   %27s%8s  %27s%8s%s\n", "", "", "", "", "", "out of place     ",
	       "", "in place       ", "", job->options->vs_mpi ? "   against MPI, medians" : "");
	printf("#%11s %12s %11s %7s %5s   %9s %8s %8s %7s   %9s %8s %8s %7s", "size", "count", "type",
	       "redop", "root", "time", "algbw", "busbw", "#wrong", "time", "algbw", "busbw", "#wrong");
	if (job->options->vs_mpi)
		printf("   %9s %9s %7s %6s %6s", "ours", "mpi", "mpi/", "noise", "blocks");
	printf("\n#%11s %12s %11s %7s %5s   %9s %8s %8s %7s   %9s %8s %8s %7s", "(B)", "(elements)", "", "",
	       "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)", "");
	if (job->options->vs_mpi)
		printf("   %9s %9s %7s", "(us)", "(us)", "ours");
	printf("\n");
	fflush(stdout);
}

void perf_print_header(const struct perf_job *job)
{
	char mpi[MPI_MAX_LIBRARY_VERSION_STRING];
	int length, version = corale_version(), hosts = count_hosts(job->mpi);
	MPI_Get_library_version(mpi, &length);
	mpi[strcspn(mpi, ",\n")] = '\0';
	if (job->rank)
		return;
	printf("# corale_%s_perf: Corale %d.%d.%d, %s\n", job->coll->name, version / 10000,
	       version / 100 % 100, version % 100, mpi);
	printf("# ranks %d, hosts %d, nodes %d; host memory, %s calls\n", job->size, hosts, job->nodes,
	       job->stream ? "asynchronous" : "blocking");
	if (job->raw)
		fprintf(
		    job->raw,
		    "# corale-perf-raw 1\tversion=%d.%d.%d\tmpi=%s\tranks=%d\thosts=%d\tnodes=%d\tstream=%d\n"
		    "coll\tbytes\tcount\ttype\top\troot\tus\talgbw\tbusbw\twrong\tin_us\tin_algbw\tin_busbw\t"
		    "in_wrong\tours_us\tmpi_us\tratio\tnoise\tblocks\n",
		    version / 10000, version / 100 % 100, version % 100, mpi, job->size, hosts, job->nodes,
		    job->stream != NULL);
	print_columns(job);
}

static double bus_factor(const struct perf_job *job)
{
	return job->coll->bus_constant + job->coll->bus_per_rank / job->size;
}

static void print_result(const struct perf_job *job, size_t bytes, const struct perf_result *result)
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
	printf("   %9.2f %8.3f %8.3f %7s", result->us, algbw, algbw * bus_factor(job), wrong);
	if (job->raw)
		fprintf(job->raw, "\t%.4f\t%.6f\t%.6f\t%s", result->us, algbw, algbw * bus_factor(job),
			wrong);
}

static void print_versus(const struct perf_job *job, const struct perf_versus *versus)
{
	if (versus) {
		printf("   %9.2f %9.2f %7.3f %6.3f %6d", versus->ours_us, versus->mpi_us, versus->ratio,
		       versus->noise, versus->blocks);
		if (job->raw)
			fprintf(job->raw, "\t%.4f\t%.4f\t%.4f\t%.4f\t%d", versus->ours_us, versus->mpi_us,
				versus->ratio, versus->noise, versus->blocks);
	} else if (job->raw) {
		fprintf(job->raw, "\t\t\t\t\t");
	}
}

void perf_print_line(const struct perf_job *job, const struct perf_call *call,
		     const struct perf_result *out_of_place, const struct perf_result *in_place,
		     const struct perf_versus *versus)
{
	size_t bytes = perf_blocks(job->coll, job->size) * call->count * corale_type_bytes(call->type);
	const char *op = job->coll->has_op ? perf_op_name(call->op) : "none";
	int root = job->coll->has_root ? call->root : -1;
	if (job->rank)
		return;
	printf(" %11zu %12zu %11s %7s %5d", bytes, call->count, corale_type_name(call->type), op, root);
	if (job->raw)
		fprintf(job->raw, "%s\t%zu\t%zu\t%s\t%s\t%d", job->coll->name, bytes, call->count,
			corale_type_name(call->type), op, root);
	print_result(job, bytes, out_of_place);
	print_result(job, bytes, in_place);
	print_versus(job, versus);
	printf("\n");
	fflush(stdout);
	if (job->raw) {
		fprintf(job->raw, "\n");
		fflush(job->raw);
	}
}

void perf_print_summary(const struct perf_job *job, const struct perf_summary *summary)
{
	if (job->rank)
		return;
	if (job->options->checks)
		printf("# Out of bounds values : %ld %s\n", summary->wrong, summary->wrong ? "FAILED" : "OK");
	else
		printf("# Out of bounds values : not checked\n");
	printf("# Avg bus bandwidth    : %g GB/s\n",
	       summary->bus_count ? summary->bus_sum / summary->bus_count : 0);
	if (summary->compared)
		printf("# vs mpi: min %.3f at %zu, geomean %.3f, noise %.3f\n", summary->min_ratio,
		       summary->min_at, exp(summary->log_sum / summary->compared), summary->noise);
	fflush(stdout);
}
