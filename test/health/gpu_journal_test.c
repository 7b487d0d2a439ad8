/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls of late: one thread makes them while others look for them by number, who get a call whole or none. */
#include <pthread.h>
#include <stdatomic.h>

#include "test/helpers/unit.h"
#include "health/gpu_health.h"

enum { READERS = 2, CALLS = 400000, KEPT = 1024 };

/* Every field tells the number. */
static struct call call_of(uint32_t number)
{
	return (struct call){ .record.coll = (corale_coll)(number % CORALE_NUM_COLLS),
			      .record.type = (corale_type)(number % CORALE_NUM_TYPES),
			      .record.op = (corale_op)(number % 250),
			      .record.root = (int)number,
			      .record.count = (size_t)number << 20,
			      .record.target = ~(uint64_t)number,
			      .record.number = number };
}

static int is_whole(const struct record *record, uint32_t number)
{
	const struct call expected = call_of(number);
	return !memcmp(record, &expected.record, sizeof *record);
}

struct readers {
	struct gpu_journal *journal;
	_Atomic int done, torn, found;
};

/* Calls that are about to be overwritten are the most likely ones to be torn. */
static void *read_calls(void *arg)
{
	struct readers *r = arg;
	while (!atomic_load(&r->done)) {
		const uint32_t last = gpu_journal_last(r->journal);
		for (uint32_t back = 0; back < 4; back++) {
			const uint32_t number = last - (back % 2 ? KEPT - 1 - back : back);
			const struct record call = gpu_journal_find(r->journal, number, -1);
			if (call.coll == CORALE_NUM_COLLS)
				continue;
			atomic_fetch_add_explicit(&r->found, 1, memory_order_relaxed);
			if (!is_whole(&call, number))
				atomic_fetch_add_explicit(&r->torn, 1, memory_order_relaxed);
		}
	}
	return NULL;
}

UNIT_TEST(test_readers_beside_a_caller)
{
	struct readers r = { .journal = gpu_journal_create() };
	pthread_t threads[READERS];
	assert_non_null(r.journal);
	for (int i = 0; i < READERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, read_calls, &r), 0);
	for (uint32_t number = 1; number <= CALLS; number++) {
		const struct call call = call_of(number);
		assert_int_equal(gpu_journal_add(r.journal, &call, 1), number);
	}
	while (!atomic_load(&r.found))
		;
	atomic_store(&r.done, 1);
	for (int i = 0; i < READERS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(r.torn, 0);
	free(r.journal);
}

UNIT_TEST(test_calls_that_start_together)
{
	struct gpu_journal *journal = gpu_journal_create();
	assert_non_null(journal);
	assert_int_equal(gpu_journal_find(journal, gpu_journal_last(journal), -1).coll, CORALE_NUM_COLLS);
	const struct call pairs[] = { { .record.coll = CORALE_SEND, .record.root = 3, .record.count = 1 },
				      { .record.coll = CORALE_RECV, .record.root = 1, .record.count = 2 },
				      { .record.coll = CORALE_RECV, .record.root = 2, .record.count = 3 } },
			  other = { .record.coll = CORALE_BROADCAST, .record.root = 5, .record.count = 4 };
	assert_int_equal(gpu_journal_add(journal, pairs, 3), 1);
	assert_int_equal(gpu_journal_find(journal, 1, 2).count, 3);
	assert_int_equal(gpu_journal_find(journal, 1, 7).count, 1);
	assert_true(gpu_journal_concerns(journal, 1) && !gpu_journal_concerns(journal, 7));
	assert_int_equal(gpu_journal_add(journal, &other, 1), 4);
	assert_true(gpu_journal_concerns(journal, 7));
	assert_int_equal(gpu_journal_find(journal, 1, 5).count, 1);
	for (int i = 0; i < KEPT; i++)
		gpu_journal_add(journal, &other, 1);
	assert_int_equal(gpu_journal_find(journal, 1, 2).coll, CORALE_NUM_COLLS);
	free(journal);
}
