/* SPDX-License-Identifier: BSD-3-Clause */
#include "env.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/log.h"
#include "base/settings.h"
#include "env_conf.h"
#include "env_map.h"
#include "env_table.h"
#include "log.h"

enum { MOST_CTAS = 1024, LOGGED = 256, NAME_BYTES = 64 };

static pthread_once_t conf_once = PTHREAD_ONCE_INIT;
static struct door_conf conf;
static int own_file_error; /* of the file of NCCL_CONF_FILE */

/* Value in the environment alone; NULL: unset. */
static const char *look_up(const char *name)
{
	size_t length = strlen(name);

	for (char *const *e = settings_environment(); e && *e; e++)
		if (!strncmp(*e, name, length) && (*e)[length] == '=')
			return *e + length + 1;
	return NULL;
}

static void read_conf(void)
{
	const char *own = look_up("NCCL_CONF_FILE"), *home = look_up("HOME");
	char path[1024];

	if (own && *own)
		own_file_error = door_conf_read(&conf, own);
	else if (home && *home && (size_t)snprintf(path, sizeof(path), "%s/.nccl.conf", home) < sizeof(path))
		door_conf_read(&conf, path);
	door_conf_read(&conf, "/etc/nccl.conf");
}

const char *door_env(const char *name)
{
	const char *value = look_up(name);

	if (!value) {
		pthread_once(&conf_once, read_conf);
		value = door_conf_find(&conf, name);
	}
	return value && *value ? value : NULL;
}

int door_env_count(void)
{
	int n = 0;

	while (door_env_rows[n].name && door_env_rows[n].class != DOOR_ENV_NOT_NCCLS)
		n++;
	return n;
}

const char *door_env_name(int i)
{
	return i >= 0 && i < door_env_count() ? door_env_rows[i].name : NULL;
}

/* True for the first call with a name of the table; always for others, which the library itself never asks for. */
static int is_first_complaint(const char *name)
{
	static atomic_flag logged[LOGGED];

	for (int i = 0; door_env_rows[i].name && i < LOGGED; i++)
		if (!strcmp(door_env_rows[i].name, name))
			return !atomic_flag_test_and_set(&logged[i]);
	return 1;
}

/* Decimal or hexadecimal, no octal: a leading 0 is a mistake of scripts, and means nothing to people. */
static int read_number(const char *text, long *number)
{
	size_t sign = *text == '-';
	int base = !strncasecmp(text + sign, "0x", 2) ? 16 : 10;
	char *end;

	if (text[sign] < '0' || text[sign] > '9')
		return EINVAL;
	errno = 0;
	*number = strtol(text, &end, base);
	return errno || *end ? EINVAL : 0;
}

long door_env_number(const char *name, long otherwise, long least, long most)
{
	const char *value = door_env(name);
	long number;

	if (!value)
		return otherwise;
	if (!read_number(value, &number) && number >= least && number <= most)
		return number;
	if (is_first_complaint(name))
		door_log(DOOR_LOG_ENV,
			 "%s=%s is not used: expected a whole number from %ld to %ld; the library goes on as "
			 "with %ld",
			 name, value, least, most, otherwise);
	return otherwise;
}

/* The limits that are set, of a variable and of an older one, under a still older name where that is unset. */
static void read_limits(const char *name, const char *old, const char *oldest, long limits[2])
{
	limits[0] = door_env_number(name, 0, 1, MOST_CTAS);
	limits[1] = door_env_number(door_env(old) ? old : oldest, 0, 1, MOST_CTAS);
}

int door_env_max_ctas(void)
{
	long limits[2];

	read_limits("NCCL_MAX_CTAS", "NCCL_MAX_NCHANNELS", "NCCL_MAX_NRINGS", limits);
	if (!limits[0] || !limits[1])
		return (int)(limits[0] + limits[1]);
	return (int)(limits[0] < limits[1] ? limits[0] : limits[1]);
}

int door_env_min_ctas(void)
{
	long limits[2];

	read_limits("NCCL_MIN_CTAS", "NCCL_MIN_NCHANNELS", "NCCL_MIN_NRINGS", limits);
	return (int)(limits[0] > limits[1] ? limits[0] : limits[1]);
}

/* ---- What is set, told once ---- */

static int is_lost(const struct door_env_row *row, const char *value)
{
	return row->class == DOOR_ENV_LOST && !(row->harmless && !strcasecmp(row->harmless, value));
}

/* Names of all lost variables that are set, with commas; the number of them. */
static int list_lost(char *list, size_t bytes)
{
	size_t at = 0;
	int n = 0;

	list[0] = '\0';
	for (const struct door_env_row *row = door_env_rows; row->name; row++) {
		const char *value = door_env(row->name);
		if (!value || !is_lost(row, value))
			continue;
		int more = snprintf(list + at, bytes - at, "%s%s", n ? ", " : "", row->name);
		if (more < 0 || (size_t)more >= bytes - at)
			break;
		at += (size_t)more;
		n++;
	}
	return n;
}

static const char *map(const struct door_mapping *mapping, const char **why)
{
	const char *value = door_env(mapping->name);

	*why = NULL;
	return value ? door_map(mapping, value, why) : NULL;
}

/* Why the value of a variable has no effect, NULL if it has one. */
static const char *find_refusal(const char *name)
{
	const char *why = NULL;

	for (const struct door_mapping *m = door_mappings; m->name; m++)
		if (!strcmp(m->name, name))
			map(m, &why);
	return why;
}

static void report_variable(const char *name, const char *value)
{
	const struct door_env_row *row = door_env_find(name);
	const char *why = find_refusal(name);

	if (!row)
		door_log(DOOR_LOG_ENV, "%s=%s has no effect: the library does not know this variable", name,
			 value);
	else if (why)
		door_log(DOOR_LOG_ENV, "%s=%s has no effect: %s", name, value, why);
	else if (row->class == DOOR_ENV_HONOURED || row->class == DOOR_ENV_MAPPED)
		door_log(DOOR_LOG_ENV, "%s set by environment to %s.", name, value);
	else if (row->class != DOOR_ENV_NOT_NCCLS)
		door_log(DOOR_LOG_ENV, "%s=%s has no effect (%s): %s", name, value,
			 door_env_class_name(row->class), row->here);
}

/* entry: "NAME=value" of any variable. */
static void report_entry(const char *entry)
{
	size_t length = strcspn(entry, "=");
	char name[NAME_BYTES];

	if (strncmp(entry, "NCCL_", 5) || !entry[length] || !entry[length + 1])
		return;
	snprintf(name, sizeof(name), "%.*s", (int)length, entry);
	report_variable(name, entry + length + 1);
}

static void report_conf(void)
{
	const char *own = door_env("NCCL_CONF_FILE");

	if (own && own_file_error)
		door_log(DOOR_LOG_ENV, "NCCL_CONF_FILE=%s can't be read: %s", own,
			 own_file_error == EINVAL ? "it is no regular file" : strerror(own_file_error));
	for (size_t i = 0; i < conf.n; i++) {
		char name[NAME_BYTES];
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(conf.entries[i], "="), conf.entries[i]);
		if (!look_up(name)) /* the environment comes first */
			report_entry(conf.entries[i]);
	}
}

static void report(void)
{
	char lost[800];
	int n = list_lost(lost, sizeof(lost));

	if (n)
		log_line(LOG_WARN, -1,
			 "NCCL honours %s; this library does not: what happens instead is in "
			 "docs/nccl-variables.md and in the lines of NCCL_DEBUG=INFO",
			 lost);
	if (!door_log_wants(DOOR_LOG_ENV))
		return;
	for (char *const *e = settings_environment(); e && *e; e++)
		report_entry(*e);
	report_conf();
}

void door_env_report(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, report);
}

/* ---- The settings ---- */

static pthread_mutex_t open_mutex = PTHREAD_MUTEX_INITIALIZER;
static int is_open;

static void offer_settings(void)
{
	for (const struct door_mapping *m = door_mappings; m->name; m++) {
		const char *why, *value = map(m, &why);
		if (value && m->setting)
			settings_offer(m->setting, value);
	}
}

int door_env_open(int (*device)(void), const struct settings **out)
{
	pthread_mutex_lock(&open_mutex);
	if (!is_open) {
		offer_settings();
		door_log_open(device);
	}
	int ret = settings_get(out);
	if (!is_open && !ret)
		door_env_report();
	is_open = 1;
	pthread_mutex_unlock(&open_mutex);
	return ret;
}
