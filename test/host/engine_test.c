/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the host engine must do when ranks are far apart in time, which other tests meet by chance only. Settings are read
 * once a process: each case runs this program again.
 */
#include <fenv.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/float_env.h"
#include "plan/choose/planner.h"
#include "call/runner.h"
#include "test/helpers/team.h"

enum { RANKS = 2, MOST = 1000, MESSAGES = 3, PAUSE_MS = 100 };

static void send_values(struct team_member *m, const int *values, size_t count)
{
	for (int i = 0; i < MESSAGES; i++) {
		int32_t out[MOST];
		for (size_t k = 0; k < count; k++)
			out[k] = values[i];
		team_expect(m, corale_send(out, count, CORALE_INT32, 1, m->comm, NULL), 0, "send");
	}
}

static void expect_values(struct team_member *m, const int *values, size_t count)
{
	for (int i = 0; i < MESSAGES; i++) {
		int32_t in[MOST] = { 0 };
		team_expect(m, corale_recv(in, count, CORALE_INT32, 0, m->comm, NULL), 0, "recv");
		for (size_t k = 0; k < count; k++) {
			if (in[k] == values[i])
				continue;
			team_fault(m, "message %d of %zu: %d at %zu, expected %d", i, count, (int)in[k], k,
				   values[i]);
			break;
		}
	}
}

/* The payloads of the second size lie elsewhere in the queue: over those of the first, if these are not awaited. */
TEAM_TEST(other_sizes, "payloads of other sizes behind unread ones")
{
	static const int first[MESSAGES] = { 1, 2, 3 }, second[MESSAGES] = { 4, 5, 6 };
	if (m->rank == 0) {
		send_values(m, first, MOST);
		send_values(m, second, 20);
	} else {
		clock_sleep_ms(PAUSE_MS);
		expect_values(m, first, MOST);
		expect_values(m, second, 20);
	}
}

/* Both ranks believe to be the root: neither hears from the other until the next call, which says so. */
static void two_roots(struct team_member *m, int (*next)(struct team_member *m, int32_t *values))
{
	int32_t values[2 * RANKS] = { 1, 2, 3, 4 };
	int ret = corale_broadcast(values, values, 1, CORALE_INT32, m->rank, m->comm, NULL);
	team_barrier(m);
	if (!ret)
		ret = next(m, values);
	team_expect(m, ret, CORALE_EMISMATCH, "the call after a broadcast with two roots");
	team_barrier(m);
}

static int barrier(struct team_member *m, int32_t *values)
{
	return corale_barrier(m->comm, NULL);
}

static int exchange(struct team_member *m, int32_t *values)
{
	return corale_all_to_all(values, values + RANKS, 1, CORALE_INT32, m->comm, NULL);
}

TEAM_TEST(two_roots_barrier, "two roots, then a barrier")
{
	two_roots(m, barrier);
}

TEAM_TEST(two_roots_exchange, "two roots, then an exchange")
{
	two_roots(m, exchange);
}

/* Rank 0 copies its own elements into recv, where then those of rank 1 land: not marked as fresh, since written before. */
static void build_overwriting(struct plan *plan, const struct plan_key *key)
{
	plan_init(plan, key);
	plan->parts = plan->inner = 1;
	plan->channels = 1;
	plan->chunk_bytes = MOST * sizeof(int32_t);
	uint8_t ring = plan_queue(plan, PLAN_CREDIT, 2);
	plan_program(plan, PLAN_SM);
	uint8_t me = plan_base(plan, PLAN_ME, PLAN_WORLD, 0), zero = plan_const(plan, 0);
	struct plan_step step = { .op = PLAN_MOVE, .pred = PLAN_EQ, .pred_a = me, .pred_b = zero };
	struct plan_step copy = step, take = step, give = step;
	copy.src.space = PLAN_SEND;
	copy.dst.space = take.dst.space = PLAN_RECV;
	take.from = plan_const(plan, 1);
	take.from_queue = give.to_queue = ring;
	give.pred = PLAN_NE;
	give.src.space = PLAN_SEND;
	give.to = zero;
	plan_step(plan, copy);
	plan_step(plan, take);
	plan_step(plan, give);
}

TEAM_TEST(overwriting, "a message over what was written before")
{
	int32_t mine[MOST], result[MOST] = { 0 };
	struct shared_plan shared = { .users = 1 };
	struct plan_key key = planner_key(CORALE_BROADCAST, MOST, CORALE_INT32, CORALE_SUM);
	for (int k = 0; k < MOST; k++)
		mine[k] = m->rank + 1;
	build_overwriting(&shared.plan, &key);
	team_expect(m, plan_finish(&shared.plan), 0, "plan_finish");
	struct call call = { .record.coll = CORALE_BROADCAST,
			     .send = mine,
			     .recv = result,
			     .record.count = MOST,
			     .record.type = CORALE_INT32,
			     .plan = &shared };
	if (m->rank == 0)
		clock_sleep_ms(PAUSE_MS); /* so that the message waits when its receive is posted */
	team_expect(m, runner_call(comm_get(m->comm, "test"), &call, 1, NULL), 0, "the plan");
	for (int k = 0; k < MOST && m->rank == 0; k++) {
		if (result[k] == 2)
			continue;
		team_fault(m, "%d at %d, expected the message's 2", (int)result[k], k);
		break;
	}
}

/* ---- Floating-point environments ---- */

enum { FLOATS = 300000, WAYS = 3 };

/* As a program that was linked with -ffast-math has them, and more. */
static void flush_and_round_up(void)
{
	fesetround(FE_UPWARD);
#if defined(__x86_64__) || defined(__aarch64__)
	float_env_write(float_env_read() | (FLOAT_ENV_DEFAULT ? 0x8040 : (float_env)1 << 24));
#endif
}

/* Subnormal numbers, and such as round. */
static float element(int rank, size_t i)
{
	return i % 3 == 0 ? 0x1p-149f : i % 3 == 1 ? 1 + (float)rank * 0x1p-23f : rank ? 0x1p-30f : 1;
}

static void fold_everywhere(struct team_member *m, const float *in, float *out, size_t count, corale_op op)
{
	corale_stream *stream; /* its thread inherits this one's environment */
	team_expect(m, corale_all_reduce(in, out, count, CORALE_FLOAT32, op, m->comm, NULL), 0, "all_reduce");
	team_expect(m, corale_stream_create(&stream), 0, "stream_create");
	team_expect(m, corale_all_reduce(in, out + count, count, CORALE_FLOAT32, op, m->comm, stream), 0,
		    "all_reduce on a stream");
	team_expect(m, corale_stream_synchronize(stream), 0, "stream_synchronize");
	corale_stream_destroy(stream);
	corale_group_begin();
	team_expect(m, corale_all_reduce(in, out + 2 * count, count, CORALE_FLOAT32, op, m->comm, NULL), 0,
		    "all_reduce in a group");
	team_expect(m, corale_group_end(), 0, "group_end");
}

static void expect_floats(struct team_member *m, const float *out, size_t count, corale_op op)
{
	for (size_t i = 0; i < WAYS * count; i++) {
		const float a = element(0, i % count), b = element(1, i % count);
		const volatile float scaled[] = { a * 0.75f, b * 0.75f }; /* rounded */
		const float expected = op == CORALE_MAX   ? (a > b ? a : b)
				       : op == CORALE_AVG ? (a + b) / 2
				       : op == CORALE_SUM ? a + b
							  : scaled[0] + scaled[1];
		if (!memcmp(&out[i], &expected, sizeof expected))
			continue;
		team_fault(m, "operator %d, %zu elements: %a at %zu, expected %a", op, count, out[i], i,
			   expected);
		break;
	}
}

/* Rank 1 rounds upward and flushes subnormal numbers to zero, before its first call: both choose and fold as all others do. */
TEAM_TEST(environments, "ranks in other floating-point environments")
{
	static const size_t counts[] = { 1, 7, 1000, FLOATS };
	const corale_op ops[] = { CORALE_MAX, CORALE_SUM, CORALE_AVG, CORALE_NUM_OPS };
	float *in = malloc(FLOATS * sizeof *in), *out = malloc(WAYS * FLOATS * sizeof *out);
	corale_op scaled = CORALE_SUM;
	corale_comm *child = NULL;
	if (m->rank)
		flush_and_round_up();
	team_expect(m, corale_comm_split(m->comm, 0, m->rank, &child), 0, "comm_split");
	fesetenv(FE_DFL_ENV);
	corale_comm_destroy(child);
	for (size_t i = 0; i < FLOATS; i++)
		in[i] = element(m->rank, i);
	team_expect(m, corale_op_create_premul_sum(&(float){ 0.75f }, CORALE_FLOAT32, m->comm, &scaled), 0,
		    "op_create_premul_sum");
	for (int c = 0; c < 4; c++) {
		for (int o = 0; o < 4; o++) {
			if (m->rank)
				flush_and_round_up();
			fold_everywhere(m, in, out, counts[c], ops[o] == CORALE_NUM_OPS ? scaled : ops[o]);
			fesetenv(FE_DFL_ENV);
			expect_floats(m, out, counts[c], ops[o]);
		}
	}
	corale_op_destroy(scaled, m->comm);
	free(in);
	free(out);
}

int main(int argc, char **argv)
{
	static const char *const settings[] = { "CORALE_DEBUG=none CORALE_MAX_CHANNELS=3",
						"CORALE_DEBUG=none CORALE_NODE_SIZE=1", NULL };
	return team_main(argc, argv, &(struct team_runs){ .ranks = RANKS, .settings = settings });
}
