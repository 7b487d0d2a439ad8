/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NCCL's variables: the table and its page in docs, values and where they come from, what is mapped, what is reported. Each case that
 * reads variables runs in a process of its own, because they are read once. With --markdown: prints the table as the page has it.
 */
#define _GNU_SOURCE
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/helpers/unit.h"
#include "corale.h"
#include "base/log.h"
#include "base/settings.h"
#include "nccl_glue/door.h"
#include "nccl_glue/env.h"
#include "nccl_glue/env_conf.h"
#include "nccl_glue/env_map.h"
#include "nccl_glue/env_table.h"

enum { PATIENCE_S = 60, LOG_BYTES = 65536 };

static char folder[] = "/tmp/corale_nccl_env_XXXXXX", own_file[64], home_file[64], log_file[64];

static int open_folder(void **state)
{
	alarm(PATIENCE_S);
	if (!mkdtemp(folder))
		return -1;
	snprintf(own_file, sizeof(own_file), "%s/own.conf", folder);
	snprintf(home_file, sizeof(home_file), "%s/.nccl.conf", folder);
	snprintf(log_file, sizeof(log_file), "%s/log", folder);
	return 0;
}

static int close_folder(void **state)
{
	return rmdir(folder);
}

static void write_file(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void read_file(const char *path, char *text, size_t bytes)
{
	FILE *file = fopen(path, "r");
	size_t n = file ? fread(text, 1, bytes - 1, file) : 0;
	text[n] = '\0';
	if (file)
		fclose(file);
}

/* Runs check in a process whose environment is variables (NULL-terminated) and HOME alone; its status, and its log in log. */
static int run(char *const *variables, int (*check)(void), char log[LOG_BYTES])
{
	int status = -1;
	pid_t pid = fork();

	if (!pid) {
		clearenv();
		setenv("HOME", folder, 1);
		setenv("CORALE_LOG_FILE", log_file, 1);
		for (; *variables; variables++)
			putenv(*variables);
		_exit(check());
	}
	waitpid(pid, &status, 0);
	read_file(log_file, log, LOG_BYTES);
	unlink(log_file);
	return status;
}

static int is(const char *name, const char *value)
{
	const char *found = door_env(name);
	return found && value ? !strcmp(found, value) : found == value;
}

/* How often what is in text. */
static int count(const char *text, const char *what)
{
	int n = 0;
	for (; (text = strstr(text, what)); text += strlen(what))
		n++;
	return n;
}

/* ---- The table ---- */

static void print_markdown(FILE *to)
{
	fprintf(to, "| variable | class | what happens | no warning |\n|---|---|---|---|\n");
	for (const struct door_env_row *row = door_env_rows; row->name; row++)
		fprintf(to, "| `%s` | %s | %s | %s |\n", row->name, door_env_class_name(row->class),
			row->here, row->harmless ? row->harmless : "");
}

UNIT_TEST(test_table)
{
	int others = 0, rows = 0;

	for (const struct door_env_row *row = door_env_rows; row->name; row++, rows++) {
		size_t length = strlen(row->here);
		if (door_env_find(row->name) != row)
			fail_msg("%s is twice in the table", row->name);
		assert_memory_equal(row->name, "NCCL_", 5);
		if (length < 10 || row->here[length - 1] != '.' || strchr(row->here, '|'))
			fail_msg("%s: '%s' is no sentence for a table", row->name, row->here);
		if (row->harmless && row->class != DOOR_ENV_LOST)
			fail_msg("%s loses nothing", row->name);
		others += row->class == DOOR_ENV_NOT_NCCLS;
		assert_true(row->class == DOOR_ENV_NOT_NCCLS || !others); /* last */
	}
	assert_true(rows > 150 && rows <= 256);
	assert_int_equal(door_env_count(), rows - others);
	assert_string_equal(door_env_name(0), door_env_rows->name);
	assert_null(door_env_name(-1));
	assert_null(door_env_name(door_env_count()));
	assert_int_equal(door_env_find("NCCL_TESTS_DEVICE")->class, DOOR_ENV_NOT_NCCLS);
	assert_int_equal(door_env_find("NCCL_ALGO")->class, DOOR_ENV_MAPPED);
	assert_int_equal(door_env_find("NCCL_P2P_DISABLE")->class, DOOR_ENV_HONOURED);
	assert_null(door_env_find("NCCL_"));
}

UNIT_TEST(test_page)
{
	static char page[LOG_BYTES], table[LOG_BYTES];
	const char *top = getenv("top_srcdir");
	char path[1024];
	FILE *to = fmemopen(table, sizeof(table), "w");

	assert_non_null(to);
	print_markdown(to);
	fclose(to);
	snprintf(path, sizeof(path), "%s/docs/nccl-variables.md", top ? top : ".");
	read_file(path, page, sizeof(page));
	char *begin = strstr(page, "<!-- variables:"), *end = strstr(page, "<!-- end of variables -->");
	if (!begin || !end)
		fail_msg("%s has no table of variables", path);
	begin = strchr(begin, '\n') + 1;
	*end = '\0';
	assert_string_equal(begin, table);
}

/* ---- Values ---- */

static void free_conf(struct door_conf *conf)
{
	for (size_t i = 0; i < conf->n; i++)
		free(conf->entries[i]);
	free(conf->entries);
	*conf = (struct door_conf){ .n = 0 };
}

UNIT_TEST(test_conf_lines)
{
	char text[8000] =
	    "# a comment\n\nNCCL_A=1\r\n NCCL_B = two words \nNCCL_A=2\nNCCL_C==x\nnothing\n=5\n"
	    "LD_PRELOAD=evil.so\nPATH=/x\nNCCL_D=\n#NCCL_E=1\nNCCL_LONG=";
	struct door_conf conf = { 0 };
	size_t n = strlen(text), more = 4095 - strlen("NCCL_LONG="); /* the reader's own pieces */

	memset(text + n, 'y', more);
	strcpy(text + n + more, "NCCL_TAIL=1\nNCCL_LAST=end");
	write_file(own_file, text);
	assert_int_equal(door_conf_read(&conf, own_file), 0);
	assert_string_equal(door_conf_find(&conf, "NCCL_A"), "1");
	assert_string_equal(door_conf_find(&conf, "NCCL_B"), "two words");
	assert_string_equal(door_conf_find(&conf, "NCCL_C"), "=x");
	assert_string_equal(door_conf_find(&conf, "NCCL_D"), "");
	assert_string_equal(door_conf_find(&conf, "NCCL_LAST"), "end");
	assert_null(door_conf_find(&conf, "NCCL_E"));
	assert_null(door_conf_find(&conf, "NCCL_LONG"));
	assert_null(door_conf_find(&conf, "NCCL_TAIL"));
	assert_null(door_conf_find(&conf, "LD_PRELOAD"));
	assert_int_equal(conf.n, 6);
	write_file(own_file, "NCCL_A=3\nNCCL_E=4\n");
	assert_int_equal(door_conf_read(&conf, own_file), 0);
	assert_string_equal(door_conf_find(&conf, "NCCL_A"), "1"); /* the first file's */
	assert_string_equal(door_conf_find(&conf, "NCCL_E"), "4");
	free_conf(&conf);
	unlink(own_file);
	assert_true(door_conf_read(&conf, own_file) != 0);
	assert_int_equal(mkfifo(own_file, 0600), 0);
	assert_true(door_conf_read(&conf, own_file) != 0); /* at once */
	unlink(own_file);
	assert_int_equal(conf.n, 0);
}

static int check_own_file(void)
{
	return !(is("NCCL_FROM_OWN", "own") && is("NCCL_BOTH", "environment") && is("NCCL_EMPTY", NULL) &&
		 is("NCCL_HOME_ONLY", NULL) && !getenv("NCCL_FROM_OWN"));
}

static int check_home_file(void)
{
	return !(is("NCCL_FROM_OWN", NULL) && is("NCCL_HOME_ONLY", "home") && is("NCCL_NOWHERE", NULL));
}

UNIT_TEST(test_files)
{
	char conf[100], log[LOG_BYTES], both[] = "NCCL_BOTH=environment", empty[] = "NCCL_EMPTY=";
	char *const with[] = { conf, both, empty, NULL }, *const without[] = { NULL };

	snprintf(conf, sizeof(conf), "NCCL_CONF_FILE=%s", own_file);
	write_file(own_file, "NCCL_FROM_OWN=own\nNCCL_BOTH=file\nNCCL_EMPTY=file\n");
	write_file(home_file, "NCCL_HOME_ONLY=home\n");
	assert_int_equal(run(with, check_own_file, log), 0);
	assert_int_equal(run(without, check_home_file, log), 0);
	unlink(own_file);
	unlink(home_file);
}

static int check_numbers(void)
{
	const struct settings *s;
	static const struct {
		const char *value;
		long expected;
	} cases[] = { { "8", 8 },   { "0x10", 16 }, { "010", 10 },
		      { "-3", -3 }, { "100", 100 }, { "101", 7 },
		      { "-5", 7 },  { "8.0", 7 },   { "8k", 7 },
		      { " 8", 7 },  { "eight", 7 }, { "+8", 7 },
		      { "--8", 7 }, { "0x", 7 },    { "99999999999999999999", 7 },
		      { "", 7 } };

	if (door_env_open(NULL, &s))
		return 1;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		setenv("NCCL_NTHREADS", cases[i].value, 1);
		if (door_env_number("NCCL_NTHREADS", 7, -4, 100) != cases[i].expected)
			return (int)i + 2;
	}
	unsetenv("NCCL_NTHREADS");
	return door_env_number("NCCL_NTHREADS", -9, 0, 1) != -9;
}

UNIT_TEST(test_numbers)
{
	char log[LOG_BYTES], debug[] = "NCCL_DEBUG=INFO";
	char *const variables[] = { debug, NULL };

	assert_int_equal(run(variables, check_numbers, log), 0);
	assert_int_equal(count(log, "NCCL_NTHREADS="), 1); /* told once */
	assert_non_null(
	    strstr(log, "NCCL INFO NCCL_NTHREADS=101 is not used: expected a whole number from -4 to 100"));
}

static int check_blocks(void)
{
	if (door_env_max_ctas() || door_env_min_ctas())
		return 1;
	setenv("NCCL_MAX_NRINGS", "20", 1);
	setenv("NCCL_MIN_NRINGS", "3", 1);
	if (door_env_max_ctas() != 20 || door_env_min_ctas() != 3)
		return 2;
	setenv("NCCL_MAX_NCHANNELS", "24", 1);
	setenv("NCCL_MIN_NCHANNELS", "2", 1);
	if (door_env_max_ctas() != 24 || door_env_min_ctas() != 2)
		return 3;
	setenv("NCCL_MAX_CTAS", "16", 1);
	setenv("NCCL_MIN_CTAS", "4", 1);
	if (door_env_max_ctas() != 16 || door_env_min_ctas() != 4)
		return 4;
	setenv("NCCL_MAX_CTAS", "32", 1);
	setenv("NCCL_MIN_CTAS", "1", 1);
	if (door_env_max_ctas() != 24 || door_env_min_ctas() != 2)
		return 5;
	setenv("NCCL_MAX_CTAS", "0", 1);
	setenv("NCCL_MIN_CTAS", "many", 1);
	return door_env_max_ctas() != 24 || door_env_min_ctas() != 2 ? 6 : 0;
}

UNIT_TEST(test_blocks)
{
	char log[LOG_BYTES], *const none[] = { NULL };

	assert_int_equal(run(none, check_blocks, log), 0);
}

/* ---- Pins ---- */

static const struct {
	const char *variables[5];
	struct door_config config;
	int pins;
} pin_cases[] = {
	/* as batch-invariant modes set them */
	{ .variables = { "MIN_NCHANNELS=1", "MAX_NCHANNELS=1", "PROTO=Simple", "ALGO=allreduce:tree" },
	  .pins = 1 },
	{ .variables = { "MIN_CTAS=1", "MAX_CTAS=1", "PROTO=simple", "ALGO=RING" }, .pins = 1 },
	{ .variables = { "MIN_NRINGS=1", "MAX_CTAS=1", "PROTO=LL;AllReduce:Simple",
			 "ALGO=nvls,ring;allreduce:Ring" },
	  .pins = 1 },
	{ .variables = { "PROTO=Simple", "ALGO=Tree" },
	  .config = { .min_ctas = 1, .max_ctas = 1 },
	  .pins = 1 },
	{ .variables = { "MIN_NCHANNELS=1", "PROTO=Simple", "ALGO=broadcast:ring;tree" },
	  .config = { .max_ctas = 1 },
	  .pins = 1 },
	/* XLA sets channels alone, others an algorithm alone */
	{ .variables = { "MIN_NCHANNELS=1", "MAX_NCHANNELS=1" } },
	{ .variables = { "ALGO=allreduce:tree" } },
	{ .variables = { "MIN_NCHANNELS=1", "PROTO=Simple", "ALGO=Tree" } },
	{ .variables = { "MAX_NCHANNELS=1", "PROTO=Simple", "ALGO=Tree" } },
	{ .variables = { "MIN_NCHANNELS=2", "MAX_NCHANNELS=2", "PROTO=Simple", "ALGO=Tree" } },
	{ .variables = { "MIN_NCHANNELS=1", "MAX_NCHANNELS=1", "PROTO=Simple" } },
	{ .variables = { "MIN_NCHANNELS=1", "MAX_NCHANNELS=1", "PROTO=Simple", "ALGO=Tree,Ring" } },
	{ .variables = { "MIN_NCHANNELS=1", "MAX_NCHANNELS=1", "PROTO=Simple", "ALGO=^Tree" } },
	{ .variables = { "MIN_NCHANNELS=1", "MAX_NCHANNELS=1", "PROTO=Simple", "ALGO=NVLS" } },
	{ .variables = { "MIN_NCHANNELS=1", "MAX_NCHANNELS=1", "PROTO=Simple",
			 "ALGO=Tree;allreduce:^Tree" } },
	{ .variables = { "MIN_NCHANNELS=1", "MAX_NCHANNELS=1", "PROTO=LL", "ALGO=Tree" } },
	{ .variables = { "MIN_NCHANNELS=1", "MAX_NCHANNELS=1", "PROTO=Simple,LL", "ALGO=Tree" } },
	{ .variables = { "MIN_NCHANNELS=1", "MAX_NCHANNELS=1", "PROTO=broadcast:Simple", "ALGO=Tree" } },
	{ .variables = { "MIN_NCHANNELS=1", "MAX_NCHANNELS=1", "PROTO=Simple", "ALGO=Tree" },
	  .config = { .max_ctas = 8 } },
};

/* 0, or the number of a case that is wrong, from 1 on. */
static int check_pins(void)
{
	for (size_t c = 0; c < sizeof(pin_cases) / sizeof(*pin_cases); c++) {
		clearenv();
		for (const char *const *v = pin_cases[c].variables; *v; v++) {
			char name[64];
			snprintf(name, sizeof(name), "NCCL_%.*s", (int)strcspn(*v, "="), *v);
			setenv(name, strchr(*v, '=') + 1, 1);
		}
		if (door_fixes_order(&pin_cases[c].config) != pin_cases[c].pins)
			return (int)c + 1;
	}
	return 0;
}

UNIT_TEST(test_pins)
{
	char log[LOG_BYTES], *const none[] = { NULL };

	assert_int_equal(run(none, check_pins, log), 0);
}

/* ---- What is mapped ---- */

static const struct {
	const char *name, *value, *setting; /* setting: NULL for none */
	int is_told; /* that the value has no effect */
} map_cases[] = {
	{ "NCCL_PROTO", "LL", "LL", 0 },
	{ "NCCL_PROTO", "ll128", "LL128", 0 },
	{ "NCCL_PROTO", "SIMPLE", "FIFO", 0 },
	{ "NCCL_PROTO", "^LL,LL128", "FIFO", 0 },
	{ "NCCL_PROTO", "^Simple,LL128", "LL", 0 },
	{ "NCCL_PROTO", "LL,LL", "LL", 0 },
	{ "NCCL_PROTO", "LL,LL128,Simple", NULL, 0 },
	{ "NCCL_PROTO", "^LL128", NULL, 1 },
	{ "NCCL_PROTO", "LL,Simple", NULL, 1 },
	{ "NCCL_PROTO", "^LL,LL128,Simple", NULL, 1 },
	{ "NCCL_PROTO", "LL;allreduce:Simple", NULL, 1 },
	{ "NCCL_PROTO", "allreduce:LL", NULL, 1 },
	{ "NCCL_PROTO", "LL,", NULL, 1 },
	{ "NCCL_PROTO", "^", NULL, 1 },
	{ "NCCL_PROTO", "LL256", NULL, 1 },
	{ "NCCL_ALGO", "Ring", NULL, 0 },
	{ "NCCL_ALGO", "Ring,Tree", NULL, 1 },
	{ "NCCL_DEBUG", "VERSION", NULL, 0 },
	{ "NCCL_DEBUG", "warn", "warn", 0 },
	{ "NCCL_DEBUG", "INFO", "info", 0 },
	{ "NCCL_DEBUG", "TRACE", "trace", 0 },
	{ "NCCL_DEBUG", "DEBUG", NULL, 1 },
	{ "NCCL_CTA_POLICY", "DEFAULT", "auto", 0 },
	{ "NCCL_CTA_POLICY", "1", "efficient", 0 },
	{ "NCCL_CTA_POLICY", "zero", "zero", 0 },
	{ "NCCL_CTA_POLICY", "ZERO|EFFICIENCY", NULL, 1 },
	{ "NCCL_SOCKET_IFNAME", "^docker,=eth0", "^docker,=eth0", 0 },
	{ "NCCL_NET", "socket", "socket", 0 },
	{ "NCCL_NET", "IB", "IB", 0 },
	{ "NCCL_NET", "AWS Libfabric", NULL, 1 },
	{ "NCCL_NET_GDR_LEVEL", "LOC", "no", 0 },
	{ "NCCL_NET_GDR_LEVEL", "0", "no", 0 },
	{ "NCCL_NET_GDR_LEVEL", "PHB", NULL, 1 },
	{ "NCCL_NET_FORCE_FLUSH", "1", "yes", 0 },
	{ "NCCL_NET_FORCE_FLUSH", "0", NULL, 0 },
	{ "NCCL_IB_DISABLE", "1", "1", 0 },
	{ "NCCL_IB_HCA", "=mlx5_0:1", "=mlx5_0:1", 0 },
	{ "NCCL_IB_GID_INDEX", "3", "3", 0 },
	{ "NCCL_IB_GID_INDEX", "-1", "-1", 0 },
	{ "NCCL_IB_GID_INDEX", "-2", NULL, 1 },
	{ "NCCL_IB_TC", "0x6a", "0x6a", 0 },
	{ "NCCL_IB_TC", "256", NULL, 1 },
	{ "NCCL_IB_SL", "15", "15", 0 },
	{ "NCCL_IB_SL", "16", NULL, 1 },
	{ "NCCL_IB_TIMEOUT", "22", "22", 0 },
	{ "NCCL_IB_TIMEOUT", "32", NULL, 1 },
	{ "NCCL_IB_RETRY_CNT", "7", "7", 0 },
	{ "NCCL_IB_RETRY_CNT", "8x", NULL, 1 },
};

UNIT_TEST(test_mappings)
{
	for (size_t c = 0; c < sizeof(map_cases) / sizeof(*map_cases); c++) {
		const char *why = NULL, *got = "nobody maps it";
		for (const struct door_mapping *m = door_mappings; m->name; m++)
			if (!strcmp(m->name, map_cases[c].name))
				got = door_map(m, map_cases[c].value, &why);
		const char *want = map_cases[c].setting;
		if (!!got != !!want || (got && strcmp(got, want)) || !!why != map_cases[c].is_told)
			fail_msg("%s=%s became %s (%s)", map_cases[c].name, map_cases[c].value,
				 got ? got : "nothing", why ? why : "");
	}
}

static int check_settings(void)
{
	const struct settings *s;

	if (door_env_open(NULL, &s))
		return 1;
	return strcmp(s->proto, "FIFO") || s->cta_policy != SETTINGS_CTA_ZERO || s->debug != LOG_WARN;
}

/* A CORALE_* variable comes first, and nothing is put into the environment. */
UNIT_TEST(test_settings)
{
	char log[LOG_BYTES], proto[] = "NCCL_PROTO=simple", policy[] = "NCCL_CTA_POLICY=1",
			     ours[] = "CORALE_CTA_POLICY=zero", debug[] = "NCCL_DEBUG=INFO",
			     level[] = "CORALE_DEBUG=warn";
	char *const variables[] = { proto, policy, ours, debug, level, NULL };

	assert_int_equal(run(variables, check_settings, log), 0);
	assert_string_equal(log, "");
}

static int check_malformed(void)
{
	const struct settings *s;
	return door_env_open(NULL, &s) != CORALE_ESETTING || door_env_open(NULL, &s) != CORALE_ESETTING;
}

/* CORALE_* variables are as strict as in every program of Corale. */
UNIT_TEST(test_malformed_setting)
{
	char log[LOG_BYTES], ours[] = "CORALE_NCCL_TIMEOUT=soon";
	char *const variables[] = { ours, NULL };

	assert_int_equal(run(variables, check_malformed, log), 0);
}

/* ---- What is reported ---- */

static int open_twice(void)
{
	const struct settings *s;

	if (door_env_open(NULL, &s) || door_env_open(NULL, &s))
		return 1;
	door_env_report();
	return 0;
}

/* Every variable of the table at once, with a value that loses something. */
UNIT_TEST(test_all_variables)
{
	static char entries[256][80];
	char log[LOG_BYTES], *variables[257] = { NULL };

	for (int i = 0; door_env_rows[i].name; i++) {
		const char *name = door_env_rows[i].name;
		snprintf(entries[i], sizeof(entries[i]), "%s=%s", name,
			 strcmp(name, "NCCL_DEBUG_FILE") ? "7" : log_file);
		variables[i] = entries[i];
	}
	assert_int_equal(run(variables, open_twice, log), 0);
	assert_int_equal(count(log, "\n"), 1);
	assert_non_null(strstr(log, "NCCL WARN Corale: NCCL honours NCCL_"));
	*strstr(log, "; this library does not") = ','; /* a comma behind each name */
	for (const struct door_env_row *row = door_env_rows; row->name; row++) {
		char name[80];
		snprintf(name, sizeof(name), " %s,", row->name);
		if (count(log, name) != (row->class == DOOR_ENV_LOST))
			fail_msg("%s of class '%s' is named wrongly", row->name,
				 door_env_class_name(row->class));
	}
}

/* What a recipe sets. */
UNIT_TEST(test_recipe)
{
	static const char *const recipe[] = { "NCCL_SOCKET_IFNAME=eth0",     "NCCL_IB_HCA=mlx5",
					      "NCCL_IB_DISABLE=0",           "NCCL_ALGO=Ring",
					      "NCCL_P2P_DISABLE=0",          "NCCL_CUMEM_ENABLE=0",
					      "NCCL_ASYNC_ERROR_HANDLING=1", "NCCL_TESTS_DEVICE=0",
					      "NCCL_CHECK_MODE=default",     "NCCL_PROTO=LL,Simple" };
	enum { N = sizeof(recipe) / sizeof(*recipe) };
	char log[LOG_BYTES], *variables[N + 3] = { NULL };

	memcpy(variables, recipe, sizeof(recipe));
	assert_int_equal(run(variables, open_twice, log), 0);
	assert_string_equal(log, ""); /* nothing is lost, so nothing is said */
	variables[N] = (char *)"NCCL_DEBUG=INFO";
	variables[N + 1] = (char *)"NCCL_ZEBRA=2";
	assert_int_equal(run(variables, open_twice, log), 0);
	assert_null(strstr(log, "WARN"));
	assert_int_equal(count(log, "NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth0."), 1);
	assert_int_equal(count(log, "NCCL INFO NCCL_ALGO set by environment to Ring."), 1);
	assert_int_equal(count(log, "NCCL INFO NCCL_PROTO=LL,Simple has no effect: "), 1);
	assert_int_equal(count(log, "NCCL INFO NCCL_ZEBRA=2 has no effect: the library does not know"), 1);
	assert_null(strstr(log, "NCCL_TESTS_DEVICE"));
	assert_null(strstr(log, "NCCL_ASYNC_ERROR_HANDLING"));
}

UNIT_TEST(test_lost)
{
	char log[LOG_BYTES], conf[100], shown[] = "NCCL_RAS_ADDR=a:1", hidden[] = "NCCL_RAS_ENABLE=0";
	char *const variables[] = { shown, hidden, conf, NULL };

	snprintf(conf, sizeof(conf), "NCCL_CONF_FILE=%s", own_file);
	write_file(own_file, "NCCL_TOPO_FILE=/x.xml\n");
	assert_int_equal(run(variables, open_twice, log), 0);
	unlink(own_file);
	assert_int_equal(count(log, "\n"), 1);
	assert_non_null(strstr(
	    log, "NCCL WARN Corale: NCCL honours NCCL_TOPO_FILE, NCCL_RAS_ADDR; this library does not"));
}

UNIT_TEST(test_reported_files)
{
	char log[LOG_BYTES], conf[100], debug[] = "NCCL_DEBUG=INFO", both[] = "NCCL_BUFFSIZE=1";
	char *const variables[] = { debug, both, conf, NULL };

	snprintf(conf, sizeof(conf), "NCCL_CONF_FILE=%s", own_file);
	write_file(own_file, "NCCL_BUFFSIZE=2\nNCCL_NTHREADS=5\n");
	assert_int_equal(run(variables, open_twice, log), 0);
	unlink(own_file);
	assert_int_equal(count(log, "NCCL_BUFFSIZE="), 1);
	assert_int_equal(count(log, "NCCL_BUFFSIZE=1 has no effect"), 1);
	assert_int_equal(count(log, "NCCL_NTHREADS=5 has no effect"), 1);
}

UNIT_TEST(test_missing_file)
{
	char log[LOG_BYTES], conf[] = "NCCL_CONF_FILE=/no/such/file", debug[] = "NCCL_DEBUG=INFO";
	char *const variables[] = { conf, debug, NULL };

	assert_int_equal(run(variables, open_twice, log), 0);
	assert_int_equal(count(log, "NCCL_CONF_FILE=/no/such/file can't be read: No such file"), 1);
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "--markdown")) {
		print_markdown(stdout);
		return 0;
	}
	return unit_run(open_folder, close_folder);
}
