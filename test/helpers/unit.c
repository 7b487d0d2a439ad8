/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs the cases that a program has defined by UNIT_TEST. */
#include "test/helpers/unit.h"

extern const struct unit_test *const __start_unit_tests[], *const __stop_unit_tests[]; /* the linker's */

static int by_order(const void *a, const void *b)
{
	return (*(const struct unit_test *const *)a)->order - (*(const struct unit_test *const *)b)->order;
}

int unit_run(CMFixtureFunction setup, CMFixtureFunction teardown)
{
	const size_t n = (size_t)(__stop_unit_tests - __start_unit_tests);
	const struct unit_test **sorted = malloc(n * sizeof *sorted);
	struct CMUnitTest *tests = calloc(n, sizeof *tests);
	if (!sorted || !tests)
		abort();
	memcpy(sorted, __start_unit_tests, n * sizeof *sorted);
	qsort(sorted, n, sizeof *sorted, by_order);
	for (size_t i = 0; i < n; i++)
		tests[i] = sorted[i]->test;
	const int failed = _cmocka_run_group_tests("tests", tests, n, setup, teardown);
	free(sorted);
	free(tests);
	return failed;
}
