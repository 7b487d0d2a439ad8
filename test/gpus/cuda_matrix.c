/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CUDA communicators through the public interface: every collective with every type and operator, sizes, kinds of
 * memory, misaligned buffers, in place, on several streams, in groups and in graphs, each element checked bit by bit
 * against the fold in rank order on the host.
 *
 * Usage: mpirun -n RANKS test/gpus/cuda_matrix [--seconds S] [--parts A,B] [--largest COUNT] [--seed N] [--memory MIB] [--huge] [--verbose]
 * --memory (default 64): what a communicator may take; slots in the GPU's memory come on top.
 * Parts that end early leave their time to "random". --huge adds buffers larger than 4 GiB.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_batch.h"

enum {
	LARGE_ARENA = 512 << 20,
	SMALL_ARENA = 64 << 20,
	AGREE_EVERY = 8, /* small batches; the ranks agree whether to go on */
	AGREE_BYTES = 1 << 20,
	RESERVE_S = 120, /* after the time limit until the alarm */
	HUGE_S = 600,
	STREAMS_MIB = 4 /* CUDA for a communicator's stream and events */
};

struct test {
	struct cuda_world world;
	struct cuda_bench bench;
	cudaStream_t streams[CUDA_BATCH_STREAMS];
	double seconds, end; /* end: of the current part */
	double memory; /* MiB that a communicator may take */
	const char *parts;
	size_t largest;
	uint64_t seed;
	int huge, verbose;
	long number; /* of batches in this part */
	int stop, broken, cut;
};

/* ---- Running batches as long as there is time and nothing is broken ---- */

static int stopped(struct test *t, size_t bytes)
{
	int flags[2] = { t->broken != 0, t->world.rank == 0 && clock_s() > t->end };
	if (!t->stop && (t->number % AGREE_EVERY == 0 || bytes > AGREE_BYTES)) {
		MPI_Allreduce(MPI_IN_PLACE, flags, 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
		t->stop = flags[0] || flags[1];
		t->cut = flags[1] && !flags[0];
	}
	t->number++;
	return t->stop || t->broken;
}

static void run_batch(struct test *t, struct cuda_batch *batch)
{
	size_t bytes = 0;
	for (int i = 0; i < batch->n; i++)
		bytes += batch->cases[i].count * corale_type_bytes(batch->cases[i].type);
	if (stopped(t, bytes))
		return;
	batch->capture_mode = (int)(t->number % 3);
	if (t->verbose && t->world.rank == 0) {
		char name[300];
		cuda_case_name(&batch->cases[0], name, sizeof(name));
		printf("%s %ld, %d of way %d: %s\n", t->world.part, t->number, batch->n, batch->way, name);
	}
	t->broken = cuda_batch_run(&t->bench, batch);
}

/* Graphs cannot be captured from the default stream. */
static cudaStream_t next_stream(const struct test *t, enum cuda_way way)
{
	long n = t->number;
	return t->streams[way == CUDA_WAY_GRAPH ? 1 + n % (CUDA_BATCH_STREAMS - 1) : n % CUDA_BATCH_STREAMS];
}

/* One case; its seed, and what the caller left open, from the running number. */
static void run_case(struct test *t, const struct cuda_case *c, enum cuda_way way, size_t room)
{
	struct cuda_batch batch = { .n = 1, .way = way, .stream = next_stream(t, way) };
	batch.cases[0] = *c;
	batch.cases[0].seed = cuda_world_hash(t->seed, (uint64_t)t->number);
	if (cuda_case_possible(c, t->world.size, room))
		run_batch(t, &batch);
}

/* ---- Parts ---- */

/* MiB of a GPU that are in use; 0 where ranks share GPUs and would count each other's. */
static double gpu_mib(const struct test *t)
{
	size_t unused, all;
	int gpus = 0;
	if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus < t->world.size ||
	    cudaMemGetInfo(&unused, &all) != cudaSuccess)
		return 0;
	return (double)(all - unused) / 1048576;
}

/* What a communicator takes beside another one: CUDA's own memory for the kernels comes with the first. */
static void creation(struct test *t)
{
	double before = gpu_mib(t), mib;
	corale_comm *second = cuda_world_comm(&t->world, 0);
	double gpu = gpu_mib(t) - before;
	if (!second)
		return;
	mib = (double)corale_comm_memory(second) / 1048576;
	t->world.cases++;
	if (mib > t->memory || gpu > t->memory + STREAMS_MIB)
		cuda_world_fault(
		    &t->world, "a second communicator takes %.1f MiB, of the GPU %.1f, expected at most %.0f",
		    mib, gpu, t->memory);
	if (t->world.rank == 0)
		printf("creation: %.1f MiB for the first communicator, %.1f for a second (%.1f less on the "
		       "GPU)\n",
		       (double)corale_comm_memory(t->bench.comm) / 1048576, mib, gpu);
	corale_comm_destroy(second);
}

static void types(struct test *t)
{
	static const size_t counts[] = { 0, 1, 17, 1003 };
	struct cuda_case c = { 0 };
	if (cuda_bench_memory(&t->bench, 1u << CUDA_MEMORY_DEVICE, SMALL_ARENA))
		return;
	for (c.call = 0; c.call < CUDA_CASE_CALLS; c.call++)
		for (c.type = 0; c.type < CORALE_NUM_TYPES; c.type++)
			for (c.op = 0; c.op <= CORALE_NUM_OPS; c.op++)
				for (c.data = 0; c.data <= REFERENCE_SPECIAL; c.data++)
					for (int i = 0; i < 8; i++) {
						c.count = counts[i / 2];
						c.in_place = i % 2;
						c.misaligned = (int)(t->number % 2);
						c.root = (int)(t->number % t->world.size);
						run_case(t, &c, CUDA_WAY_EAGER, SMALL_ARENA);
					}
}

static void roots(struct test *t)
{
	static const size_t counts[] = { 1, 1003, 100003 };
	static const int rooted[] = { CORALE_BROADCAST, CORALE_REDUCE, CORALE_GATHER, CORALE_SCATTER };
	struct cuda_case c = { .type = CORALE_FLOAT32 };
	if (cuda_bench_memory(&t->bench, 1u << CUDA_MEMORY_DEVICE, SMALL_ARENA))
		return;
	for (int i = 0; i < 3; i++)
		for (c.root = 0; c.root < t->world.size; c.root++)
			for (c.in_place = 0; c.in_place < 2; c.in_place++) {
				c.count = counts[i];
				for (size_t k = 0; k < sizeof rooted / sizeof *rooted; k++) {
					c.call = rooted[k];
					run_case(t, &c, CUDA_WAY_EAGER, SMALL_ARENA);
				}
				c.call = CUDA_CASE_RING; /* of every distance */
				run_case(t, &c, CUDA_WAY_EAGER, SMALL_ARENA);
			}
}

static const size_t sizes_list[] = { 0,      1,      2,      3,      4,       5,       7,       8,
				     9,      15,     16,     17,     31,      33,      63,      65,
				     127,    129,    255,    257,    511,     513,     1000,    1023,
				     1025,   2047,   2049,   4101,   8191,    16385,   32771,   65537,
				     100000, 131075, 262147, 524291, 1000003, 2097159, 4194301, 10000001 };
enum { SIZES = sizeof(sizes_list) / sizeof(sizes_list[0]) };

static void sizes(struct test *t)
{
	static const corale_type some[] = { CORALE_FLOAT32, CORALE_BFLOAT16, CORALE_INT32 };
	struct cuda_case c = { 0 };
	if (cuda_bench_memory(&t->bench, 1u << CUDA_MEMORY_DEVICE, LARGE_ARENA))
		return;
	for (int i = 0; i < SIZES && sizes_list[i] <= t->largest; i++)
		for (int k = 0; k < 3; k++)
			for (c.call = 0; c.call < CUDA_CASE_CALLS; c.call++)
				for (int j = 0; j < 4; j++) {
					int folds = c.call == CORALE_ALL_REDUCE ||
						    c.call == CORALE_REDUCE_SCATTER ||
						    c.call == CORALE_REDUCE;
					c.count = sizes_list[i];
					c.type = some[k];
					c.in_place = j % 2;
					c.misaligned = j / 2;
					c.root = i + k;
					c.op = folds ? (corale_op)(t->number / 2 % (CORALE_NUM_OPS + 1)) : 0;
					c.data = folds ? (enum reference_data)((i + j) % 3) : 0;
					run_case(t, &c, CUDA_WAY_EAGER, LARGE_ARENA);
				}
}

static void run_memory(struct test *t, struct cuda_case *c)
{
	static const size_t counts[] = { 5, 1003, 100003, 1000003 };
	int n = c->send_kind == c->recv_kind ? 4 : 3;
	c->type = CORALE_FLOAT32;
	c->data = 0;
	for (int i = 0; i < n; i++)
		for (c->call = 0; c->call < CUDA_CASE_CALLS; c->call++)
			for (c->in_place = 0; c->in_place < 2; c->in_place++) {
				c->count = counts[i];
				c->misaligned = (int)(t->number / 3 % 2);
				c->root = (int)t->number;
				run_case(t, c, CUDA_WAY_EAGER, SMALL_ARENA);
			}
}

static const unsigned int all_kinds = (1u << CUDA_MEMORY_KINDS) - 1;

static void memory(struct test *t)
{
	struct cuda_case c = { 0 };
	if (cuda_bench_memory(&t->bench, all_kinds, SMALL_ARENA))
		return;
	for (c.send_kind = 0; c.send_kind < CUDA_MEMORY_KINDS; c.send_kind++)
		for (c.recv_kind = 0; c.recv_kind < CUDA_MEMORY_KINDS; c.recv_kind++)
			run_memory(t, &c);
}

/* Every rank has memory of another kind, but for those that all ranks or none must receive into. */
static void mixed_memory(struct test *t)
{
	enum { FREE_KINDS = CUDA_MEMORY_LIBRARY };
	struct cuda_case c = { 0 };
	if (cuda_bench_memory(&t->bench, all_kinds, SMALL_ARENA))
		return;
	for (int i = 0; i < FREE_KINDS * 2; i++) {
		c.send_kind = (enum cuda_memory_kind)((i + t->world.rank) % FREE_KINDS);
		/* never the same as send_kind: run_memory does the same cases on all ranks */
		int next = (int)c.send_kind + 1 + i / FREE_KINDS;
		c.recv_kind = (enum cuda_memory_kind)(next % FREE_KINDS);
		run_memory(t, &c);
	}
}

static void graphs(struct test *t)
{
	static const corale_type some[] = { CORALE_FLOAT32, CORALE_BFLOAT16, CORALE_INT64 };
	static const size_t counts[] = { 1, 1003, 30011, 300007, 2000003 };
	struct cuda_case c = { 0 };
	if (cuda_bench_memory(&t->bench, 1u << CUDA_MEMORY_DEVICE | 1u << CUDA_MEMORY_LIBRARY,
			      4 * SMALL_ARENA))
		return;
	for (int i = 0; i < 5; i++)
		for (int k = 0; k < 3; k++)
			for (c.call = 0; c.call < CUDA_CASE_CALLS; c.call++)
				for (int j = 0; j < 4; j++) {
					c.count = counts[i];
					c.type = some[k];
					c.in_place = j % 2;
					c.misaligned = (int)(t->number % 2);
					c.root = (int)t->number;
					c.send_kind = c.recv_kind =
					    j / 2 ? CUDA_MEMORY_LIBRARY : CUDA_MEMORY_DEVICE;
					run_case(t, &c, CUDA_WAY_GRAPH, 4 * SMALL_ARENA);
				}
}

static void plans(struct test *t)
{
	static const corale_coll some[] = { CORALE_ALL_REDUCE, CORALE_ALL_GATHER, CORALE_REDUCE_SCATTER,
					    CORALE_BROADCAST,  CORALE_ALL_TO_ALL, CORALE_REDUCE,
					    CORALE_GATHER,     CORALE_SCATTER,    CORALE_BARRIER };
	static const size_t counts[] = { 0, 1, 1003, 300007 };
	struct cuda_case c = { 0 };
	if (cuda_bench_memory(&t->bench, 1u << CUDA_MEMORY_DEVICE, SMALL_ARENA))
		return;
	for (int i = 0; i < 4; i++)
		for (size_t k = 0; k < sizeof some / sizeof *some; k++)
			for (c.in_place = 0; c.in_place < 2; c.in_place++) {
				c.call = some[k];
				c.type = c.call == CORALE_BARRIER ? 0 : CORALE_FLOAT32;
				c.count = c.call == CORALE_BARRIER ? 0 : counts[i];
				c.root = i + (int)k;
				run_case(t, &c, CUDA_WAY_PLAN, SMALL_ARENA);
			}
}

/* n cases at once, in one group or one call behind the other. */
static void run_random(struct test *t, int n, int grouped, enum cuda_way way, size_t largest,
		       unsigned int kinds, size_t room)
{
	uint64_t state = cuda_world_hash(t->seed + 99, (uint64_t)t->number);
	struct cuda_batch batch = { .n = n, .grouped = grouped, .way = way, .stream = next_stream(t, way) };
	for (int i = 0; i < n; i++)
		batch.cases[i] = cuda_case_draw(&t->world, &state, largest, kinds, room / (size_t)n);
	run_batch(t, &batch);
}

static const unsigned int gpu_kinds =
    1u << CUDA_MEMORY_DEVICE | 1u << CUDA_MEMORY_LIBRARY | 1u << CUDA_MEMORY_REGISTERED;

static void groups(struct test *t)
{
	enum { TIMES = 600 };
	if (cuda_bench_memory(&t->bench, gpu_kinds, 2 * SMALL_ARENA))
		return;
	for (int i = 0; i < TIMES; i++)
		run_random(t, 2 + i % 5, 1, i % 3 == 2 ? CUDA_WAY_GRAPH : CUDA_WAY_EAGER,
			   i % 10 ? 5000 : 200000, gpu_kinds, 2 * SMALL_ARENA);
}

/* Sends and receives alone, which store straight into receive buffers that are registered: on all ranks, or on some. */
static void messages(struct test *t)
{
	static const enum cuda_memory_kind kinds[] = { CUDA_MEMORY_DEVICE, CUDA_MEMORY_LIBRARY,
						       CUDA_MEMORY_REGISTERED };
	static const int calls[] = { CUDA_CASE_RING, CUDA_CASE_EXCHANGE, CUDA_CASE_PAIRS };
	static const size_t counts[] = { 1003, 100003, 300007, 2000003 };
	struct cuda_case c = { .type = CORALE_FLOAT32 };
	if (cuda_bench_memory(&t->bench, gpu_kinds, 4 * SMALL_ARENA))
		return;
	for (int i = 0; i < 4; i++)
		for (int k = 0; k < 3; k++)
			for (int j = 0; j < 12; j++) {
				c.call = calls[k];
				c.count = counts[i];
				c.recv_kind = kinds[(j + (j % 6 < 3 ? 0 : t->world.rank)) % 3];
				c.misaligned = j / 6;
				c.root = 1 + j;
				run_case(t, &c, (j + k) % 3 ? CUDA_WAY_EAGER : CUDA_WAY_GRAPH,
					 4 * SMALL_ARENA);
			}
}

/* Calls behind each other with no pause in between. */
static void queues(struct test *t)
{
	enum { TIMES = 600 };
	if (cuda_bench_memory(&t->bench, gpu_kinds, 2 * SMALL_ARENA))
		return;
	for (int i = 0; i < TIMES; i++)
		run_random(t, CUDA_BATCH_MOST, 0, i % 3 == 2 ? CUDA_WAY_GRAPH : CUDA_WAY_EAGER,
			   i % 10 ? 5000 : 200000, gpu_kinds, 2 * SMALL_ARENA);
}

static void anything(struct test *t)
{
	if (cuda_bench_memory(&t->bench, all_kinds, SMALL_ARENA))
		return;
	while (!t->stop) {
		long i = t->number;
		/* what only the CPU reaches cannot be in a graph */
		unsigned int kinds = i % 5 ? all_kinds : all_kinds & ~(1u << CUDA_MEMORY_HOST);
		run_random(t, i % 4 ? 1 : 1 + (int)(i / 4 % CUDA_BATCH_MOST), i % 8 == 0,
			   i % 5 ? CUDA_WAY_EAGER : CUDA_WAY_GRAPH, t->largest, kinds, SMALL_ARENA);
	}
}

/* ---- The host's results ---- */

static void compare_with_host(struct test *t, corale_comm *host, const struct cuda_case *c)
{
	size_t bytes = c->count * corale_type_bytes(c->type);
	unsigned char *send = malloc(bytes + 1), *recv = malloc(bytes + 1), *got = malloc(bytes + 1);
	struct cuda_run run;
	char name[300];
	cuda_case_name(c, name, sizeof(name));
	cuda_world_doing(&t->world, name);
	t->world.cases++;
	t->broken = cuda_run_open(&t->bench, c, 0, &run);
	if (!t->broken)
		t->broken = cuda_run_fill(&t->bench, &run, 0);
	if (!t->broken) {
		cudaMemcpy(send, run.send.region + run.send.lead, bytes, cudaMemcpyDefault);
		t->broken = cuda_run_issue(&t->bench, &run, t->streams[1]);
		cuda_world_ok(&t->world, t->broken, t->bench.comm, name);
	}
	if (!t->broken)
		t->broken = cuda_world_drain(&t->world, t->bench.comm, t->streams[1], name);
	if (!t->broken) {
		cudaMemcpy(got, run.recv.region + run.recv.lead, bytes, cudaMemcpyDefault);
		cuda_world_ok(&t->world, corale_all_reduce(send, recv, c->count, c->type, run.op, host, NULL),
			      host, "all_reduce on the host");
		if (memcmp(got, recv, bytes))
			cuda_world_fault(&t->world, "%s: the host's bits differ from the GPU's", name);
		cuda_run_close(&t->bench, &run);
	}
	cuda_bench_reset(&t->bench);
	free(send);
	free(recv);
	free(got);
}

/* Exact data: no order of folding changes the bits, so the host's algorithm may differ. */
static void host(struct test *t)
{
	static const size_t counts[] = { 17, 5003, 300007 };
	corale_config config;
	corale_comm *comm = NULL;
	struct cuda_case c = { .call = CORALE_ALL_REDUCE };
	corale_config_init(&config);
	config.device = CORALE_DEVICE_HOST;
	if (cuda_bench_memory(&t->bench, 1u << CUDA_MEMORY_DEVICE, SMALL_ARENA) ||
	    !cuda_world_ok(&t->world, corale_comm_create_mpi(MPI_COMM_WORLD, &config, &comm), NULL,
			   "creating a host communicator"))
		return;
	for (int i = 0; i < 3; i++)
		for (c.type = 0; c.type < CORALE_NUM_TYPES; c.type++)
			for (c.op = 0; c.op < CORALE_NUM_OPS; c.op++) {
				c.count = counts[i];
				c.data = (i + (int)c.type) % 2 ? REFERENCE_SPECIAL : REFERENCE_EXACT;
				if (!stopped(t, 0) && cuda_case_possible(&c, t->world.size, SMALL_ARENA))
					compare_with_host(t, comm, &c);
			}
	corale_comm_destroy(comm);
}

/* ---- Barriers ---- */

/* Nobody may leave before the last one has entered. The ranks' clock is one: they are on one host. */
static void barrier_with_late(struct test *t, int late)
{
	enum { LATE_MS = 20 };
	cudaStream_t stream = t->streams[late % CUDA_BATCH_STREAMS];
	MPI_Barrier(MPI_COMM_WORLD);
	double entered = clock_s(), left;
	while (t->world.rank == late && clock_s() < entered + LATE_MS / 1000.)
		;
	entered = clock_s();
	if (!t->broken) {
		t->broken = corale_barrier(t->bench.comm, stream);
		cuda_world_ok(&t->world, t->broken, t->bench.comm, "barrier");
	}
	if (!t->broken)
		t->broken = cuda_world_drain(&t->world, t->bench.comm, stream, "barrier");
	left = clock_s();
	MPI_Bcast(&entered, 1, MPI_DOUBLE, late, MPI_COMM_WORLD);
	if (!t->broken && left < entered)
		cuda_world_fault(&t->world, "left a barrier %.3f ms before rank %d came",
				 1000 * (entered - left), late);
	t->world.cases++;
}

static void barriers(struct test *t)
{
	cuda_world_doing(&t->world, "barriers with one late rank");
	for (int late = 0; late < t->world.size; late++)
		barrier_with_late(t, late);
}

/* ---- More than 4 GiB ---- */

static void huge(struct test *t)
{
	const size_t gib = (size_t)1 << 30, n = (size_t)t->world.size;
	struct cuda_case cases[] = {
		{ .call = CORALE_ALL_REDUCE, .type = CORALE_FLOAT32, .count = gib + 12345 },
		{ .call = CORALE_ALL_REDUCE, .type = CORALE_INT8, .count = 4 * gib + 4321, .in_place = 1 },
		{ .call = CORALE_ALL_GATHER, .type = CORALE_UINT8, .count = (4 * gib + 99999) / n },
		{ .call = CORALE_REDUCE_SCATTER, .type = CORALE_BFLOAT16, .count = (2 * gib + 77777) / n },
		{ .call = CORALE_BROADCAST, .type = CORALE_INT64, .count = gib / 2 + 1234, .root = 1 },
		{ .call = CORALE_ALL_TO_ALL, .type = CORALE_UINT8, .count = (4 * gib + 55555) / n },
		{ .call = CUDA_CASE_RING, .type = CORALE_UINT8, .count = 4 * gib + 333, .root = 1 },
	};
	if (cuda_bench_memory(&t->bench, 1u << CUDA_MEMORY_DEVICE, 10 * gib))
		return;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cases[i].misaligned = (int)i % 2;
		run_case(t, &cases[i], CUDA_WAY_EAGER, 10 * gib);
	}
}

/* ---- The list ---- */

static const struct part {
	const char *name;
	void (*run)(struct test *t);
	int weight; /* share of the time limit */
	int on_demand;
} parts[] = {
	{ "creation", creation, 1, 0 }, { "types", types, 12, 0 },   { "roots", roots, 2, 0 },
	{ "sizes", sizes, 30, 0 },      { "memory", memory, 14, 0 }, { "mixed_memory", mixed_memory, 5, 0 },
	{ "graphs", graphs, 12, 0 },    { "groups", groups, 8, 0 },  { "queues", queues, 8, 0 },
	{ "messages", messages, 4, 0 }, { "plans", plans, 2, 0 },    { "host", host, 3, 0 },
	{ "barriers", barriers, 1, 0 }, { "huge", huge, 0, 1 },      { "random", anything, 3, 0 },
};
enum { PARTS = sizeof(parts) / sizeof(parts[0]) };

static int is_wanted(const struct test *t, const struct part *part)
{
	size_t length = strlen(part->name);
	const char *at = t->parts;
	if (!at)
		return !part->on_demand || t->huge;
	for (; (at = strstr(at, part->name)) != NULL; at++)
		if ((at == t->parts || at[-1] == ',') && (at[length] == ',' || !at[length]))
			return 1;
	return 0;
}

/* A fresh communicator for each part: what one has broken does not touch the next. */
static void run_part(struct test *t, const struct part *part)
{
	char note[160];
	t->number = 0;
	t->stop = t->broken = t->cut = 0;
	cuda_world_begin(&t->world, part->name);
	double begin = clock_s();
	t->bench.comm = cuda_world_comm(&t->world, 0);
	if (cuda_world_largest(!t->bench.comm)) {
		cuda_world_end(&t->world, "no communicator");
		return;
	}
	double mib = (double)corale_comm_memory(t->bench.comm) / 1048576;
	part->run(t);
	cuda_bench_free(&t->bench);
	snprintf(note, sizeof(note), "%.1f s, communicator %.0f to %.0f MiB%s", clock_s() - begin, mib,
		 (double)corale_comm_memory(t->bench.comm) / 1048576,
		 !t->cut || part->run == anything ? "" : ", CUT by the time limit: --seconds");
	corale_comm_destroy(t->bench.comm);
	cuda_world_end(&t->world, note);
}

static void run_parts(struct test *t)
{
	int total = 0, done = 0;
	double begin = clock_s();
	for (int i = 0; i < PARTS; i++)
		total += is_wanted(t, &parts[i]) ? parts[i].weight : 0;
	for (int i = 0; i < PARTS; i++) {
		if (!is_wanted(t, &parts[i]))
			continue;
		done += parts[i].weight;
		t->end = begin + t->seconds * (total ? (double)done / total : 1);
		if (parts[i].run == huge) /* is worth what it takes */
			t->end = clock_s() + HUGE_S;
		run_part(t, &parts[i]);
	}
}

static int read_options(struct test *t, int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		const char *value = i + 1 < argc ? argv[i + 1] : "";
		if (!strcmp(argv[i], "--huge"))
			t->huge = 1;
		else if (!strcmp(argv[i], "--verbose"))
			t->verbose = 1;
		else if (!strcmp(argv[i], "--seconds"))
			t->seconds = atof(value), i++;
		else if (!strcmp(argv[i], "--parts"))
			t->parts = value, i++;
		else if (!strcmp(argv[i], "--largest"))
			t->largest = strtoull(value, NULL, 0), i++;
		else if (!strcmp(argv[i], "--memory"))
			t->memory = atof(value), i++;
		else if (!strcmp(argv[i], "--seed"))
			t->seed = strtoull(value, NULL, 0), i++;
		else
			return -1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	static struct test t = { .seconds = 60, .memory = 64, .largest = 10000001, .seed = 1 };
	if (read_options(&t, argc, argv)) {
		fprintf(stderr,
			"usage: %s [--seconds S] [--parts A,B] [--largest COUNT] [--seed N] "
			"[--memory MIB] [--huge] [--verbose]\n",
			argv[0]);
		return 2;
	}
	cuda_world_open(&t.world, &argc, &argv, "cuda_matrix",
			(unsigned int)t.seconds + RESERVE_S + (t.huge ? HUGE_S : 0));
	cuda_world_fold_in_order();
	if (cuda_bench_open(&t.world, &t.bench, t.seed) || cuda_batch_streams(&t.world, t.streams))
		MPI_Abort(MPI_COMM_WORLD, 1);
	run_parts(&t);
	cuda_bench_close(&t.bench);
	return cuda_world_close(&t.world);
}
