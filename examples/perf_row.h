/* SPDX-License-Identifier: BSD-3-Clause */
/* A line of a table whose columns stand in groups. */
#ifndef PERF_ROW_H
#define PERF_ROW_H

/* What stands in one column: its titles in the two lines of the header, or a value. */
struct cell {
	const char *title, *unit;
	int width;
	char text[24];
};
enum { MAX_CELLS = 20 };
struct row {
	int n, starts[MAX_CELLS]; /* starts: 1: a group of columns begins here */
	const char *groups[MAX_CELLS]; /* its title */
	struct cell cells[MAX_CELLS];
};

/* The next columns belong to a group. */
void row_begin_group(struct row *row, const char *title);
/* The text is "-" until it is written. */
char *row_add_cell(struct row *row, const char *title, const char *unit, int width);
/* A value as its column has room, at least two digits of it: what is small has more behind the point. "-" if it is not above 0. */
void row_add_number(struct row *row, const char *title, const char *unit, int width, double value);
void row_add_integer(struct row *row, const char *title, const char *unit, int width, long long value);
void row_add_text(struct row *row, const char *title, int width, const char *text);
/* mark: in front of the first column, "#" of a title. */
void row_print(const struct row *row, char mark);
/* The titles: of groups, over the middle of theirs, then of columns, then units. */
void row_print_titles(struct row *row);

#endif
