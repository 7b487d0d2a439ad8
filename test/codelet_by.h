/* SPDX-License-Identifier: BSD-3-Clause */
/* Codelets as tests name them: slots are one kind, whatever their kernels are. */
#ifndef CODELET_BY_H
#define CODELET_BY_H

#include "base/collectives.h"
#include "plan/codelet/row.h"

enum codelet_by {
	BY_PLAN,
	BY_ONE_SHOT,
	BY_TWO_SHOT,
	BY_SLOTS,
	BY_COPIES,
	BY_BULK,
	BY_CHAIN,
	BY_KINDS,
	BY_P2P = BY_KINDS + 1 /* over nodes */
};

static inline const char *by_name(enum codelet_by by)
{
	static const char *const names[BY_KINDS] = { "lowered", "one_shot", "two_shot", "slots",
						     "copies",  "bulk",     "chain" };
	return by < BY_KINDS ? names[by] : "p2p";
}

static inline enum codelet_by by_of(const struct row *row)
{
	return !row                                ? BY_PLAN
	       : row->codelet == &one_shot_codelet ? BY_ONE_SHOT
	       : row->codelet == &two_shot_codelet ? BY_TWO_SHOT
	       : row->codelet == &copies_codelet   ? BY_COPIES
	       : row->codelet == &bulk_codelet     ? BY_BULK
	       : row->codelet == &chain_codelet    ? BY_CHAIN
						   : BY_SLOTS;
}

/* registered: into registered memory. */
static inline const struct codelet *codelet_by(enum codelet_by by, corale_coll coll, int registered)
{
	if (by == BY_P2P || (by == BY_SLOTS && coll_is_uneven(coll)))
		return &p2p_codelet;
	if (by == BY_SLOTS && coll == CORALE_BROADCAST)
		return &scatter_allgather_codelet;
	if (by == BY_SLOTS && coll == CORALE_ALL_REDUCE && registered)
		return &direct_codelet;
	return by == BY_SLOTS      ? &fifo_codelet
	       : by == BY_ONE_SHOT ? &one_shot_codelet
	       : by == BY_TWO_SHOT ? &two_shot_codelet
	       : by == BY_COPIES   ? &copies_codelet
	       : by == BY_BULK     ? &bulk_codelet
	       : by == BY_CHAIN    ? &chain_codelet
				   : &lowered_codelet;
}

#endif
