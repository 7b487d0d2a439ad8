/* SPDX-License-Identifier: BSD-3-Clause */
/* Rates as a text: what is read, what is refused and where, what is printed; and that a rate changes a choice. */
#include <unistd.h>

#include "test/helpers/unit.h"
#include "examples/plans/machine.h"
#include "base/log.h"
#include "comm/tuning_file.h"
#include "corale.h"
#include "plan/choose/choices.h"
#include "plan/choose/planner.h"
#include "examples/plans/planned.h"

#define FIRST "# corale-tuning 1\n"

static char error[TUNING_ERROR];

static struct tuning parse(const char *text)
{
	struct tuning tuning;
	if (tuning_parse(text, strlen(text), &tuning, error))
		fail_msg("refused: %s", error);
	return tuning;
}

UNIT_TEST(test_read)
{
	const struct tuning none = parse(FIRST), some = parse(FIRST "\n# by hand\r\n"
								    "host.node_ns\t142 \r\n"
								    "network.net_gbs 0\n"
								    "gpu.block_gbs.team_moving 1.25e1");
	struct rates_links links = *rates_of_hosts();
	struct rates gpus = *rates_of_default_gpu();
	assert_true(none.given == 0 && tuning_hash(&none) == 0);
	assert_true(tuning_has_section(&some, TUNING_NETWORK) && !tuning_has_section(&none, TUNING_NETWORK));
	tuning_apply_links(&some, TUNING_HOST, &links);
	assert_true(links.node_ns == 142 && links.net_gbs == rates_of_hosts()->net_gbs);
	tuning_apply_links(&some, TUNING_NETWORK, &links);
	assert_true(links.net_gbs == 0 && links.node_gbs == rates_of_hosts()->node_gbs);
	tuning_apply_gpus(&some, &gpus);
	assert_true(gpus.block_gbs[RATES_TEAM_MOVING] == 12.5);
	gpus.block_gbs[RATES_TEAM_MOVING] = rates_of_default_gpu()->block_gbs[RATES_TEAM_MOVING];
	assert_memory_equal(&gpus, rates_of_default_gpu(), sizeof(gpus));
}

UNIT_TEST(test_broken)
{
	static const struct {
		const char *text, *words; /* of the error */
	} cases[] = {
		{ "", "line 1: found \"\", expected \"# corale-tuning 1\"" },
		{ "host.node_ns 142\n",
		  "line 1: found \"host.node_ns 142\", expected \"# corale-tuning 1\"" },
		{ "# corale-tuning 2\n", "line 1: found \"# corale-tuning 2\"" },
		{ FIRST "\nhost.node 142\n",
		  "line 3: found \"host.node 142\", expected one of host.node_ns host" },
		{ FIRST "rail_ns 142\n", "line 2: found \"rail_ns 142\", expected a rate's name" },
		{ FIRST "host.rail_ns 142\n",
		  "line 2: found \"host.rail_ns 142\", expected one of host.node_ns" },
		{ FIRST "gpu.node_ns 1\nhost.node_ns 1\ngpu.node_ns 1\n",
		  "line 4: found \"gpu.node_ns 1\", expected each rate once" },
		{ FIRST "host.node_ns\n",
		  "line 2: found \"host.node_ns\", expected host.node_ns and a number from 0 to 1e+09" },
		{ FIRST "host.node_ns -1\n", "and a number from 0 to 1e+09" },
		{ FIRST "host.node_ns 1e10\n", "and a number from 0 to 1e+09" },
		{ FIRST "host.node_ns nan\n", "and a number" },
		{ FIRST "host.node_ns 0x10\n", "and a number" },
		{ FIRST "host.node_ns 1,5\n", "and a number" },
		{ FIRST "host.node_ns 1 2\n", "and a number" },
		{ FIRST "host.node_ns 1e\n", "and a number" },
		{ FIRST "host.node_gbs 0\n", "host.node_gbs and a number from 0.001 to 1e+06" },
		{ FIRST " host.node_ns 1\n", "expected a rate's name" },
		{ FIRST "host.node_ns 1\x01\n", "expected text without control characters (character 15)" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct tuning tuning = { .given = 5 };
		if (tuning_parse(cases[i].text, strlen(cases[i].text), &tuning, error) != CORALE_ESETTING)
			fail_msg("accepted: %s", cases[i].text);
		if (!strstr(error, cases[i].words))
			fail_msg("\"%s\" is not in: %s", cases[i].words, error);
		assert_int_equal(tuning.given, 5);
	}
}

UNIT_TEST(test_bytes_that_are_no_text)
{
	static const char with_nul[] = FIRST "host.node_ns 1\0\n";
	char longest[TUNING_LINE + sizeof(FIRST) + 2] = FIRST;
	struct tuning tuning;
	assert_int_equal(tuning_parse(with_nul, sizeof(with_nul) - 1, &tuning, error), CORALE_ESETTING);
	assert_non_null(strstr(error, "line 2: found \"host.node_ns 1\", expected text"));
	memset(longest + sizeof(FIRST) - 1, '#', TUNING_LINE + 1);
	assert_int_equal(tuning_parse(longest, sizeof(FIRST) - 1 + TUNING_LINE, &tuning, error), 0);
	assert_int_equal(tuning_parse(longest, sizeof(FIRST) + TUNING_LINE, &tuning, error), CORALE_ESETTING);
	assert_non_null(strstr(error, "expected a line of at most 200 characters"));
}

/* Every rate, in the order of the table; the text is as long as tuning_print says. */
UNIT_TEST(test_round_trip)
{
	struct tuning all = { 0 };
	char text[TUNING_TEXT], same[TUNING_TEXT];
	for (int i = 0; i < tuning_count(); i++) {
		assert_int_equal(tuning_find(tuning_name(i)), i);
		tuning_set(&all, i, 0.0123456 + i * 1.7);
	}
	const size_t bytes = tuning_print(&all, text, sizeof(text));
	assert_true(bytes == strlen(text) && bytes < sizeof(text) && tuning_print(&all, NULL, 0) == bytes);
	const struct tuning again = parse(text);
	assert_memory_equal(&again, &all, sizeof(all));
	assert_true(tuning_print(&again, same, sizeof(same)) == bytes && !strcmp(text, same));
	assert_true(tuning_hash(&again) == tuning_hash(&all));
}

/* The order and comments do not matter, every value and name does. */
UNIT_TEST(test_hash)
{
	const struct tuning a = parse(FIRST "host.node_ns 1\nhost.step_ns 2\n"),
			    b = parse(FIRST "# b\nhost.step_ns 2.0\nhost.node_ns 1\n"),
			    c = parse(FIRST "host.node_ns 2\nhost.step_ns 2\n"),
			    d = parse(FIRST "host.node_ns 1\nhost.turn_ns 2\n");
	assert_true(tuning_hash(&a) == tuning_hash(&b));
	assert_true(tuning_hash(&a) != tuning_hash(&c) && tuning_hash(&a) != tuning_hash(&d));
}

static uint64_t choose(const char *text, size_t bytes, int *algo)
{
	const struct tuning tuning = parse(text);
	const struct settings settings = { .slot_bytes = 1 << 20, .slots = 8, .max_channels = 1 };
	const struct plan_key key = planner_key(CORALE_ALL_REDUCE, bytes, CORALE_UINT8, CORALE_SUM);
	struct rates_links links = *rates_of_hosts();
	struct planner planner;
	struct topo *topo;
	struct plan plan;
	tuning_apply_links(&tuning, TUNING_HOST, &links);
	assert_int_equal(
	    machine_parse_with("rank:8", &links, rates_of_default_gpu(), &topo, error, sizeof(error)), 0);
	planner_init(&planner, topo, &settings);
	assert_int_equal(planner_plan(&planner, &key, NULL, &plan, error, sizeof(error)), 0);
	const uint64_t inputs = choices_hash_inputs(&planner);
	*algo = plan.algo;
	topo_destroy(topo);
	return inputs;
}

/* Where messages take long, one exchange of all data is faster than two of parts. Lists of choices are not shared with other rates. */
UNIT_TEST(test_choice)
{
	int built_in, slow, same, turns;
	const uint64_t a = choose(FIRST, 4096, &built_in),
		       b = choose(FIRST "host.node_ns 10000\n", 4096, &slow),
		       c = choose(FIRST "host.node_ns 150\n", 4096, &same),
		       d = choose(FIRST "host.turn_ns 1\n", 4096, &turns);
	assert_int_not_equal(built_in, slow);
	assert_int_equal(built_in, same);
	assert_true(a != b && a == c && a != d);
}

static void load(const char *path, const char *words)
{
	struct settings settings = { 0 };
	struct tuning tuning = { .given = 5 };
	snprintf(settings.tuning, sizeof(settings.tuning), "%s", path);
	assert_int_equal(tuning_load(&settings, 3, &tuning), words ? CORALE_ESETTING : 0);
	if (words && !strstr(log_last_error(), words))
		fail_msg("\"%s\" is not in: %s", words, log_last_error());
	assert_int_equal(tuning.given, 0);
}

UNIT_TEST(test_file)
{
	char path[] = "/tmp/corale-tuning-XXXXXX", words[128];
	const int fd = mkstemp(path);
	log_open(LOG_NONE, NULL);
	load("", NULL);
	load("/nowhere/rates", "CORALE_TUNING=/nowhere/rates can't be read: No such file");
	load("/", "CORALE_TUNING=/ can't be read: Is a directory");
	load("/dev/zero", "CORALE_TUNING=/dev/zero has more than 4096 bytes");
	assert_int_equal(write(fd, FIRST "host.x 1\n", sizeof(FIRST) + 8), sizeof(FIRST) + 8);
	snprintf(words, sizeof(words), "CORALE_TUNING=%s, line 2: found \"host.x 1\", expected one of", path);
	load(path, words);
	close(fd);
	unlink(path);
}
