/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered memory and copy engines: large collectives into registered receive buffers, each element checked, called and
 * replayed; receive buffers that differ between ranks, and registered memory that was freed, are errors that say so.
 *
 * Usage: mpirun -n RANKS test/gpus/cuda_copies [--parts A,B] [--largest BYTES] [--verbose]
 * Everything that can goes by copies, unless CORALE_PROTO says otherwise. "own" is no test: it tells which copies
 * within one GPU run while every SM is taken.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_batch.h"
#include "cuda_delay.h"

enum { ALARM_S = 500, POLL_S = 15, DIFFER_TIMEOUT_S = 5, SHORT_BYTES = 4 << 20, HOG_MS = 50 };

struct test {
	struct cuda_world world;
	struct cuda_bench bench;
	cudaStream_t streams[CUDA_BATCH_STREAMS];
	const char *parts;
	size_t largest;
	int verbose, broken;
	long number;
};

/* ---- Results ---- */

static int blocks_of(const struct test *t, int call)
{
	return call == CORALE_ALL_GATHER || call == CORALE_ALL_TO_ALL || call == CORALE_REDUCE_SCATTER
		   ? t->world.size
		   : 1;
}

static void run(struct test *t, struct cuda_case *c, enum cuda_way way)
{
	long n = t->number++;
	struct cuda_batch batch = { .n = 1, .way = way, .capture_mode = (int)(n % 3) };
	batch.stream =
	    t->streams[way == CUDA_WAY_GRAPH ? 1 + n % (CUDA_BATCH_STREAMS - 1) : n % CUDA_BATCH_STREAMS];
	c->seed = (uint64_t)n + 1;
	c->root = (int)n;
	batch.cases[0] = *c;
	if (t->broken || !cuda_case_possible(c, t->world.size, t->bench.arenas[c->recv_kind].bytes))
		return;
	if (t->verbose && t->world.rank == 0) {
		char name[300];
		cuda_case_name(c, name, sizeof(name));
		printf("%s %ld, way %d: %s\n", t->world.part, n, way, name);
	}
	t->broken = cuda_batch_run(&t->bench, &batch);
}

static const size_t totals[] = { 4096,
				 1 << 20,
				 (1 << 20) + 77,
				 37 << 20,
				 (64 << 20) - 3,
				 (size_t)64 << 20,
				 ((size_t)256 << 20) + 12345,
				 (size_t)256 << 20 };
enum { TOTALS = sizeof(totals) / sizeof(*totals) };

/* Every total of a call of one type; as many bytes on every rank, whatever the blocks. */
static void totals_of(struct test *t, struct cuda_case c, enum cuda_way way, size_t most)
{
	for (int i = 0; i < TOTALS && totals[i] <= most; i++)
		for (c.in_place = 0; c.in_place < 2; c.in_place++) {
			c.count = totals[i] / corale_type_bytes(c.type) / (size_t)blocks_of(t, c.call);
			c.misaligned = (int)(t->number / 2 % 2);
			run(t, &c, way);
		}
}

static const unsigned int kinds = 1u << CUDA_MEMORY_REGISTERED | 1u << CUDA_MEMORY_LIBRARY;

static int take_memory(struct test *t)
{
	size_t room = 2 * t->largest + (64 << 20);
	t->broken = cuda_world_largest(cuda_bench_memory(&t->bench, kinds, room));
	return t->broken;
}

static void moves_by(struct test *t, enum cuda_way way, size_t most)
{
	static const int calls[] = { CORALE_ALL_GATHER, CORALE_ALL_TO_ALL, CORALE_BROADCAST };
	struct cuda_case c = { .type = CORALE_UINT8 };
	for (int i = 0; i < 3; i++) {
		c.call = calls[i];
		c.recv_kind = i % 2 ? CUDA_MEMORY_LIBRARY : CUDA_MEMORY_REGISTERED;
		c.send_kind = CUDA_MEMORY_REGISTERED;
		totals_of(t, c, way, most);
	}
}

static void sums_by(struct test *t, enum cuda_way way, size_t most)
{
	static const corale_type types[] = { CORALE_FLOAT32, CORALE_BFLOAT16, CORALE_INT8, CORALE_FLOAT64 };
	static const corale_op ops[] = { CORALE_SUM, CORALE_AVG, CORALE_MAX, CORALE_NUM_OPS };
	struct cuda_case c = { .data = REFERENCE_RANDOM };
	for (int i = 0; i < 8; i++) {
		c.call = i % 2 ? CORALE_REDUCE_SCATTER : CORALE_ALL_REDUCE;
		c.type = types[i / 2];
		c.op = ops[i / 2];
		c.recv_kind = i % 4 < 2 ? CUDA_MEMORY_LIBRARY : CUDA_MEMORY_REGISTERED;
		c.send_kind = CUDA_MEMORY_REGISTERED;
		totals_of(t, c, way, i < 2 ? most : SHORT_BYTES);
	}
}

static void moves(struct test *t)
{
	if (!take_memory(t))
		moves_by(t, CUDA_WAY_EAGER, t->largest);
}

static void sums(struct test *t)
{
	if (!take_memory(t))
		sums_by(t, CUDA_WAY_EAGER, t->largest);
}

/* The first sum of the communicator makes its scratch while a stream is captured. */
static void graphs(struct test *t)
{
	size_t most = t->largest < (64 << 20) ? t->largest : 64 << 20;
	if (take_memory(t))
		return;
	sums_by(t, CUDA_WAY_GRAPH, most);
	moves_by(t, CUDA_WAY_GRAPH, most);
}

/* Calls of all sorts behind each other, no pause in between. */
static void queues(struct test *t)
{
	static const int calls[] = { CORALE_ALL_GATHER, CORALE_ALL_REDUCE, CORALE_BROADCAST,
				     CORALE_REDUCE_SCATTER, CORALE_ALL_TO_ALL };
	if (take_memory(t))
		return;
	for (int i = 0; i < 40 && !t->broken; i++) {
		struct cuda_batch batch = { .n = CUDA_BATCH_MOST,
					    .way = i % 3 == 2 ? CUDA_WAY_GRAPH : CUDA_WAY_EAGER,
					    .stream = t->streams[1 + i % 2] };
		for (int k = 0; k < CUDA_BATCH_MOST; k++) {
			uint64_t random = cuda_world_hash((uint64_t)i, (uint64_t)k);
			batch.cases[k] = (struct cuda_case){ .call = calls[random % 5],
							     .type = CORALE_INT32,
							     .count = random / 5 % (k % 2 ? 3000 : 300000),
							     .root = (int)(random >> 40 & 7),
							     .send_kind = CUDA_MEMORY_REGISTERED,
							     .recv_kind = CUDA_MEMORY_REGISTERED,
							     .seed = random };
		}
		t->broken = cuda_batch_run(&t->bench, &batch);
	}
}

/* ---- Buffers that differ ---- */

enum difference { PLAIN_BUFFER, OTHER_OFFSET, OTHER_REGISTRATION, DIFFERENCES };

/* The error of a call, whenever it comes. */
static int outcome(struct test *t, corale_comm *comm, int ret, cudaStream_t stream)
{
	double end = clock_s() + POLL_S;
	cuda_world_wait(stream, POLL_S);
	while (!ret && clock_s() < end)
		ret = corale_comm_async_error(comm);
	(void)t;
	return ret;
}

static void expect(struct test *t, corale_comm *comm, int got, const char *word, const char *what)
{
	const char *text = corale_comm_last_error(comm);
	t->world.cases++;
	if (got != CORALE_EMISMATCH)
		cuda_world_fault(&t->world, "%s: %s, expected %s", what, corale_strerror(got),
				 corale_strerror(CORALE_EMISMATCH));
	else if (!strstr(text, word))
		cuda_world_fault(&t->world, "%s: nothing about a %s in: %s", what, word, text);
	else if (t->world.rank == 0 && t->verbose)
		printf("%s: %s\n", what, text);
}

/* The last rank passes another buffer than the others. */
static void differ(struct test *t, enum difference how, corale_coll coll, const char *what)
{
	unsigned char *mine = NULL, *other = NULL, *plain = NULL, *recv;
	corale_comm *comm = cuda_world_comm(&t->world, DIFFER_TIMEOUT_S);
	size_t room = 2 * SHORT_BYTES;
	int ret, last = t->world.rank == t->world.size - 1;
	if (cuda_world_largest(!comm || corale_mem_alloc(comm, room, (void **)&mine) ||
			       corale_mem_alloc(comm, room, (void **)&other) ||
			       cudaMalloc((void **)&plain, room) != cudaSuccess)) {
		cuda_world_fault(&t->world, "no communicator or memory for %s", what);
		return;
	}
	recv = !last ? mine : how == PLAIN_BUFFER ? plain : how == OTHER_OFFSET ? mine + 4096 : other;
	size_t count = SHORT_BYTES / (coll == CORALE_ALL_GATHER ? (size_t)t->world.size : 1) / 4;
	if (coll == CORALE_ALL_GATHER)
		ret = corale_all_gather(plain + SHORT_BYTES, recv, count, CORALE_INT32, comm, t->streams[2]);
	else
		ret = corale_all_reduce(plain + SHORT_BYTES, recv, count, CORALE_INT32, CORALE_SUM, comm,
					t->streams[2]);
	ret = outcome(t, comm, ret, t->streams[2]);
	expect(t, comm, ret, "registration", what);
	cudaDeviceSynchronize();
	cuda_world_largest(0);
	corale_mem_free(comm, other);
	corale_mem_free(comm, mine);
	corale_comm_destroy(comm);
	cudaFree(plain);
}

static void differences(struct test *t)
{
	differ(t, PLAIN_BUFFER, CORALE_ALL_GATHER, "all_gather, one rank into plain memory");
	differ(t, OTHER_OFFSET, CORALE_ALL_GATHER, "all_gather, one rank at another offset");
	differ(t, OTHER_REGISTRATION, CORALE_ALL_GATHER, "all_gather, one rank into another registration");
	differ(t, PLAIN_BUFFER, CORALE_ALL_REDUCE, "all_reduce, one rank into plain memory");
	differ(t, OTHER_OFFSET, CORALE_ALL_REDUCE, "all_reduce, one rank at another offset");
}

/* ---- Memory that was freed ---- */

static void freed(struct test *t)
{
	void *buffer = NULL, *again = NULL, *send = NULL, *handle = NULL;
	corale_comm *comm = t->bench.comm;
	t->world.cases++;
	if (cudaMalloc(&buffer, 2 * SHORT_BYTES) != cudaSuccess ||
	    cudaMalloc(&send, SHORT_BYTES) != cudaSuccess ||
	    corale_mem_register(comm, buffer, 2 * SHORT_BYTES, &handle)) {
		cuda_world_fault(&t->world, "no registered memory");
		return;
	}
	size_t count = SHORT_BYTES / (size_t)t->world.size;
	cuda_world_ok(&t->world, corale_all_gather(send, buffer, count, CORALE_UINT8, comm, t->streams[2]),
		      comm, "all_gather before");
	cuda_world_drain(&t->world, comm, t->streams[2], "all_gather before");
	cuda_world_largest(0);
	cudaFree(buffer);
	cudaMalloc(&again, 2 * SHORT_BYTES); /* often in the same place */
	int next = (t->world.rank + 1) % t->world.size;
	int ret = corale_all_gather(send, buffer, count, CORALE_UINT8, comm, t->streams[2]);
	cuda_world_ok(&t->world, corale_barrier(comm, t->streams[2]), comm,
		      "barrier: all ranks have refused");
	cuda_world_drain(&t->world, comm, t->streams[2], "barrier");
	int received = corale_recv(buffer, count, CORALE_UINT8, next, comm, t->streams[2]);
	int released = corale_mem_deregister(comm, handle); /* the communicator has ended: a peer may send */
	if (ret != CORALE_EINVAL || received != CORALE_EINVAL || released != CORALE_ECOMM)
		cuda_world_fault(&t->world, "freed memory: all_gather %s, recv %s, corale_mem_deregister %s",
				 corale_strerror(ret), corale_strerror(received), corale_strerror(released));
	if (again != buffer && t->world.rank == 0)
		printf("freed: the memory was not given out again; only that it is gone was tested\n");
	cudaFree(again);
	cudaFree(send);
}

/* ---- Copies within a GPU ---- */

enum { WAYS_TO_COPY = 5, COPY_BYTES = 128 << 20 };
static const char *const ways_to_copy[WAYS_TO_COPY] = { "cudaMemcpyAsync", "cudaMemcpyPeerAsync",
							"cudaMemcpy2DAsync", "cudaMemcpy2DAsync with pitch",
							"cudaMemcpy3DPeerAsync" };

static cudaError_t copy_by(int way, int gpu, unsigned char *to, unsigned char *from, cudaStream_t stream)
{
	size_t width = 1 << 20, rows = COPY_BYTES / width;
	struct cudaMemcpy3DPeerParms p = { .srcPtr = { from, width, width, rows },
					   .dstPtr = { to, width, width, rows },
					   .srcDevice = gpu,
					   .dstDevice = gpu,
					   .extent = { width, rows, 1 } };
	switch (way) {
	case 0:
		return cudaMemcpyAsync(to, from, COPY_BYTES, cudaMemcpyDeviceToDevice, stream);
	case 1:
		return cudaMemcpyPeerAsync(to, gpu, from, gpu, COPY_BYTES, stream);
	case 2:
		return cudaMemcpy2DAsync(to, width, from, width, width, rows, cudaMemcpyDeviceToDevice,
					 stream);
	case 3:
		return cudaMemcpy2DAsync(to, width, from, width, width - 256, rows, cudaMemcpyDeviceToDevice,
					 stream);
	default:
		return cudaMemcpy3DPeerAsync(&p, stream);
	}
}

/* How long a copy takes beside blocks that leave no room on any SM for HOG_MS. */
static double copy_ms(struct test *t, int way, unsigned char *to, unsigned char *from, int beside)
{
	double begin = 0;
	cudaDeviceSynchronize();
	if (beside) {
		cuda_world_good(&t->world, cuda_delay_everywhere(HOG_MS * 1000000u, t->streams[2]),
				"a kernel");
		begin = clock_s();
		while (clock_s() - begin < 0.005)
			continue;
	}
	begin = clock_s();
	cuda_world_good(&t->world, copy_by(way, t->world.gpu, to, from, t->streams[1]), ways_to_copy[way]);
	cuda_world_wait(t->streams[1], POLL_S);
	double ms = 1e3 * (clock_s() - begin);
	cudaDeviceSynchronize();
	return ms;
}

static void own(struct test *t)
{
	unsigned char *to = NULL, *from = NULL;
	if (!cuda_world_good(&t->world, cudaMalloc((void **)&to, COPY_BYTES), "cudaMalloc") ||
	    !cuda_world_good(&t->world, cudaMalloc((void **)&from, COPY_BYTES), "cudaMalloc"))
		return;
	cuda_world_good(&t->world, cuda_delay_load(), "loading kernels");
	for (int way = 0; way < WAYS_TO_COPY; way++) {
		copy_ms(t, way, to, from, 0);
		double alone = copy_ms(t, way, to, from, 0), beside = copy_ms(t, way, to, from, 1);
		if (t->world.rank == 0)
			printf("own: 128 MiB by %s: %.2f ms alone, %.2f ms beside a full GPU: %s\n",
			       ways_to_copy[way], alone, beside,
			       beside < HOG_MS / 2 ? "by a copy engine" : "by SMs");
		t->world.cases++;
	}
	cudaFree(to);
	cudaFree(from);
}

/* ---- Parts ---- */

static const struct {
	const char *name;
	void (*run)(struct test *t);
} parts[] = {
	{ "moves", moves },
	{ "sums", sums },
	{ "graphs", graphs },
	{ "queues", queues },
	{ "differences", differences },
	{ "freed", freed },
	{ "own", own },
};

static void run_part(struct test *t, int part)
{
	char note[120];
	double begin = clock_s();
	t->broken = 0;
	t->number = 0;
	cuda_world_begin(&t->world, parts[part].name);
	t->bench.comm = cuda_world_comm(&t->world, 0);
	if (cuda_world_largest(!t->bench.comm)) {
		cuda_world_end(&t->world, "no communicator");
		return;
	}
	parts[part].run(t);
	cuda_bench_free(&t->bench);
	snprintf(note, sizeof(note), "%.1f s, communicator of %.0f MiB", clock_s() - begin,
		 (double)corale_comm_memory(t->bench.comm) / 1048576);
	corale_comm_destroy(t->bench.comm);
	cuda_world_end(&t->world, note);
}

int main(int argc, char **argv)
{
	static struct test t = { .largest = (size_t)256 << 20 };
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--verbose")) {
			t.verbose = 1;
		} else if (!strcmp(argv[i], "--parts") && i + 1 < argc) {
			t.parts = argv[++i];
		} else if (!strcmp(argv[i], "--largest") && i + 1 < argc) {
			t.largest = strtoull(argv[++i], NULL, 0);
		} else {
			fprintf(stderr, "usage: %s [--parts A,B] [--largest BYTES] [--verbose]\n", argv[0]);
			return 2;
		}
	}
	t.largest += 1 << 20; /* odd sizes are a little larger */
	setenv("CORALE_PROTO", "CE", 0);
	setenv("CORALE_CHECK_MEMORY", "yes", 0);
	cuda_world_open(&t.world, &argc, &argv, "cuda_copies", ALARM_S);
	if (t.world.size < 2) {
		fprintf(stderr,
			"cuda_copies: one rank sends nobody anything: mpirun -n 2 or more, a GPU each\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	if (cuda_bench_open(&t.world, &t.bench, 1) || cuda_batch_streams(&t.world, t.streams))
		MPI_Abort(MPI_COMM_WORLD, 1);
	for (int i = 0; i < (int)(sizeof(parts) / sizeof(*parts)); i++)
		if (!t.parts || strstr(t.parts, parts[i].name))
			run_part(&t, i);
	cuda_bench_close(&t.bench);
	return cuda_world_close(&t.world);
}
