/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What making communicators takes: exchanges among the ranks, in one node and between nodes over UCX, with what their processes know from earlier ones; and
 * the memory of many communicators over nodes.
 */
#include "test/helpers/unit.h"
#include "test/helpers/forked.h"
#include "state/comm.h"

enum {
	ON_ONE_HOST = 4, /* exchanges of one creation, at most */
	OVER_NODES = 6,
	TIMED = 7, /* while links are timed */
	MANY = 24,
	LARGE = 1 << 18 /* elements */,
	LARGE_PAGES_KB = 80 << 10 /* of a process; its slots take 64 MB of them */
};

/* Some ranks of all, which create a communicator. */
struct part {
	int rank, size, exchanges;
	int sockets[FORKED_RANKS];
};

static int gather(void *ctx, const void *in, size_t bytes, void *out)
{
	struct part *part = ctx;
	part->exchanges++;
	return forked_gather(part->sockets, part->rank, part->size, in, bytes, out);
}

/* NULL: this rank is not among them, or a fault. */
static corale_comm *create(struct forked *r, const int *ranks, int size, int most)
{
	struct part part = { .rank = -1, .size = size };
	corale_comm *comm = NULL;
	for (int i = 0; i < size; i++) {
		part.sockets[i] = r->sockets[ranks[i]];
		part.rank = ranks[i] == r->rank ? i : part.rank;
	}
	if (part.rank < 0)
		return NULL;
	const corale_bootstrap bootstrap = {
		.rank = part.rank, .size = size, .ctx = &part, .allgather = gather
	};
	if (corale_comm_create(&bootstrap, NULL, &comm))
		forked_fault(r, "no communicator of %d ranks", size);
	if (part.exchanges > most)
		forked_fault(r, "%d exchanges among %d ranks, at most %d expected", part.exchanges, size,
			     most);
	return comm;
}

static const int all_ranks[] = { 0, 1, 2, 3 };

static void create_and_destroy(struct forked *r, const int *ranks, int size, int most)
{
	corale_comm_destroy(create(r, ranks, size, most));
}

static int on_one_host(struct forked *r)
{
	for (int i = 0; i < 2; i++)
		create_and_destroy(r, all_ranks, r->size, ON_ONE_HOST);
	return 0;
}

/* Pairs one after the other: the first pair times its link, then one of two ranks knows rates, then both; whatever each rank has seen, both choose alike. */
static int over_nodes(struct forked *r)
{
	create_and_destroy(r, (const int[]){ 0, 1 }, 2, TIMED);
	create_and_destroy(r, (const int[]){ 0, 1 }, 2, OVER_NODES);
	create_and_destroy(r, (const int[]){ 2, 0 }, 2, TIMED);
	create_and_destroy(r, (const int[]){ 1, 2 }, 2, TIMED);
	create_and_destroy(r, (const int[]){ 1, 2 }, 2, OVER_NODES);
	create_and_destroy(r, all_ranks, r->size, TIMED);
	return 0;
}

/* KB of a field of smaps_rollup; 0: the kernel has none. */
static long resident(const char *field)
{
	char line[256];
	long kb = 0;
	FILE *f = fopen("/proc/self/smaps_rollup", "r");
	while (f && fgets(line, sizeof line, f))
		if (!strncmp(line, field, strlen(field)))
			kb = atol(line + strlen(field));
	if (f)
		fclose(f);
	return kb;
}

static int many(struct forked *r)
{
	static float in[LARGE], out[LARGE];
	corale_comm *comms[MANY] = { NULL };
	for (int i = 0; i < MANY; i++) {
		comms[i] = create(r, all_ranks, r->size, TIMED);
		for (int call = 0; comms[i] && call < 4; call++)
			if (corale_all_reduce(in, out, LARGE, CORALE_FLOAT32, CORALE_SUM, comms[i], NULL))
				forked_fault(r, "all_reduce: %s", corale_comm_last_error(comms[i]));
	}
	const long kb = resident("AnonHugePages:");
	if (kb > LARGE_PAGES_KB)
		forked_fault(r, "%d communicators take %ld KB in large pages, at most %d expected", MANY, kb,
			     LARGE_PAGES_KB);
	for (int i = 0; i < MANY; i++)
		corale_comm_destroy(comms[i]);
	return 0;
}

/* ---- Cases ---------------------------------------------------------------------------------------------------- */

static void exchanges_on_one_host(void **state)
{
	assert_int_equal(forked_run(3, FORKED_NOBODY, on_one_host, NULL), 0);
}

static void run_as_nodes(int size, int (*body)(struct forked *r))
{
	setenv("CORALE_NODE_SIZE", "1", 1);
	setenv("CORALE_TRANSPORT", "ucx", 1);
	assert_int_equal(forked_run(size, FORKED_NOBODY, body, NULL), 0);
}

static void exchanges_over_nodes(void **state)
{
	run_as_nodes(3, over_nodes);
}

static void memory_of_many(void **state)
{
	run_as_nodes(4, many);
}

int main(void)
{
	const struct CMUnitTest on_hosts[] = { cmocka_unit_test(exchanges_on_one_host) },
				tests[] = { cmocka_unit_test(exchanges_on_one_host),
					    cmocka_unit_test(exchanges_over_nodes),
					    cmocka_unit_test(memory_of_many) };
	return forked_has_ucx() ? cmocka_run_group_tests(tests, NULL, NULL)
				: cmocka_run_group_tests(on_hosts, NULL, NULL);
}
