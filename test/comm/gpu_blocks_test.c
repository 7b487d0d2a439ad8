/* SPDX-License-Identifier: BSD-3-Clause */
/* The blocks of all communicators of a process on a GPU: what each is offered, what is given back, and the lines that say so. */
#include <pthread.h>
#include <unistd.h>

#include "test/helpers/unit.h"
#include "base/log.h"
#include "comm/gpu_blocks.h"

enum { PROCESSORS = 132, ROOM = 128, MOST = 12, RANKS = 4, THREADS = 8, TURNS = 200 };

static char owners[MOST];
static char path[] = "/tmp/corale_gpu_blocks_test_XXXXXX";

static struct gpu_blocks asks(uint64_t comm, char gpu, int wish)
{
	struct gpu_blocks b = { .comm = comm, .wish = wish, .processors = PROCESSORS, .least = RANKS };
	b.gpu[0] = (unsigned char)gpu;
	return b;
}

static int claim(int owner, struct gpu_blocks b)
{
	struct gpu_blocks_sum others;
	int offered = -1;
	assert_int_equal(gpu_blocks_claim(&owners[owner], owner, &b, &offered, &others), 0);
	return offered;
}

static void release_all(void)
{
	for (int i = 0; i < MOST; i++)
		gpu_blocks_release(&owners[i]);
}

static struct gpu_blocks_sum sum_beside(char gpu)
{
	struct gpu_blocks_sum others;
	const struct gpu_blocks b = asks(999, gpu, 1);
	static char owner;
	int offered;
	assert_int_equal(gpu_blocks_claim(&owner, 0, &b, &offered, &others), 0);
	gpu_blocks_release(&owner);
	return others;
}

/* Communicators that come one after the other, each with this wish: what they get. */
static void expect_row(int wish, int ranks, const int offers[GPU_BLOCKS_COMMS])
{
	for (int i = 0; i < GPU_BLOCKS_COMMS; i++) {
		struct gpu_blocks b = asks((uint64_t)i + 1, 'a', wish);
		b.least = ranks;
		assert_int_equal(claim(i, b), offers[i]);
	}
	release_all();
}

UNIT_TEST(test_rows)
{
	log_open(LOG_NONE, NULL);
	expect_row(16, 4, (int[]){ 16, 16, 16, 16, 16, 16, 16, 16 }); /* all fit */
	expect_row(32, 4, (int[]){ 32, 32, 32, 16, 4, 4, 4, 4 });
	expect_row(24, 4, (int[]){ 24, 24, 24, 24, 20, 4, 4, 4 });
	expect_row(64, 4, (int[]){ 64, 40, 4, 4, 4, 4, 4, 4 });
	expect_row(127, 4, (int[]){ 100, 4, 4, 4, 4, 4, 4, 4 });
	expect_row(32, 2, (int[]){ 32, 32, 32, 24, 2, 2, 2, 2 });
	expect_row(32, 8, (int[]){ 32, 32, 24, 8, 8, 8, 8, 8 });
	expect_row(3, 8, (int[]){ 3, 3, 3, 3, 3, 3, 3, 3 });
	expect_row(16, 16, (int[]){ 16, 16, 16, 16, 16, 16, 16, 16 });
	expect_row(32, 20, (int[]){ 32, 32, 32, 20, 20, 20, 20, 20 }); /* of which the last two do not fit */
	expect_row(127, 72, (int[]){ 72, 72, 72, 72, 72, 72, 72, 72 });
}

/* Whatever limits eight have, each has a block and all fit. */
UNIT_TEST(test_any_eight)
{
	unsigned seed = 1;
	for (int turn = 0; turn < 1000; turn++) {
		int sum = 0;
		const int ranks = 2 + rand_r(&seed) % 7;
		for (int i = 0; i < GPU_BLOCKS_COMMS; i++) {
			struct gpu_blocks b = asks((uint64_t)i + 1, 'a', 1 + rand_r(&seed) % (ROOM - 1));
			b.least = ranks;
			const int offered = claim(i, b), held = offered > ranks ? offered : ranks;
			assert_in_range(offered, 1, b.wish);
			gpu_blocks_settle(&owners[i], held);
			sum += held;
		}
		assert_in_range(sum, GPU_BLOCKS_COMMS, ROOM);
		release_all();
	}
}

/* One without a limit has the whole GPU, whatever others have. */
UNIT_TEST(test_without_limit)
{
	assert_int_equal(claim(0, asks(1, 'a', ROOM)), ROOM);
	assert_int_equal(claim(1, asks(2, 'a', ROOM)), ROOM);
	assert_int_equal(claim(2, asks(3, 'b', ROOM)), ROOM); /* another GPU */
	gpu_blocks_release(&owners[0]);
	assert_int_equal(claim(0, asks(4, 'a', 32)), RANKS); /* its least */
	release_all();
	assert_int_equal(claim(0, asks(5, 'a', ROOM)), ROOM);
	release_all();
}

/* Ranks of one communicator that share a GPU are offered the same, and count once. */
UNIT_TEST(test_once_a_communicator)
{
	assert_int_equal(claim(0, asks(1, 'a', 64)), 64);
	assert_int_equal(claim(1, asks(2, 'a', 32)), 32);
	assert_int_equal(claim(2, asks(1, 'a', 64)), 64);
	assert_int_equal(sum_beside('a').blocks, 96);
	assert_int_equal(sum_beside('a').comms, 2);
	gpu_blocks_settle(&owners[0], 48);
	gpu_blocks_settle(&owners[2], 48);
	assert_int_equal(sum_beside('a').blocks, 80);
	gpu_blocks_release(&owners[0]);
	assert_int_equal(sum_beside('a').blocks, 80); /* a rank of it is still there */
	gpu_blocks_release(&owners[2]);
	gpu_blocks_release(&owners[2]); /* what is not there */
	assert_int_equal(sum_beside('a').blocks, 32);
	assert_int_equal(sum_beside('b').comms, 0);
	release_all();
	assert_int_equal(sum_beside('a').comms, 0);
}

static void *come_and_go(void *number)
{
	const int n = (int)(intptr_t)number;
	for (int turn = 0; turn < TURNS; turn++) {
		const int offered = claim(n, asks((uint64_t)n + 1, 'a', 16 + n));
		if (offered < 1)
			abort();
		if (gpu_blocks_settle(&owners[n], offered).blocks > ROOM)
			abort();
		gpu_blocks_release(&owners[n]);
	}
	return NULL;
}

UNIT_TEST(test_threads)
{
	pthread_t threads[THREADS];
	for (intptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, (void *)i), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(sum_beside('a').comms, 0);
}

static int lines_with(const char *part)
{
	char text[8192] = "";
	FILE *file = fopen(path, "r");
	int n = 0;
	assert_non_null(file);
	text[fread(text, 1, sizeof text - 1, file)] = '\0';
	fclose(file);
	for (const char *at = text; (at = strstr(at, part)); at++)
		n++;
	return n;
}

UNIT_TEST(test_lines)
{
	const struct gpu_blocks asked = asks(1, 'a', 64);
	const struct gpu_blocks_sum none = { 0, 0 }, two = { 2, 100 }, whole = { 2, ROOM + RANKS };
	close(mkstemp(path));
	log_open(LOG_WARN, path);
	gpu_blocks_name_variables("CORALE_MAX_CTAS or NCCL_MAX_CTAS");
	gpu_blocks_log_cut(3, "0000:1b:00.0", &asked, &none, 50); /* at INFO */
	gpu_blocks_log_excess(3, "0000:1b:00.0", &asked, &two);
	assert_int_equal(lines_with("corale"), 0);
	gpu_blocks_log_cut(3, "0000:1b:00.0", &asked, &two, 8);
	gpu_blocks_log_cut(3, "0000:1b:00.0", &asked, &two, 7);
	assert_int_equal(lines_with("corale: WARN"), 1);
	assert_int_equal(lines_with("at most 8 blocks instead of 64 on rank 3's GPU 0000:1b:00.0"), 1);
	assert_int_equal(lines_with("the other 2 of the process hold 100 of 132 multiprocessors"), 1);
	assert_int_equal(lines_with("CORALE_MAX_CTAS or NCCL_MAX_CTAS=36 "), 1);
	expect_row(36, 4, (int[]){ 36, 36, 36, 4, 4, 4, 4, 4 }); /* as the line says */
	gpu_blocks_log_excess(3, "0000:1b:00.0", &asked, &whole);
	gpu_blocks_log_excess(3, "0000:1b:00.0", &asked, &whole);
	assert_int_equal(lines_with("corale: WARN"), 2);
	assert_int_equal(lines_with("2 communicators hold 132 blocks on rank 3's GPU 0000:1b:00.0"), 1);
	assert_int_equal(lines_with("NCCL_MAX_CTAS=52 before the first one is created, or make"), 1);
	log_open(LOG_WARN, NULL);
	unlink(path);
}
