/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/types.h"
#include "perf.h"

enum { SETTLING = 8, SETTLED_BYTES = 64 << 10 };

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

static void sum_up(const struct perf_job *job, size_t bytes, const struct perf_result *apart,
		   const struct perf_result *in_place, const struct perf_versus *versus,
		   const struct perf_one_call *one, struct perf_summary *summary)
{
	double factor = job->coll->bus_constant + job->coll->bus_per_rank / job->size;
	summary->bus_sum += (double)bytes / apart->us / 1e3 * factor;
	summary->bus_count++;
	summary->wrong += apart->wrong > 0 ? apart->wrong : 0;
	summary->wrong += in_place && in_place->wrong > 0 ? in_place->wrong : 0;
	if (one)
		summary->spread_us = fmax(summary->spread_us, one->spread_us);
	if (one && one->peer_us > 0)
		perf_add_ratio(&summary->one_call, one->ratio, bytes);
	if (!versus)
		return;
	summary->noise = summary->best.count ? fmin(summary->noise, versus->noise) : versus->noise;
	summary->passed += versus->ratio >= fmin(1, versus->noise);
	perf_add_ratio(&summary->best, versus->ratio, bytes);
	if (job->nccl && versus->stock_ratio > 0)
		perf_add_ratio(&summary->stock, versus->stock_ratio, bytes);
}

static void run_case(struct perf_job *job, const struct perf_call *call, struct perf_summary *summary)
{
	size_t bytes = perf_blocks(job->coll, job->size) * call->count * corale_type_bytes(call->type);
	/* In place is another thing for MPI: its reduce_scatter leaves the result elsewhere. */
	const int has_place = job->coll->has_place && job->options->only != PERF_MPI;
	struct perf_result apart, in_place, *in_place_too = has_place ? &in_place : NULL;
	struct perf_versus versus, *compared = NULL;
	struct perf_one_call one, *timed = NULL;
	struct perf_way ways[PERF_MAX_WAYS];
	if (job->counts_lines) {
		job->lines++;
		return;
	}
	job->line++;
	perf_set_edges(job, call->count, call->type);
	if (job->options->beside) {
		summary->wrong += perf_measure_beside(call);
		return;
	}
	if (!perf_way_of_line(call, &ways[0]))
		return;
	int n = 1, slot = ways[0].slot;
	apart = perf_measure(&ways[0], 0);
	perf_progress_show(job, bytes);
	if (in_place_too)
		in_place = perf_measure(&ways[0], 1);
	if (job->options->only == PERF_CORALE)
		n = perf_ways(call, ways);
	else
		perf_place_way(&ways[0], 0);
	perf_progress_show(job, bytes);
	if (n > 1 && perf_compare(ways, n, &versus))
		compared = &versus;
	if (perf_measure_one_call(ways, n, &one))
		timed = &one;
	perf_progress_hide();
	perf_print_line(job, call, &apart, in_place_too, compared, timed, slot);
	summary->sampled += perf_is_sampled(call);
	sum_up(job, bytes, &apart, in_place_too, compared, timed, summary);
}

/* A GPU that was idle, and the processor that feeds it, take some time to become fast: not out of the first size's. */
static void settle(struct perf_job *job, struct perf_call *call)
{
	struct perf_way way;
	const struct perf_options *options = job->options;
	if (job->counts_lines || job->device != &perf_cuda || options->beside || !options->warmup ||
	    options->min_bytes > SETTLED_BYTES)
		return;
	call->count = count_for(job, options->min_bytes, call->type);
	perf_set_edges(job, call->count, call->type);
	if (!perf_way_of_line(call, &way))
		return;
	for (int i = 0; i < SETTLING; i++)
		perf_measure(&way, 0);
}

static void run_sizes(struct perf_job *job, struct perf_call *call, struct perf_summary *summary)
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

static int has_op(const struct perf_job *job, int type, corale_op op)
{
	const int has = type_has_op(type, op);
	if (!has && job->rank == 0 && job->counts_lines)
		printf("# %s has no %s: left out\n", corale_type_name((corale_type)type), perf_op_name(op));
	return has;
}

static void run_coll(struct perf_job *job, int is_first, struct perf_summary *summary)
{
	const struct perf_options *options = job->options;
	int nops = job->coll->has_op ? options->nops : 1;
	int first = options->root < 0 ? 0 : options->root,
	    roots = job->coll->has_root && options->root < 0 ? job->size : 1;
	for (int t = 0; t < options->ntypes; t++)
		for (int o = 0; o < nops; o++)
			for (int r = first; r < first + roots; r++) {
				if (job->coll->has_op && !has_op(job, options->types[t], options->ops[o]))
					continue;
				struct perf_call call = { .job = job,
							  .type = (corale_type)options->types[t],
							  .op = job->coll->has_op ? options->ops[o]
										  : CORALE_SUM,
							  .root = r };
				if (is_first && !t && !o && r == first)
					settle(job, &call);
				run_sizes(job, &call, summary);
			}
}

static void run_all(struct perf_job *job, struct perf_summary *summary)
{
	for (int i = 0; i < job->options->ncolls; i++) {
		job->coll = perf_coll_number(job->options->colls[i]);
		run_coll(job, i == 0, summary);
	}
}

static void *allocate_array(int n, size_t each)
{
	void *array = calloc((size_t)n, each);
	if (!array)
		perf_die("allocating buffers", CORALE_ENOMEM);
	return array;
}

static void must(const char *what, int ret)
{
	if (ret)
		perf_die(what, ret);
}

static void allocate_pair(struct perf_job *job)
{
	unsigned char **bufs[] = { &job->pair.send, &job->pair.recv };
	for (int i = 0; i < 2; i++) {
		void *buf;
		if (job->options->registration == PERF_ALLOCATED)
			must("corale_mem_alloc", corale_mem_alloc(job->comm, job->room, &buf));
		else
			buf = job->device->allocate(job->room);
		*bufs[i] = buf;
		if (job->options->registration == PERF_REGISTERED)
			must("corale_mem_register",
			     corale_mem_register(job->comm, buf, job->room, &job->registered[i]));
	}
}

static void free_pair(struct perf_job *job)
{
	unsigned char *bufs[] = { job->pair.send, job->pair.recv };
	for (int i = 0; i < 2; i++) {
		if (job->options->registration == PERF_REGISTERED)
			must("corale_mem_deregister", corale_mem_deregister(job->comm, job->registered[i]));
		if (job->options->registration == PERF_ALLOCATED)
			must("corale_mem_free", corale_mem_free(job->comm, bufs[i]));
		else
			job->device->release(bufs[i], job->room);
	}
}

static int has_coll(const struct perf_options *options, const char *name)
{
	for (int i = 0; i < options->ncolls; i++)
		if (strcmp(perf_coll_name(options->colls[i]), name) == 0)
			return 1;
	return 0;
}

static void allocate_all(struct perf_job *job)
{
	/* Twice: a rank's share of all_to_all_v may be twice the average. A block has at least one element. */
	size_t least = 8 * (size_t)job->size,
	       bytes = job->options->max_bytes > least ? job->options->max_bytes : least;
	size_t **sizes[] = { &job->send_counts, &job->send_displs, &job->recv_counts, &job->recv_displs };
	int **ints[] = { &job->mpi_send_counts, &job->mpi_send_displs, &job->mpi_recv_counts,
			 &job->mpi_recv_displs };
	job->room = bytes * (has_coll(job->options, "all_to_all_v") ? 2 : 1) + PERF_GUARD_BYTES;
	allocate_pair(job);
	for (int i = 0; i < 4; i++) {
		*sizes[i] = allocate_array(job->size, sizeof(size_t));
		*ints[i] = allocate_array(job->size, sizeof(int));
	}
}

/* 0, or -1 with a message from the first rank that has no such device. */
static int open_device(struct perf_job *job)
{
	char why_not[256] = "";
	MPI_Comm host;
	int mine, first;
	MPI_Comm_split_type(job->mpi, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
	MPI_Comm_rank(host, &job->local_rank);
	MPI_Comm_size(host, &job->local_size);
	MPI_Comm_free(&host);
	job->device = job->options->cuda ? &perf_cuda : &perf_host;
	mine = job->device->open(job, why_not, sizeof(why_not)) ? job->rank : job->size;
	MPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, job->mpi);
	if (first == job->rank)
		fprintf(stderr, "rank %d: --device %s: %s\n", job->rank, job->device->name, why_not);
	return first < job->size ? -1 : 0;
}

static FILE *open_file(const struct perf_job *job, const char *path)
{
	FILE *file = path ? fopen(path, "w+") : tmpfile();
	if (!file) {
		perror(path ? path : "a temporary file");
		MPI_Abort(job->mpi, 1);
	}
	return file;
}

/* JSON is made of the raw file, at the end. */
static void open_files(struct perf_job *job)
{
	if (job->rank)
		return;
	if (job->options->json)
		job->json = open_file(job, job->options->json);
	if (job->options->raw || job->options->json)
		job->raw = open_file(job, job->options->raw);
}

static void close_file(const struct perf_job *job, FILE *file, const char *path)
{
	if (file && fclose(file)) {
		perror(path ? path : "a temporary file");
		MPI_Abort(job->mpi, 1);
	}
}

static void open_corale(struct perf_job *job)
{
	corale_config config;
	corale_config_init(&config);
	config.device = job->options->cuda ? CORALE_DEVICE_CUDA : CORALE_DEVICE_HOST;
	must("corale_comm_create_mpi", corale_comm_create_mpi(job->mpi, &config, &job->comm));
	job->node = corale_comm_node(job->comm);
	job->nodes = corale_comm_nodes(job->comm);
}

/* Without Corale: as it would number the nodes of one host, and count those of all. */
static void count_nodes(struct perf_job *job)
{
	const char *text = getenv("CORALE_NODE_SIZE");
	const int wanted = text ? atoi(text) : 0, each = wanted > 0 ? wanted : job->local_size;
	const int is_first = job->local_rank % each == 0;
	job->node = job->local_rank / each;
	MPI_Allreduce(&is_first, &job->nodes, 1, MPI_INT, MPI_SUM, job->mpi);
}

static int open_job(struct perf_job *job)
{
	corale_stream *stream;
	if (open_device(job))
		return -1;
	open_files(job);
	perf_clock_open(&job->clock, job->mpi);
	if (job->options->only == PERF_CORALE)
		open_corale(job);
	else
		count_nodes(job);
	if (job->options->stream && !job->options->cuda) {
		must("corale_stream_create", corale_stream_create(&stream));
		job->stream = stream;
	}
	perf_data_open(job);
	allocate_all(job);
	if (job->options->vs_nccl)
		perf_nccl_open(job);
	if (job->options->beside)
		perf_product_open(job);
	return 0;
}

static void close_job(struct perf_job *job)
{
	perf_product_close(job);
	perf_nccl_close(job);
	free_pair(job);
	perf_data_close(job);
	if (job->comm)
		corale_comm_destroy(job->comm);
	perf_clock_close(&job->clock);
	job->device->close(job);
	if (job->json)
		perf_write_json(job->raw, job->json);
	close_file(job, job->json, job->options->json);
	close_file(job, job->raw, job->options->raw);
}

/* Whatever cannot be served is said before anything is measured. */
static int check_options(const struct perf_job *job)
{
	const struct perf_options *options = job->options;
	for (int i = 0; i < options->ncolls; i++) {
		if (!perf_coll_number(options->colls[i])->has_root || options->root < job->size)
			continue;
		if (job->rank == 0)
			fprintf(stderr, "-r %d: there are %d ranks\n", options->root, job->size);
		return -1;
	}
	return 0;
}

static int run(int argc, char **argv, struct perf_options *options)
{
	struct perf_summary summary = { .spread_us = -1 };
	struct perf_job job = { .options = options, .mpi = MPI_COMM_WORLD };
	MPI_Comm_rank(job.mpi, &job.rank);
	MPI_Comm_size(job.mpi, &job.size);
	int coll = perf_coll_of_program(argv[0]);
	if (coll < 0) {
		if (job.rank == 0)
			fprintf(stderr, "%s: the program's name must hold a collective's name\n", argv[0]);
		return 1;
	}
	int parsed = perf_parse(argc, argv, coll, job.rank == 0, options);
	if (parsed || check_options(&job))
		return parsed <= 0;
	job.coll = perf_coll_number(options->colls[0]);
	if (options->verbose)
		setenv("CORALE_DEBUG", "info", 0);
	if (open_job(&job))
		return 1;
	perf_print_header(&job);
	job.counts_lines = 1;
	run_all(&job, &summary);
	job.counts_lines = 0;
	perf_progress_open(&job);
	for (int cycle = 0; !options->cycles || cycle < options->cycles; cycle++)
		run_all(&job, &summary);
	perf_print_summary(&job, &summary);
	close_job(&job);
	return summary.wrong != 0;
}

/* Should MPI be the transport: asynchronous calls advance by themselves, and messages of GPUs go between nodes, only where it allows threads. */
static int wants_threads(int argc, char **argv)
{
	int found = 0;
	for (int i = 1; i < argc; i++)
		found |= !strcmp(argv[i], "--stream") || !strcmp(argv[i], "cuda") ||
			 !strcmp(argv[i], "--device=cuda");
	return found;
}

int main(int argc, char **argv)
{
	struct perf_options options;
	int level, status;
	MPI_Init_thread(&argc, &argv, wants_threads(argc, argv) ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED,
			&level);
	status = run(argc, argv, &options);
	MPI_Finalize();
	return status;
}
