/* SPDX-License-Identifier: BSD-3-Clause */
/* Codelets as tests compare them: messages through slots that FIFO names are of one kind, whichever runs them. NULL: a lowered plan. */
#ifndef CODELET_KIND_H
#define CODELET_KIND_H

#include "base/collectives.h"
#include "plan/codelet/row.h"

static inline const struct codelet *codelet_kind(const struct row *row)
{
	if (!row)
		return NULL;
	return row->protocol == PLAN_FIFO ? &fifo_codelet : row->codelet;
}

static inline const char *codelet_kind_name(const struct codelet *kind)
{
	return !kind ? "lowered" : kind == &fifo_codelet ? "slots" : kind->name;
}

/* What moves a collective's messages through slots by as many blocks as there are. */
static inline const struct codelet *test_slots_codelet(corale_coll coll)
{
	return coll_folds(coll) ? &bulk_codelet : &fifo_codelet;
}

/* What runs a collective's calls of that kind. */
static inline const struct codelet *codelet_of_kind(const struct codelet *kind, corale_coll coll)
{
	const struct codelet *found = kind ? kind : &lowered_codelet;
	for (const struct row *row = NULL; (row = row_next_codelet(coll, row));)
		if (codelet_kind(row) == kind)
			found = row->codelet;
	return found;
}

#endif
