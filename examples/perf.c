#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "perf.h"

/* The count of a line of about so many bytes: at least one element a block, but for the barrier, which has none. */
static size_t count_for(const struct perf_job *job, size_t bytes, corale_type type)
{
	size_t blocks = perf_blocks(job->coll, job->size);
	size_t count = blocks ? bytes / (blocks * corale_type_bytes(type)) : 0;
	return count || !blocks || !bytes ? count : 1;
}

static size_t next_bytes(const struct perf_options *options, size_t bytes)
{
	size_t next =
	    options->factor > 0 ? (size_t)ceil((double)bytes * options->factor) : bytes + options->step_bytes;
	return next > bytes ? next : bytes + 1;
}

static void run_case(const struct perf_job *job, struct perf_call *call, struct perf_summary *summary)
{
	struct perf_result apart, in_place;
	struct perf_versus versus;
	const char *why_not = "";
	int compare = job->options->vs_mpi && perf_mpi_can(call, &why_not);
	if (job->options->vs_mpi && !compare && job->rank == 0)
		printf("# %s: not compared with MPI\n", why_not);
	perf_set_edges((struct perf_job *)job, call->count, call->type);
	apart = perf_measure(call, 0);
	if (job->coll->has_place)
		in_place = perf_measure(call, 1);
	if (compare)
		versus = perf_compare(call);
	perf_print_line(job, call, &apart, job->coll->has_place ? &in_place : NULL, compare ? &versus : NULL);
	size_t bytes = perf_blocks(job->coll, job->size) * call->count * corale_type_bytes(call->type);
	double factor = job->coll->bus_constant + job->coll->bus_per_rank / job->size;
	summary->bus_sum += (double)bytes / apart.us / 1e3 * factor;
	summary->bus_count++;
	summary->wrong += (apart.wrong > 0 ? apart.wrong : 0) +
			  (job->coll->has_place && in_place.wrong > 0 ? in_place.wrong : 0);
	if (!compare)
		return;
	if (!summary->compared || versus.ratio < summary->min_ratio) {
		summary->min_ratio = versus.ratio;
		summary->min_at = bytes;
	}
	summary->noise = summary->compared ? fmin(summary->noise, versus.noise) : versus.noise;
	summary->log_sum += log(versus.ratio);
	summary->compared++;
}

static void run_sizes(const struct perf_job *job, struct perf_call *call, struct perf_summary *summary)
{
	const struct perf_options *options = job->options;
	size_t last = SIZE_MAX;
	for (size_t bytes = options->min_bytes; bytes <= options->max_bytes;
	     bytes = next_bytes(options, bytes)) {
		call->count = count_for(job, bytes, call->type);
		if (call->count == last) /* sizes below one element a block, or a barrier */
			continue;
		last = call->count;
		run_case(job, call, summary);
		if (perf_blocks(job->coll, job->size) == 0)
			return;
	}
}

static void run_all(const struct perf_job *job, struct perf_summary *summary)
{
	const struct perf_options *options = job->options;
	int nops = job->coll->has_op ? options->nops : 1;
	int first = options->root < 0 ? 0 : options->root,
	    roots = job->coll->has_root && options->root < 0 ? job->size : 1;
	for (int t = 0; t < options->ntypes; t++)
		for (int o = 0; o < nops; o++)
			for (int r = first; r < first + roots; r++) {
				struct perf_call call = { .job = job,
							  .type = (corale_type)options->types[t],
							  .op = job->coll->has_op ? options->ops[o]
										  : CORALE_SUM,
							  .root = r };
				run_sizes(job, &call, summary);
			}
}

/* Untouched pages have no place yet: poison finds one near the rank that uses them. */
static unsigned char *allocate(size_t bytes)
{
	void *buf = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (buf == MAP_FAILED)
		perf_die("allocating buffers", CORALE_ENOMEM);
	memset(buf, 0xa5, bytes);
	return buf;
}

static void *allocate_array(int n, size_t each)
{
	void *array = calloc((size_t)n, each);
	if (!array)
		perf_die("allocating buffers", CORALE_ENOMEM);
	return array;
}

static void allocate_all(struct perf_job *job)
{
	/* Twice: a rank's share of all_to_all_v may be twice the average. A block has at least one element. */
	size_t least = 8 * (size_t)job->size,
	       bytes = job->options->max_bytes > least ? job->options->max_bytes : least;
	size_t room = bytes * (strcmp(job->coll->name, "all_to_all_v") ? 1 : 2) + PERF_GUARD_BYTES;
	size_t **sizes[] = { &job->send_counts, &job->send_displs, &job->recv_counts, &job->recv_displs };
	int **ints[] = { &job->mpi_send_counts, &job->mpi_send_displs, &job->mpi_recv_counts,
			 &job->mpi_recv_displs };
	job->send = allocate(room);
	job->recv = allocate(room);
	for (int i = 0; i < 4; i++) {
		*sizes[i] = allocate_array(job->size, sizeof(size_t));
		*ints[i] = allocate_array(job->size, sizeof(int));
	}
}

static void open_job(struct perf_job *job)
{
	int ret = corale_comm_create_mpi(job->mpi, NULL, &job->comm);
	if (ret)
		perf_die("corale_comm_create_mpi", ret);
	job->nodes = corale_comm_nodes(job->comm);
	if (job->options->stream && (ret = corale_stream_create(&job->stream)))
		perf_die("corale_stream_create", ret);
	if (job->options->raw && job->rank == 0 && !(job->raw = fopen(job->options->raw, "w"))) {
		perror(job->options->raw);
		MPI_Abort(job->mpi, 1);
	}
	allocate_all(job);
}

static void close_job(struct perf_job *job)
{
	corale_stream_destroy(job->stream);
	corale_comm_destroy(job->comm);
	if (job->raw && fclose(job->raw)) {
		perror(job->options->raw);
		MPI_Abort(job->mpi, 1);
	}
}

/* Whatever cannot be served is said before anything is measured. */
static int check_options(const struct perf_job *job)
{
	const struct perf_options *options = job->options;
	if (job->coll->has_root && options->root >= job->size) {
		if (job->rank == 0)
			fprintf(stderr, "-r %d: there are %d ranks\n", options->root, job->size);
		return -1;
	}
	return 0;
}

static int run(int argc, char **argv, struct perf_options *options)
{
	struct perf_summary summary = { 0 };
	struct perf_job job = { .options = options, .mpi = MPI_COMM_WORLD };
	MPI_Comm_rank(job.mpi, &job.rank);
	MPI_Comm_size(job.mpi, &job.size);
	if (!(job.coll = perf_coll_of_program(argv[0]))) {
		if (job.rank == 0)
			fprintf(stderr, "%s: the program's name must hold a collective's name\n", argv[0]);
		return 1;
	}
	int parsed = perf_parse(argc, argv, job.coll->name, job.rank == 0, options);
	if (parsed || check_options(&job))
		return parsed <= 0;
	if (options->verbose)
		setenv("CORALE_DEBUG", "info", 0);
	open_job(&job);
	perf_print_header(&job);
	run_all(&job, &summary);
	perf_print_summary(&job, &summary);
	close_job(&job);
	return summary.wrong != 0;
}

static int wants_stream(int argc, char **argv)
{
	int found = 0;
	for (int i = 1; i < argc; i++)
		found |= strcmp(argv[i], "--stream") == 0;
	return found;
}

int main(int argc, char **argv)
{
	struct perf_options options;
	int level, status;
	/* Asynchronous calls progress by themselves only where MPI, should it be the transport, allows threads. */
	MPI_Init_thread(&argc, &argv, wants_stream(argc, argv) ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED,
			&level);
	status = run(argc, argv, &options);
	MPI_Finalize();
	return status;
}
