/* SPDX-License-Identifier: BSD-3-Clause */
/* A heap of contexts: the earliest first, of those at one time the lowest. */
#ifndef SIM_HEAP_H
#define SIM_HEAP_H

struct sim_ready {
	double ns;
	int context;
};

struct sim_heap {
	struct sim_ready *at; /* the user's: room for all */
	int n;
};

void sim_heap_push(struct sim_heap *heap, int context, double ns);
int sim_heap_pop(struct sim_heap *heap);

#endif
