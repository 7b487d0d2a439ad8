/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What corale-plan prints is what is launched: every collective, 8 B to 1 GB, into plain and into registered memory. What was launched is
 * read from the library's log: kernel, blocks, threads, pieces or rounds, messages, and bytes to each peer.
 *
 * Usage: mpirun -n RANKS test/gpus/cuda_plans [--plan PATH] [--largest BYTES] [--verbose]
 * PATH: of corale-plan. The settings of the environment are those of both.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/collectives.h"
#include "cuda_world.h"
#include "test/helpers/any_call.h"

enum { ALARM_S = 500, TEXT_BYTES = 512, LEAST = 8, MOST_RANKS = 72 };

struct test {
	struct cuda_world world;
	corale_comm *comm;
	const char *plan, *machine;
	size_t largest;
	int verbose;
	char log[64]; /* its name */
	FILE *lines; /* of the log, as far as they were read */
	unsigned char *send, *plain, *registered;
};

/* ---- What was launched ---------------------------------------------------------------------------------- */

/* Before the library reads its settings. */
static void open_log(struct test *t)
{
	snprintf(t->log, sizeof t->log, "/tmp/cuda_plans.XXXXXX");
	int fd = mkstemp(t->log);
	t->lines = fd < 0 ? NULL : fdopen(fd, "r");
	if (!t->lines) {
		perror("cuda_plans: a file for the log");
		exit(2);
	}
	setenv("CORALE_DEBUG", "trace", 1);
	setenv("CORALE_LOG_FILE", t->log, 1);
}

/* The launches since, and what the last of them says. */
static int read_launches(struct test *t, char *text)
{
	char line[2 * TEXT_BYTES];
	int n = 0;
	clearerr(t->lines);
	while (fgets(line, sizeof line, t->lines)) {
		const char *found = strstr(line, ": launch: "),
			   *kernel = found ? strstr(found, "kernel ") : NULL;
		if (!kernel)
			continue;
		snprintf(text, TEXT_BYTES, "%.*s", (int)strcspn(kernel, "\n"), kernel);
		n++;
	}
	return n;
}

/* corale-plan takes "gpu:N" for H200s, and --device cuda for all GPUs of this machine as they are. NULL: neither says what these are. */
static const char *machine_of(int ranks)
{
	static char text[32];
	struct cudaDeviceProp prop;
	int device, count;
	snprintf(text, sizeof text, "gpu:%d", ranks);
	if (cudaGetDevice(&device) == cudaSuccess && cudaGetDeviceProperties(&prop, device) == cudaSuccess &&
	    !strcmp(prop.name, "NVIDIA H200"))
		return text;
	return cudaGetDeviceCount(&count) == cudaSuccess && count == ranks ? "--device cuda" : NULL;
}

/* ---- What was printed ----------------------------------------------------------------------------------- */

/* The launch that corale-plan prints for a call; 0 with a fault: none. */
static int read_plan(struct test *t, corale_coll coll, size_t bytes, int registered, char *text)
{
	const char *memory = registered ? "registered memory: " : "plain memory: ";
	char command[2 * TEXT_BYTES], line[2 * TEXT_BYTES];
	int found = 0;
	snprintf(command, sizeof command,
		 "env -u CORALE_DEBUG -u CORALE_LOG_FILE '%s' -n -s 0 %s %s %zu </dev/null", t->plan,
		 t->machine, corale_coll_name(coll), bytes);
	FILE *out = popen(command, "r");
	while (out && fgets(line, sizeof line, out)) {
		const char *at = strncmp(line, "launch:", 7) ? NULL : strstr(line, memory);
		if (!at)
			continue;
		at += strlen(memory);
		snprintf(text, TEXT_BYTES, "%.*s", (int)strcspn(at, "\n"), at);
		found = 1;
	}
	if (!out || pclose(out) || !found)
		cuda_world_fault(&t->world, "no launch from: %s", command);
	return found;
}

/* ---- Calls ---------------------------------------------------------------------------------------------- */

static int call(struct test *t, corale_coll coll, size_t count, void *recv)
{
	size_t counts[MOST_RANKS], displs[MOST_RANKS];
	for (int r = 0; r < t->world.size; r++) {
		counts[r] = count;
		displs[r] = (size_t)r * count;
	}
	return any_call(&(struct any_call){ .coll = coll,
					    .count = count,
					    .type = CORALE_FLOAT32,
					    .send = t->send,
					    .recv = recv,
					    .send_counts = counts,
					    .send_displs = displs,
					    .recv_counts = counts,
					    .recv_displs = displs,
					    .comm = t->comm });
}

static void compare(struct test *t, corale_coll coll, size_t bytes, int registered)
{
	char launched[TEXT_BYTES] = "", printed[TEXT_BYTES] = "";
	int n = read_launches(t, launched);
	t->world.cases++;
	if (t->world.rank || !read_plan(t, coll, bytes, registered, printed))
		return;
	if (n != 1 || strcmp(launched, printed))
		cuda_world_fault(
		    &t->world, "%s of %zu bytes, %s memory: %d launches, \"%s\"; corale-plan says \"%s\"",
		    corale_coll_name(coll), bytes, registered ? "registered" : "plain", n, launched, printed);
	else if (t->verbose)
		printf("%s of %zu bytes, %s memory: %s\n", corale_coll_name(coll), bytes,
		       registered ? "registered" : "plain", launched);
}

/* 0, or the communicator is of no use any more. */
static int run(struct test *t, corale_coll coll, size_t bytes, int registered)
{
	char ignored[TEXT_BYTES];
	read_launches(t, ignored);
	int ret = call(t, coll, bytes / sizeof(float), registered ? t->registered : t->plain);
	if (!cuda_world_ok(&t->world, ret, t->comm, corale_coll_name(coll)) ||
	    cuda_world_drain(&t->world, t->comm, NULL, corale_coll_name(coll)))
		return cuda_world_largest(1);
	compare(t, coll, bytes, registered);
	return cuda_world_largest(0);
}

static void run_collective(struct test *t, corale_coll coll)
{
	size_t largest = coll_has_data(coll) ? t->largest : LEAST;
	cuda_world_begin(&t->world, corale_coll_name(coll));
	for (int registered = 0; registered < 2; registered++)
		for (size_t bytes = LEAST; bytes <= largest; bytes *= 2)
			if (run(t, coll, bytes, registered)) {
				cuda_world_end(&t->world, "the communicator has failed");
				MPI_Abort(MPI_COMM_WORLD, 1);
			}
	cuda_world_end(&t->world, NULL);
}

/* ---- The program ---------------------------------------------------------------------------------------- */

static void open_all(struct test *t)
{
	const size_t room = t->largest * (size_t)t->world.size;
	cuda_world_begin(&t->world, "memory");
	t->comm = cuda_world_comm(&t->world, 0);
	unlink(t->log); /* it is open, here and in the library */
	if (cuda_world_largest(!t->comm || corale_mem_alloc(t->comm, room, (void **)&t->registered)) ||
	    !cuda_world_good(&t->world, cudaMalloc((void **)&t->send, room), "cudaMalloc") ||
	    !cuda_world_good(&t->world, cudaMalloc((void **)&t->plain, room), "cudaMalloc"))
		MPI_Abort(MPI_COMM_WORLD, 1);
}

static void close_all(struct test *t)
{
	corale_mem_free(t->comm, t->registered);
	corale_comm_destroy(t->comm);
	cudaFree(t->send);
	cudaFree(t->plain);
	fclose(t->lines);
}

int main(int argc, char **argv)
{
	static const corale_coll colls[] = { CORALE_ALL_REDUCE, CORALE_ALL_GATHER, CORALE_REDUCE_SCATTER,
					     CORALE_BROADCAST,  CORALE_ALL_TO_ALL, CORALE_ALL_TO_ALL_V,
					     CORALE_REDUCE,     CORALE_GATHER,     CORALE_SCATTER,
					     CORALE_BARRIER };
	static struct test t = { .plan = "examples/corale-plan", .largest = (size_t)1 << 30 };
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--verbose")) {
			t.verbose = 1;
		} else if (!strcmp(argv[i], "--plan") && i + 1 < argc) {
			t.plan = argv[++i];
		} else if (!strcmp(argv[i], "--largest") && i + 1 < argc) {
			t.largest = strtoull(argv[++i], NULL, 0);
		} else {
			fprintf(stderr, "usage: %s [--plan PATH] [--largest BYTES] [--verbose]\n", argv[0]);
			return 2;
		}
	}
	cuda_world_open(&t.world, &argc, &argv, "cuda_plans", ALARM_S);
	open_log(&t);
	if (t.world.size < 2 || t.world.size > MOST_RANKS) {
		fprintf(stderr, "cuda_plans: mpirun -n 2 to %d, a GPU each\n", MOST_RANKS);
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	open_all(&t);
	t.machine = machine_of(t.world.size);
	if (cuda_world_largest(!t.machine)) {
		if (t.world.rank == 0)
			printf("SKIP cuda_plans: corale-plan knows no GPUs like these, and a rank has not "
			       "each of this machine's\n");
		close_all(&t);
		MPI_Finalize();
		return CUDA_WORLD_SKIPPED;
	}
	for (size_t i = 0; i < sizeof colls / sizeof *colls; i++)
		run_collective(&t, colls[i]);
	close_all(&t);
	return cuda_world_close(&t.world);
}
