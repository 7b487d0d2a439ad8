/*
 * How many allocations a call of a rank makes of Corale's own code, once calls like it were made before. The linker leads
 * Corale's allocations (not those of the C library within itself) to the counters here. The tables below are what calls make today:
 * more fails, and so does less, so that a number which has become better is written down.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "team.h"

enum { RANKS = 4, WARM_CALLS = 4, CALLS = 3, SMALL = 2, LARGE = 50000 /* elements of a block */ };

/* ---- Counters ---------------------------------------------------------------------------------------------- */

static _Thread_local int allocations;

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
	int rank;
	size_t count; /* of a block */
	float *send, *recv; /* RANKS blocks each */
	size_t counts[RANKS], displs[RANKS];
	corale_plan *plan; /* an all_reduce */
};

static int all_reduce(struct caller *c)
{
	return corale_all_reduce(c->send, c->recv, c->count, CORALE_FLOAT32, CORALE_SUM, c->comm, NULL);
}

static int all_gather(struct caller *c)
{
	return corale_all_gather(c->send, c->recv, c->count, CORALE_FLOAT32, c->comm, NULL);
}

static int reduce_scatter(struct caller *c)
{
	return corale_reduce_scatter(c->send, c->recv, c->count, CORALE_FLOAT32, CORALE_SUM, c->comm, NULL);
}

static int broadcast(struct caller *c)
{
	return corale_broadcast(c->send, c->recv, c->count, CORALE_FLOAT32, 0, c->comm, NULL);
}

static int reduce(struct caller *c)
{
	return corale_reduce(c->send, c->recv, c->count, CORALE_FLOAT32, CORALE_SUM, 0, c->comm, NULL);
}

static int gather(struct caller *c)
{
	return corale_gather(c->send, c->recv, c->count, CORALE_FLOAT32, 0, c->comm, NULL);
}

static int scatter(struct caller *c)
{
	return corale_scatter(c->send, c->recv, c->count, CORALE_FLOAT32, 0, c->comm, NULL);
}

static int all_to_all(struct caller *c)
{
	return corale_all_to_all(c->send, c->recv, c->count, CORALE_FLOAT32, c->comm, NULL);
}

static int all_to_all_v(struct caller *c)
{
	return corale_all_to_all_v(c->send, c->counts, c->displs, c->recv, c->counts, c->displs,
				   CORALE_FLOAT32, c->comm, NULL);
}

static int barrier(struct caller *c)
{
	return corale_barrier(c->comm, NULL);
}

static int plan_run(struct caller *c)
{
	return corale_plan_run(c->plan, c->send, c->recv, NULL);
}

static int send_to(struct caller *c, int peer)
{
	return corale_send(c->send, c->count, CORALE_FLOAT32, peer, c->comm, NULL);
}

static int recv_from(struct caller *c, int peer)
{
	return corale_recv(c->recv + (size_t)peer * c->count, c->count, CORALE_FLOAT32, peer, c->comm, NULL);
}

/* Even ranks to the next odd one. */
static int send_or_recv(struct caller *c)
{
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
	return end_group(all_reduce(c));
}

static int group_of_two(struct caller *c)
{
	corale_group_begin();
	int ret = all_reduce(c);
	return end_group(ret ? ret : broadcast(c));
}

static int group_of_v(struct caller *c)
{
	corale_group_begin();
	int ret = all_to_all_v(c);
	return end_group(ret ? ret : barrier(c));
}

static int group_of_all_kinds(struct caller *c)
{
	corale_group_begin();
	int ret = send_to(c, (c->rank + 1) % RANKS);
	ret = ret ? ret : all_reduce(c);
	ret = ret ? ret : recv_from(c, (c->rank + RANKS - 1) % RANKS);
	return end_group(ret);
}

/* ---- The table --------------------------------------------------------------------------------------------- */

struct row {
	const char *name;
	int (*call)(struct caller *c);
	int on_one_node, on_two; /* allocations of the rank that makes most, for the size that takes most */
};

/* On two nodes hosts allocate the cells of plans that have any. */
static const struct row plain[] = {
	{ "all_reduce", all_reduce, 0, 1 },
	{ "all_gather", all_gather, 0, 0 },
	{ "reduce_scatter", reduce_scatter, 0, 1 },
	{ "broadcast", broadcast, 0, 0 },
	{ "reduce", reduce, 0, 1 },
	{ "gather", gather, 0, 1 },
	{ "scatter", scatter, 0, 1 },
	{ "all_to_all", all_to_all, 0, 0 },
	{ "all_to_all_v", all_to_all_v, 0, 0 },
	{ "barrier", barrier, 0, 0 },
	{ "send or receive", send_or_recv, 0, 0 },
	{ "persistent plan", plan_run, 0, 1 },
};

static const struct row groups[] = {
	{ "a send and a receive", group_of_pairs, 0, 0 },
	{ "sends and receives of all ranks", group_of_all_pairs, 0, 0 },
	{ "one collective", group_of_one, 0, 1 },
	{ "two collectives", group_of_two, 0, 1 },
	{ "all_to_all_v and barrier", group_of_v, 0, 0 },
	{ "a send, a receive and a collective", group_of_all_kinds, 0, 1 },
};

/* ---- Counting ---------------------------------------------------------------------------------------------- */

static void open_caller(struct team_member *m, size_t count, struct caller *c)
{
	*c = (struct caller){ .comm = m->comm, .rank = m->rank, .count = count };
	c->send = __real_calloc(RANKS * count, sizeof *c->send);
	c->recv = __real_calloc(RANKS * count, sizeof *c->recv);
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

/* Of one call; the most of any rank. */
static int count_of(struct team_member *m, const struct row *row, struct caller *c)
{
	int most = 0;
	for (int i = 0; i < WARM_CALLS; i++)
		team_expect(m, row->call(c), 0, row->name);
	allocations = 0;
	for (int i = 0; i < CALLS; i++)
		team_expect(m, row->call(c), 0, row->name);
	m->team->shared[m->rank] = (void *)(intptr_t)(allocations / CALLS);
	if (allocations % CALLS)
		team_fault(m, "%s, %zu elements: %d allocations in %d calls", row->name, c->count,
			   allocations, CALLS);
	team_barrier(m);
	for (int r = 0; r < RANKS; r++) {
		const int n = (int)(intptr_t)m->team->shared[r];
		most = n > most ? n : most;
	}
	team_barrier(m);
	return most;
}

static void check_rows(struct team_member *m, const struct row *rows, size_t n)
{
	const int nodes = corale_comm_nodes(m->comm);
	struct caller small, large;
	open_caller(m, SMALL, &small);
	open_caller(m, LARGE, &large);
	for (size_t i = 0; i < n; i++) {
		const int of_small = count_of(m, &rows[i], &small), of_large = count_of(m, &rows[i], &large),
			  got = of_small > of_large ? of_small : of_large,
			  expected = nodes > 1 ? rows[i].on_two : rows[i].on_one_node;
		if (got != expected && !m->rank)
			team_fault(m, "%s, %d nodes: %d allocations a call, the table says %d: %s",
				   rows[i].name, nodes, got, expected,
				   got > expected ? "find out what makes them" : "change the table");
	}
	close_caller(&small);
	close_caller(&large);
}

static void check_plain(struct team_member *m)
{
	check_rows(m, plain, sizeof plain / sizeof *plain);
}

static void check_groups(struct team_member *m)
{
	check_rows(m, groups, sizeof groups / sizeof *groups);
}

int main(int argc, char **argv)
{
	static const struct team_case cases[] = { { "calls", check_plain }, { "groups", check_groups } };
	static const char *const settings[] = { "CORALE_NODE_SIZE=0", "CORALE_NODE_SIZE=2", NULL };
	return team_main(argc, argv,
			 &(struct team_table){ RANKS, cases, sizeof cases / sizeof *cases, settings });
}
