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

static void print_messages(const struct launch *l, char *buf, size_t bytes)
{
	const unsigned long long message = l->message;
	*buf = 0;
	if (message && l->codelet->engine == PLAN_CE)
		snprintf(buf, bytes, ", chunks of %llu bytes", message);
	else if (message)
		snprintf(buf, bytes, ", messages of %llu bytes, %u in flight", message, l->depth);
}

static int print_cut(const struct launch *l, char *buf, size_t bytes)
{
	char messages[64];
	print_messages(l, messages, sizeof messages);
	return snprintf(
	    buf, bytes,
	    "kernel %s%s, %d block%s of %d threads, %llu %s%s of %llu bytes%s, up to %llu bytes to a peer",
	    l->codelet->kernels[l->variant], l->zero_copy ? " zero-copy" : "", l->grid.blocks,
	    l->grid.blocks == 1 ? "" : "s", l->grid.threads, (unsigned long long)l->pieces,
	    l->codelet->engine == PLAN_CE ? "round" : "piece", l->pieces == 1 ? "" : "s",
	    (unsigned long long)l->piece, messages, (unsigned long long)launch_to_peer(l));
}

/* The engine cuts it when it runs. */
static int print_lowered(const struct plan *plan, char *buf, size_t bytes)
{
	const int blocks = plan->nprograms * plan->channels;
	return snprintf(buf, bytes, "kernel lowered, %d block%s, chunks of %u bytes", blocks,
			blocks == 1 ? "" : "s", plan->chunk_bytes);
}

size_t launch_print(const struct launch *l, char *buf, size_t bytes)
{
	const int n = l->plan ? print_lowered(l->plan, buf, bytes) : print_cut(l, buf, bytes);
	return n > 0 ? (size_t)n : 0;
}
