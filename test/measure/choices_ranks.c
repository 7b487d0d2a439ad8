/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The planner's choice beside every algorithm, forced, one call at a time (examples/perf_clock.h).
 *
 * Prints lines whose fields are separated by tabs. Line 1: "# corale-choices 1", then NAME=VALUE: version, mpi, ranks, cores, nodes (the
 * ranks of each). Line 2: the columns' names. Then a line for each candidate
 * of each call:
 *   coll bytes count     the call; bytes: of the larger of a rank's two buffers
 *   kind algo            choice: what the planner took; forced: one algorithm; mpi: the MPI library's own call. A choice that took more
 *                        than 1.5 times as long as the fastest forced algorithm has lines again_choice and again_forced, of these two
 *                        measured by turns with more calls
 *   us                   the median, from the last rank's entry to the last rank's exit
 *   model_us             what the planner's model says; empty for MPI
 *   spread_us            between the first rank's entry and the last one's, the median
 *   calls                that were timed
 */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "choices.h"

enum { MOST_NODES = 64, MOST_SIZES = 32, CALLS_A_TURN = 5, LEAST_TURNS = 2, AGAIN_TURNS = 3 };

static const double again_ratio = 1.5;

static const corale_coll colls[] = { CORALE_ALL_REDUCE, CORALE_ALL_GATHER, CORALE_REDUCE_SCATTER,
				     CORALE_BROADCAST,  CORALE_ALL_TO_ALL, CORALE_REDUCE,
				     CORALE_GATHER,     CORALE_SCATTER,    CORALE_BARRIER };

struct options {
	int ranks_of_node[MOST_NODES], nodes;
	size_t sizes[MOST_SIZES];
	int nsizes, vs_mpi;
	const char *collectives; /* names with commas; NULL: all */
	double ms; /* of a call with all its candidates, about */
};

static const char usage[] = "usage: mpirun -n RANKS choices_ranks --nodes N,N,... [--collectives NAME,...] "
			    "[--sizes BYTES,...] [--time MS]\n"
			    "           [--vs-mpi]\n";

/* ---- One call with its candidates ------------------------------------------------------------------ */

void choices_must(const char *what, int ret)
{
	if (!ret)
		return;
	fprintf(stderr, "choices_ranks: %s: error %d\n", what, ret);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static void make_call(const void *arg)
{
	const struct choices_candidate *c = arg;
	choices_must(c->algo, c->run(c->call));
}

static void take_turn(const struct choices_job *job, struct choices_candidate *c, int calls)
{
	job->comm->plans = c->plans;
	make_call(c); /* not timed: it finds the caches as the candidate before has left them */
	perf_clock_time(&job->clock, make_call, c, calls, c->us + c->timed, c->spread_us + c->timed);
	c->timed += calls;
}

static void take_turns(const struct choices_job *job, struct choices_candidate **candidates, int n, int turns)
{
	for (int turn = 0; turn < turns; turn++)
		for (int i = 0; i < n; i++)
			take_turn(job, candidates[i], CALLS_A_TURN);
}

static void forget(struct choices_candidate **candidates, int n)
{
	for (int i = 0; i < n; i++)
		candidates[i]->timed = 0;
}

/* How many turns fit into a time, by how long one takes once all are warm; the same on all ranks. */
static int count_turns(const struct choices_job *job, struct choices_candidate **candidates, int n, double ms)
{
	double start, turns;
	take_turns(job, candidates, n, 1);
	start = MPI_Wtime();
	take_turns(job, candidates, n, 1);
	turns = ms / 1e3 / (MPI_Wtime() - start);
	MPI_Bcast(&turns, 1, MPI_DOUBLE, 0, job->mpi);
	forget(candidates, n);
	const int most = CHOICES_MOST_CALLS / CALLS_A_TURN / AGAIN_TURNS;
	return turns < LEAST_TURNS ? LEAST_TURNS : turns < most ? (int)turns : most;
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* Sorts the values. */
static double median(double *values, int n)
{
	qsort(values, (size_t)n, sizeof(*values), compare_doubles);
	return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* Its median time, printed. */
static double report(const struct choices_job *job, size_t bytes, const char *again,
		     struct choices_candidate *c)
{
	const double us = median(c->us, c->timed), spread_us = median(c->spread_us, c->timed);
	char model[32] = "";
	if (c->run == choices_ours)
		snprintf(model, sizeof(model), "%.3f", c->model_us);
	if (job->rank == 0)
		printf("%s\t%zu\t%zu\t%s%s\t%s\t%.3f\t%s\t%.3f\t%d\n", corale_coll_name(c->call->coll), bytes,
		       c->call->count, again, c->kind, c->algo, us, model, spread_us, c->timed);
	return us;
}

static void measure(const struct choices_job *job, const struct choices_call *call,
		    struct choices_candidate *all, int n, double ms)
{
	struct choices_candidate *able[CHOICES_MOST_CANDIDATES], *duel[2] = { all, NULL };
	const size_t bytes = choices_blocks(call->coll, job->size) * call->count * sizeof(float);
	double choice_us = 0, best_us = 0;
	int left = 0;
	for (int i = 0; i < n; i++) {
		choices_must("a plan", choices_plan(&all[i], call));
		if (all[i].algo)
			able[left++] = &all[i];
	}
	const int turns = count_turns(job, able, left, ms);
	take_turns(job, able, left, turns);
	for (int i = 0; i < left; i++) {
		const double us = report(job, bytes, "", able[i]);
		if (i == 0)
			choice_us = us;
		if (able[i]->row >= 0 && (!duel[1] || us < best_us)) {
			best_us = us;
			duel[1] = able[i];
		}
	}
	if (!duel[1] || choice_us <= again_ratio * best_us)
		return;
	forget(duel, 2);
	take_turns(job, duel, 2, AGAIN_TURNS * turns);
	report(job, bytes, "again_", duel[0]);
	report(job, bytes, "again_", duel[1]);
}

/* ---- All calls ------------------------------------------------------------------------------------- */

static int is_wanted(const struct options *o, corale_coll coll)
{
	const char *name = corale_coll_name(coll);
	const size_t length = strlen(name);
	const char *at = o->collectives ? o->collectives : name;
	for (; *at; at += strcspn(at, ",") + (at[strcspn(at, ",")] != 0))
		if (strcspn(at, ",") == length && !strncmp(at, name, length))
			return 1;
	return 0;
}

static void measure_sizes(const struct choices_job *job, const struct options *o, corale_coll coll)
{
	static struct choices_candidate candidates[CHOICES_MOST_CANDIDATES];
	const size_t unit = choices_blocks(coll, job->size) * sizeof(float);
	const struct plans own = job->comm->plans;
	const int n = choices_open(job, coll, o->vs_mpi, candidates);
	size_t last = SIZE_MAX;
	for (int i = 0; i < (unit ? o->nsizes : 1); i++) {
		const size_t count = !unit ? 0 : o->sizes[i] > unit ? o->sizes[i] / unit : 1;
		const struct choices_call call = { job, coll, count };
		if (count == last) /* sizes below one element a block */
			continue;
		last = count;
		measure(job, &call, candidates, n, o->ms);
	}
	job->comm->plans = own;
	choices_close(candidates, n);
	fflush(stdout);
}

static void print_header(const struct choices_job *job, const struct options *o)
{
	char mpi[MPI_MAX_LIBRARY_VERSION_STRING];
	int length;
	MPI_Get_library_version(mpi, &length);
	mpi[strcspn(mpi, ",\n")] = '\0';
	if (job->rank)
		return;
	printf(
	    "# corale-choices 1\tversion=%d.%d.%d\tmpi=%s\tranks=%d\tcores=%d\tnodes=", CORALE_VERSION_MAJOR,
	    CORALE_VERSION_MINOR, CORALE_VERSION_PATCH, mpi, job->size, job->clock.cores);
	for (int i = 0; i < o->nodes; i++)
		printf("%s%d", i ? "," : "", o->ranks_of_node[i]);
	printf("\ncoll\tbytes\tcount\tkind\talgo\tus\tmodel_us\tspread_us\tcalls\n");
}

static unsigned char *allocate(const struct options *o, int ranks)
{
	size_t bytes = sizeof(float) * (size_t)ranks;
	for (int i = 0; i < o->nsizes; i++)
		bytes = o->sizes[i] > bytes ? o->sizes[i] : bytes;
	unsigned char *buffer = calloc(1, bytes);
	choices_must("allocating buffers", buffer ? 0 : CORALE_ENOMEM);
	memset(buffer, 0, bytes); /* pages of its own */
	return buffer;
}

static void run(struct choices_job *job, const struct options *o)
{
	job->send = allocate(o, job->size);
	job->recv = allocate(o, job->size);
	choices_set_nodes(o->ranks_of_node);
	choices_must("corale_comm_create_mpi", corale_comm_create_mpi(job->mpi, NULL, &job->handle));
	job->comm = comm_get(job->handle, "choices_ranks");
	print_header(job, o);
	for (size_t i = 0; i < sizeof(colls) / sizeof(colls[0]); i++)
		if (is_wanted(o, colls[i]))
			measure_sizes(job, o, colls[i]);
	corale_comm_destroy(job->handle);
	free(job->send);
	free(job->recv);
}

/* ---- Options --------------------------------------------------------------------------------------- */

/* Numbers from 1 with commas; how many, or -1. */
static int parse_list(const char *text, size_t *values, int most)
{
	int n = 0;
	for (char *end;; text = end + 1) {
		const unsigned long long value = strtoull(text, &end, 10);
		if (end == text || !value || value > 1u << 30 || n == most || (*end && *end != ','))
			return -1;
		values[n++] = (size_t)value;
		if (!*end)
			return n;
	}
}

static int parse_nodes(const char *text, struct options *o)
{
	size_t ranks[MOST_NODES];
	o->nodes = parse_list(text, ranks, MOST_NODES);
	for (int i = 0; i < o->nodes; i++)
		o->ranks_of_node[i] = (int)ranks[i];
	return o->nodes;
}

static int are_known(const char *names)
{
	size_t at = 0, length;
	do {
		int known = 0;
		length = strcspn(names + at, ",");
		for (size_t i = 0; i < sizeof(colls) / sizeof(colls[0]); i++) {
			const char *name = corale_coll_name(colls[i]);
			known |= strlen(name) == length && !strncmp(names + at, name, length);
		}
		if (!known)
			return 0;
		at += length + 1;
	} while (names[at - 1]);
	return 1;
}

/* 0, or -1. */
static int parse(int argc, char **argv, struct options *o)
{
	static const struct option known[] = {
		{ "nodes", required_argument, NULL, 'n' }, { "collectives", required_argument, NULL, 'c' },
		{ "sizes", required_argument, NULL, 's' }, { "time", required_argument, NULL, 't' },
		{ "vs-mpi", no_argument, NULL, 'm' },      { 0 }
	};
	int bad = 0;
	o->nsizes = parse_list("8,64,512,4096,32768,262144,1048576", o->sizes, MOST_SIZES);
	o->ms = 250;
	for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;) {
		if (c == 'n')
			bad |= parse_nodes(optarg, o) < 0;
		else if (c == 'c')
			bad |= !are_known(o->collectives = optarg);
		else if (c == 's')
			bad |= (o->nsizes = parse_list(optarg, o->sizes, MOST_SIZES)) < 0;
		else if (c == 't')
			bad |= (o->ms = atof(optarg)) <= 0;
		else if (c == 'm')
			o->vs_mpi = 1;
		else
			bad = 1;
	}
	return bad || optind < argc || !o->nodes ? -1 : 0;
}

static int count_ranks(const struct options *o)
{
	int ranks = 0;
	for (int i = 0; i < o->nodes; i++)
		ranks += o->ranks_of_node[i];
	return ranks;
}

/* Why the options can't be served, or NULL. */
static const char *refusal(const struct choices_job *job, const struct options *o, int parsed)
{
	if (parsed)
		return usage;
	if (count_ranks(o) != job->size)
		return "choices_ranks: --nodes has another number of ranks than mpirun -n\n";
	if (job->clock.hosts > 1)
		return "choices_ranks: the ranks are on several hosts, whose clocks differ\n";
	return NULL;
}

int main(int argc, char **argv)
{
	struct options options = { 0 };
	struct choices_job job = { .mpi = MPI_COMM_WORLD };
	int level, parsed;
	MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
	MPI_Comm_rank(job.mpi, &job.rank);
	MPI_Comm_size(job.mpi, &job.size);
	parsed = parse(argc, argv, &options);
	perf_clock_open(&job.clock, job.mpi);
	const char *why_not = refusal(&job, &options, parsed);
	if (why_not && job.rank == 0)
		fputs(why_not, stderr);
	if (!why_not)
		run(&job, &options);
	perf_clock_close(&job.clock);
	MPI_Finalize();
	return why_not ? 2 : 0;
}
