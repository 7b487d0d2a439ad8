/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim_heap.h"

static int earlier(const struct sim_ready *a, const struct sim_ready *b)
{
	return a->ns < b->ns || (a->ns <= b->ns && a->context < b->context);
}

static void swap(struct sim_ready *a, struct sim_ready *b)
{
	const struct sim_ready x = *a;
	*a = *b;
	*b = x;
}

void sim_heap_push(struct sim_heap *heap, int context, double ns)
{
	struct sim_ready *at = heap->at;
	int i = heap->n++;
	at[i] = (struct sim_ready){ ns, context };
	for (; i && earlier(&at[i], &at[(i - 1) / 2]); i = (i - 1) / 2)
		swap(&at[i], &at[(i - 1) / 2]);
}

int sim_heap_pop(struct sim_heap *heap)
{
	struct sim_ready *at = heap->at;
	const int top = at[0].context;
	int i = 0;
	at[0] = at[--heap->n];
	for (;;) {
		int least = 2 * i + 1;
		if (least + 1 < heap->n && earlier(&at[least + 1], &at[least]))
			least++;
		if (least >= heap->n || !earlier(&at[least], &at[i]))
			return top;
		swap(&at[i], &at[least]);
		i = least;
	}
}
