/*
 * The choice of a fused codelet (plan_codelet.h): whatever the call, one that can run it, the fastest by the model or
 * the one that was asked for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/codelets.h"
#include "plan/plan_codelet.h"
#include "plan/plan_codelet_print.h"

enum { POWERS = 34 /* 8 GiB is 2^33 */, SIZES = 2 + 3 * POWERS };
#define WINDOW ((uint64_t)62 << 20)

/* A call that the planner is asked about. */
struct question {
	struct plan_node node;
	corale_coll coll;
	uint64_t bytes;
	int words, memory;
};

static struct plan_node node_of(int ranks, uint64_t window)
{
	struct codelet_layout l;
	codelet_layout_init(&l, ranks, window);
	return (struct plan_node){
		.ranks = ranks, .max_blocks = 132, .words_bytes = l.words_bytes, .lines_bytes = l.lines_bytes
	};
}

/* 0, 3, and each power of 2 with its neighbours. */
static uint64_t size(int i)
{
	if (i < 2)
		return i ? 3 : 0;
	return ((uint64_t)1 << (i - 2) / 3) + (uint64_t)(i - 2) % 3 - 1;
}

static int is_sum(corale_coll coll)
{
	return coll == CORALE_ALL_REDUCE || coll == CORALE_REDUCE_SCATTER;
}

static int is_move(corale_coll coll)
{
	return coll == CORALE_ALL_GATHER || coll == CORALE_ALL_TO_ALL || coll == CORALE_BROADCAST;
}

/* What the kernels and the engine have: said once more, so that it can't be changed in one place alone. */
enum { ALL_MEMORY = PLAN_MEMORY_REGISTERED | PLAN_MEMORY_SCRATCH | PLAN_MEMORY_EXPORTED };

static int has_blocks(corale_coll coll)
{
	return coll == CORALE_ALL_GATHER || coll == CORALE_ALL_TO_ALL || coll == CORALE_REDUCE_SCATTER;
}

static int goes_direct(const struct question *q)
{
	int slow = (q->memory & PLAN_MEMORY_REGISTERED) && !(q->memory & PLAN_MEMORY_SCRATCH);
	return q->memory & PLAN_MEMORY_EXPORTED || slow ||
	       (q->node.zero_ctas && is_move(q->coll) && q->memory & PLAN_MEMORY_REGISTERED);
}

static int able(const struct question *q, enum plan_codelet codelet)
{
	uint64_t lines = (q->bytes + CODELET_LINE_DATA - 1) / CODELET_LINE_DATA;
	switch (codelet) {
	case CODELET_PACKETS:
		if (q->coll != CORALE_ALL_TO_ALL_V && lines * CODELET_LINE <= q->node.lines_bytes)
			return 1;
		return has_blocks(q->coll) && q->node.ranks > 1 &&
		       q->node.lines_bytes >= CODELET_LINE; /* piece by piece */
	case CODELET_TWO_SHOT:
		return q->coll == CORALE_ALL_REDUCE ||
		       (q->coll == CORALE_BROADCAST && q->node.ranks > 1 && q->node.ranks <= CODELET_NEAR);
	case CODELET_SLOTS:
		return q->coll != CORALE_ALL_REDUCE;
	case CODELET_SLOTS_TWO_SHOT:
		return q->coll == CORALE_ALL_REDUCE;
	case CODELET_COPIES:
		if (is_sum(q->coll))
			return (q->memory & PLAN_MEMORY_SCRATCH) != 0;
		if (goes_direct(q))
			return is_move(q->coll);
		return is_move(q->coll) && (q->memory & PLAN_MEMORY_SCRATCH);
	default:
		return 0;
	}
}

static enum plan_codelet choice(const struct question *q)
{
	return plan_codelet_choose(&q->node, q->coll, q->bytes, q->words, q->memory);
}

static double time_of(const struct question *q, enum plan_codelet codelet)
{
	return plan_codelet_time(&q->node, codelet, q->coll, q->bytes, q->words, q->memory);
}

static void complain(const struct question *q, enum plan_codelet codelet, const char *what)
{
	fail_msg("%d ranks, %s of %llu bytes, words %d, memory %d: %s %s", q->node.ranks,
		 corale_coll_name(q->coll), (unsigned long long)q->bytes, q->words, q->memory,
		 plan_codelet_name(codelet), what);
}

static void check_free_choice(const struct question *q)
{
	enum plan_codelet chosen = choice(q);
	if (!able(q, chosen))
		complain(q, chosen, "can't run it");
	if (plan_codelet_direct(&q->node, chosen, q->coll, q->memory) && !is_move(q->coll) &&
	    q->coll != CORALE_ALL_REDUCE)
		complain(q, chosen, "would store into buffers whose addresses are not compared");
	for (int c = CODELET_PACKETS; c < CODELET_KINDS; c++) {
		double us = time_of(q, (enum plan_codelet)c);
		if ((us >= 0) != able(q, (enum plan_codelet)c))
			complain(q, (enum plan_codelet)c, us >= 0 ? "has a time" : "has no time");
		if (us >= 0 && us < time_of(q, chosen))
			complain(q, (enum plan_codelet)c, "would be faster");
	}
}

static void check_forced(struct question q)
{
	enum plan_codelet free_choice = choice(&q);
	for (int c = CODELET_PACKETS; c < CODELET_KINDS; c++) {
		q.node.forced = 1u << c;
		enum plan_codelet chosen = choice(&q);
		if (chosen != (able(&q, (enum plan_codelet)c) ? (enum plan_codelet)c : free_choice))
			complain(&q, chosen, "was chosen where another was forced");
	}
	q.node.forced = 0;
	q.node.zero_ctas = 1;
	if (choice(&q) !=
	    (is_move(q.coll) && (q.memory & PLAN_MEMORY_REGISTERED) ? CODELET_COPIES : free_choice))
		complain(&q, choice(&q), "was chosen where no blocks may move data");
}

static void check_scratch(const struct question *q)
{
	for (int c = CODELET_NONE; c < CODELET_KINDS; c++) {
		int wants =
		    plan_codelet_scratch(&q->node, (enum plan_codelet)c, q->coll, q->bytes, q->memory);
		int slots = c == CODELET_SLOTS || c == CODELET_SLOTS_TWO_SHOT;
		if (c == CODELET_COPIES && wants != (is_sum(q->coll) || !goes_direct(q)))
			complain(q, (enum plan_codelet)c, wants ? "wants scratch" : "wants no scratch");
		if (wants && c != CODELET_COPIES && (!slots || q->bytes == 0))
			complain(q, (enum plan_codelet)c, "wants scratch");
	}
}

/* Larger calls never go back to packets, and wherever scratch is wanted a larger call wants it, too. */
static void check_sizes(struct question *q)
{
	int left_packets = 0, wanted = 0;
	for (int i = 0; i < SIZES; i++) {
		q->bytes = size(i);
		check_free_choice(q);
		check_forced(*q);
		check_scratch(q);
		enum plan_codelet chosen = choice(q);
		if (left_packets && chosen == CODELET_PACKETS && i > 2)
			complain(q, chosen, "is chosen again for a larger call");
		left_packets |= chosen != CODELET_PACKETS;
		int wants = plan_codelet_scratch(&q->node, CODELET_SLOTS, q->coll, q->bytes, q->memory);
		if (wanted && !wants && i > 4)
			complain(q, CODELET_SLOTS, "wants scratch for a smaller call only");
		wanted |= wants;
	}
}

static void check_node(struct plan_node node)
{
	struct question q = { .node = node };
	for (int coll = 0; coll <= CORALE_ALL_TO_ALL_V; coll++)
		for (q.words = 0; q.words < 2; q.words++)
			for (q.memory = 0; q.memory <= (node.ranks > 1 ? ALL_MEMORY : 0); q.memory++) {
				if ((q.memory & PLAN_MEMORY_EXPORTED) && !(q.memory & PLAN_MEMORY_REGISTERED))
					continue;
				q.coll = (corale_coll)coll;
				check_sizes(&q);
			}
}

static void test_every_call(void **state)
{
	(void)state;
	for (int ranks = 1; ranks <= CODELET_MAX_RANKS; ranks++)
		check_node(node_of(ranks, WINDOW));
}

/* Windows of which next to nothing is left for packets. */
static void test_small_windows(void **state)
{
	(void)state;
	for (int ranks = 1; ranks <= CODELET_MAX_RANKS; ranks += 7)
		check_node(node_of(ranks, (uint64_t)4 << 20));
	check_node((struct plan_node){ .ranks = 4, .max_blocks = 1 });
}

/* As few as the policy `efficient` leaves; what is given goes first. */
static void test_few_blocks(void **state)
{
	(void)state;
	const int few = plan_codelet_most_blocks(0, 1);
	assert_in_range(few, 1, 8);
	assert_int_equal(plan_codelet_most_blocks(0, 0), 0);
	assert_int_equal(plan_codelet_most_blocks(few + 12, 1), few + 12);
	assert_int_equal(plan_codelet_most_blocks(1, 1), 1);
	assert_int_equal(plan_codelet_most_blocks(16, 0), 16);
	for (int ranks = 1; ranks <= 8; ranks++) {
		struct plan_node node = node_of(ranks, WINDOW);
		node.max_blocks = few;
		check_node(node);
	}
}

/* The last bytes that fit into packets, and one more. */
static void test_room(void **state)
{
	(void)state;
	for (int ranks = 2; ranks <= CODELET_MAX_RANKS; ranks++) {
		struct question q = { .node = node_of(ranks, WINDOW), .coll = CORALE_ALL_REDUCE };
		q.node.forced = 1u << CODELET_PACKETS;
		q.bytes = q.node.lines_bytes / CODELET_LINE * CODELET_LINE_DATA;
		assert_int_equal(choice(&q), CODELET_PACKETS);
		q.bytes++;
		assert_int_equal(choice(&q), CODELET_TWO_SHOT);
	}
}

static void test_tiny_calls_are_packets(void **state)
{
	(void)state;
	for (int coll = 0; coll < CORALE_ALL_TO_ALL_V; coll++) {
		struct question q = { .node = node_of(4, WINDOW), .coll = (corale_coll)coll, .bytes = 8 };
		assert_int_equal(choice(&q), CODELET_PACKETS);
	}
	struct question barrier = { .node = node_of(4, WINDOW), .coll = CORALE_BARRIER };
	assert_int_equal(choice(&barrier), CODELET_PACKETS);
}

/* What runs lowered: no codelet, whatever the call, forced or not. */
static void test_lowered_only(void **state)
{
	(void)state;
	static const corale_coll colls[] = { CORALE_REDUCE, CORALE_GATHER, CORALE_SCATTER };
	for (int i = 0; i < 3 * SIZES; i++) {
		struct question q = { .node = node_of(4, WINDOW),
				      .coll = colls[i % 3],
				      .bytes = size(i / 3) };
		q.memory = i & ALL_MEMORY;
		q.node.forced = (uint32_t)i;
		q.node.zero_ctas = i / 8 % 2;
		assert_false(plan_codelet_knows(q.coll));
		assert_int_equal(choice(&q), CODELET_NONE);
	}
	for (int coll = 0; coll <= CORALE_BARRIER; coll++)
		assert_true(plan_codelet_knows((corale_coll)coll));
}

static int is_refused(corale_coll coll, int codelets, const char *proto, const char *algo)
{
	struct settings s = { .codelets = codelets };
	struct plan_node node = node_of(4, WINDOW);
	snprintf(s.proto, sizeof s.proto, "%s", proto);
	snprintf(s.algo, sizeof s.algo, "%s", algo);
	plan_codelet_settings(&node, &s);
	return node.refused[coll] >> CODELET_SLOTS & 1;
}

static void test_settings(void **state)
{
	(void)state;
	static const corale_coll colls[] = { CORALE_ALL_TO_ALL, CORALE_ALL_TO_ALL_V };
	for (int i = 0; i < 2; i++) {
		assert_false(is_refused(colls[i], 1, "", ""));
		assert_true(is_refused(colls[i], 0, "", ""));
		assert_true(is_refused(colls[i], 1, "", "^pairwise"));
	}
	assert_true(is_refused(CORALE_ALL_TO_ALL, 1, "LL", ""));
	assert_false(is_refused(CORALE_ALL_TO_ALL_V, 1, "LL", ""));
}

static void test_names(void **state)
{
	(void)state;
	for (int c = CODELET_PACKETS; c < CODELET_KINDS; c++)
		assert_int_equal(plan_codelet_forced(plan_codelet_name((enum plan_codelet)c)), 1u << c);
	assert_string_equal(plan_codelet_name(CODELET_NONE), "lowered");
	static const char *const none[] = { "", "auto", "lowered", "slot", "slots_", "PACKETS" };
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		assert_int_equal(plan_codelet_forced(none[i]), 0);
}

static void test_chunks(void **state)
{
	(void)state;
	for (int ranks = 2; ranks <= CODELET_MAX_RANKS; ranks++) {
		uint32_t before = 1;
		for (int i = 0; i < SIZES; i++) {
			uint32_t chunks = plan_codelet_chunks(ranks, size(i));
			assert_in_range(chunks, before, ranks > 2 ? 256 : 1);
			before = chunks;
		}
	}
}

/* Each size that is named is the last power of 2 of its codelet. */
static void test_print(void **state)
{
	(void)state;
	char text[PLAN_CODELET_TEXT], begin[64];
	struct question q = { .node = node_of(8, WINDOW), .coll = CORALE_ALL_GATHER, .bytes = 1024 };
	while (choice(&q) == CODELET_PACKETS)
		q.bytes *= 2;
	plan_codelet_print(&q.node, q.coll, 0, text);
	snprintf(begin, sizeof(begin), "packets to %lluM, then slots", (unsigned long long)q.bytes >> 21);
	assert_string_equal(text, begin);
	q.node.forced = 1u << CODELET_SLOTS;
	plan_codelet_print(&q.node, q.coll, 1, text);
	assert_string_equal(text, "slots");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_call),
		cmocka_unit_test(test_small_windows),
		cmocka_unit_test(test_few_blocks),
		cmocka_unit_test(test_room),
		cmocka_unit_test(test_tiny_calls_are_packets),
		cmocka_unit_test(test_lowered_only),
		cmocka_unit_test(test_settings),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_chunks),
		cmocka_unit_test(test_print),
	};
	return cmocka_run_group_tests_name("codelet", tests, NULL, NULL);
}
