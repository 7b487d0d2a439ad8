/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What -J FILE writes: the raw file (perf_print.c) as one object of JSON. What its first line says are members, "lines" is an array with
 * an object for each line. Numbers are numbers; what was not measured is left out.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perf.h"

enum { MAX_COLUMNS = 64 };

static void print_string(FILE *out, const char *text)
{
	fputc('"', out);
	for (; *text; text++)
		if (*text == '"' || *text == '\\')
			fprintf(out, "\\%c", *text);
		else if ((unsigned char)*text < ' ')
			fprintf(out, "\\u%04x", *text);
		else
			fputc(*text, out);
	fputc('"', out);
}

static int is_number(const char *text)
{
	const size_t length = strspn(text, "0123456789.-");
	char *end;
	return length && !text[length] && (strtod(text, &end), !*end);
}

static void print_member(FILE *out, const char *name, const char *value, int *members)
{
	fputs((*members)++ ? ", " : "", out);
	print_string(out, name);
	fputs(": ", out);
	if (is_number(value))
		fputs(value, out);
	else
		print_string(out, value);
}

/* "# corale-perf-raw 1", then NAME=VALUE; TABs between. */
static void print_head(FILE *out, char *line)
{
	int members = 0;
	print_member(out, "format", strsep(&line, "\t") + 2, &members);
	for (char *word; (word = strsep(&line, "\t"));) {
		char *value = strchr(word, '=');
		if (!value)
			continue;
		*value++ = '\0';
		print_member(out, word, value, &members);
	}
}

static void print_line(FILE *out, char *const *names, int n, char *line)
{
	int members = 0;
	fputc('{', out);
	for (int i = 0; i < n && line; i++) {
		const char *value = strsep(&line, "\t");
		if (*value && strcmp(value, "N/A"))
			print_member(out, names[i], value, &members);
	}
	fputc('}', out);
}

void perf_write_json(FILE *raw, FILE *out)
{
	char *line = NULL, *titles = NULL, *names[MAX_COLUMNS];
	size_t room = 0, title_room = 0;
	int n = 0, lines = 0;
	rewind(raw);
	fputc('{', out);
	if (getline(&line, &room, raw) > 0 && getline(&titles, &title_room, raw) > 0) {
		line[strcspn(line, "\n")] = titles[strcspn(titles, "\n")] = '\0';
		print_head(out, line);
		for (char *rest = titles, *name; n < MAX_COLUMNS && (name = strsep(&rest, "\t"));)
			names[n++] = name;
		fprintf(out, ", \"lines\": [");
		while (getline(&line, &room, raw) > 0) {
			line[strcspn(line, "\n")] = '\0';
			fputs(lines++ ? ",\n" : "\n", out);
			print_line(out, names, n, line);
		}
		fprintf(out, "\n]");
	}
	fprintf(out, "}\n");
	free(line);
	free(titles);
}
