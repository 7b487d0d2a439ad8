/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages in flight on the queues of a plan, for the checker and the simulator: an instance of one is from one
 * rank to another, or to ALL of a group, in one channel. Queues are found by who sends to whom and made on first use.
 */
#ifndef PLAN_QUEUE_H
#define PLAN_QUEUE_H

#include "plan/plan_eval.h"

struct stamp {
	int context, time; /* an event: the time-th action of a context */
};

struct message {
	int references; /* who holds this struct: its slot, the sender's list of stable messages */
	int readers, unread;
	int payload;
	size_t count;
	uint64_t *values;
	int *clock; /* of its sending; NULL without clocks */
	union { /* by reader */
		struct stamp *reads; /* the checker's: who has read it */
		double *there_ns; /* the simulator's: when it is there */
	};
	double freed_ns; /* the simulator's: when its slot was free again */
};

_Static_assert(sizeof(struct stamp) == sizeof(double), "one block has room for either, by reader");

/* A queue of a plan from one rank to another or to ALL of a group, per channel. */
struct queue {
	uint64_t key;
	long sent;
	int readers, writer; /* writer: the call and program that sent last, -1 before the first */
	long *read; /* by reader */
	int *reader_program; /* by reader: the call and program that read last, -1 before the first */
	struct message **slots; /* message k is in slot k mod slots_mask + 1 */
	int slot_mask;
	int sleeper; /* the simulator's: the context + 1 that slept last on it */
};

struct queue_table {
	struct queue **buckets;
	int nbuckets, count, capacity; /* capacity: messages that a queue can hold */
};

int queues_open(struct queue_table *table, int capacity);
void queues_close(struct queue_table *table);
/* The queue from rank `from` to rank `to` (or to ALL of from's group) that a plan means by a number, in env's channel, made on first use; NULL when
 * memory is out. */
struct queue *queue_find(struct queue_table *table, const struct plan *plan, const struct plan_env *env,
			 int from, int to, int number, int rail);
/* Which of the queue's readers env's rank is. */
int queue_reader(const struct plan *plan, const struct plan_env *env, int number);
/* The most messages that are in flight on one queue of the plan. */
int queue_depth(const struct plan *plan);
long queue_slowest(const struct queue *queue);
struct message *message_create(size_t count, int readers, int clock_length, const int *clock);
void message_release(struct message *message);
void queue_put(struct queue *queue, struct message *message);

/* Members of the group of an action's `from` or `to`: the rank itself, or for ALL every member; the i-th of them, PLAN_NONE for oneself among ALL. */
static inline int queue_peers(const struct plan_env *env, int peer, int group)
{
	return peer == PLAN_NONE ? 0 : peer != PLAN_ALL ? 1 : plan_group_size(&env->map, group, env->rank);
}

static inline int queue_peer_at(const struct plan_env *env, int rail, int peer, int group, int i)
{
	if (peer != PLAN_ALL)
		return peer;
	const int rank = plan_group_member(&env->map, group, env->rank, rail, i);
	return rank == env->rank ? PLAN_NONE : rank;
}

/* The group whose members share the messages to ALL of a queue. */
int plan_all_group(const struct plan *plan, int number);

#endif
