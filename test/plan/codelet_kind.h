/* SPDX-License-Identifier: BSD-3-Clause */
/* Codelets as tests compare them: messages through slots are of one kind, fifo's, whichever runs them. NULL: a lowered plan. */
#ifndef CODELET_KIND_H
#define CODELET_KIND_H

#include "plan/codelet/row.h"

static inline const struct codelet *codelet_kind(const struct row *row)
{
	if (!row)
		return NULL;
	return row->protocol == PLAN_FIFO || row->protocol == PLAN_DIRECT ? &fifo_codelet : row->codelet;
}

static inline const char *codelet_kind_name(const struct codelet *kind)
{
	return !kind ? "lowered" : kind == &fifo_codelet ? "slots" : kind->name;
}

/* What runs a collective's calls of that kind. registered: into registered memory, if it has a row for that. */
static inline const struct codelet *codelet_of_kind(const struct codelet *kind, corale_coll coll,
						    int registered)
{
	const struct codelet *found = kind ? kind : &lowered_codelet;
	for (const struct row *row = NULL; (row = row_next_codelet(coll, row));)
		if (codelet_kind(row) == kind && (row->protocol != PLAN_DIRECT || registered))
			found = row->codelet;
	return found;
}

#endif
