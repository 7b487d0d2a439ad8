/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows by what they are called, and by what runs them. */
#include "plan/codelet/row.h"

#include <string.h>

int row_find(corale_coll coll, const char *name)
{
	int rows;
	const struct row *table = row_table(&rows);
	for (int i = 0; i < rows; i++)
		if (table[i].coll == coll && !strcmp(table[i].name, name))
			return i;
	return -1;
}

const struct row *row_next_codelet(corale_coll coll, const struct row *row)
{
	int rows;
	const struct row *table = row_table(&rows);
	for (row = row ? row + 1 : table; row < table + rows; row++)
		if (row->codelet && row->coll == coll)
			return row;
	return NULL;
}
