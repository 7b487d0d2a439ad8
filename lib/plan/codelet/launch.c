/* SPDX-License-Identifier: BSD-3-Clause */
/* What launches of all codelets share: how they are cut, and how they print. */
#include "cut.h"

#include <stdio.h>

#include "base/collectives.h"

struct launch launch_of(const struct row *row, const struct gpu_machine *machine,
			const struct plan_call *call)
{
	struct launch l = { .machine = machine,
			    .codelet = row->codelet,
			    .coll = call->coll,
			    .bytes = call->bytes,
			    .words = call->words != 0,
			    .unaligned = (uint8_t)call->unaligned,
			    .direct = row_stores_direct(row, machine, call) != 0,
			    .scratch = row_uses_scratch(row, machine, call) && machine->scratch_bytes,
			    .zero_copy =
				row->codelet->zero_copy && row->codelet->zero_copy(row, machine, call) };
	launch_cut(&l);
	return l;
}

void launch_cut(struct launch *l)
{
	l->grid = (struct grid){ l->machine->max_blocks, PLAN_CODELET_THREADS };
	l->piece = l->bytes;
	l->pieces = 1;
	l->message = 0;
	l->depth = LAUNCH_SLOT_DEPTH;
	l->codelet->cut(l);
}

int launch_is_unaligned(const struct launch *l)
{
	return l->unaligned == PLAN_UNALIGNED || l->bytes % 4 != 0;
}

uint64_t launch_block(const struct launch *l)
{
	return l->bytes;
}

uint64_t launch_to_peer(const struct launch *l)
{
	return l->machine->ranks == 1 || !coll_has_data(l->coll) ? 0 : l->codelet->to_peer(l);
}

size_t launch_print(const struct launch *l, char *buf, size_t bytes)
{
	return l->codelet->print(l, buf, bytes);
}

size_t launch_print_kernel(const struct launch *l, const char *kernel, char *buf, size_t bytes)
{
	char messages[64] = "";
	if (l->message)
		snprintf(messages, sizeof messages, ", messages of %llu bytes, %u in flight",
			 (unsigned long long)l->message, l->depth);
	return launch_print_rounds(l, kernel, "piece", messages, buf, bytes);
}

size_t launch_print_rounds(const struct launch *l, const char *kernel, const char *piece,
			   const char *messages, char *buf, size_t bytes)
{
	const int n = snprintf(
	    buf, bytes,
	    "kernel %s, %d block%s of %d threads, %llu %s%s of %llu bytes%s, up to %llu bytes to a peer",
	    kernel, l->grid.blocks, l->grid.blocks == 1 ? "" : "s", l->grid.threads,
	    (unsigned long long)l->pieces, piece, l->pieces == 1 ? "" : "s", (unsigned long long)l->piece,
	    messages, (unsigned long long)launch_to_peer(l));
	return n > 0 ? (size_t)n : 0;
}
