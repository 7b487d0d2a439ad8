/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * No code of Corale allocates in a call, once calls like it were made before. The linker leads Corale's allocations (not those of the C library
 * within itself) to the counter here, which counts those of all threads: ranks, streams, channels.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "state/comm.h"
#include "test/helpers/any_call.h"
#include "test/helpers/team.h"

enum {
	RANKS = 5,
	WARM_CALLS = 1,
	CALLS = 2,
	ATTEMPTS = 12,
	SMALL = 2,
	LARGE = 30000,
	LONG = 1 << 19 /* elements of a block */
};

/* ---- The counter ------------------------------------------------------------------------------------------- */

static _Atomic int allocations;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
int __real_posix_memalign(void **out, size_t alignment, size_t bytes);
char *__real_strdup(const char *text);
FILE *__real_open_memstream(char **text, size_t *bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
int __wrap_posix_memalign(void **out, size_t alignment, size_t bytes);
char *__wrap_strdup(const char *text);
FILE *__wrap_open_memstream(char **text, size_t *bytes);

void *__wrap_malloc(size_t bytes)
{
	allocations++;
	return __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
	allocations++;
	return __real_calloc(count, bytes);
}

void *__wrap_realloc(void *old, size_t bytes)
{
	allocations++;
	return __real_realloc(old, bytes);
}

int __wrap_posix_memalign(void **out, size_t alignment, size_t bytes)
{
	allocations++;
	return __real_posix_memalign(out, alignment, bytes);
}

char *__wrap_strdup(const char *text)
{
	allocations++;
	return __real_strdup(text);
}

FILE *__wrap_open_memstream(char **text, size_t *bytes)
{
	allocations++;
	return __real_open_memstream(text, bytes);
}

/* ---- Calls ------------------------------------------------------------------------------------------------- */

/* What a rank calls with. */
struct caller {
	corale_comm *comm;
	corale_stream *stream; /* NULL: blocking calls */
	int rank;
	size_t count; /* of a block */
	float *send, *recv; /* blocks */
	size_t counts[RANKS], displs[RANKS];
	corale_plan *plan; /* an all_reduce */
};

static int collective(struct caller *c, corale_coll coll)
{
	return any_call(&(struct any_call){ .coll = coll,
					    .count = c->count,
					    .type = CORALE_FLOAT32,
					    .send = c->send,
					    .recv = c->recv,
					    .send_counts = c->counts,
					    .send_displs = c->displs,
					    .recv_counts = c->counts,
					    .recv_displs = c->displs,
					    .comm = c->comm,
					    .stream = c->stream });
}

static int plan_run(struct caller *c)
{
	return corale_plan_run(c->plan, c->send, c->recv, c->stream);
}

static int send_to(struct caller *c, int peer)
{
	return corale_send(c->send, c->count, CORALE_FLOAT32, peer, c->comm, c->stream);
}

static int recv_from(struct caller *c, int peer)
{
	return corale_recv(c->recv + (size_t)peer * c->count, c->count, CORALE_FLOAT32, peer, c->comm,
			   c->stream);
}

/* Even ranks to the next odd one, if there is one. */
static int send_or_recv(struct caller *c)
{
	if (c->rank == RANKS - 1)
		return 0;
	return c->rank % 2 ? recv_from(c, c->rank - 1) : send_to(c, c->rank + 1);
}

/* ---- Groups ------------------------------------------------------------------------------------------------ */

static int end_group(int ret)
{
	const int end = corale_group_end();
	return ret ? ret : end;
}

static int group_of_pairs(struct caller *c)
{
	corale_group_begin();
	int ret = send_to(c, (c->rank + 1) % RANKS);
	ret = ret ? ret : recv_from(c, (c->rank + RANKS - 1) % RANKS);
	return end_group(ret);
}

static int group_of_all_pairs(struct caller *c)
{
	int ret = 0;
	corale_group_begin();
	for (int peer = 0; !ret && peer < RANKS; peer++) {
		ret = send_to(c, peer);
		ret = ret ? ret : recv_from(c, peer);
	}
	return end_group(ret);
}

static int group_of_one(struct caller *c)
{
	corale_group_begin();
	return end_group(collective(c, CORALE_ALL_REDUCE));
}

static int group_of_two(struct caller *c)
{
	corale_group_begin();
	int ret = collective(c, CORALE_ALL_REDUCE);
	return end_group(ret ? ret : collective(c, CORALE_BROADCAST));
}

static int group_of_v(struct caller *c)
{
	corale_group_begin();
	int ret = collective(c, CORALE_ALL_TO_ALL_V);
	return end_group(ret ? ret : collective(c, CORALE_BARRIER));
}

static int group_of_all_kinds(struct caller *c)
{
	corale_group_begin();
	int ret = send_to(c, (c->rank + 1) % RANKS);
	ret = ret ? ret : collective(c, CORALE_ALL_REDUCE);
	ret = ret ? ret : recv_from(c, (c->rank + RANKS - 1) % RANKS);
	return end_group(ret);
}

/* ---- The calls that are counted --------------------------------------------------------------------------------------------- */

struct counted {
	const char *name;
	int (*call)(struct caller *c); /* NULL: of this collective */
	corale_coll coll;
};

static const struct counted plain[] = {
	{ "all_reduce", NULL, CORALE_ALL_REDUCE },
	{ "all_gather", NULL, CORALE_ALL_GATHER },
	{ "reduce_scatter", NULL, CORALE_REDUCE_SCATTER },
	{ "broadcast", NULL, CORALE_BROADCAST },
	{ "reduce", NULL, CORALE_REDUCE },
	{ "gather", NULL, CORALE_GATHER },
	{ "scatter", NULL, CORALE_SCATTER },
	{ "all_to_all", NULL, CORALE_ALL_TO_ALL },
	{ "all_to_all_v", NULL, CORALE_ALL_TO_ALL_V },
	{ "all_gather_v", NULL, CORALE_ALL_GATHER_V },
	{ "reduce_scatter_v", NULL, CORALE_REDUCE_SCATTER_V },
	{ "gather_v", NULL, CORALE_GATHER_V },
	{ "scatter_v", NULL, CORALE_SCATTER_V },
	{ "barrier", NULL, CORALE_BARRIER },
	{ "send or receive", send_or_recv, 0 },
	{ "persistent plan", plan_run, 0 },
};

static const struct counted groups[] = {
	{ "a send and a receive", group_of_pairs, 0 },
	{ "sends and receives of all ranks", group_of_all_pairs, 0 },
	{ "one collective", group_of_one, 0 },
	{ "two collectives", group_of_two, 0 },
	{ "all_to_all_v and barrier", group_of_v, 0 },
	{ "a send, a receive and a collective", group_of_all_kinds, 0 },
};

/* ---- Counting ---------------------------------------------------------------------------------------------- */

static void open_caller(struct team_member *m, size_t count, size_t blocks, corale_stream *stream,
			struct caller *c)
{
	*c = (struct caller){ .comm = m->comm, .stream = stream, .rank = m->rank, .count = count };
	c->send = __real_calloc(blocks * count, sizeof *c->send);
	c->recv = __real_calloc(blocks * count, sizeof *c->recv);
	if (!c->send || !c->recv)
		abort();
	for (size_t i = 0; i < RANKS; i++) {
		c->counts[i] = count;
		c->displs[i] = i * count;
	}
	team_expect(
	    m, corale_plan_create(CORALE_ALL_REDUCE, count, CORALE_FLOAT32, CORALE_SUM, 0, m->comm, &c->plan),
	    0, "corale_plan_create");
}

static void close_caller(struct caller *c)
{
	corale_plan_destroy(c->plan);
	free(c->send);
	free(c->recv);
}

static void call_and_wait(struct team_member *m, const struct counted *row, struct caller *c)
{
	team_expect(m, row->call ? row->call(c) : collective(c, row->coll), 0, row->name);
	if (c->stream)
		team_expect(m, corale_stream_synchronize(c->stream), 0, row->name);
}

/* All ranks make the same calls between two barriers: what all threads allocate there. */
static int allocations_of(struct team_member *m, const struct counted *row, struct caller *c)
{
	team_barrier(m);
	if (!m->rank)
		atomic_store(&allocations, 0);
	team_barrier(m);
	for (int i = 0; i < CALLS; i++)
		call_and_wait(m, row, c);
	team_barrier(m);
	const int made = atomic_load(&allocations);
	team_barrier(m);
	return made;
}

/* A rank that stands still for 0.1 s, where other work has the cores, tells ranks of other nodes in a message that the transport
 * allocates; and a pool grows when more messages are under way than ever before. So only what is allocated time after time is a fault. */
static void check_row(struct team_member *m, const struct counted *row, struct caller *c)
{
	for (int i = 0; i < WARM_CALLS; i++)
		call_and_wait(m, row, c);
	int made = 1;
	for (int i = 0; made && i < ATTEMPTS; i++)
		made = allocations_of(m, row, c);
	if (made && !m->rank)
		team_fault(m,
			   "%s, %zu elements, %d nodes: %d allocations in %d calls of %d ranks: find out "
			   "what makes them",
			   row->name, c->count, corale_comm_nodes(m->comm), made, CALLS, RANKS);
}

static void check_rows(struct team_member *m, const struct counted *rows, size_t n, corale_stream *stream)
{
	struct caller small, large;
	open_caller(m, SMALL, RANKS, stream, &small);
	open_caller(m, LARGE, RANKS, stream, &large);
	for (size_t i = 0; i < n; i++) {
		check_row(m, &rows[i], &small);
		check_row(m, &rows[i], &large);
	}
	close_caller(&small);
	close_caller(&large);
}

TEAM_TEST(check_plain, "calls")
{
	check_rows(m, plain, sizeof plain / sizeof *plain, NULL);
}

TEAM_TEST(check_groups, "groups")
{
	check_rows(m, groups, sizeof groups / sizeof *groups, NULL);
}

/* ---- Cases ------------------------------------------------------------------------------------------------- */

TEAM_TEST(check_streams, "streams")
{
	corale_stream *stream;
	team_expect(m, corale_stream_create(&stream), 0, "corale_stream_create");
	check_rows(m, plain, sizeof plain / sizeof *plain, stream);
	check_rows(m, groups, sizeof groups / sizeof *groups, stream);
	corale_stream_destroy(stream);
}

/* Channels are threads of their own, for which a call keeps places. */
TEAM_TEST(check_channels, "channels in threads")
{
	const struct host_engine *e = &comm_get(m->comm, "check_channels")->engine;
	struct caller c;
	open_caller(m, LONG, 1, NULL, &c);
	check_row(m, &(struct counted){ "broadcast", NULL, CORALE_BROADCAST }, &c);
	if (e->channels > 1 && !atomic_load(&e->spare.bytes))
		team_fault(m, "a broadcast has a single channel");
	check_row(m, &(struct counted){ "all_reduce", NULL, CORALE_ALL_REDUCE }, &c);
	close_caller(&c);
}

/* As if the ranks were processes, which read each other's memory before they fold it. */
TEAM_TEST(check_references, "messages by reference")
{
	struct host_engine *e =
	    (struct host_engine *)(uintptr_t)&comm_get(m->comm, "check_references")->engine;
	const size_t queues = window_queue(&e->layout, e->locals, 0, 0);
	for (size_t i = 0; i < 2 * queues; i++)
		e->ins[i].pid = getpid();
	check_plain(m);
	if (e->locals > 1 && !atomic_load(&e->temp_bytes))
		team_fault(m, "no message was read by reference and folded");
}

/* What calls keep is memory of the communicator. */
TEAM_TEST(check_counted, "kept memory is counted")
{
	struct host_engine *e = (struct host_engine *)(uintptr_t)&comm_get(m->comm, "check_counted")->engine;
	struct caller c;
	open_caller(m, LARGE, RANKS, NULL, &c);
	call_and_wait(m, &(struct counted){ "gather", NULL, CORALE_GATHER }, &c);
	const size_t kept = atomic_load(&e->spare.bytes), all = corale_comm_memory(m->comm);
	if (corale_comm_nodes(m->comm) > 1 && !kept)
		team_fault(m, "a call between nodes has kept no cells");
	free_list_close(&e->spare);
	if (corale_comm_memory(m->comm) != all - kept)
		team_fault(m, "%zu of %zu bytes are kept, without them there are %zu", kept, all,
			   corale_comm_memory(m->comm));
	team_barrier(m);
	close_caller(&c);
}

int main(int argc, char **argv)
{
	/* one node, two, three; channels in threads */
	static const char *const settings[] = { "CORALE_NODE_SIZE=0", "CORALE_NODE_SIZE=3",
						"CORALE_NODE_SIZE=2 CORALE_MAX_CHANNELS=2", NULL };
	return team_main(argc, argv, &(struct team_runs){ .ranks = RANKS, .settings = settings });
}
