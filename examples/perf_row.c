/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf_row.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void row_begin_group(struct row *row, const char *title)
{
	row->starts[row->n] = 1;
	row->groups[row->n] = title;
}

char *row_add_cell(struct row *row, const char *title, const char *unit, int width)
{
	struct cell *cell = &row->cells[row->n++];
	*cell = (struct cell){ title, unit, width, "-" };
	return cell->text;
}

void row_add_number(struct row *row, const char *title, const char *unit, int width, double value)
{
	int decimals = 2;
	char *text = row_add_cell(row, title, unit, width);
	if (!(value > 0))
		return;
	for (double least = 0.1; decimals < width - 2 && value < least; least /= 10)
		decimals++;
	if (value < 1.5 * pow(10, -decimals))
		snprintf(text, sizeof row->cells[0].text, "%.0e", value);
	else
		while (snprintf(text, sizeof row->cells[0].text, "%.*f", decimals, value) > width && decimals)
			decimals--;
}

void row_add_integer(struct row *row, const char *title, const char *unit, int width, long long value)
{
	snprintf(row_add_cell(row, title, unit, width), sizeof row->cells[0].text, "%lld", value);
}

void row_add_text(struct row *row, const char *title, int width, const char *text)
{
	snprintf(row_add_cell(row, title, "", width), sizeof row->cells[0].text, "%s", text);
}

void row_print(const struct row *row, char mark)
{
	for (int i = 0; i < row->n; i++)
		printf(row->starts[i] ? "%c %*s" : "%c%*s", i ? ' ' : mark, row->cells[i].width,
		       row->cells[i].text);
	printf("\n");
	fflush(stdout);
}

void row_print_titles(struct row *row)
{
	printf("#\n#");
	for (int i = 0; i < row->n;) {
		int width = -!i;
		const int first = i;
		do
			width += row->cells[i].width + 1 + row->starts[i];
		while (++i < row->n && !row->starts[i]);
		const char *title = row->groups[first] ? row->groups[first] : "";
		const int right = (width - (int)strlen(title)) / 2;
		printf("%*s%*s", width - right, title, i < row->n ? right : 0, "");
	}
	printf("\n");
	for (int line = 0; line < 2; line++) {
		for (int i = 0; i < row->n; i++)
			snprintf(row->cells[i].text, sizeof row->cells[i].text, "%s",
				 line ? row->cells[i].unit : row->cells[i].title);
		row_print(row, '#');
	}
	fflush(stdout);
}
