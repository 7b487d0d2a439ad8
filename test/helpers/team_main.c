/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs each TEAM_TEST of a program in a process of its own, as settings are read once a process. */
#include "test/helpers/unit.h"
#include "team.h"

extern const struct team_test *const __start_team_tests[], *const __stop_team_tests[]; /* the linker's */

struct started {
	const struct team_runs *runs;
	int number;
};

static void run_case(void **state)
{
	const struct started *s = *state;
	char number[16];
	snprintf(number, sizeof(number), "%d", s->number);
	for (int i = 0; s->runs->settings[i]; i++)
		assert_int_equal(team_spawn(s->runs->settings[i], number), 0);
}

static int by_line(const void *a, const void *b)
{
	return (*(const struct team_test *const *)a)->line - (*(const struct team_test *const *)b)->line;
}

static int run_here(const struct team_runs *runs, const struct team_case *c)
{
	int faults = 0;
	for (int ranks = runs->least ? runs->least : runs->ranks; !faults && ranks <= runs->ranks; ranks++)
		faults = team_run(ranks, runs->config, c->body, NULL);
	return faults != 0;
}

int team_main(int argc, char **argv, const struct team_runs *runs)
{
	const int n = (int)(__stop_team_tests - __start_team_tests);
	const struct team_test *sorted[TEAM_MAX_CASES];
	struct CMUnitTest tests[TEAM_MAX_CASES];
	struct started started[TEAM_MAX_CASES];
	memcpy(sorted, __start_team_tests, (size_t)n * sizeof *sorted);
	qsort(sorted, (size_t)n, sizeof *sorted, by_line);
	if (argc > 1)
		return run_here(runs, &sorted[atoi(argv[1]) % n]->test);
	for (int i = 0; i < n; i++) {
		started[i] = (struct started){ runs, i };
		tests[i] = (struct CMUnitTest){ sorted[i]->test.name, run_case, NULL, NULL, &started[i] };
	}
	return _cmocka_run_group_tests("tests", tests, (size_t)n, NULL, NULL);
}
