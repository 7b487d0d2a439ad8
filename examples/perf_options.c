/* SPDX-License-Identifier: BSD-3-Clause */
#include <getopt.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "perf_values.h"

enum {
	OPT_VS_MPI = 256,
	OPT_BLOCKS,
	OPT_STREAM,
	OPT_RAW,
	OPT_DEVICE,
	OPT_PRIORITY,
	OPT_CHECK_MAX,
	OPT_VS_NCCL,
	OPT_NCCL_MODES,
	OPT_IN_PLACE,
	OPT_BESIDE,
	OPT_BESIDE_SMS,
	OPT_EVERY,
	OPT_CUBLAS,
	OPT_COLL,
	OPT_ONLY,
	OPT_VERSION
};

static const struct option long_options[] = { { "minbytes", required_argument, NULL, 'b' },
					      { "maxbytes", required_argument, NULL, 'e' },
					      { "stepfactor", required_argument, NULL, 'f' },
					      { "stepbytes", required_argument, NULL, 'i' },
					      { "datatype", required_argument, NULL, 'd' },
					      { "op", required_argument, NULL, 'o' },
					      { "root", required_argument, NULL, 'r' },
					      { "iters", required_argument, NULL, 'n' },
					      { "warmup_iters", required_argument, NULL, 'w' },
					      { "check", required_argument, NULL, 'c' },
					      { "vs-mpi", no_argument, NULL, OPT_VS_MPI },
					      { "blocks", required_argument, NULL, OPT_BLOCKS },
					      { "stream", no_argument, NULL, OPT_STREAM },
					      { "raw", required_argument, NULL, OPT_RAW },
					      { "verbose", no_argument, NULL, 'v' },
					      { "cudagraph", required_argument, NULL, 'G' },
					      { "local_register", required_argument, NULL, 'R' },
					      { "device", required_argument, NULL, OPT_DEVICE },
					      { "priority", no_argument, NULL, OPT_PRIORITY },
					      { "check-max", required_argument, NULL, OPT_CHECK_MAX },
					      { "vs-nccl", required_argument, NULL, OPT_VS_NCCL },
					      { "nccl-modes", required_argument, NULL, OPT_NCCL_MODES },
					      { "beside", required_argument, NULL, OPT_BESIDE },
					      { "beside-sms", required_argument, NULL, OPT_BESIDE_SMS },
					      { "every", required_argument, NULL, OPT_EVERY },
					      { "cublas", required_argument, NULL, OPT_CUBLAS },
					      { "in-place", no_argument, NULL, OPT_IN_PLACE },
					      { "coll", required_argument, NULL, OPT_COLL },
					      { "only", required_argument, NULL, OPT_ONLY },
					      { "nthreads", required_argument, NULL, 't' },
					      { "ngpus", required_argument, NULL, 'g' },
					      { "agg_iters", required_argument, NULL, 'm' },
					      { "run_cycles", required_argument, NULL, 'N' },
					      { "parallel_init", required_argument, NULL, 'p' },
					      { "blocking", required_argument, NULL, 'z' },
					      { "stream_null", required_argument, NULL, 'y' },
					      { "timeout", required_argument, NULL, 'T' },
					      { "report_cputime", required_argument, NULL, 'C' },
					      { "average", required_argument, NULL, 'a' },
					      { "cta_policy", required_argument, NULL, 'x' },
					      { "device_implementation", required_argument, NULL, 'D' },
					      { "device_cta_count", required_argument, NULL, 'V' },
					      { "output_file", required_argument, NULL, 'J' },
					      { "report_timestamps", required_argument, NULL, 'S' },
					      { "memory", required_argument, NULL, 'M' },
					      { "version", no_argument, NULL, OPT_VERSION },
					      { "help", no_argument, NULL, 'h' },
					      { 0 } };

/* Options of nccl-tests 2.19 that these programs do not have, and what to use instead. */
static const struct {
	char letter;
	const char *name, *instead;
} nccl_tests[] = {
	{ 'p', "parallel_init", "each process initialises itself, at the same time as the others" },
	{ 'z', "blocking", "the column of one call at a time has the latency of calls that are waited for" },
	{ 'y', "stream_null",
	  "calls on GPUs go to a non-blocking stream; --priority gives it the highest priority" },
	{ 'C', "report_cputime", "times are elapsed ones" },
	{ 'a', "average", "times are the largest over ranks, as with -a 3 of nccl-tests" },
	{ 'D', "device_implementation", "Corale has no calls from kernels" },
	{ 'V', "device_cta_count", "CORALE_MAX_CTAS=N limits the blocks of a call" },
	{ 'S', "report_timestamps", "-J FILE and --raw FILE write machine-readable lines" },
	{ 'M', "memory", "nvidia-smi shows the memory of each process" },
};

/* One option; 0, or -1 if its value is malformed. */
static int take(int c, char *value, struct perf_options *o)
{
	static const char *const policies[] = { "auto", "efficient", "zero" };
	int number;
	switch (c) {
	case 'b':
		return parse_size(value, &o->min_bytes);
	case 'e':
		return parse_size(value, &o->max_bytes);
	case 'f':
		return parse_factor(value, &o->factor);
	case 'i':
		o->factor = 0;
		return parse_size(value, &o->step_bytes) || !o->step_bytes ? -1 : 0;
	case 'd':
		return parse_list(value, type_name, CORALE_NUM_TYPES, o->types, &o->ntypes);
	case 'o':
		return parse_list(value, perf_op_name, CORALE_NUM_OPS + 1, o->ops, &o->nops);
	case 'r':
		o->root = -1;
		return strcmp(value, "all") ? parse_int(value, 0, &o->root) : 0;
	case 'n':
		return parse_int(value, 1, &o->iterations);
	case 'w':
		return parse_int(value, 0, &o->warmup);
	case 'c':
		return parse_int(value, 0, &o->checks);
	case 'm':
		return parse_int(value, 1, &o->grouped);
	case 'N':
		return parse_int(value, 0, &o->cycles);
	case OPT_BLOCKS:
		return parse_int(value, 1, &o->blocks);
	case OPT_RAW:
		o->raw = value;
		return 0;
	case 'T':
		return parse_int(value, 0, &number) || setenv("CORALE_TIMEOUT", value, 1) ? -1 : 0;
	case 'x':
		return parse_int(value, 0, &number) || number > 2 ||
			       setenv("CORALE_CTA_POLICY", policies[number], 1)
			   ? -1
			   : 0;
	case 'J':
		o->json = value;
		return 0;
	case 'G':
		return parse_int(value, 0, &o->replays);
	case 'R':
		return parse_int(value, 0, &o->registration) || o->registration > PERF_ALLOCATED ? -1 : 0;
	case OPT_DEVICE:
		return parse_device(value, &o->cuda);
	case OPT_COLL:
		return parse_list(value, perf_coll_name, PERF_COLLS, o->colls, &o->ncolls);
	case OPT_ONLY:
		return parse_library(value, &o->only);
	case OPT_CHECK_MAX:
		return parse_size(value, &o->check_max) || !o->check_max ? -1 : 0;
	case OPT_VS_NCCL:
		o->vs_nccl = value;
		return 0;
	case OPT_NCCL_MODES:
		return parse_modes(value, &o->nccl_modes);
	case OPT_BESIDE:
		o->priority = o->beside = 1;
		return strcmp(value, product_name(0)) ? -1 : 0;
	case OPT_BESIDE_SMS:
		return parse_int(value, 1, &o->beside_sms);
	case OPT_EVERY:
		return parse_int(value, 1, &o->every_us);
	case OPT_CUBLAS:
		o->cublas = value;
		return 0;
	case OPT_PRIORITY:
		return o->priority = 1, 0;
	case OPT_IN_PLACE:
		return o->in_place = 1, 0;
	case OPT_VS_MPI:
		return o->vs_mpi = 1, 0;
	case OPT_STREAM:
		return o->stream = 1, 0;
	case 'v':
		return o->verbose = 1, 0;
	default: /* -g 1 and -t 1 of nccl-tests */
		return 0;
	}
}

static int complain(int say, const char *format, const char *a, const char *b)
{
	if (say) {
		fprintf(stderr, format, a, b);
		fprintf(stderr, "; try --help\n");
	}
	return -1;
}

/* Of --only: the library has to be named, and what belongs to Corale, or needs two libraries, is of no use. */
static const char *contradiction_of_only(const struct perf_options *o)
{
	const int alone = o->only != PERF_CORALE;
	if (o->only == PERF_NCCL && !o->vs_nccl)
		return "--only nccl needs NCCL's library: --vs-nccl LIBRARY";
	if (o->only == PERF_MPI && !o->vs_mpi)
		return "--only mpi needs --vs-mpi";
	if (alone && o->beside)
		return "--only mpi and --only nccl don't go with --beside";
	if (alone && o->registration)
		return "-R registers buffers with Corale: it doesn't go with --only mpi or --only nccl";
	if (alone && o->stream)
		return "--stream is for Corale's calls: it doesn't go with --only mpi or --only nccl";
	if (alone && o->in_place)
		return "--in-place is for comparisons: it doesn't go with --only";
	return NULL;
}

/* Says which words an option takes; 0: it takes none of a list. */
static int print_words(FILE *out, int option)
{
	const struct {
		int option, n, is_one;
		const char *(*name)(int);
	} lists[] = { { 'd', CORALE_NUM_TYPES, 0, type_name },
		      { 'o', CORALE_NUM_OPS + 1, 0, perf_op_name },
		      { OPT_COLL, PERF_COLLS, 0, perf_coll_name },
		      { OPT_NCCL_MODES, PERF_NCCL_MODES, 0, perf_nccl_mode_name },
		      { OPT_DEVICE, 2, 1, device_name },
		      { OPT_ONLY, 3, 1, perf_library_name },
		      { OPT_BESIDE, 1, 1, product_name } };
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		if (lists[i].option != option)
			continue;
		fputs(lists[i].is_one ? "; it takes one of:" : "; it takes a list with commas, or all, of:",
		      out);
		for (int word = 0; word < lists[i].n; word++)
			fprintf(out, " %s", lists[i].name(word));
		return 1;
	}
	return 0;
}

/* written: the option as it stands on the command line. */
static int complain_of_value(int say, int option, const char *written, const char *value)
{
	if (say) {
		fprintf(stderr, "%s: malformed value for %s", value, written);
		fprintf(stderr, print_words(stderr, option) ? "\n" : "; try --help\n");
	}
	return -1;
}

/* Of nccl-tests: 0, or -1 if there is no such thing here, which is said. */
static int check_of_nccl_tests(int say, int option, const char *value)
{
	int n;
	if ((option == 't' || option == 'g') && (parse_int(value, 0, &n) || n != 1)) {
		if (say)
			fprintf(stderr,
				"-%c %s: a process is one rank, with one GPU: start more of them, mpirun -n "
				"RANKS\n",
				option, value);
		return -1;
	}
	for (size_t i = 0; i < sizeof(nccl_tests) / sizeof(nccl_tests[0]); i++) {
		if (nccl_tests[i].letter != option)
			continue;
		if (say)
			fprintf(stderr, "-%c (--%s) is an option of nccl-tests alone; here %s\n", option,
				nccl_tests[i].name, nccl_tests[i].instead);
		return -1;
	}
	return 0;
}

/* Options that do not go together. */
static const char *contradiction(const struct perf_options *o)
{
	if (o->grouped > 1 && (o->replays || o->vs_mpi || o->vs_nccl || o->beside || o->only != PERF_CORALE))
		return "-m groups Corale's calls: it doesn't go with -G, --vs-mpi, --vs-nccl, --beside and "
		       "--only";
	if (o->max_bytes < o->min_bytes)
		return "-b is above -e";
	if (o->replays && !o->cuda)
		return "-G captures calls on a GPU: it needs --device cuda";
	if (o->vs_nccl && !o->cuda)
		return "--vs-nccl compares calls on GPUs: it needs --device cuda";
	if (o->beside && !o->cuda)
		return "--beside is for GPUs: it needs --device cuda";
	if ((o->every_us || o->beside_sms) && !o->beside)
		return "--every and --beside-sms belong to --beside gemm";
	if (o->vs_mpi && o->cuda)
		return "--vs-mpi compares calls on host memory: it goes with --device host";
	return contradiction_of_only(o);
}

int perf_parse(int argc, char **argv, int coll, int say, struct perf_options *options)
{
	static const struct perf_options defaults = { .min_bytes = 8,
						      .max_bytes = SIZE_MAX,
						      .factor = 2,
						      .warmup = 2,
						      .checks = 1,
						      .grouped = 1,
						      .cycles = 1,
						      .types = { CORALE_FLOAT32 },
						      .ntypes = 1,
						      .ops = { CORALE_SUM },
						      .nops = 1,
						      .nccl_modes = 1 << PERF_NCCL_STOCK };
	const size_t default_max = 64 << 20;
	char word[128];
	int c;
	*options = defaults;
	options->colls[0] = coll;
	options->ncolls = 1;
	opterr = 0;
	while ((c = getopt_long(argc, argv, "b:e:f:i:d:o:r:n:w:c:vhG:R:t:g:m:N:p:z:y:T:C:a:x:D:V:J:S:M:",
				long_options, NULL)) != -1) {
		if (c == 'h') {
			if (say)
				perf_print_help(coll);
			return 1;
		}
		if (c == OPT_VERSION) {
			if (say)
				printf("corale %d.%d.%d\n", corale_version() / 10000,
				       corale_version() / 100 % 100, corale_version() % 100);
			return 1;
		}
		if (c == '?')
			return complain(say, "unknown option or missing value: %s%s", argv[optind - 1], "");
		if (check_of_nccl_tests(say, c, optarg))
			return -1;
		snprintf(word, sizeof(word), "%s",
			 optarg ? optarg : ""); /* lists are taken apart where they lie */
		if (take(c, optarg, options))
			return complain_of_value(
			    say, c, argv[optind - 1] == optarg ? argv[optind - 2] : argv[optind - 1], word);
	}
	if (options->max_bytes == SIZE_MAX)
		options->max_bytes = options->min_bytes > default_max ? options->min_bytes : default_max;
	if (optind < argc)
		return complain(say, "%s: what is it%s?", argv[optind], "");
	if (contradiction(options))
		return complain(say, "%s%s", contradiction(options), "");
	if (!options->blocks)
		options->blocks = options->vs_nccl || options->beside ? 5 : 11;
	return 0;
}
