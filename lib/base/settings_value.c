/* SPDX-License-Identifier: BSD-3-Clause */
#include "settings_value.h"

#include <string.h>
#include <strings.h>

#include "corale.h"

static int is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Digits into *value, *text moved behind them. The C library's readers take signs, spaces and the locale's mind. */
static int read_digits(const char **text, uint64_t *value)
{
	uint64_t v = 0;

	if (!is_digit(**text))
		return CORALE_ESETTING;
	for (; is_digit(**text); ++*text) {
		unsigned digit = (unsigned)(**text - '0');
		if (v > (UINT64_MAX - digit) / 10)
			return CORALE_ESETTING;
		v = v * 10 + digit;
	}
	*value = v;
	return 0;
}

static int read_size(const struct settings_field *field, const char *text, uint64_t *value)
{
	static const char suffixes[] = "KMGT";
	uint64_t v;

	if (read_digits(&text, &v))
		return CORALE_ESETTING;
	if (*text && field->kind == SETTINGS_SIZE) {
		const char *suffix = strchr(suffixes, *text >= 'a' ? *text - ('a' - 'A') : *text);
		int shift = suffix ? 10 * (int)(suffix - suffixes + 1) : 0;
		if (!suffix || v > UINT64_MAX >> shift)
			return CORALE_ESETTING;
		v <<= shift;
		text++;
	}
	if (*text || v < field->min || v > field->max || (field->multiple && v % field->multiple))
		return CORALE_ESETTING;
	*value = v;
	return 0;
}

static int read_decimal(const struct settings_field *field, const char *text, double *value)
{
	uint64_t whole, fraction = 0, scale = 1;

	if (field->minus_one && !strcmp(text, "-1")) {
		*value = -1;
		return 0;
	}
	if (read_digits(&text, &whole))
		return CORALE_ESETTING;
	if (*text == '.') {
		for (text++; is_digit(*text) && scale < 1000000000; text++, scale *= 10)
			fraction = fraction * 10 + (unsigned)(*text - '0');
		if (scale == 1)
			return CORALE_ESETTING;
	}
	if (*text || whole > field->max || (whole == field->max && fraction))
		return CORALE_ESETTING;
	*value = (double)whole + (double)fraction / (double)scale;
	return 0;
}

/* The word of that index in a list such as "no, yes, auto", and its length; NULL behind the last. */
static const char *word_at(const char *list, int index, size_t *length)
{
	for (; index && list; index--)
		list = (list = strchr(list, ',')) ? list + 2 : NULL;
	*length = list ? strcspn(list, ",") : 0;
	return list;
}

/* Index of text among the words of a list, -1 if it is none of them. */
static int find_word(const char *list, const char *text)
{
	size_t length;
	const char *word;

	for (int i = 0; (word = word_at(list, i, &length)); i++)
		if (strlen(text) == length && !strncasecmp(word, text, length))
			return i;
	return -1;
}

static void print_word(const struct settings_field *field, int index, char *buf, size_t bytes)
{
	size_t length;
	const char *word = word_at(field->row.values, index, &length);

	snprintf(buf, bytes, "%.*s", (int)length, word ? word : "");
}

int settings_read(const struct settings_field *field, const char *text, void *value)
{
	uint64_t number;
	int word;

	switch (field->kind) {
	case SETTINGS_INTEGER:
	case SETTINGS_SIZE:
		if (read_size(field, text, &number))
			return CORALE_ESETTING;
		if (field->kind == SETTINGS_SIZE)
			*(size_t *)value = (size_t)number;
		else
			*(int *)value = (int)number;
		return 0;
	case SETTINGS_DECIMAL:
		return read_decimal(field, text, value);
	case SETTINGS_BOOLEAN:
	case SETTINGS_CHOICE:
	case SETTINGS_NAME:
		word = find_word(field->kind == SETTINGS_BOOLEAN ? "no, yes, 0, 1" : field->row.values, text);
		if (word < 0)
			return CORALE_ESETTING;
		if (field->kind == SETTINGS_NAME)
			print_word(field, word, value, field->bytes);
		else
			*(int *)value = field->kind == SETTINGS_BOOLEAN ? word & 1 : word;
		return 0;
	default:
		if (strlen(text) >= field->bytes)
			return CORALE_ESETTING;
		memcpy(value, text, strlen(text) + 1);
		return 0;
	}
}

static void print_size(uint64_t value, char *buf, size_t bytes)
{
	static const char *const suffixes[] = { "", "K", "M", "G", "T" };
	int i = 0;

	while (value && value % 1024 == 0 && i < 4) {
		value /= 1024;
		i++;
	}
	snprintf(buf, bytes, "%llu%s", (unsigned long long)value, suffixes[i]);
}

/* Not by printf, which would write the locale's decimal point. */
static void print_decimal(double value, char *buf, size_t bytes)
{
	uint64_t billionths = (uint64_t)((value < 0 ? -value : value) * 1e9 + 0.5);
	int n = snprintf(buf, bytes, "%s%llu.%09llu", value < 0 ? "-" : "",
			 (unsigned long long)(billionths / 1000000000),
			 (unsigned long long)(billionths % 1000000000));

	if (n < 0 || (size_t)n >= bytes)
		return;
	while (buf[n - 1] == '0')
		buf[--n] = '\0';
	if (buf[n - 1] == '.')
		buf[n - 1] = '\0';
}

void settings_print(const struct settings_field *field, const void *value, char *buf, size_t bytes)
{
	switch (field->kind) {
	case SETTINGS_INTEGER:
		snprintf(buf, bytes, "%d", *(const int *)value);
		break;
	case SETTINGS_SIZE:
		print_size(*(const size_t *)value, buf, bytes);
		break;
	case SETTINGS_DECIMAL:
		print_decimal(*(const double *)value, buf, bytes);
		break;
	case SETTINGS_BOOLEAN:
		snprintf(buf, bytes, "%s", *(const int *)value ? "yes" : "no");
		break;
	case SETTINGS_CHOICE:
		print_word(field, *(const int *)value, buf, bytes);
		break;
	default:
		snprintf(buf, bytes, "%s", (const char *)value);
	}
}

void settings_accepted(const struct settings_field *field, char *buf, size_t bytes)
{
	char min[24], max[24], multiple[40] = "";

	switch (field->kind) {
	case SETTINGS_INTEGER:
		snprintf(buf, bytes, "a whole number from %llu to %llu (%s)", (unsigned long long)field->min,
			 (unsigned long long)field->max, field->row.values);
		break;
	case SETTINGS_SIZE:
		print_size(field->min, min, sizeof(min));
		print_size(field->max, max, sizeof(max));
		if (field->multiple)
			snprintf(multiple, sizeof(multiple), ", a multiple of %llu",
				 (unsigned long long)field->multiple);
		snprintf(buf, bytes, "%s: from %s to %s%s, with K, M, G or T for powers of 1024",
			 field->row.values, min, max, multiple);
		break;
	case SETTINGS_DECIMAL:
		snprintf(buf, bytes, "a number from 0 to %llu, as 1.5 (%s)", (unsigned long long)field->max,
			 field->row.values);
		break;
	case SETTINGS_BOOLEAN:
		snprintf(buf, bytes, "yes, no, 1 or 0");
		break;
	case SETTINGS_TEXT:
		snprintf(buf, bytes, "at most %zu characters", field->bytes - 1);
		break;
	default:
		snprintf(buf, bytes, "one of %s", field->row.values);
	}
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Levenshtein distance of two names of at most 63 characters. */
static size_t edit_distance(const char *a, const char *b)
{
	size_t row[64], length = least(strlen(b), 63);

	for (size_t j = 0; j <= length; j++)
		row[j] = j;
	for (size_t i = 0; a[i]; i++) {
		size_t diagonal = row[0];
		row[0] = i + 1;
		for (size_t j = 0; j < length; j++) {
			size_t replaced = diagonal + (a[i] != b[j]);
			diagonal = row[j + 1];
			row[j + 1] = least(replaced, least(row[j], diagonal) + 1);
		}
	}
	return row[length];
}

const char *settings_nearest(const struct settings_field *fields, int n, const char *name, size_t prefix)
{
	size_t allowed = 2 + (strlen(name) - prefix) / 4, best = allowed + 1;
	const char *nearest = NULL;

	for (int i = 0; i < n; i++) {
		if (strncmp(name, fields[i].row.name, prefix))
			continue;
		size_t distance = edit_distance(name + prefix, fields[i].row.name + prefix);
		if (distance < best) {
			best = distance;
			nearest = fields[i].row.name;
		}
	}
	return nearest;
}
