/* SPDX-License-Identifier: BSD-3-Clause */
/* Rings as queues of numbered messages. */
#include <stdlib.h>
#include <string.h>

#include "plan_queue.h"

int queues_open(struct queue_table *table, int capacity)
{
	memset(table, 0, sizeof(*table));
	table->nbuckets = 1 << 10;
	table->capacity = 1;
	while (table->capacity < capacity)
		table->capacity *= 2;
	table->buckets = calloc((size_t)table->nbuckets, sizeof(*table->buckets));
	return table->buckets != NULL;
}

static void queue_destroy(struct queue *queue, int capacity)
{
	for (int i = 0; queue->slots && i < capacity; i++)
		message_release(queue->slots[i]);
	free(queue->slots);
	free(queue->read);
	free(queue->reader_program);
	free(queue);
}

void queues_close(struct queue_table *table)
{
	for (int i = 0; table->buckets && i < table->nbuckets; i++)
		if (table->buckets[i])
			queue_destroy(table->buckets[i], table->capacity);
	free(table->buckets);
}

/* to: a rank, or PLAN_ALL of a group; parity queues have slots of their own. */
static uint64_t key_of(int from, int to, int group, int rail, int channel, int number, int sync)
{
	uint64_t target =
	    to == PLAN_ALL
		? ((uint64_t)1 << 23 | (uint64_t)group << 20 | (group == PLAN_RAIL ? (uint64_t)rail : 0))
		: (uint64_t)to;
	return (uint64_t)1 << 63 | (uint64_t)from << 40 | target << 16 | (uint64_t)channel << 4 |
	       (uint64_t)number << 1 | (uint64_t)sync;
}

static struct queue **find_bucket(const struct queue_table *table, uint64_t key)
{
	uint64_t hash = key * 0x9e3779b97f4a7c15u;
	for (uint64_t i = hash ^ hash >> 32;; i++) {
		struct queue **bucket = &table->buckets[i & (uint64_t)(table->nbuckets - 1)];
		if (!*bucket || (*bucket)->key == key)
			return bucket;
	}
}

static int grow(struct queue_table *table)
{
	int old = table->nbuckets;
	struct queue **buckets = table->buckets, **wider = calloc((size_t)old * 4, sizeof(*wider));
	if (!wider)
		return 0;
	table->nbuckets = old * 4;
	table->buckets = wider;
	for (int i = 0; i < old; i++)
		if (buckets[i])
			*find_bucket(table, buckets[i]->key) = buckets[i];
	free(buckets);
	return 1;
}

static struct queue *queue_create(uint64_t key, int readers, int capacity)
{
	struct queue *queue = calloc(1, sizeof(*queue));
	if (!queue)
		return NULL;
	queue->key = key;
	queue->readers = readers;
	queue->writer = -1;
	queue->slot_mask = capacity - 1;
	queue->read = calloc((size_t)readers, sizeof(*queue->read));
	queue->reader_program = malloc((size_t)readers * sizeof(int));
	queue->slots = calloc((size_t)capacity, sizeof(*queue->slots));
	if (!queue->read || !queue->reader_program || !queue->slots) {
		queue_destroy(queue, capacity);
		return NULL;
	}
	memset(queue->reader_program, -1, (size_t)readers * sizeof(int));
	return queue;
}

/* Made with so many readers on first use. */
static struct queue *get(struct queue_table *table, uint64_t key, int readers)
{
	struct queue **bucket = find_bucket(table, key);
	if (*bucket)
		return *bucket;
	if (++table->count > table->nbuckets / 2) {
		if (!grow(table))
			return NULL;
		bucket = find_bucket(table, key);
	}
	return *bucket = queue_create(key, readers, table->capacity);
}

struct queue *queue_find(struct queue_table *table, const struct plan *plan, const struct plan_env *env,
			 int from, int to, int number, int rail)
{
	const struct plan_queue *kind = &plan->queues[number];
	const int group = kind->all ? plan_all_group(plan, number) : PLAN_WORLD;
	return get(table,
		   key_of(from, kind->all ? PLAN_ALL : to, group, rail, env->channel, number, kind->sync),
		   kind->all ? plan_group_size(&env->map, group, from) : 1);
}

int queue_reader(const struct plan *plan, const struct plan_env *env, int number)
{
	return plan->queues[number].all ? plan_group_index(&env->map, plan_all_group(plan, number), env->rank)
					: 0;
}

int queue_depth(const struct plan *plan)
{
	int depth = 1;
	for (int i = 0; i < plan->nqueues; i++)
		depth = plan->queues[i].depth > depth ? plan->queues[i].depth : depth;
	return depth;
}

/* Messages that every reader has read; a sender is no reader of its own messages to ALL (its count is LONG_MAX). */
long queue_slowest(const struct queue *queue)
{
	long slowest = queue->sent;
	for (int i = 0; i < queue->readers; i++)
		slowest = queue->read[i] < slowest ? queue->read[i] : slowest;
	return slowest;
}

/* One block: the struct, then values, reads and clock. */
struct message *message_create(size_t count, int readers, int clock_length, const int *clock)
{
	size_t values = count * sizeof(uint64_t), reads = (size_t)readers * sizeof(struct stamp);
	size_t clocks = (size_t)clock_length * sizeof(int);
	struct message *message = malloc(sizeof(*message) + values + reads + clocks);
	if (!message)
		return NULL;
	memset(message, 0, sizeof(*message));
	memset((char *)(message + 1) + values, 0, reads);
	message->references = 1;
	message->readers = message->unread = readers;
	message->count = count;
	message->values = (uint64_t *)(message + 1);
	message->reads = (struct stamp *)((char *)message->values + values);
	if (clock_length) {
		message->clock = (int *)((char *)message->reads + reads);
		memcpy(message->clock, clock, clocks);
	}
	return message;
}

void message_release(struct message *message)
{
	if (message && --message->references == 0)
		free(message);
}

void queue_put(struct queue *queue, struct message *message)
{
	struct message **slot = &queue->slots[queue->sent++ & queue->slot_mask];
	message_release(*slot);
	*slot = message;
}

int plan_all_group(const struct plan *plan, int number)
{
	for (int i = 0; i < plan->nsteps; i++)
		if (plan->steps[i].to == PLAN_EXPR_ALL && plan->steps[i].to_queue == number)
			return plan->steps[i].to_group;
	return PLAN_WORLD;
}
