/* SPDX-License-Identifier: BSD-3-Clause */
/* One value of the settings table: text to value and back. */
#ifndef SETTINGS_VALUE_H
#define SETTINGS_VALUE_H

#include <stdint.h>

#include "settings.h"

enum settings_kind {
	SETTINGS_INTEGER, /* int, min .. max */
	SETTINGS_SIZE, /* size_t, min .. max bytes; 0 as well if min is 0; K, M, G, T suffixes */
	SETTINGS_DECIMAL, /* double, 0 .. max, up to 9 decimals */
	SETTINGS_BOOLEAN, /* int: 0, 1, no, yes */
	SETTINGS_CHOICE, /* int: index of a word of row.values */
	SETTINGS_NAME, /* char[]: one of those words */
	SETTINGS_TEXT /* char[]: anything that fits */
};

struct settings_field {
	struct settings_row row;
	enum settings_kind kind;
	size_t offset, bytes; /* of the member of struct settings */
	uint64_t min, max;
	uint64_t multiple; /* SIZE: of what it must be a multiple; 0: of nothing */
	int minus_one; /* DECIMAL: -1 is accepted too */
	int for_tests; /* see settings_is_for_tests */
};

/* text into *value (of the field's type); 0, or CORALE_ESETTING without a log line. */
int settings_read(const struct settings_field *field, const char *text, void *value);
/* A value as settings_read would accept it. */
void settings_print(const struct settings_field *field, const void *value, char *buf, size_t bytes);
/* What settings_read accepts, for people. */
void settings_accepted(const struct settings_field *field, char *buf, size_t bytes);
/* The row's name that is nearest to name by edit distance behind a common prefix, NULL if none is near. */
const char *settings_nearest(const struct settings_field *fields, int n, const char *name, size_t prefix);

#endif
