/* SPDX-License-Identifier: BSD-3-Clause */
#include "settings.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "log.h"
#include "settings_value.h"
#include "status.h"

#define FIELD(member)                                                                                        \
	.offset = offsetof(struct settings, member), .bytes = sizeof(((struct settings *)0)->member)
#define MEBI ((uint64_t)1 << 20)
#define GIBI ((uint64_t)1 << 30)

static const struct settings_field fields[] = {
#include "settings.def"
};

enum { ROWS = sizeof(fields) / sizeof(*fields) };
_Static_assert(ROWS <= 64, "from_environment and from_offer have one bit a row");

static const char prefix[] = "CORALE_";
extern char **environ;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct settings process_settings;
static int process_status;

/* What settings_offer was given, by row; read_process takes it over and frees it. */
static pthread_mutex_t offers_mutex = PTHREAD_MUTEX_INITIALIZER;
static char *offers[ROWS];
static int offers_closed;

int settings_count(void)
{
	return ROWS;
}

const struct settings_row *settings_row(int i)
{
	return i >= 0 && i < ROWS ? &fields[i].row : NULL;
}

int settings_is_for_tests(int i)
{
	return fields[i].for_tests;
}

enum settings_origin settings_value(const struct settings *s, int i, char *buf, size_t bytes)
{
	settings_print(&fields[i], (const char *)s + fields[i].offset, buf, bytes);
	if (s->from_environment >> i & 1)
		return SETTINGS_ENVIRONMENT;
	return s->from_offer >> i & 1 ? SETTINGS_OFFER : SETTINGS_DEFAULT;
}

/* The last entry wins, as with a shell that sets a name twice; NULL if unset or empty. */
static const char *look_up(char *const *environment, const char *name)
{
	const char *value = NULL;
	size_t length = strlen(name);

	for (; environment && *environment; environment++)
		if (!strncmp(*environment, name, length) && (*environment)[length] == '=')
			value = *environment + length + 1;
	return value && *value ? value : NULL;
}

int settings_parse(char *const *environment, struct settings *out)
{
	struct settings s;
	int ret = 0;

	memset(&s, 0, sizeof(s));
	for (int i = 0; i < ROWS; i++) {
		const struct settings_field *field = &fields[i];
		const char *value = look_up(environment, field->row.name);
		char accepted[160];
		if (value)
			s.from_environment |= UINT64_C(1) << i;
		if (!settings_read(field, value ? value : field->row.fallback, (char *)&s + field->offset))
			continue;
		settings_accepted(field, accepted, sizeof(accepted));
		ret = log_error(CORALE_ESETTING, -1, "%s=%s is malformed: expected %s; correct or unset it",
				field->row.name, value, accepted);
	}
	if (!ret)
		*out = s;
	return ret;
}

int settings_next_unknown(char *const *environment, size_t *position, char name[64], const char **nearest)
{
	for (; environment && environment[*position]; ++*position) {
		const char *entry = environment[*position];
		size_t length = strcspn(entry, "=");
		int known = strncmp(entry, prefix, sizeof(prefix) - 1) != 0;
		for (int i = 0; !known && i < ROWS; i++)
			known = strlen(fields[i].row.name) == length &&
				!strncmp(entry, fields[i].row.name, length);
		if (known)
			continue;
		length = length < 63 ? length : 63;
		memcpy(name, entry, length);
		name[length] = '\0';
		*nearest = settings_nearest(fields, ROWS, name, sizeof(prefix) - 1);
		++*position;
		return 1;
	}
	return 0;
}

char *const *settings_environment(void)
{
	static char *const none[] = { NULL };

	return getauxval(AT_SECURE) ? none : environ;
}

static int find_row(const char *name)
{
	for (int i = 0; i < ROWS; i++)
		if (!strcmp(fields[i].row.name, name))
			return i;
	return -1;
}

int settings_is_offered(const struct settings *s, const char *name)
{
	const int i = find_row(name);

	return i >= 0 && s->from_offer >> i & 1;
}

int settings_offer(const char *name, const char *value)
{
	struct settings probe;
	int i = find_row(name), late;
	char *copy = i < 0 ? NULL : strdup(value);

	if (!copy)
		return i < 0 ? CORALE_EINVAL : CORALE_ENOMEM;
	pthread_mutex_lock(&offers_mutex);
	late = offers_closed;
	if (!late) {
		free(offers[i]);
		offers[i] = copy;
	}
	pthread_mutex_unlock(&offers_mutex);
	if (late)
		free(copy);
	if (late || !value[0])
		return late ? CORALE_ECOMM : 0;
	return settings_read(&fields[i], value, (char *)&probe + fields[i].offset);
}

/* Values of offers into the rows of s that the environment does not set; refused: one bit for each malformed offer. */
static void take_offers(struct settings *s, uint64_t *refused)
{
	for (int i = 0; i < ROWS; i++) {
		if (!offers[i] || !offers[i][0] || s->from_environment >> i & 1)
			continue;
		if (settings_read(&fields[i], offers[i], (char *)s + fields[i].offset))
			*refused |= UINT64_C(1) << i;
		else
			s->from_offer |= UINT64_C(1) << i;
	}
}

static void report_refused(uint64_t refused)
{
	char accepted[160];

	for (int i = 0; i < ROWS; i++) {
		if (!(refused >> i & 1))
			continue;
		settings_accepted(&fields[i], accepted, sizeof(accepted));
		log_line(LOG_INFO, -1, "the value %s for %s is malformed and is not used: expected %s",
			 offers[i], fields[i].row.name, accepted);
	}
}

static void free_offers(void)
{
	for (int i = 0; i < ROWS; i++) {
		free(offers[i]);
		offers[i] = NULL;
	}
}

static void read_process(void)
{
	char *const *environment = settings_environment();
	size_t position = 0;
	char name[64];
	const char *nearest;
	uint64_t refused = 0;

	pthread_mutex_lock(&offers_mutex);
	offers_closed = 1;
	pthread_mutex_unlock(&offers_mutex);
	process_status = settings_parse(environment, &process_settings);
	if (process_status) {
		free_offers();
		return;
	}
	take_offers(&process_settings, &refused);
	log_open((enum log_level)process_settings.debug, process_settings.log_file);
	report_refused(refused);
	free_offers();
	while (settings_next_unknown(environment, &position, name, &nearest))
		log_line(LOG_WARN, -1, "%s is not a setting of this version and is ignored%s%s%s", name,
			 nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "?" : "");
}

int settings_get(const struct settings **out)
{
	pthread_once(&once, read_process);
	if (!process_status)
		*out = &process_settings;
	return process_status;
}
