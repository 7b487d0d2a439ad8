/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs each case of a table in a process of its own, as settings are read once a process. */
#include "test/helpers/unit.h"
#include "team.h"

struct started {
	const struct team_table *table;
	int number;
};

static void run_case(void **state)
{
	const struct started *s = *state;
	char number[16];
	snprintf(number, sizeof(number), "%d", s->number);
	for (int i = 0; s->table->settings[i]; i++)
		assert_int_equal(team_spawn(s->table->settings[i], number), 0);
}

int team_main(int argc, char **argv, const struct team_table *table)
{
	struct CMUnitTest tests[TEAM_MAX_CASES];
	struct started started[TEAM_MAX_CASES];
	if (argc > 1)
		return team_run(table->ranks, NULL, table->cases[atoi(argv[1]) % table->n].body, NULL) != 0;
	for (int i = 0; i < table->n; i++) {
		started[i] = (struct started){ table, i };
		tests[i] =
		    (struct CMUnitTest){ table->cases[i].name, run_case, NULL, NULL, (void *)&started[i] };
	}
	return _cmocka_run_group_tests("tests", tests, (size_t)table->n, NULL, NULL);
}
