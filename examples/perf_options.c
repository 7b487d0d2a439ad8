#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "perf.h"

static const char help[] =
    "Usage: mpirun -n RANKS corale_%s_perf [options]\n"
    "\n"
    "Times corale_%s on host memory over a range of sizes, checks every element of the results, and\n"
    "prints one line per size. Exit status: 0, or 1 if a result was wrong or a call failed.\n"
    "\n"
    "Sizes (suffixes K, M, G: 1024 and its powers; the larger of a rank's two buffers)\n"
    "  -b, --minbytes SIZE    smallest size (default 8)\n"
    "  -e, --maxbytes SIZE    largest size (default 64M)\n"
    "  -f, --stepfactor F     each size is F times the last (default 2)\n"
    "  -i, --stepbytes SIZE   each size is SIZE more than the last, instead of -f\n"
    "Calls\n"
    "  -d, --datatype TYPE    int8 uint8 int32 uint32 int64 uint64 float16 bfloat16 float32 float64\n"
    "                         float8_e4m3 float8_e5m2, a list with commas, or all (default float32)\n"
    "  -o, --op OP            sum prod min max avg premul, a list with commas, or all (default sum)\n"
    "  -r, --root RANK        root of a broadcast, or all (default 0)\n"
    "      --stream           calls go to an asynchronous host stream instead of blocking\n"
    "Measuring\n"
    "  -n, --iters N          timed calls per size (default: more for small sizes, at least 5)\n"
    "  -w, --warmup_iters N   calls before timing (default 2)\n"
    "  -c, --check N          checked calls per line, each with new data; 0: none (default 1). For float32 "
    "and\n"
    "                         float64 the first uses random numbers and a rounding bound, the second data "
    "whose\n"
    "                         results are exact, and so on in turn; other types begin with exact data\n"
    "      --vs-mpi           also times the MPI library's own collective in the same run: blocks of ours, "
    "MPI,\n"
    "                         MPI by turns, medians; ratio = MPI's time / ours, noise = MPI against MPI\n"
    "      --blocks N         at least N such blocks (default 11); noise below 0.85 makes it up to 5 N\n"
    "Output\n"
    "      --raw FILE         writes machine-readable lines to FILE (docs/plot.py reads them)\n"
    "  -v, --verbose          the library says which plan it chose for each size (CORALE_DEBUG=info)\n"
    "  -h, --help             this text\n"
    "\n"
    "Columns: time is the largest over ranks of the average time of a call; algbw = size / time; busbw is\n"
    "algbw times the traffic that each rank's link must carry at least, so that it can be compared with the\n"
    "link's speed; #wrong counts wrong elements of all checked calls on all ranks (differing bits between\n"
    "ranks count, too). Left: send and receive buffers apart; right: in place, where it has a meaning.\n";

enum { OPT_VS_MPI = 256, OPT_BLOCKS, OPT_STREAM, OPT_RAW };

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
					      { "help", no_argument, NULL, 'h' },
					      { 0 } };

static const struct {
	const char *alias, *name;
} aliases[] = {
	{ "char", "int8" },
	{ "int", "int32" },
	{ "uint", "uint32" },
	{ "half", "float16" },
	{ "float", "float32" },
	{ "double", "float64" },
	{ "fp8_e4m3", "float8_e4m3" },
	{ "fp8_e5m2", "float8_e5m2" },
	{ "mulsum", "premul" },
};

const char *perf_op_name(corale_op op)
{
	return op >= CORALE_NUM_OPS ? "premul" : corale_op_name(op);
}

static const char *op_name(int op)
{
	return perf_op_name(op);
}

static const char *type_name(int type)
{
	return corale_type_name((corale_type)type);
}

static int parse_size(const char *text, size_t *out)
{
	char *end;
	double value = strtod(text, &end);
	int shift = *end == 'k' || *end == 'K'   ? 10
		    : *end == 'm' || *end == 'M' ? 20
		    : *end == 'g' || *end == 'G' ? 30
						 : 0;
	end += shift != 0;
	if (end == text || *end || value < 0 || value > 1e15)
		return -1;
	*out = (size_t)(value * (double)((size_t)1 << shift));
	return 0;
}

static int parse_int(const char *text, int least, int *out)
{
	char *end;
	long value = strtol(text, &end, 10);
	if (end == text || *end || value < least || value > 1000000000)
		return -1;
	*out = (int)value;
	return 0;
}

/* A list with commas, or "all", of names that name() gives for 0 .. n - 1. */
static int parse_list(char *text, const char *(*name)(int), int n, int *out, int *count)
{
	*count = 0;
	if (strcmp(text, "all") == 0) {
		while (*count < n) {
			out[*count] = *count;
			++*count;
		}
		return 0;
	}
	for (char *rest, *word = strtok_r(text, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
		int i = 0;
		for (size_t a = 0; a < sizeof(aliases) / sizeof(aliases[0]); a++)
			word = strcmp(word, aliases[a].alias) ? word : (char *)aliases[a].name;
		while (i < n && strcmp(word, name(i)))
			i++;
		if (i == n || *count == n)
			return -1;
		out[(*count)++] = i;
	}
	return *count ? 0 : -1;
}

static int parse_factor(const char *text, double *out)
{
	char *end;
	*out = strtod(text, &end);
	return end == text || *end || *out <= 1 ? -1 : 0;
}

/* One option; 0, or -1 if its value is malformed. */
static int take(int c, char *value, struct perf_options *o)
{
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
		return parse_list(value, op_name, CORALE_NUM_OPS + 1, o->ops, &o->nops);
	case 'r':
		o->root = -1;
		return strcmp(value, "all") ? parse_int(value, 0, &o->root) : 0;
	case 'n':
		return parse_int(value, 1, &o->iterations);
	case 'w':
		return parse_int(value, 0, &o->warmup);
	case 'c':
		return parse_int(value, 0, &o->checks);
	case OPT_BLOCKS:
		return parse_int(value, 1, &o->blocks);
	case OPT_RAW:
		o->raw = value;
		return 0;
	case OPT_VS_MPI:
		return o->vs_mpi = 1, 0;
	case OPT_STREAM:
		return o->stream = 1, 0;
	default:
		return o->verbose = 1, 0;
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

int perf_parse(int argc, char **argv, const char *coll, int say, struct perf_options *options)
{
	static const struct perf_options defaults = { .min_bytes = 8,
						      .max_bytes = 64 << 20,
						      .factor = 2,
						      .warmup = 2,
						      .checks = 1,
						      .types = { CORALE_FLOAT32 },
						      .ntypes = 1,
						      .ops = { CORALE_SUM },
						      .nops = 1,
						      .blocks = 11 };
	int c;
	*options = defaults;
	opterr = 0;
	while ((c = getopt_long(argc, argv, "b:e:f:i:d:o:r:n:w:c:vhG:R:", long_options, NULL)) != -1) {
		if (c == 'h') {
			if (say)
				printf(help, coll, coll);
			return 1;
		}
		if (c == '?')
			return complain(say, "unknown option or missing value: %s%s", argv[optind - 1], "");
		if (c == 'G' || c == 'R')
			return complain(say, "%s is for GPU memory, which this program does not serve%s",
					c == 'G' ? "-G (graph capture)" : "-R (registration)", "");
		if (take(c, optarg, options))
			return complain(say, "%s: malformed value for %s", optarg,
					argv[optind - 1] == optarg ? argv[optind - 2] : argv[optind - 1]);
	}
	if (optind < argc)
		return complain(say, "%s: what is it%s?", argv[optind], "");
	if (options->max_bytes < options->min_bytes)
		options->max_bytes = options->min_bytes;
	return 0;
}
