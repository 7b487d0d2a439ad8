/* The reckoning of waiting blocks on a GPU over all communicators of a process, and its one line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/log.h"
#include "comm/gpu_blocks.h"

enum { PROCESSORS = 132, MOST = 8 };

static char owners[MOST];
static char path[] = "/tmp/corale_gpu_blocks_test_XXXXXX";

static struct gpu_blocks of(uint64_t comm, char gpu, int blocks, int ranks)
{
	struct gpu_blocks b = {
		.comm = comm, .blocks = blocks, .ranks = ranks, .processors = PROCESSORS, .given = 1
	};
	b.gpu[0] = (unsigned char)gpu;
	return b;
}

static void expect(int owner, struct gpu_blocks b, int comms, int ranks, int blocks, int exceed)
{
	const struct gpu_blocks_sum sum = gpu_blocks_add(&owners[owner], owner, &b);
	assert_int_equal(sum.comms, comms);
	assert_int_equal(sum.ranks, ranks);
	assert_int_equal(sum.blocks, blocks);
	assert_int_equal(gpu_blocks_exceed(&sum, PROCESSORS), exceed);
}

static void remove_all(void)
{
	for (int i = 0; i < MOST; i++)
		gpu_blocks_remove(&owners[i]);
}

static void test_sums(void **state)
{
	(void)state;
	log_open(LOG_NONE, NULL);
	expect(0, of(1, 'a', 128, 2), 1, 2, 256, 0); /* of one communicator: its kernels take turns */
	gpu_blocks_remove(&owners[0]);
	expect(0, of(2, 'a', 32, 2), 1, 2, 64, 0);
	expect(1, of(3, 'a', 32, 2), 2, 4, 128, 0);
	expect(2, of(4, 'b', 100, 1), 1, 1, 100, 0); /* another GPU */
	expect(3, of(5, 'a', 4, 1), 3, 5, 132, 0); /* all multiprocessors: there is room */
	expect(4, of(6, 'a', 1, 1), 4, 6, 133, 1);
	gpu_blocks_remove(&owners[1]);
	gpu_blocks_remove(&owners[1]); /* what is not there */
	expect(1, of(7, 'a', 8, 1), 4, 5, 77, 0);
	remove_all();
	expect(0, of(8, 'a', 5, 1), 1, 1, 5, 0);
	remove_all();
}

/* Several ranks of a communicator in one process. */
static void test_once_a_communicator(void **state)
{
	(void)state;
	log_open(LOG_NONE, NULL);
	expect(0, of(1, 'a', 64, 2), 1, 2, 128, 0);
	expect(1, of(1, 'a', 64, 2), 1, 2, 128, 0);
	expect(2, of(1, 'b', 64, 1), 1, 1, 64, 0);
	gpu_blocks_remove(&owners[0]);
	expect(3, of(2, 'a', 2, 2), 2, 4, 132, 0); /* a rank of the first one is still there */
	remove_all();
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

static void test_line(void **state)
{
	(void)state;
	struct gpu_blocks own = of(9, 'a', 128, 1);
	own.given = 0;
	close(mkstemp(path));
	log_open(LOG_WARN, path);
	expect(0, of(1, 'a', 128, 1), 1, 1, 128, 0);
	expect(1, own, 2, 2, 256, 1);
	assert_int_equal(lines_with("corale"), 0); /* the library's own choice: at INFO */
	gpu_blocks_name_variables("CORALE_MAX_CTAS or NCCL_MAX_CTAS");
	for (int i = 2; i < 5; i++)
		expect(i, of((uint64_t)i, 'a', 128, 1), i + 1, i + 1, 128 * (i + 1), 1);
	assert_int_equal(lines_with("corale: WARN"), 1);
	assert_int_equal(
	    lines_with("3 communicators have 3 ranks on this GPU, whose kernels may wait in 384 blocks"), 1);
	assert_int_equal(lines_with("132 multiprocessors"), 1);
	assert_int_equal(lines_with("(CORALE_MAX_CTAS or NCCL_MAX_CTAS: at most 44; this one has 128)"), 1);
	remove_all();
	log_open(LOG_INFO, path);
	expect(0, of(1, 'a', 128, 1), 1, 1, 128, 0);
	expect(1, own, 2, 2, 256, 1);
	assert_int_equal(lines_with("corale: INFO"), 1);
	remove_all();
	log_open(LOG_WARN, NULL);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sums),
		cmocka_unit_test(test_once_a_communicator),
		cmocka_unit_test(test_line),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
