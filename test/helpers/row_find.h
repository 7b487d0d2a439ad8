/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows by what they are called. */
#ifndef ROW_FIND_H
#define ROW_FIND_H

#include <string.h>

#include "plan/codelet/row.h"

/* The first row of a collective by an algorithm of that name, or -1. */
static inline int row_find(corale_coll coll, const char *name)
{
	int rows;
	const struct row *table = row_table(&rows);
	for (int i = 0; i < rows; i++)
		if (table[i].coll == coll && !strcmp(table[i].name, name))
			return i;
	return -1;
}

#endif
