/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Creations whose exchanges fail: each one in turn, on each rank, returns an error, returns 0 though other ranks' records are missing, or gives those of the
 * exchange before. That ends the creation on the rank; the others end as soon as its sockets close. On hosts and with an engine that stands for a GPU, on one node and
 * over nodes.
 */
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>

#include "test/helpers/unit.h"
#include "test/helpers/fake_engine.h"
#include "test/helpers/forked.h"

enum { MOST_BYTES = 1 << 20, ENDS_S = 5 };
enum how { RETURNS, MISSES, REPEATS, HOWS };
static const char *const how_text[] = { "returns an error", "misses records", "repeats records" };

struct fault {
	int is_gpu, victim, at; /* 0: none */
	enum how how;
	int *exchanges; /* of a creation without fault, shared */
};

struct faulty {
	struct forked *r;
	const struct fault *fault;
	int n;
};

static unsigned char before[MOST_BYTES];

static int gather(void *ctx, const void *in, size_t bytes, void *out)
{
	struct faulty *f = ctx;
	struct forked *r = f->r;
	const int fails = r->rank == f->fault->victim && ++f->n >= f->fault->at && f->fault->at;
	const size_t all = (size_t)r->size * bytes;
	if (fails && f->n > f->fault->at)
		forked_fault(r, "exchange %d, after one that failed", f->n);
	if (fails && f->fault->how == RETURNS)
		return 5;
	if (all > MOST_BYTES || forked_gather(r->sockets, r->rank, r->size, in, bytes, out))
		return 1;
	if (fails && f->fault->how == MISSES)
		memset((char *)out + (size_t)((r->rank + 1) % r->size) * bytes + bytes / 2, 0,
		       bytes - bytes / 2);
	if (fails && f->fault->how == REPEATS)
		memcpy(out, before, all);
	memcpy(before, out, all);
	return 0;
}

static int create(struct forked *r)
{
	const struct fault *fault = r->arg;
	struct faulty f = { .r = r, .fault = fault };
	const corale_bootstrap bootstrap = { r->rank, r->size, &f, gather };
	const int fails = fault->at && r->rank == fault->victim;
	corale_config config;
	corale_comm *comm = NULL;
	struct timespec start, end;
	corale_config_init(&config);
	config.device = fault->is_gpu ? CORALE_DEVICE_CUDA : CORALE_DEVICE_HOST;
	signal(SIGPIPE, SIG_IGN); /* of a rank that has ended */
	clock_gettime(CLOCK_MONOTONIC, &start);
	const int ret = corale_comm_create(&bootstrap, &config, &comm);
	clock_gettime(CLOCK_MONOTONIC, &end);
	for (int peer = 0; fails && peer < r->size; peer++)
		if (peer != r->rank)
			shutdown(r->sockets[peer], SHUT_RDWR);
	if (fails ? ret != CORALE_EPEER : !fault->at && ret)
		forked_fault(r, "creation: %s", corale_strerror(ret));
	if (end.tv_sec - start.tv_sec > ENDS_S)
		forked_fault(r, "creation took %d s", (int)(end.tv_sec - start.tv_sec));
	if (!fault->at && r->rank == fault->victim)
		*fault->exchanges = f.n;
	corale_comm_destroy(comm);
	return 0;
}

static void fail_each(int size, int is_gpu, const char *node_size)
{
	int *exchanges =
	    mmap(NULL, sizeof *exchanges, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct fault f = { .is_gpu = is_gpu, .exchanges = exchanges };
	assert_true(exchanges != MAP_FAILED);
	setenv("CORALE_NODE_SIZE", node_size, 1);
	setenv("CORALE_DEBUG", "none", 0);
	setenv("CORALE_UCX_MESSAGE", "am",
	       1); /* others of UCX's may end a process amid the end of a peer (docs/reliability.md) */
	assert_int_equal(forked_run(size, FORKED_NOBODY, create, &f), 0);
	assert_true(*exchanges >= 3);
	for (f.at = 1; f.at <= *exchanges; f.at++)
		for (f.victim = 0; f.victim < size; f.victim++)
			for (f.how = RETURNS; f.how < HOWS; f.how++)
				if ((*node_size == '0' || (int)f.how == (f.at + f.victim) % HOWS) &&
				    forked_run(size, FORKED_NOBODY, create, &f))
					fail_msg("exchange %d of %d: %s on rank %d", f.at, *exchanges,
						 how_text[f.how], f.victim);
	munmap(exchanges, sizeof *exchanges);
}

static void hosts(void **state)
{
	fail_each(2, 0, "0");
	fail_each(3, 0, "0");
}

static void gpus(void **state)
{
	fail_each(2, 1, "0");
}

static void hosts_over_nodes(void **state)
{
	fail_each(3, 0, "2");
}

static void gpus_over_nodes(void **state)
{
	fail_each(3, 1, "2");
}

int main(void)
{
	const struct CMUnitTest on_one[] = { cmocka_unit_test(hosts), cmocka_unit_test(gpus) },
				tests[] = { cmocka_unit_test(hosts), cmocka_unit_test(gpus),
					    cmocka_unit_test(hosts_over_nodes),
					    cmocka_unit_test(gpus_over_nodes) };
	return forked_has_ucx() ? cmocka_run_group_tests_name("creation_faults", tests, NULL, NULL)
				: cmocka_run_group_tests_name("creation_faults", on_one, NULL, NULL);
}
