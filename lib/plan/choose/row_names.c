/* SPDX-License-Identifier: BSD-3-Clause */
/* Protocols by their names, and what settings leave of the rows. */
#include <string.h>

#include "base/collectives.h"
#include "plan/codelet/row.h"
#include "planner.h"

/* Of the policy `efficient`. Beside the backward pass of a training step on 2 H200, whose 57.2 ms hide nothing of calls without a
 * limit, 32, 16, 8 and 4 blocks have 11, 34, 71 and 79 % of the calls' time hidden (docs/lab/gpu-tables.md). */
enum { EFFICIENT_BLOCKS = 4 };

static const char *const protocols[PLAN_PROTOCOLS] = { "any",  "LL", "LL128", "SENTINEL",
						       "FIFO", "CE", "BULK",  "granted" };

const char *plan_protocol_name(enum plan_protocol protocol)
{
	return protocols[protocol];
}

enum plan_protocol plan_protocol_forced(const char *name)
{
	int rows;
	const struct row *table = row_table(&rows);
	if (!strcmp(protocols[PLAN_LL], name))
		return PLAN_LL;
	for (const struct row *row = table; row < table + rows; row++)
		if (row->codelet && row->protocol != PLAN_GRANTED && !strcmp(protocols[row->protocol], name))
			return row->protocol;
	return PLAN_ANY_PROTOCOL;
}

int plan_words_forced(const struct settings *s)
{
	return plan_protocol_forced(s->proto) == PLAN_LL;
}

_Static_assert(CODELETS <= 32, "a bit for each codelet in gpu_machine.refused");

void gpu_machine_apply(struct gpu_machine *machine, const struct settings *s)
{
	int rows;
	const struct row *table = row_table(&rows);
	machine->zero_ctas = s->cta_policy == SETTINGS_CTA_ZERO;
	machine->forced = plan_protocol_forced(s->proto);
	machine->words_only |= plan_words_forced(s);
	machine->zero_copy = s->zero_copy && !machine->words_only ? machine->zero_copy : 0;
	for (int i = 0; i < rows; i++) {
		const corale_coll coll = table[i].coll;
		/* An all_to_all_v has no lines that a link could tear. */
		const int runs =
		    s->codelets && planner_algo_allows(s->algo, i) &&
		    (!machine->words_only || coll_is_uneven(coll) ||
		     (machine->host_window && !plan_words_forced(s) && table[i].protocol == PLAN_BULK));
		if (table[i].codelet && !runs)
			machine->refused[coll] |= 1u << table[i].codelet->index;
	}
}

void gpu_machine_refuse(struct gpu_machine *machine, const struct codelet *codelet)
{
	for (int coll = 0; coll < CORALE_NUM_COLLS; coll++)
		machine->refused[coll] |= 1u << codelet->index;
}

int plan_most_blocks(const struct plan_blocks_asked *asked)
{
	int most = asked->in_host ? PLAN_HOST_WINDOW_BLOCKS : asked->usual;
	if (asked->efficient)
		most = EFFICIENT_BLOCKS;
	if (most && most < asked->least)
		most = asked->least;
	if (asked->given)
		most = asked->given;
	return asked->in_host && most > PLAN_MOST_HOST_WINDOW_BLOCKS ? PLAN_MOST_HOST_WINDOW_BLOCKS : most;
}
