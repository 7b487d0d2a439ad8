/* SPDX-License-Identifier: BSD-3-Clause */
/* corale-tune: measures the rates by which plans are chosen on this machine, and writes the file that CORALE_TUNING names. */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "corale_mpi.h"
#include "base/text.h"
#include "tune.h"

static const double least_seconds = 0.1, most_seconds = 60;

struct options {
	const char *file; /* NULL: standard output */
	double seconds;
	int dry_run;
};

static const struct measurement {
	const char *rates, *what;
	int (*run)(const struct tune_pair *pair, struct tuning *out);
} measurements[] = {
	{ "host.node_ns", "a word to and fro between two ranks of a node", tune_latency },
	{ "host.node_gbs host.reduce_gbs", "vectors copied into shared memory, and folded from there",
	  tune_bytes },
	{ "host.step_ns", "small calls between the two", tune_step },
};
enum { MEASUREMENTS = sizeof(measurements) / sizeof(*measurements) };

static void print_usage(FILE *to)
{
	fprintf(
	    to,
	    "Usage: mpirun -n RANKS corale-tune [-o FILE] [-s SECONDS] [-n] [--version] [--help]\n"
	    "Measures how fast hosts and the network between them are, and writes the rates as CORALE_TUNING "
	    "takes them.\n"
	    "  -o, --output FILE      default: standard output\n"
	    "  -s, --seconds SECONDS  how long hosts are measured, 0.1 to 60; default 15\n"
	    "  -n, --dry-run          prints what would be measured, and writes nothing\n"
	    "Two ranks of a node or more measure hosts, ranks of several nodes the network.\n"
	    "Exit status: 0; 1 if something failed, or there is nothing to measure; 2 for wrong "
	    "arguments.\n");
}

static void print_version(void)
{
	const int version = corale_version();
	printf("corale %d.%d.%d\n", version / 10000, version / 100 % 100, version % 100);
}

/* ---- Arguments -------------------------------------------------------------------------------------------- */

static int read_seconds(const char *text, double *out)
{
	char *end;
	*out = text_number(text, &end);
	return end != text && !*end && *out >= least_seconds && *out <= most_seconds;
}

/* -1: go on; else the exit status. All ranks read the same, one speaks. */
static int read_options(int argc, char **argv, int speaks, struct options *out)
{
	static const struct option longs[] = {
		{ "output", required_argument, NULL, 'o' }, { "seconds", required_argument, NULL, 's' },
		{ "dry-run", no_argument, NULL, 'n' },      { "version", no_argument, NULL, 'v' },
		{ "help", no_argument, NULL, 'h' },         { NULL, 0, NULL, 0 },
	};
	int option, is_right = 1;
	opterr = speaks;
	while (is_right && (option = getopt_long(argc, argv, "o:s:nh", longs, NULL)) != -1) {
		if (option == 'v' || option == 'h') {
			if (speaks)
				option == 'v' ? print_version() : print_usage(stdout);
			return 0;
		}
		if (option == 'o')
			out->file = optarg;
		out->dry_run |= option == 'n';
		is_right = option == 's' ? read_seconds(optarg, &out->seconds) : option != '?';
	}
	if (is_right && optind == argc)
		return -1;
	if (speaks)
		print_usage(stderr);
	return 2;
}

/* ---- Measuring -------------------------------------------------------------------------------------------- */

/* Rank 0 and the next rank of its node. */
static void open_pair(const struct comm *comm, double seconds, struct tune_pair *pair)
{
	const struct plan_map *map = &comm->topo->map;
	const int locals = map->node_first[1], rank = comm->rank;
	const int is_one = locals > 1 && (rank == 0 || rank == map->member[1]);
	MPI_Comm_split(MPI_COMM_WORLD, is_one ? 0 : MPI_UNDEFINED, rank, &pair->comm);
	pair->leads = rank == 0;
	pair->seconds = seconds / MEASUREMENTS;
}

/* Why hosts, or the network, are not measured; NULL: they are. */
static const char *no_hosts(const struct comm *comm)
{
	return comm->topo->map.node_first[1] > 1 ? NULL : "rank 0 is alone on its node";
}

static const char *no_network(const struct comm *comm)
{
	return comm->topo->map.nodes > 1 ? NULL : "all ranks are on one node";
}

/* A rank that waits for its turn on a core would be taken for a slow machine. */
static const char *nothing(const struct comm *comm)
{
	if (comm->topo->cores_per_rank_x16 < 16)
		return "ranks share cores: start no more ranks than cores, without binding several to one";
	return no_hosts(comm) && no_network(comm) ? "there is one rank: start two on a node or more" : NULL;
}

static void describe(const struct comm *comm, const struct options *options)
{
	const char *why_not = no_hosts(comm);
	for (int i = 0; i < MEASUREMENTS; i++)
		if (why_not)
			fprintf(stderr, "corale-tune: %s: not measured: %s\n", measurements[i].rates,
				why_not);
		else
			fprintf(stderr, "corale-tune: %s: %s, %.1f s\n", measurements[i].rates,
				measurements[i].what, options->seconds / MEASUREMENTS);
	why_not = no_network(comm);
	fprintf(stderr, "corale-tune: network.*: %s%s\n",
		why_not ? "not measured: " : "messages between nodes, less than a second",
		why_not ? why_not : "");
	fprintf(stderr, "corale-tune: host.turn_ns gpu.*: not measured; built-in unless written by hand\n");
}

/* Ranks that have nothing to measure leave their cores to those that have. */
static void wait_for_all(void)
{
	MPI_Request request;
	int done = 0;
	MPI_Ibarrier(MPI_COMM_WORLD, &request);
	while (MPI_Test(&request, &done, MPI_STATUS_IGNORE), !done)
		usleep(1000);
}

static void print_rate(const struct tuning *tuning, int i)
{
	fprintf(stderr, "corale-tune:   %s %g (built in: %g)\n", tuning_name(i), tuning->value[i],
		tuning_built_in(i, rates_of_default_gpu()));
}

static int measure(const struct tune_pair *pair, struct tuning *tuning)
{
	int ret = 0;
	for (int i = 0; i < MEASUREMENTS && !ret; i++) {
		const uint64_t before = tuning->given;
		if (pair->leads)
			fprintf(stderr, "corale-tune: %d of %d, %.1f s: %s\n", i + 1, MEASUREMENTS,
				pair->seconds, measurements[i].what);
		ret = measurements[i].run(pair, tuning);
		for (int rate = 0; pair->leads && rate < tuning_count(); rate++)
			if (tuning_has(tuning, rate) && !(before >> rate & 1))
				print_rate(tuning, rate);
	}
	return ret;
}

static int fail(const char *file)
{
	fprintf(stderr, "corale-tune: %s can't be written: %s\n", file, strerror(errno));
	return 1;
}

static int write_file(const struct tuning *tuning, const struct comm *comm, const char *path)
{
	char text[TUNING_TEXT], host[64] = "";
	FILE *file = path ? fopen(path, "we") : stdout;
	if (!file)
		return fail(path);
	gethostname(host, sizeof(host) - 1);
	tuning_print(tuning, text, sizeof(text));
	fprintf(file, "%s# corale-tune, %d ranks on %d nodes; rank 0 on %s\n", text, comm->size,
		comm->topo->map.nodes, host);
	const int is_bad = ferror(file);
	if ((path ? fclose(file) : fflush(file)) || is_bad)
		return fail(path ? path : "standard output");
	fprintf(stderr, "corale-tune: hash %016llx%s%s\n", (unsigned long long)tuning_hash(tuning),
		path ? "; use it by CORALE_TUNING=" : "", path ? path : "");
	return 0;
}

static int tune(const struct comm *comm, const struct options *options)
{
	struct tuning tuning = { 0 };
	struct tune_pair pair;
	int ret = 0;
	open_pair(comm, options->seconds, &pair);
	if (pair.comm != MPI_COMM_NULL)
		ret = measure(&pair, &tuning);
	if (ret) /* the other rank of the pair may wait for this one */
		MPI_Abort(MPI_COMM_WORLD, 1);
	wait_for_all();
	if (pair.comm != MPI_COMM_NULL)
		MPI_Comm_free(&pair.comm);
	if (comm->rank)
		return 0;
	if (!no_network(comm))
		tune_network(comm, &tuning);
	return write_file(&tuning, comm, options->file);
}

static int run(const struct options *options)
{
	corale_comm *handle;
	int status = 0;
	if (corale_comm_create_mpi(MPI_COMM_WORLD, NULL, &handle))
		return 1; /* the library has said why */
	const struct comm *comm = comm_get(handle, "corale-tune");
	const char *why_not = nothing(comm);
	if (why_not && !comm->rank)
		fprintf(stderr, "corale-tune: nothing can be measured: %s\n", why_not);
	else if (!comm->rank)
		describe(comm, options);
	if (why_not || !options->dry_run)
		status = why_not ? 1 : tune(comm, options);
	corale_comm_destroy(handle);
	return status;
}

int main(int argc, char **argv)
{
	struct options options = { .seconds = 15 };
	int level, rank;
	/* What is measured are this machine's own rates. */
	unsetenv("CORALE_TUNING");
	setenv("CORALE_NET_RATES", "auto", 1);
	MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	int status = read_options(argc, argv, rank == 0, &options);
	if (status < 0)
		status = run(&options);
	MPI_Bcast(&status, 1, MPI_INT, 0, MPI_COMM_WORLD);
	MPI_Finalize();
	return status;
}
