/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What becomes of a rank whose peer, or its adapter, ends while messages go through slots in a GPU's memory, or hosts' over an RDMA transport: over
 * the adapter of test/fake_verbs, which test/fake_verbs/fake_verbs.sh preloads.
 */
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/helpers/unit.h"
#include "base/wait.h"
#include "gpu_ranks.h"

enum { MESSAGES = 20, BYTES = 20000, HALT_MS = 8000, POISON = 0xee };

static const char *faults; /* of rank 1's adapter */
static int gpu_slots, is_killed;

/* The peer is named once, in order, and the rank goes on. What fails first on the side of the adapter may be its reading back. */
static void expect_lost(struct gpu_rank *r, int ret)
{
	if (ret != CORALE_EPEER)
		fprintf(stderr, "rank %d: %d\n", r->rank, ret);
	EXPECT(ret == CORALE_EPEER);
	for (int i = 0; i < 100 && !r->failures; i++)
		gpu_rank_move(r, 10);
	EXPECT(r->failures == 1 && r->code == CORALE_EPEER);
	if (strstr(r->reason, "the connection over rc_verbs/fake0:1 failed: ") != r->reason)
		fprintf(stderr, "rank %d: reason: %s\n", r->rank, r->reason);
	EXPECT(r->rank || strstr(r->reason, "the connection over rc_verbs/fake0:1 failed: ") == r->reason);
	EXPECT(r->reason[0]);
	gpu_rank_fail(r, CORALE_EPEER);
	gpu_rank_close(r);
}

static int step(struct gpu_rank *r, int ms)
{
	return r->rank ? gpu_rank_receive(r, BYTES, ms) : gpu_rank_send(r, BYTES, ms);
}

static void exchange(struct gpu_rank *r)
{
	int ret = 1;
	setenv("FAKE_VERBS", r->rank ? faults : "retries_ms=500", 1);
	gpu_rank_open(r, gpu_slots);
	for (int i = 0; ret > 0 && i < MESSAGES; i++)
		ret = step(r, GPU_DEADLINE_MS);
	if (r->rank && is_killed)
		raise(SIGKILL);
	while (ret > 0)
		ret = step(r, GPU_DEADLINE_MS);
	expect_lost(r, ret);
}

static void expect_end(int in_gpu, const char *of_adapter)
{
	int statuses[2];
	gpu_slots = in_gpu;
	is_killed = !of_adapter;
	faults = of_adapter ? of_adapter : "retries_ms=500";
	gpu_run_two(exchange, statuses);
	assert_int_equal(statuses[0], 0);
	if (is_killed)
		assert_true(WIFSIGNALED(statuses[1]) && WTERMSIG(statuses[1]) == SIGKILL);
	else if (!strstr(of_adapter,
			 "die")) /* UCX ends a process whose adapter is gone: its datagrams handle no error */
		assert_int_equal(statuses[1], 0);
}

UNIT_TEST(killed)
{
	expect_end(1, NULL);
}

UNIT_TEST(killed_host)
{
	expect_end(0, NULL);
}

UNIT_TEST(adapter_stops)
{
	expect_end(1, "retries_ms=500 stop=60");
}

UNIT_TEST(adapter_dies)
{
	expect_end(1, "retries_ms=500 die=60");
}

UNIT_TEST(port_goes_down)
{
	expect_end(1, "retries_ms=500 down=60");
}

UNIT_TEST(host_adapter_stops)
{
	expect_end(0, "retries_ms=500 stop=60");
}

/* The slots of rank 0 are its own again, or it takes long. */
static void wait_for_slots(const struct gpu_rank *r)
{
	for (int ms = 0; ms < 5000 && !r->released; ms += 10)
		poll(NULL, 0, 10);
	EXPECT(r->released == r->link->out_open + r->link->in_open);
}

static int is_poisoned(const struct gpu_rank *r)
{
	int is = 1;
	for (size_t i = 0; i < r->gpu.bytes; i++)
		is &= r->gpu.readable[i] == POISON;
	return is;
}

/* Rank 0's adapter stands still with puts that have not left, and goes on when their communicator is closed: they are gone. */
static void stand_still(struct gpu_rank *r)
{
	const int64_t end = wait_now_ns() + (HALT_MS + 1000) * 1000000ll;
	setenv("FAKE_VERBS", r->rank ? "retries_ms=60000" : "retries_ms=60000 stop=60 stop_ms=8000", 1);
	gpu_rank_open(r, 1);
	while (step(r, 500) > 0)
		;
	if (r->rank) {
		memset(r->gpu.readable, POISON, r->gpu.bytes);
	} else {
		EXPECT(r->link->out_open && !link_room(r->link));
		gpu_rank_fail(r, CORALE_EABORTED);
		gpu_rank_close(r);
		wait_for_slots(r);
		EXPECT(wait_now_ns() < end - 1000000000);
	}
	gpu_rank_meet(r);
	while (wait_now_ns() < end)
		poll(NULL, 0, 10);
	EXPECT(!r->rank || is_poisoned(r));
}

UNIT_TEST(no_put_afterwards)
{
	int statuses[2];
	gpu_run_two(stand_still, statuses);
	assert_int_equal(statuses[0], 0);
	assert_int_equal(statuses[1], 0);
}
