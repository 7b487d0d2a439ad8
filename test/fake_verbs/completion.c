/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues and channels of the adapter: what has completed, and who is told. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "queue_pair.h"

struct completion {
	struct fake_node node;
	struct ibv_wc wc;
};

struct queue {
	struct ibv_cq cq;
	struct fake_list completions;
	_Atomic int count;
	int is_armed;
};

struct channel {
	struct ibv_comp_channel channel;
	int writer;
};

/* Of the next completion only; the queue's address is the event. */
static void notify(struct queue *q)
{
	const void *event = q;
	if (!q->is_armed || !q->cq.channel)
		return;
	q->is_armed = 0;
	if (write(((struct channel *)q->cq.channel)->writer, &event, sizeof(event)) != sizeof(event))
		abort();
}

void fake_complete(struct ibv_cq *cq, const struct ibv_wc *completion)
{
	struct queue *q = (struct queue *)cq;
	struct completion *c = calloc(1, sizeof(*c));
	if (!c)
		abort();
	c->wc = *completion;
	fake_append(&q->completions, c);
	q->count++;
	notify(q);
}

int fake_poll_cq(struct ibv_cq *cq, int most, struct ibv_wc *completions)
{
	struct queue *q = (struct queue *)cq;
	int n = 0;
	if (!q->count)
		return 0;
	fake_lock();
	for (struct completion *c; n < most && (c = fake_take(&q->completions));) {
		completions[n++] = c->wc;
		free(c);
	}
	q->count -= n;
	fake_unlock();
	return n;
}

int fake_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	struct queue *q = (struct queue *)cq;
	(void)solicited_only; /* an event too many does no harm */
	fake_lock();
	q->is_armed = 1;
	if (q->count) /* adapters tell of what came before as well: UCX does not look once more */
		notify(q);
	fake_unlock();
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int vector)
{
	struct queue *q = calloc(1, sizeof(*q));
	if (!q)
		return NULL;
	q->cq =
	    (struct ibv_cq){ .context = context, .channel = channel, .cq_context = cq_context, .cqe = cqe };
	return &q->cq;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	struct queue *q = (struct queue *)cq;
	for (struct completion *c; (c = fake_take(&q->completions));)
		free(c);
	free(q);
	return 0;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct channel *c = calloc(1, sizeof(*c));
	int ends[2];
	if (!c || pipe2(ends, O_CLOEXEC)) {
		free(c);
		return NULL;
	}
	c->channel = (struct ibv_comp_channel){ .context = context, .fd = ends[0] };
	c->writer = ends[1];
	return &c->channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	close(channel->fd);
	close(((struct channel *)channel)->writer);
	free(channel);
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	if (read(channel->fd, cq, sizeof(*cq)) != sizeof(*cq))
		return -1;
	*cq_context = (*cq)->cq_context;
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int events)
{
}
