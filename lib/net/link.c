/* SPDX-License-Identifier: BSD-3-Clause */
#include "link.h"

#include <stdio.h>
#include <stdlib.h>

int link_map(struct transport *t, void *at, size_t bytes, int reads_back, struct link_slab **out,
	     char *why_not, size_t why_bytes)
{
	if (t->ops->links->map)
		return t->ops->links->map(t, at, bytes, reads_back, out, why_not, why_bytes);
	snprintf(why_not, why_bytes, "transport %s takes slots in host memory alone", t->row->name);
	return CORALE_ENOTSUP;
}

int link_open(struct transport *t, const struct link_params *params, struct link **out)
{
	return t->ops->links->open(t, params, out);
}

int link_table_open(struct link_table *table, struct transport *t, const struct transport_slots *slots,
		    int rank, int ranks)
{
	*table = (struct link_table){
		.transport = t, .ops = t->ops->links, .slots = slots, .rank = rank, .ranks = ranks
	};
	table->rows = calloc((size_t)ranks, sizeof *table->rows);
	return table->rows ? 0 : CORALE_ENOMEM;
}

void link_table_close(struct link_table *table)
{
	for (int r = 0; table->rows && r < table->ranks; r++) {
		struct link **row = table->rows[r];
		for (int index = 0; row && table->ops->free && index < table->slots->links; index++)
			if (row[index])
				table->ops->free(row[index]);
		free(row);
	}
	free(table->rows);
	table->rows = NULL;
}

struct link *link_table_get(struct link_table *table, int rank, int index)
{
	struct link **row = atomic_load_explicit(&table->rows[rank], memory_order_acquire);
	if (!row) { /* threads may come at once, each for its own links of the row */
		struct link **fresh = calloc((size_t)table->slots->links, sizeof *fresh);
		if (!fresh) {
			atomic_store(&table->code, log_error(CORALE_ENOMEM, table->rank,
							     "no memory for links to rank %d", rank));
			return NULL;
		}
		if (atomic_compare_exchange_strong(&table->rows[rank], &row, fresh))
			row = fresh;
		else
			free(fresh);
	}
	if (!row[index]) {
		const struct link_params params = {
			.rank = table->rank, .peer = rank, .index = index, .slots = table->slots
		};
		const int ret = link_open(table->transport, &params, &row[index]);
		if (ret) {
			atomic_store(&table->code, ret);
			row[index] = NULL;
		}
	}
	return row[index];
}

int link_table_unsent(const struct link_table *table, int first, int last)
{
	for (int r = 0; table->ops->sent && r < table->ranks; r++) {
		struct link **row = table->rows[r];
		for (int index = first; row && index < last; index++)
			if (row[index] && !table->ops->sent(row[index]))
				return r;
	}
	return -1;
}
