/* SPDX-License-Identifier: BSD-3-Clause */
#include "network.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "corale.h"

static int is_name(const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (!isalnum((unsigned char)text[i]) && !strchr("_-.", text[i]))
			return 0;
	return length > 0;
}

/* A name, then port, rail and plane, each behind a colon: a number or nothing. Returns how many characters, -1: something else. */
static int read_entry(const char *text, struct adapters_name *entry)
{
	size_t at = strcspn(text, ":,");
	*entry = (struct adapters_name){ .port = 0 };
	if (at >= sizeof(entry->name) || !is_name(text, at))
		return -1;
	memcpy(entry->name, text, at);
	for (int i = 0; i < 3 && text[at] == ':'; i++) {
		const size_t digits = strspn(text + at + 1, "0123456789");
		const int number = digits && digits < 4 ? atoi(text + at + 1) : 0;
		if (digits > 3 || number > 255)
			return -1;
		entry->port = i ? entry->port : number;
		at += 1 + digits;
	}
	return text[at] && text[at] != ',' ? -1 : (int)at;
}

int adapters_names_parse(const char *text, struct adapters_names *names, char *error, size_t bytes)
{
	const char *at = text;
	*names = (struct adapters_names){ .n = 0 };
	names->is_except = *at == '^';
	at += names->is_except;
	names->is_exact = *at == '=';
	at += names->is_exact;
	for (int length; *at; at += length + (at[length] == ',')) {
		if (*at == ',') { /* as in NCCL an entry may be empty */
			length = 0;
			continue;
		}
		if (names->n == ADAPTERS_NAMES) {
			snprintf(error, bytes, "there are more than %d names", ADAPTERS_NAMES);
			return CORALE_EINVAL;
		}
		length = read_entry(at, &names->entry[names->n++]);
		if (length < 0) {
			snprintf(error, bytes, "\"%.40s\" is not name[:port]%s", at,
				 *at == '^' && names->is_exact ? " (^ comes before =)" : "");
			return CORALE_EINVAL;
		}
	}
	if (!names->n)
		snprintf(error, bytes, "it has no name");
	return names->n ? 0 : CORALE_EINVAL;
}

int adapters_names_match(const struct adapters_names *names, const char *name, int port)
{
	int found = 0;
	for (int i = 0; !found && i < names->n; i++) {
		const struct adapters_name *entry = &names->entry[i];
		const int is_same = names->is_exact ? !strcmp(entry->name, name)
						    : !strncmp(entry->name, name, strlen(entry->name));
		found = is_same && (!entry->port || entry->port == port);
	}
	return found != names->is_except;
}

int adapters_devices_match(const char *list, const char *name, int port)
{
	const int is_except = *list == '^';
	char device[64];
	int found = 0;
	snprintf(device, sizeof(device), port ? "%s:%d" : "%s", name, port);
	for (const char *at = list + is_except; !found && *at;) {
		const size_t length = strcspn(at, ",");
		found = (length == 3 && !strncmp(at, "all", 3)) ||
			(length == strlen(device) && !strncmp(at, device, length));
		at += length + (at[length] == ',');
	}
	return found != is_except;
}
