/* SPDX-License-Identifier: BSD-3-Clause */
/* Fold trees, interned: equal trees are the same node, so that equal results are equal numbers. */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "check_internal.h"

/* Room for one node more, and its children. */
static int reserve(struct fold_table *table, int children)
{
	const size_t nodes = (size_t)table->count + 1;
	size_t masks = table->capacity;
	return array_grow(&table->masks, &masks, nodes, (size_t)table->words * sizeof(*table->masks)) &&
	       array_grow(&table->nodes, &table->capacity, nodes, sizeof(*table->nodes)) &&
	       array_grow(&table->children, &table->children_capacity, (size_t)(table->nchildren + children),
			  sizeof(*table->children));
}

static uint64_t *mask_of(const struct fold_table *table, int node)
{
	return table->masks + (size_t)node * (size_t)table->words;
}

int fold_open(struct fold_table *table, int ranks)
{
	memset(table, 0, sizeof(*table));
	table->ranks = ranks;
	table->words = (ranks + 63) / 64;
	table->nbuckets = 1 << 12;
	table->buckets = calloc((size_t)table->nbuckets, sizeof(int));
	if (!table->buckets)
		return 0;
	for (int r = 0; r < ranks; r++) {
		if (!reserve(table, 0))
			return 0;
		table->nodes[r] = (struct fold_node){ .rank = r, .contributors = 1 };
		memset(mask_of(table, r), 0, (size_t)table->words * sizeof(uint64_t));
		mask_of(table, r)[r / 64] |= (uint64_t)1 << r % 64;
		table->count++;
	}
	return 1;
}

void fold_close(struct fold_table *table)
{
	free(table->nodes);
	free(table->masks);
	free(table->children);
	free(table->buckets);
}

static uint64_t hash_of(const int *operands, int n, int final)
{
	uint64_t hash = (uint64_t)n * 2 + (uint64_t) final;
	for (int i = 0; i < n; i++)
		hash = (hash ^ (uint64_t)operands[i]) * 0x9e3779b97f4a7c15u, hash ^= hash >> 29;
	return hash;
}

static int is_made_of(const struct fold_table *table, int node, const int *operands, int n, int final)
{
	const struct fold_node *x = &table->nodes[node];
	return x->children == n && x->final == final &&
	       !memcmp(table->children + x->first, operands, (size_t)n * sizeof(int));
}

static int *find_bucket(const struct fold_table *table, const int *operands, int n, int final)
{
	uint64_t i = hash_of(operands, n, final);
	for (;; i++) {
		int *bucket = &table->buckets[i & (uint64_t)(table->nbuckets - 1)];
		if (!*bucket || is_made_of(table, *bucket - 1, operands, n, final))
			return bucket;
	}
}

static int grow_buckets(struct fold_table *table)
{
	if (table->count < table->nbuckets / 2)
		return 1;
	free(table->buckets);
	table->nbuckets *= 4;
	table->buckets = calloc((size_t)table->nbuckets, sizeof(int));
	if (!table->buckets)
		return 0;
	for (int i = table->ranks; i < table->count; i++) {
		const struct fold_node *x = &table->nodes[i];
		*find_bucket(table, table->children + x->first, x->children, x->final) = i + 1;
	}
	return 1;
}

static int add_node(struct fold_table *table, const int *operands, int n, int final)
{
	if (!reserve(table, n))
		return FOLD_NOMEM;
	struct fold_node node = { .first = table->nchildren, .children = n, .rank = -1, .final = final };
	uint64_t *mask = mask_of(table, table->count);
	memset(mask, 0, (size_t)table->words * sizeof(*mask));
	for (int i = 0; i < n; i++) {
		const uint64_t *operand = mask_of(table, operands[i]);
		node.contributors += table->nodes[operands[i]].contributors;
		for (int w = 0; w < table->words; w++) {
			if (mask[w] & operand[w])
				return FOLD_TWICE;
			mask[w] |= operand[w];
		}
		if (table->nodes[operands[i]].final)
			return FOLD_FINISHED;
	}
	memcpy(table->children + table->nchildren, operands, (size_t)n * sizeof(int));
	table->nchildren += n;
	table->nodes[table->count] = node;
	return table->count++;
}

/* Two operands commute bit for bit under every operator, so their order is no difference. */
int fold_make(struct fold_table *table, const int *operands, int n, int final)
{
	int sorted[2];
	if (n == 1 && !final)
		return operands[0];
	if (n == 2) {
		sorted[0] = operands[operands[0] > operands[1]];
		sorted[1] = operands[operands[0] <= operands[1]];
		operands = sorted;
	}
	int *bucket = find_bucket(table, operands, n, final);
	if (*bucket)
		return *bucket - 1;
	int node = add_node(table, operands, n, final);
	if (node < 0)
		return node;
	*bucket = node + 1;
	return grow_buckets(table) ? node : FOLD_NOMEM;
}

int fold_is_complete(const struct fold_table *table, int node)
{
	return table->nodes[node].final && table->nodes[node].contributors == table->ranks;
}

int fold_in_rank_order(const struct fold_table *table, int node)
{
	const struct fold_node *x = &table->nodes[node];
	if (x->children != table->ranks)
		return x->rank >= 0;
	for (int i = 0; i < x->children; i++)
		if (table->children[x->first + i] != i)
			return 0;
	return 1;
}
