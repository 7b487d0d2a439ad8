/* SPDX-License-Identifier: BSD-3-Clause */
/* The device fake0, as programs find, open and ask it. */
#define _GNU_SOURCE
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "faults.h"
#include "queue_pair.h"

/* A context is asked for extensions behind it (verbs_get_ctx), of which this one has none: abi_compat is NULL. */
struct context {
	struct ibv_context context;
	struct context *next;
	int event_writer;
};

static struct context *contexts; /* that are open */

static struct ibv_device device = { .node_type = IBV_NODE_CA,
				    .transport_type = IBV_TRANSPORT_IB,
				    .name = "fake0",
				    .dev_name = "uverbs0",
				    .dev_path = "/sys/class/infiniband_verbs/uverbs0",
				    .ibdev_path = "/sys/class/infiniband/fake0" };

struct ibv_device **ibv_get_device_list(int *count)
{
	struct ibv_device **list = calloc(2, sizeof(*list));
	fake_faults_read();
	const int has_device = list && fake_faults.device && !fake_faults_is_dead();
	if (has_device)
		list[0] = &device;
	if (count)
		*count = has_device;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

const char *ibv_get_device_name(struct ibv_device *d)
{
	return d->name;
}

/* librdmacm asks: it finds no device of its own here. */
int ibv_get_device_index(struct ibv_device *d)
{
	return -1;
}

/* Of each process another one: it stands for a host of its own. */
__be64 ibv_get_device_guid(struct ibv_device *d)
{
	return htobe64(0x0200fa4e00000000u + fake_wire_lid());
}

static int open_events(struct context *c)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC))
		return errno;
	c->context.async_fd = ends[0];
	c->event_writer = ends[1];
	return 0;
}

struct ibv_context *ibv_open_device(struct ibv_device *d)
{
	struct context *c = calloc(1, sizeof(*c));
	if (!fake_faults.open) {
		errno = ENODEV;
		goto free_context;
	}
	if (!c || (errno = open_events(c)))
		goto free_context;
	if ((errno = fake_wire_open()))
		goto close_events;
	c->context.device = d;
	c->context.cmd_fd = -1;
	c->context.num_comp_vectors = 1;
	c->context.ops.poll_cq = fake_poll_cq;
	c->context.ops.req_notify_cq = fake_req_notify_cq;
	c->context.ops.post_send = fake_post_send;
	c->context.ops.post_recv = fake_post_recv;
	c->context.ops.post_srq_recv = fake_post_srq_recv;
	pthread_mutex_init(&c->context.mutex, NULL);
	fake_lock();
	c->next = contexts;
	contexts = c;
	fake_unlock();
	return &c->context;
close_events:
	close(c->context.async_fd);
	close(c->event_writer);
free_context:
	free(c);
	return NULL;
}

static void forget(const struct context *c)
{
	struct context **at = &contexts;
	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
}

int ibv_close_device(struct ibv_context *context)
{
	fake_lock();
	forget((struct context *)context);
	fake_unlock();
	fake_wire_close();
	close(context->async_fd);
	close(((struct context *)context)->event_writer);
	pthread_mutex_destroy(&context->mutex);
	free(context);
	return 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct ibv_pd *pd = calloc(1, sizeof(*pd));
	if (pd)
		pd->context = context;
	return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	free(pd);
	return 0;
}

/* ---- Events ---- */

static void tell(const struct context *c, const struct ibv_async_event *event)
{
	if (write(c->event_writer, event, sizeof(*event)) != sizeof(*event))
		abort();
}

/* A queue pair with a shared receive queue may be destroyed once this event has come. */
void fake_event_last_receive(struct fake_qp *q)
{
	const struct ibv_async_event event = { .element.qp = &q->qp,
					       .event_type = IBV_EVENT_QP_LAST_WQE_REACHED };
	tell((const struct context *)q->qp.context, &event);
}

void fake_event_all(enum ibv_event_type type)
{
	const struct ibv_async_event event = { .element.port_num = 1, .event_type = type };
	for (const struct context *c = contexts; c; c = c->next)
		tell(c, &event);
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	return read(context->async_fd, event, sizeof(*event)) == sizeof(*event) ? 0 : -1;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
}
