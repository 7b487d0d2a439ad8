/* What a row with a codelet makes of a call: its time, its memory, its pieces. The table is in algo/row_table.c. */
#include "row.h"

#include <stddef.h>
#include <string.h>

#include "base/collectives.h"
#include "base/status.h"
#include "row_us.h"

uint64_t plan_packets_piece(uint64_t area_bytes, int words, int exchanges, uint64_t parts, int max_blocks)
{
	uint64_t room = area_bytes / (uint64_t)exchanges;
	uint64_t turn = (uint64_t)max_blocks * PLAN_CODELET_THREADS * 16;
	room = room > turn ? room / turn * turn : room;
	return (words ? room : room / 128 * 120) / PLAN_UNIT_BYTES * PLAN_UNIT_BYTES * parts;
}

int plan_in_words(corale_type type)
{
	return type_is_float(type) && corale_type_bytes(type) <= sizeof(float);
}

static int is_registered(const struct plan_call *call)
{
	return call->memory & PLAN_MEMORY_REGISTERED;
}

/* Of moves. As slow as copies into some registered buffers may be without scratch, or where no blocks may move data. */
int row_copies_direct(const struct gpu_machine *machine, const struct plan_call *call)
{
	int no_other_way =
	    (machine->zero_ctas && coll_moves(call->coll)) || !(call->memory & PLAN_MEMORY_SCRATCH);
	return (call->memory & PLAN_MEMORY_EXPORTED) || (is_registered(call) && no_other_way);
}

double row_us(const struct row *row, const struct gpu_machine *machine, const struct plan_call *call)
{
	const int over_nodes = (row->traits & ROW_OVER_NODES) != 0;
	const int refused = !over_nodes && machine->refused[call->coll] >> row->codelet & 1;
	if (over_nodes != machine->over_nodes || refused || !row->can(machine, call))
		return -1;
	return row->us ? row->us(row, machine, call) : 0;
}

int row_uses_scratch(const struct row *row, const struct gpu_machine *machine, const struct plan_call *call)
{
	if (row->engine == PLAN_CE)
		return coll_folds(call->coll) || !row_copies_direct(machine, call);
	int stages = row->protocol == PLAN_FIFO && (coll_folds(call->coll) || coll_moves(call->coll)),
	    passes = row->protocol == PLAN_DIRECT && coll_folds(call->coll);
	return (stages || passes) &&
	       row_sent(row, machine, call->bytes) >= (double)machine->rates->scratch_bytes;
}

int row_stores_direct(const struct row *row, const struct gpu_machine *machine, const struct plan_call *call)
{
	if (!is_registered(call))
		return 0;
	if (row->engine == PLAN_CE)
		return call->coll != CORALE_REDUCE_SCATTER && row_copies_direct(machine, call);
	return row->protocol == PLAN_DIRECT;
}

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
