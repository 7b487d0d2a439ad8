/* SPDX-License-Identifier: BSD-3-Clause */
/* Queues of things whose first member is a struct fake_node. */
#ifndef FAKE_VERBS_LIST_H
#define FAKE_VERBS_LIST_H

#include <stddef.h>

struct fake_node {
	struct fake_node *next;
};

struct fake_list {
	struct fake_node *first, *last;
};

static inline void fake_append(struct fake_list *list, void *item)
{
	struct fake_node *node = (struct fake_node *)item;
	node->next = NULL;
	if (list->first)
		list->last->next = node;
	else
		list->first = node;
	list->last = node;
}

/* The first item, which is no longer in the list, or NULL. */
static inline void *fake_take(struct fake_list *list)
{
	struct fake_node *node = list->first;
	if (node)
		list->first = node->next;
	return node;
}

#endif
