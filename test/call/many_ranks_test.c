/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many ranks as threads of one process, on nodes of 1, 8 and 16: every collective, 8 B and 64 KB a rank in total, all elements checked. It prints what a
 * rank takes: descriptors, threads, memory, ends of links, time to make its communicator. "many_ranks_test 1024" makes so many; without a number it is a test
 * of fewer. Settings are read once a process, so each machine runs in a process of its own.
 */
#include <dirent.h>

#include "test/helpers/unit.h"
#include "state/comm.h"
#include "test/helpers/team.h"
#include "test/helpers/thin.h"

enum {
	RANKS = 256,
	FEW = 64 /* under a slow sanitizer */,
	LARGE = 65536 /* bytes of a rank in total */,
	ELEMENT = 8
};

/* What the ranks share. */
struct machine {
	double began, made; /* clock_s() */
	_Atomic int entered; /* barriers, by all ranks */
	_Atomic long links; /* ends that ranks have made */
	_Atomic size_t memory; /* bytes, of all ranks */
};

/* Of one rank. */
struct caller {
	struct team_member *member;
	int rank, size, root, barriers;
	uint64_t *send, *recv;
	size_t *send_counts, *send_displs, *recv_counts, *recv_displs;
};

/* ---- What this process holds ---------------------------------------------------------------------------------- */

static int count_entries(const char *folder)
{
	DIR *d = opendir(folder);
	int n = 0;
	for (struct dirent *entry = d ? readdir(d) : NULL; entry; entry = readdir(d))
		n += entry->d_name[0] != '.';
	if (d)
		closedir(d);
	return n;
}

/* Bytes of memory that have pages; shared ones count once a process. */
static size_t resident(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	unsigned long pages = 0;
	if (!f || fscanf(f, "%*u %lu", &pages) != 1)
		pages = 0;
	if (f)
		fclose(f);
	return (size_t)pages * 4096;
}

static long count_links(const struct link_table *links)
{
	long n = 0;
	for (int r = 0; links->rows && r < links->ranks; r++) {
		struct link **row = links->rows[r];
		for (int index = 0; row && index < links->slots->links; index++)
			n += row[index] != NULL;
	}
	return n;
}

/* ---- Data ----------------------------------------------------------------------------------------------------- */

static uint64_t element(int rank, size_t at)
{
	return (uint64_t)(rank + 1) * 0x9e3779b97f4a7c15u + at * 0xd1342543de82ef95u + 1;
}

/* Of all ranks, modulo 2^64. */
static uint64_t sum(int ranks, size_t at)
{
	const uint64_t n = (uint64_t)ranks;
	return n * (n + 1) / 2 * 0x9e3779b97f4a7c15u + n * (at * 0xd1342543de82ef95u + 1);
}

static void fill(const struct caller *c, size_t elements)
{
	for (size_t i = 0; i < elements; i++)
		c->send[i] = element(c->rank, i);
	memset(c->recv, 0xa5, elements * ELEMENT);
}

static void expect(const struct caller *c, const char *what, size_t at, uint64_t expected)
{
	if (c->recv[at] != expected)
		team_fault(c->member, "%s: element %zu is %llx, expected %llx", what, at,
			   (unsigned long long)c->recv[at], (unsigned long long)expected);
}

/* recv from an element on is what a rank sends from another one on. */
static void expect_copy(const struct caller *c, const char *what, size_t at, int from, size_t first, size_t n)
{
	for (size_t i = 0; i < n; i++)
		expect(c, what, at + i, element(from, first + i));
}

static void expect_sum(const struct caller *c, const char *what, size_t first, size_t n)
{
	for (size_t i = 0; i < n; i++)
		expect(c, what, i, sum(c->size, first + i));
}

/* ---- Calls: each with elements of a vector, or of a block --------------------------------------------------------- */

static void all_reduce(struct caller *c, size_t n)
{
	team_expect(c->member,
		    corale_all_reduce(c->send, c->recv, n, CORALE_UINT64, CORALE_SUM, c->member->comm, NULL),
		    0, "all_reduce");
	expect_sum(c, "all_reduce", 0, n);
}

static void reduce(struct caller *c, size_t n)
{
	team_expect(
	    c->member,
	    corale_reduce(c->send, c->recv, n, CORALE_UINT64, CORALE_SUM, c->root, c->member->comm, NULL), 0,
	    "reduce");
	if (c->rank == c->root)
		expect_sum(c, "reduce", 0, n);
}

static void broadcast(struct caller *c, size_t n)
{
	team_expect(c->member,
		    corale_broadcast(c->send, c->recv, n, CORALE_UINT64, c->root, c->member->comm, NULL), 0,
		    "broadcast");
	expect_copy(c, "broadcast", 0, c->root, 0, n);
}

static void all_gather(struct caller *c, size_t n)
{
	team_expect(c->member, corale_all_gather(c->send, c->recv, n, CORALE_UINT64, c->member->comm, NULL),
		    0, "all_gather");
	for (int r = 0; r < c->size; r++)
		expect_copy(c, "all_gather", (size_t)r * n, r, 0, n);
}

static void reduce_scatter(struct caller *c, size_t n)
{
	team_expect(
	    c->member,
	    corale_reduce_scatter(c->send, c->recv, n, CORALE_UINT64, CORALE_SUM, c->member->comm, NULL), 0,
	    "reduce_scatter");
	expect_sum(c, "reduce_scatter", (size_t)c->rank * n, n);
}

static void all_to_all(struct caller *c, size_t n)
{
	team_expect(c->member, corale_all_to_all(c->send, c->recv, n, CORALE_UINT64, c->member->comm, NULL),
		    0, "all_to_all");
	for (int r = 0; r < c->size; r++)
		expect_copy(c, "all_to_all", (size_t)r * n, r, (size_t)c->rank * n, n);
}

static void gather(struct caller *c, size_t n)
{
	team_expect(c->member,
		    corale_gather(c->send, c->recv, n, CORALE_UINT64, c->root, c->member->comm, NULL), 0,
		    "gather");
	for (int r = 0; c->rank == c->root && r < c->size; r++)
		expect_copy(c, "gather", (size_t)r * n, r, 0, n);
}

static void scatter(struct caller *c, size_t n)
{
	team_expect(c->member,
		    corale_scatter(c->send, c->recv, n, CORALE_UINT64, c->root, c->member->comm, NULL), 0,
		    "scatter");
	expect_copy(c, "scatter", 0, c->root, (size_t)c->rank * n, n);
}

/* One edge of three has no elements. */
static size_t edge(int from, int to, size_t n)
{
	return (from + 2 * to) % 3 ? n : 0;
}

static void all_to_all_v(struct caller *c, size_t n)
{
	for (int r = 0; r < c->size; r++) {
		c->send_counts[r] = edge(c->rank, r, n);
		c->recv_counts[r] = edge(r, c->rank, n);
		c->send_displs[r] = c->recv_displs[r] = (size_t)r * n;
	}
	team_expect(c->member,
		    corale_all_to_all_v(c->send, c->send_counts, c->send_displs, c->recv, c->recv_counts,
					c->recv_displs, CORALE_UINT64, c->member->comm, NULL),
		    0, "all_to_all_v");
	for (int r = 0; r < c->size; r++)
		expect_copy(c, "all_to_all_v", (size_t)r * n, r, (size_t)c->rank * n, c->recv_counts[r]);
}

/* One block of three has no elements. */
static void set_blocks(struct caller *c, size_t n)
{
	for (int r = 0; r < c->size; r++) {
		c->recv_counts[r] = edge(r, 0, n);
		c->recv_displs[r] = (size_t)r * n;
	}
}

static void all_gather_v(struct caller *c, size_t n)
{
	set_blocks(c, n);
	team_expect(c->member,
		    corale_all_gather_v(c->send, c->recv, c->recv_counts, c->recv_displs, CORALE_UINT64,
					c->member->comm, NULL),
		    0, "all_gather_v");
	for (int r = 0; r < c->size; r++)
		expect_copy(c, "all_gather_v", (size_t)r * n, r, 0, c->recv_counts[r]);
}

static void reduce_scatter_v(struct caller *c, size_t n)
{
	set_blocks(c, n);
	team_expect(c->member,
		    corale_reduce_scatter_v(c->send, c->recv_counts, c->recv_displs, c->recv, CORALE_UINT64,
					    CORALE_SUM, c->member->comm, NULL),
		    0, "reduce_scatter_v");
	expect_sum(c, "reduce_scatter_v", (size_t)c->rank * n, c->recv_counts[c->rank]);
}

static void exchange(struct caller *c, size_t n)
{
	const int before = (c->rank + c->size - 1) % c->size, behind = (c->rank + 1) % c->size;
	corale_group_begin();
	corale_recv(c->recv, n, CORALE_UINT64, before, c->member->comm, NULL);
	corale_send(c->send, n, CORALE_UINT64, behind, c->member->comm, NULL);
	team_expect(c->member, corale_group_end(), 0, "send and recv");
	expect_copy(c, "send and recv", 0, before, 0, n);
}

/* Nobody leaves before all have come. */
static void barrier(struct caller *c, size_t n)
{
	struct machine *m = c->member->arg;
	atomic_fetch_add(&m->entered, 1);
	team_expect(c->member, corale_barrier(c->member->comm, NULL), 0, "barrier");
	if (atomic_load(&m->entered) < ++c->barriers * c->size)
		team_fault(c->member, "left a barrier before all had come");
}

static const struct {
	const char *name;
	int blocks; /* of one rank in a call: 1, or 0: as many as ranks */
	void (*call)(struct caller *c, size_t n);
} calls[] = {
	{ "all_reduce", 1, all_reduce },
	{ "all_gather", 0, all_gather },
	{ "reduce_scatter", 0, reduce_scatter },
	{ "broadcast", 1, broadcast },
	{ "reduce", 1, reduce },
	{ "gather", 0, gather },
	{ "scatter", 0, scatter },
	{ "all_to_all", 0, all_to_all },
	{ "all_to_all_v", 0, all_to_all_v },
	{ "all_gather_v", 0, all_gather_v },
	{ "reduce_scatter_v", 0, reduce_scatter_v },
	{ "send and recv", 1, exchange },
	{ "barrier", 1, barrier },
};
enum { CALLS = sizeof calls / sizeof *calls };

/* ---- One machine ---------------------------------------------------------------------------------------------- */

static size_t room_of(int ranks)
{
	const size_t least = (size_t)ranks * ELEMENT;
	return least > LARGE ? least : LARGE;
}

/* Of a vector or block. */
static size_t elements_of(const struct caller *c, int call, int large)
{
	const size_t blocks = calls[call].blocks ? 1 : (size_t)c->size;
	const size_t n = LARGE / ELEMENT / blocks;
	return large && n ? n : 1;
}

static void open_caller(struct caller *c, struct team_member *member)
{
	const size_t bytes = room_of(member->size), n = (size_t)member->size;
	*c = (struct caller){
		.member = member, .rank = member->rank, .size = member->size, .root = member->size / 3
	};
	c->send = malloc(2 * bytes);
	c->send_counts = malloc(4 * n * sizeof *c->send_counts);
	if (!c->send || !c->send_counts)
		abort();
	c->recv = c->send + bytes / ELEMENT;
	c->send_displs = c->send_counts + n;
	c->recv_counts = c->send_displs + n;
	c->recv_displs = c->recv_counts + n;
}

static void run_call(struct caller *c, int call, int large)
{
	fill(c, room_of(c->size) / ELEMENT);
	team_barrier(c->member);
	const double began = clock_s();
	calls[call].call(c, elements_of(c, call, large));
	team_barrier(c->member);
	if (!c->rank)
		fprintf(stderr, "# %-14s %8zu B: %7.0f ms\n", calls[call].name,
			elements_of(c, call, large) * ELEMENT, 1e3 * (clock_s() - began));
}

static void run_rank(struct team_member *member)
{
	struct machine *m = member->arg;
	struct caller c;
	if (!member->rank)
		m->made = clock_s();
	open_caller(&c, member);
	for (int call = 0; call < CALLS; call++)
		for (int large = 0; large <= 1; large++)
			run_call(&c, call, large);
	struct comm *comm = comm_get(member->comm, "many_ranks_test");
	atomic_fetch_add(&m->links, count_links(&comm->engine.links));
	atomic_fetch_add(&m->memory, corale_comm_memory_used(member->comm));
	team_barrier(member);
	if (!member->rank)
		fprintf(stderr,
			"# %d ranks on %d nodes, of one rank: %.2f descriptors, %.2f threads, %.1f MB "
			"resident (%.0f MB by "
			"corale_comm_memory_used), %.0f ends of links, made in %.2f ms (all in %.0f ms)\n",
			member->size, corale_comm_nodes(member->comm),
			(double)count_entries("/proc/self/fd") / member->size,
			(double)count_entries("/proc/self/task") / member->size,
			(double)resident() / member->size / 1e6, (double)m->memory / member->size / 1e6,
			(double)m->links / member->size, 1e3 * (m->made - m->began) / member->size,
			1e3 * (m->made - m->began));
	team_barrier(member);
	free(c.send);
	free(c.send_counts);
}

static int run_machine(int ranks)
{
	struct machine m = { .began = clock_s() };
	return team_run(ranks, NULL, run_rank, &m) != 0;
}

static const char *number; /* of ranks */

static int spawn(const char *settings)
{
	char text[16];
	snprintf(text, sizeof text, "=%s", number);
	return team_spawn(settings, text);
}

UNIT_TEST(nodes_of_1)
{
	assert_int_equal(spawn("CORALE_NODE_SIZE=1 CORALE_TIMEOUT=300"), 0);
}

UNIT_TEST(nodes_of_8)
{
	assert_int_equal(spawn("CORALE_NODE_SIZE=8 CORALE_TIMEOUT=300"), 0);
}

UNIT_TEST(nodes_of_16)
{
	assert_int_equal(spawn("CORALE_NODE_SIZE=16 CORALE_TIMEOUT=300"), 0);
}

int main(int argc, char **argv)
{
	char fewer[16];
	if (argc > 1 && *argv[1] == '=')
		return run_machine(atoi(argv[1] + 1));
	snprintf(fewer, sizeof fewer, "%d", thin_step() > 1 ? FEW : RANKS);
	number = argc > 1 ? argv[1] : fewer;
	return unit_run(NULL, NULL);
}
