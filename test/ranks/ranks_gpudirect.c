/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * GPUDirect RDMA as communicators find it out: over an RDMA adapter in user space (fake_verbs.sh), with an engine whose GPU memory no CPU may touch
 * (fake_engine.h). A process is a run of one set of faults and settings; TEST_EXPECT is what communicators must have come to:
 *   direct[:TEXT]      slots in GPU memory, and a line of rank 0's log has TEXT
 *   pinned[:TEXT]      pinned slots
 *   any                either
 *   error:TEXT         no communicator, on any rank
 * Without: no adapter, so pinned slots.
 * shapes: 2:1 3:2
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/settings.h"
#include "comm/gpu_direct.h"
#include "test/helpers/crash.h"
#include "test/helpers/fake_engine.h"
#include "test/helpers/ranks.h"
#include "mpi_world.h"
#include "net/slot_front.h"
#include "net/proxy.h"

enum { DEADLINE_S = 60, MESSAGES = 21, MOST_LOG = 1 << 20 };

static int wrong;
static char log_path[128];

static void expect(int good, const char *what)
{
	if (!good) {
		printf("# rank %d: %s\n", rank, what);
		wrong++;
	}
}

static void tell(const char *what)
{
	ranks_report(what, wrong);
	wrong = 0;
}

/* Of rank 0, which prints all that it has to say of GPUDirect where this is missing. */
static int log_has(const char *text)
{
	static char log[MOST_LOG];
	FILE *file = fopen(log_path, "re");
	const size_t bytes = file ? fread(log, 1, sizeof log - 1, file) : 0;
	if (file)
		fclose(file);
	log[bytes] = '\0';
	if (strstr(log, text))
		return 1;
	printf("# no line has \"%s\"\n", text);
	for (char *line = strtok(log, "\n"); line; line = strtok(NULL, "\n"))
		if (strstr(line, "GPUD"))
			printf("# %s\n", line);
	return 0;
}

static int make(corale_comm **comm)
{
	const corale_bootstrap bootstrap = { rank, size, NULL, mpi_world_allgather };
	corale_config config;
	corale_config_init(&config);
	config.device = CORALE_DEVICE_CUDA;
	return corale_comm_create(&bootstrap, &config, comm);
}

/* ---- Messages, as kernels post and take them ------------------------------------------------------------------ */

/* A connection of each use, to and from each rank of another node. */
static const uint32_t indexes[] = { 0, (uint32_t)REMOTE_SINGLE *REMOTE_RINGS, REMOTE_PAIRS };
enum { CONNECTIONS = sizeof indexes / sizeof *indexes };

struct end {
	int peer;
	uint32_t index;
	enum remote_direction direction;
	remote_offset offset;
	uint64_t messages, until;
};

static uint64_t seed_of(int from, int to, uint32_t index, uint64_t n)
{
	return ((uint64_t)from << 48 | (uint64_t)to << 40 | (uint64_t)index << 32 | n) * 0x9e3779b97f4a7c15u;
}

static size_t size_of(const struct remote_slots *s, uint64_t n)
{
	const size_t sizes[] = { s->bytes, 8, 4096, 1000, REMOTE_FEW_BYTES, REMOTE_FEW_BYTES + 1, 0 },
		     bytes = sizes[n % 7];
	return bytes < s->bytes ? bytes : s->bytes;
}

static unsigned char byte_of(uint64_t seed, size_t i)
{
	return (unsigned char)(seed >> i % 56) ^ (unsigned char)(i * 31 >> 3);
}

static int post(const struct remote *r, struct end *e, int to)
{
	const struct remote_slots *s = remote_slots_of(r, e->index);
	struct remote_words *words = remote_words_at(r, e->offset);
	const uint64_t n = e->messages, seed = seed_of(rank, to, e->index, n);
	if (n == e->until || n >= __atomic_load_n(&words->free, __ATOMIC_ACQUIRE) + s->depth)
		return 0;
	unsigned char *data = remote_data_at(r, e->index, e->offset, n);
	for (size_t i = 0; i < size_of(s, n); i++)
		data[i] = byte_of(seed, i);
	*remote_header_at(r, e->offset, s, n) =
	    (struct remote_header){ .number = n + 1, .signature = seed, .bytes = size_of(s, n) };
	__atomic_store_n(&words->posted, ++e->messages, __ATOMIC_RELEASE);
	return 1;
}

static int take(const struct remote *r, struct end *e, int from)
{
	const struct remote_slots *s = remote_slots_of(r, e->index);
	const uint64_t n = e->messages, seed = seed_of(from, rank, e->index, n);
	unsigned char few[REMOTE_FEW_BYTES];
	struct remote_header h;
	if (n == e->until)
		return 0;
	const enum front_form form = slot_front_read(remote_header_at(r, e->offset, s, n), n + 1, &h, few);
	if (form == FRONT_NOTHING)
		return 0;
	const unsigned char *data = form == FRONT_INLINE ? few : remote_data_at(r, e->index, e->offset, n);
	size_t bad = h.signature != seed || h.bytes != size_of(s, n);
	for (size_t i = 0; i < size_of(s, n); i++)
		bad += data[i] != byte_of(seed, i);
	expect(!bad, "another message");
	__atomic_store_n(&remote_words_at(r, e->offset)->taken, ++e->messages, __ATOMIC_RELEASE);
	return 1;
}

static void exchange(struct comm *comm)
{
	const struct remote kernels = fake_engine_remote(comm->gpu);
	const int peers = kernels.peers, locals = comm->engine.locals, n = peers * 2 * CONNECTIONS;
	struct end *ends = calloc((size_t)n, sizeof *ends), *e = ends;
	const double start = MPI_Wtime();
	int left = n * MESSAGES;
	for (int peer = 0; ends && peer < peers; peer++)
		for (int d = REMOTE_OUT; d <= REMOTE_IN; d++)
			for (int i = 0; i < CONNECTIONS; i++, e++) {
				*e = (struct end){ .peer = peer,
						   .index = indexes[i],
						   .direction = (enum remote_direction)d };
				expect(!proxy_open_end(comm->proxy, peer, e->direction, e->index, &e->offset),
				       "a connection can't be opened");
				const struct remote_words *words = remote_words_at(&kernels, e->offset);
				e->messages = d == REMOTE_OUT ? words->posted : words->taken;
				e->until = e->messages + MESSAGES;
			}
	proxy_expect(comm->proxy);
	while (left && MPI_Wtime() - start < DEADLINE_S) {
		int moved = 0;
		for (e = ends; e < ends + n; e++) {
			const int other = comm->gpu_rank[locals + e->peer];
			moved +=
			    e->direction == REMOTE_OUT ? post(&kernels, e, other) : take(&kernels, e, other);
		}
		left -= moved;
		if (!moved)
			usleep(50);
	}
	expect(!left, "messages do not come");
	proxy_unexpect(comm->proxy, 0);
	free(ends);
	MPI_Barrier(MPI_COMM_WORLD);
}

/* ---- What communicators have come to --------------------------------------------------------------------------- */

static void check(struct comm *comm, const char *expected)
{
	const int direct = comm->direct && comm->direct->used[0];
	const char *text = strchr(expected, ':');
	uint64_t in_gpu, pinned;
	const int is_expected = !strcmp(expected, "any") || direct == (strncmp(expected, "pinned", 6) != 0);
	expect(is_expected, direct ? "slots in GPU memory" : "pinned slots");
	if (!is_expected && rank == 0)
		log_has("what explains it");
	wrong += text && rank == 0 && !log_has(text + 1);
	proxy_bytes(comm->proxy, &in_gpu, &pinned);
	const uint64_t before = in_gpu + pinned;
	exchange(comm);
	proxy_bytes(comm->proxy, &in_gpu, &pinned);
	expect(!before && in_gpu + pinned > 0, "bytes are not counted");
	expect(direct ? !pinned : !in_gpu, "a message went the other way");
	expect(!corale_comm_async_error(comm->handle), "the communicator has failed");
}

static void run(const char *expected, const char *name)
{
	corale_comm *first = NULL, *second = NULL;
	const int is_error = !strncmp(expected, "error", 5), ret = make(&first);
	if (is_error) {
		expect(ret == CORALE_ENOTSUP, "an error was expected on all ranks");
		expect(rank || log_has(strchr(expected, ':') + 1), "no line says why");
		return tell(name);
	}
	expect(!ret, "no communicator");
	if (!ret)
		check(first->comm, expected);
	tell(name);
	expect(!ret && !make(&second), "no second communicator");
	if (second) {
		check(second->comm, expected);
		corale_comm_destroy(first);
		exchange(second->comm);
		corale_comm_destroy(second);
	}
	expect(fake_engine_kept <= 2, "memory of communicators that have ended is kept");
	tell("another communicator beside it, and after its end");
}

int main(int argc, char **argv)
{
	const char *expected = getenv("TEST_EXPECT"), *name = getenv("TEST_NAME");
	const char *scratch = getenv("TMPDIR");
	snprintf(log_path, sizeof log_path, "%s/ranks_gpudirect.%d", scratch ? scratch : "/tmp", getpid());
	setenv("CORALE_LOG_FILE", log_path, 1);
	setenv("CORALE_DEBUG", "info", 1);
	crash_expect();
	ranks_open(&argc, &argv, MPI_THREAD_MULTIPLE);
	crash_expect();
	fake_engine_has_late_kernels = getenv("TEST_BUSY_GPU") && rank == size - 1;
	fake_engine_reads_back = getenv("TEST_OLD_GPU") != NULL;
	run(expected ? expected : "pinned:transport ucx uses no RDMA adapter", name ? name : "no adapter");
	unlink(log_path);
	return ranks_close();
}
