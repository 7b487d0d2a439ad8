/* SPDX-License-Identifier: BSD-3-Clause */
/* Walks whatever table a program is linked with: a test has one that lacks a row. */
#include "plan/codelet/row.h"

const struct row *row_next_codelet(corale_coll coll, const struct row *row)
{
	int rows;
	const struct row *table = row_table(&rows);
	for (row = row ? row + 1 : table; row < table + rows; row++)
		if (row->codelet && row->coll == coll)
			return row;
	return NULL;
}
