/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program that has set a locale whose numbers have a comma: log lines, machines' measured rates and settings have a point all the same, and communicators are made
 * over nodes. The test writes such a locale itself, as a machine may have none: glibc's compiled form of LC_NUMERIC.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <locale.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test/helpers/unit.h"
#include "examples/plans/machine.h"
#include "base/log.h"
#include "base/settings.h"
#include "base/text.h"
#include "plan/machine/topo.h"
#include "test/helpers/team.h"

static char folder[] = "/tmp/corale_locale_test_XXXXXX";
static int has_comma;

/* A head, an offset for each of six items, the items: point, separator, grouping, both as wide characters, the character set. */
static int write_numeric(const char *path)
{
	static const struct {
		uint32_t magic, items, at[6];
		char point[4], separator[4], grouping[4];
		uint32_t wide_point, wide_separator;
		char charset[8];
	} file = { 0x20031115 ^ LC_NUMERIC, 6, { 32, 36, 40, 44, 48, 52 }, ",", "", "\x7f", ',', 0, "UTF-8" };
	const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	const int whole = fd >= 0 && write(fd, &file, sizeof(file)) == (ssize_t)sizeof(file);
	if (fd >= 0)
		close(fd);
	return whole;
}

static int set_comma(void **state)
{
	char path[128], text[16];
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/comma", folder);
	mkdir(path, 0700);
	snprintf(path, sizeof(path), "%s/comma/LC_NUMERIC", folder);
	if (!write_numeric(path))
		return -1;
	setenv("LOCPATH", folder, 1);
	has_comma = setlocale(LC_NUMERIC, "comma") != NULL;
	snprintf(text, sizeof(text), "%.1f", 0.5);
	has_comma &= !strcmp(text, "0,5");
	return 0;
}

static int remove_files(void **state)
{
	char path[128];
	snprintf(path, sizeof(path), "%s/comma/LC_NUMERIC", folder);
	unlink(path);
	snprintf(path, sizeof(path), "%s/comma", folder);
	rmdir(path);
	return rmdir(folder);
}

static void need_comma(void)
{
	if (has_comma)
		return;
	print_message("# this C library takes no locale of glibc's form\n");
	skip();
}

UNIT_TEST(test_numbers)
{
	char text[32], *end;
	need_comma();
	text_format(text, sizeof(text), "%.2f %g", 0.25, 1.5);
	assert_string_equal(text, "0.25 1.5");
	assert_true(text_number("2.5x", &end) == 2.5 && *end == 'x');
	snprintf(text, sizeof(text), "%.1f", 0.5); /* the program's own are as it wants them */
	assert_string_equal(text, "0,5");
}

UNIT_TEST(test_log_line)
{
	need_comma();
	log_error(CORALE_EINVAL, -1, "after %g s", 2.5);
	assert_string_equal(log_last_error(), "after 2.5 s");
}

/* What one rank has measured and prints, all others read. */
UNIT_TEST(test_rates)
{
	char text[256], error[200] = "";
	struct topo *topo;
	need_comma();
	assert_int_equal(machine_parse("node:2 rank:2 memory:7.5 rail:3.5 rail_us:9.25", &topo, error, 200),
			 0);
	assert_true(topo_print_rails(topo, text, sizeof(text)) < sizeof(text));
	assert_null(strchr(text, ','));
	assert_non_null(strstr(text, "rail_us:9.25"));
	assert_int_equal(topo_parse_rails(text, topo, error, 200), 0);
	topo_destroy(topo);
}

UNIT_TEST(test_settings)
{
	char timeout[] = "CORALE_TIMEOUT=2.5", *environment[] = { timeout, NULL };
	struct settings settings;
	need_comma();
	assert_int_equal(settings_parse(environment, &settings), 0);
	assert_true(settings.timeout == 2.5);
}

static void reduce(struct team_member *m)
{
	float mine = 1, sum = 0;
	team_expect(m, corale_all_reduce(&mine, &sum, 1, CORALE_FLOAT32, CORALE_SUM, m->comm, NULL), 0,
		    "a call");
	if (sum != (float)m->size)
		team_fault(m, "the sum is wrong");
}

UNIT_TEST(test_communicator)
{
	need_comma();
	setenv("CORALE_NODE_SIZE", "1", 1);
	setenv("CORALE_TIMEOUT", "20.5", 1);
	alarm(60);
	assert_int_equal(team_run(2, NULL, reduce, NULL), 0);
}

int main(void)
{
	return unit_run(set_comma, remove_files);
}
