/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank of another node is killed at any moment of calls with large messages that are put: the others get EPEER, and no process but that one ends.
 * KILL_TEST_KILLS sets how often, TEST_SEED which moments, CORALE_UCX_MESSAGE how else messages travel: with UCX 1.13 over tcp rendezvous is not tested, as an
 * assertion of UCX ends another process once in some 60 kills (docs/reliability.md).
 */
#define _GNU_SOURCE
#include <time.h>
#include <unistd.h>

#include "test/helpers/unit.h"
#include "test/helpers/forked.h"

enum { RANKS = 3, VICTIM = 1, COUNT = 300000, KILLS = 5, MOST_US = 60000, CONNECTED = 3 };

static unsigned seed;

/* Whichever call meets the death: a rank may hear of it between two, and then is refused the next one. */
static void expect_death(struct forked *r, corale_comm *comm, int ret)
{
	const char *said = corale_comm_last_error(comm);
	if ((ret != CORALE_EPEER && ret != CORALE_ECOMM) || !strstr(said, "rank 1") || !strstr(said, "died"))
		forked_fault(r, "got %s: %s", corale_strerror(ret), said);
	if (corale_comm_async_error(comm) != CORALE_EPEER)
		forked_fault(r, "async_error: %s", corale_strerror(corale_comm_async_error(comm)));
}

static int call(corale_comm *comm, int i, const float *in, float *out)
{
	switch (i % 3) {
	case 0:
		return corale_all_reduce(in, out, COUNT, CORALE_FLOAT32, CORALE_SUM, comm, NULL);
	case 1:
		return corale_all_gather(in, out, COUNT, CORALE_FLOAT32, comm, NULL);
	default:
		return corale_all_to_all(in, out, COUNT / RANKS, CORALE_FLOAT32, comm, NULL);
	}
}

static int play(struct forked *r)
{
	float *in = calloc(RANKS * COUNT, sizeof *in), *out = calloc(RANKS * COUNT, sizeof *out);
	const useconds_t *delay = r->arg;
	corale_comm *comm = forked_create(r);
	int ret = 0;
	if (!comm || !in || !out)
		return 1;
	for (int i = 0; !ret; i++) {
		/* Its action is the process's end, in whatever it does then. Earlier, while UCX 1.13 connects, a death can end others by an assertion of UCX. */
		if (r->rank == VICTIM && i == CONNECTED)
			ualarm(*delay, 0);
		ret = call(comm, i, in, out);
	}
	expect_death(r, comm, ret);
	corale_comm_destroy(comm);
	free(in);
	free(out);
	return 0;
}

static void kill_some(void **state)
{
	const char *kills = getenv("KILL_TEST_KILLS");
	for (int i = kills ? atoi(kills) : KILLS; i > 0; i--) {
		const useconds_t delay = 1 + (useconds_t)rand_r(&seed) % MOST_US;
		if (forked_run(RANKS, VICTIM, play, &delay))
			fail_msg("killed after %u us", (unsigned)delay);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		{ "killed, messages are put", kill_some, NULL, NULL, NULL },
	};
	const char *given = getenv("TEST_SEED");
	if (!forked_has_ucx()) {
		puts("1..0 # SKIP this build has no UCX");
		return 0;
	}
	seed = given ? (unsigned)strtoul(given, NULL, 0) : (unsigned)time(NULL);
	printf("# TEST_SEED=%u\n", seed);
	setenv("CORALE_DEBUG", "none", 1);
	setenv("CORALE_TIMEOUT", "20", 1);
	setenv("CORALE_NODE_SIZE", "1", 1);
	setenv("CORALE_UCX_MESSAGE", "put", 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
