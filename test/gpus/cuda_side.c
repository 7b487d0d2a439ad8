/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Several communicators of a process side by side: large calls of all of them at a time, each on a stream of its own, in another order on each rank. Where
 * their blocks did not all fit on a GPU, calls would wait for each other until their deadlines. Ranks are threads of one process, on GPUs by turns; no MPI.
 *
 * Usage: test/gpus/cuda_side [--ranks N] [--comms N] [--bytes N] [--rounds N] [--depth N] [--blocks N[,N...]] [--channels N] [--seed N]
 * --ranks: default the GPUs, at least 2. --comms (default 8). --bytes (default 32M): of a rank's buffers. --depth (default 4): rounds between two looks
 * at results. --blocks (default 64): limits of the communicators, by turns; 0: none. --channels (default 32): CUDA_DEVICE_MAX_CONNECTIONS, as streams that share
 * a channel may wait for each other whatever their blocks.
 */
#define _GNU_SOURCE
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "corale.h"

enum { MOST_RANKS = 8, MOST_COMMS = 32, TIMEOUT_S = 20, SKIPPED = 77, KINDS = 5 };

static struct {
	int ranks, comms, rounds, depth, gpus, nlimits, limits[MOST_COMMS];
	size_t bytes;
	unsigned seed;
} options = { .comms = 8, .rounds = 40, .depth = 4, .nlimits = 1, .limits = { 64 }, .bytes = 32 << 20 };

static pthread_barrier_t barrier;
static corale_inproc *groups[MOST_COMMS];
static _Atomic int faults;
static int stops;

struct side {
	corale_comm *comm;
	cudaStream_t stream;
	uint32_t *send, *recv, *host;
};

struct rank {
	int number;
	pthread_t thread;
	struct side sides[MOST_COMMS];
};

static void fault(const struct rank *r, int c, const char *what, const char *why)
{
	if (atomic_fetch_add(&faults, 1) < 20)
		printf("FAULT cuda_side: rank %d, communicator %d: %s: %s\n", r->number, c, what, why);
}

static void must(const struct rank *r, int c, cudaError_t error, const char *what)
{
	if (error != cudaSuccess)
		fault(r, c, what, cudaGetErrorString(error));
}

/* ---- Calls: all words of a send buffer have four equal bytes, whose sums over all ranks need no more ------------------- */

static unsigned byte_of(int rank, int c, int round)
{
	return (unsigned)(1 + (rank * 5 + c * 3 + round) % 30);
}

static corale_coll kind_of(int c, int round)
{
	static const corale_coll kinds[KINDS] = { CORALE_ALL_REDUCE, CORALE_ALL_GATHER, CORALE_REDUCE_SCATTER,
						  CORALE_BROADCAST, CORALE_ALL_TO_ALL };
	return kinds[(c + round) % KINDS];
}

static int root_of(int round)
{
	return round % options.ranks;
}

static size_t words(void)
{
	return options.bytes / sizeof(uint32_t) / (size_t)options.ranks * (size_t)options.ranks;
}

static int call(const struct rank *r, int c, int round)
{
	const struct side *s = &r->sides[c];
	const size_t all = words(), block = all / (size_t)options.ranks;
	switch (kind_of(c, round)) {
	case CORALE_ALL_REDUCE:
		return corale_all_reduce(s->send, s->recv, all, CORALE_INT32, CORALE_SUM, s->comm, s->stream);
	case CORALE_ALL_GATHER:
		return corale_all_gather(s->send, s->recv, block, CORALE_INT32, s->comm, s->stream);
	case CORALE_REDUCE_SCATTER:
		return corale_reduce_scatter(s->send, s->recv, block, CORALE_INT32, CORALE_SUM, s->comm,
					     s->stream);
	case CORALE_BROADCAST:
		return corale_broadcast(s->send, s->recv, all, CORALE_INT32, root_of(round), s->comm,
					s->stream);
	default:
		return corale_all_to_all(s->send, s->recv, block, CORALE_INT32, s->comm, s->stream);
	}
}

/* What word i of the result is. */
static uint32_t expected(int c, int round, size_t i)
{
	const corale_coll kind = kind_of(c, round);
	unsigned byte = 0;
	if (kind == CORALE_BROADCAST)
		byte = byte_of(root_of(round), c, round);
	else if (kind == CORALE_ALL_GATHER || kind == CORALE_ALL_TO_ALL)
		byte = byte_of((int)(i / (words() / (size_t)options.ranks)), c, round);
	else
		for (int q = 0; q < options.ranks; q++)
			byte += byte_of(q, c, round);
	return byte * 0x01010101u;
}

static void check(const struct rank *r, int c, int round)
{
	const struct side *s = &r->sides[c];
	const size_t n =
	    kind_of(c, round) == CORALE_REDUCE_SCATTER ? words() / (size_t)options.ranks : words();
	must(r, c, cudaMemcpyAsync(s->host, s->recv, n * 4, cudaMemcpyDeviceToHost, s->stream), "copying");
	must(r, c, cudaStreamSynchronize(s->stream), "waiting for a stream");
	if (corale_comm_async_error(s->comm)) {
		fault(r, c, corale_coll_name(kind_of(c, round)), corale_comm_last_error(s->comm));
		return;
	}
	for (size_t i = 0; i < n; i++) {
		char text[100];
		if (s->host[i] == expected(c, round, i))
			continue;
		snprintf(text, sizeof text, "round %d, word %zu is %#x, not %#x", round, i, s->host[i],
			 expected(c, round, i));
		fault(r, c, corale_coll_name(kind_of(c, round)), text);
		return;
	}
}

/* ---- A rank ------------------------------------------------------------------------------------------------ */

static void open_side(struct rank *r, int c)
{
	struct side *s = &r->sides[c];
	corale_config config;
	corale_config_init(&config);
	config.device = CORALE_DEVICE_CUDA;
	config.timeout_seconds = TIMEOUT_S;
	config.max_channels = options.limits[c % options.nlimits];
	if (corale_comm_create_inproc(groups[c], r->number, &config, &s->comm)) {
		fault(r, c, "creation", "see the log");
		exit(1);
	}
	must(r, c, cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking), "a stream");
	must(r, c, cudaMalloc((void **)&s->send, options.bytes), "memory");
	must(r, c, cudaMalloc((void **)&s->recv, options.bytes), "memory");
	must(r, c, cudaMallocHost((void **)&s->host, options.bytes), "host memory");
}

static void shuffle(int *order, unsigned *seed)
{
	for (int i = 0; i < options.comms; i++)
		order[i] = i;
	for (int i = options.comms - 1; i > 0; i--) {
		const int k = rand_r(seed) % (i + 1), swap = order[i];
		order[i] = order[k];
		order[k] = swap;
	}
}

static void enqueue(struct rank *r, int round, unsigned *seed)
{
	int order[MOST_COMMS];
	shuffle(order, seed);
	for (int i = 0; i < options.comms; i++) {
		const int c = order[i];
		struct side *s = &r->sides[c];
		must(r, c,
		     cudaMemsetAsync(s->send, (int)byte_of(r->number, c, round), options.bytes, s->stream),
		     "filling");
		if (call(r, c, round))
			fault(r, c, corale_coll_name(kind_of(c, round)), corale_comm_last_error(s->comm));
	}
}

static void *run(void *arg)
{
	struct rank *r = arg;
	unsigned seed = options.seed * 100 + (unsigned)r->number;
	must(r, 0, cudaSetDevice(r->number % options.gpus), "a GPU");
	for (int c = 0; c < options.comms; c++)
		open_side(r, c);
	pthread_barrier_wait(&barrier);
	for (int round = 0; round < options.rounds && !stops; round++) {
		enqueue(r, round, &seed);
		if ((round + 1) % options.depth)
			continue;
		for (int c = 0; c < options.comms; c++)
			check(r, c, round);
		pthread_barrier_wait(&barrier);
		if (!r->number)
			stops = atomic_load(&faults) != 0; /* all ranks stop in one round */
		pthread_barrier_wait(&barrier);
	}
	for (int c = 0; c < options.comms; c++)
		must(r, c, cudaStreamSynchronize(r->sides[c].stream), "waiting for a stream");
	pthread_barrier_wait(&barrier);
	for (int c = 0; c < options.comms; c++)
		corale_comm_destroy(r->sides[c].comm);
	return NULL;
}

static void run_out(int number)
{
	static const char words[] = "FAIL cuda_side: out of time\n";
	(void)number;
	_exit(write(STDOUT_FILENO, words, sizeof words - 1) < 0 ? 2 : 1);
}

/* ---- The program ------------------------------------------------------------------------------------------- */

static size_t size_of(const char *text)
{
	char *end;
	const size_t n = strtoull(text, &end, 10);
	return *end == 'K' ? n << 10 : *end == 'M' ? n << 20 : *end == 'G' ? n << 30 : n;
}

static void read_limits(const char *text)
{
	options.nlimits = 0;
	for (const char *at = text; at && options.nlimits < MOST_COMMS;
	     at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
		options.limits[options.nlimits++] = atoi(at);
}

static void read_options(int argc, char **argv)
{
	const char *channels = "32";
	for (int i = 1; i + 1 < argc; i += 2) {
		const char *name = argv[i], *value = argv[i + 1];
		if (!strcmp(name, "--ranks"))
			options.ranks = atoi(value);
		else if (!strcmp(name, "--comms"))
			options.comms = atoi(value);
		else if (!strcmp(name, "--bytes"))
			options.bytes = size_of(value);
		else if (!strcmp(name, "--rounds"))
			options.rounds = atoi(value);
		else if (!strcmp(name, "--depth"))
			options.depth = atoi(value);
		else if (!strcmp(name, "--blocks"))
			read_limits(value);
		else if (!strcmp(name, "--channels"))
			channels = value;
		else if (!strcmp(name, "--seed"))
			options.seed = (unsigned)atoi(value);
	}
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", channels, 1);
}

static int find_gpus(void)
{
	const cudaError_t error = cudaGetDeviceCount(&options.gpus);
	if (error == cudaSuccess && options.gpus > 0)
		return 1;
	printf("SKIP cuda_side: no CUDA: %s\n", error == cudaSuccess ? "no GPU" : cudaGetErrorString(error));
	return 0;
}

int main(int argc, char **argv)
{
	static struct rank ranks[MOST_RANKS];
	setvbuf(stdout, NULL, _IOLBF, 0);
	read_options(argc, argv);
	if (!find_gpus())
		return SKIPPED;
	if (!options.ranks)
		options.ranks = options.gpus < 2 ? 2 : options.gpus;
	if (options.ranks < 2 || options.ranks > MOST_RANKS || options.comms < 1 ||
	    options.comms > MOST_COMMS || options.depth < 1 || options.nlimits < 1) {
		fprintf(stderr, "cuda_side: 2 to %d ranks, 1 to %d communicators, a depth of 1 or more\n",
			MOST_RANKS, MOST_COMMS);
		return 2;
	}
	signal(SIGALRM, run_out);
	alarm(10 * TIMEOUT_S);
	for (int c = 0; c < options.comms; c++)
		if (corale_inproc_create(options.ranks, &groups[c]))
			return 1;
	pthread_barrier_init(&barrier, NULL, (unsigned)options.ranks);
	for (int r = 0; r < options.ranks; r++) {
		ranks[r].number = r;
		if (pthread_create(&ranks[r].thread, NULL, run, &ranks[r]))
			return 1;
	}
	for (int r = 0; r < options.ranks; r++)
		pthread_join(ranks[r].thread, NULL);
	for (int c = 0; c < options.comms; c++)
		corale_inproc_destroy(groups[c]);
	printf("%s cuda_side: %d communicators of %d ranks on %d GPUs, %zu bytes, %d rounds\n",
	       atomic_load(&faults) ? "FAIL" : "PASS", options.comms, options.ranks,
	       options.gpus < options.ranks ? options.gpus : options.ranks, options.bytes, options.rounds);
	return atomic_load(&faults) != 0;
}
