/* SPDX-License-Identifier: BSD-3-Clause */
/* Keeps the frames that wait for the socket to another process, and sends them in order. */
#define _GNU_SOURCE
#include "outbound.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "copied.h"
#include "faults.h"
#include "list.h"
#include "memory.h"
#include "sockets.h"

enum { MOST_PLACES = 64, SHUFFLE_MS = 4 };

static unsigned seed = 1;

struct outgoing {
	struct fake_node node;
	struct fake_frame frame;
	struct fake_segments segments; /* the payload, where there is no copy of it */
	unsigned char *copy;
	uint64_t copying; /* the number of a copy that is to end before it leaves */
	uint64_t due; /* it does not leave before; 0: it may */
};

/* Another process, or this one: a queue pair may be connected to its own process. */
struct process {
	struct fake_source source; /* fd: -1 while not connected */
	struct process *next;
	struct fake_list queue;
	size_t sent; /* of the first frame of the queue */
	uint16_t lid;
	int is_full; /* the socket takes no more */
};

static struct process *processes;

static size_t payload_of(const struct fake_frame *frame)
{
	return frame->kind <= FAKE_READ_DATA ? frame->bytes : 0;
}

static void free_outgoing(struct outgoing *o)
{
	free(o->copy);
	free(o);
}

static void disconnect(struct process *p)
{
	if (p->source.fd >= 0)
		close(p->source.fd);
	p->source.fd = -1;
	p->sent = 0;
	p->is_full = 0;
	for (struct outgoing *o; (o = fake_take(&p->queue));)
		free_outgoing(o);
}

static void lose(struct process *p)
{
	disconnect(p);
	fake_process_lost(p->lid);
}

/* A peer sends nothing on this socket, so what can be read is its end. */
static void become_ready(struct fake_source *source)
{
	struct process *p = (struct process *)source;
	char byte;
	if (p->source.fd < 0)
		return;
	if (recv(p->source.fd, &byte, 1, MSG_DONTWAIT) == 0) {
		lose(p);
		return;
	}
	p->is_full = 0;
	fake_wire_watch(&p->source, EPOLLIN);
}

static struct process *find_process(uint16_t lid)
{
	struct process *p = processes;
	while (p && p->lid != lid)
		p = p->next;
	if (p || !(p = calloc(1, sizeof(*p))))
		return p;
	p->source = (struct fake_source){ .fd = -1, .ready = become_ready };
	p->lid = lid;
	p->next = processes;
	processes = p;
	return p;
}

/* Not before what its queue pair has queued. */
static uint64_t due_of(const struct process *p, const struct outgoing *o)
{
	uint64_t due = fake_now_ms() + (uint64_t)fake_faults.delay_ms;
	if (fake_faults.reorder_pairs)
		due += (uint64_t)rand_r(&seed) % SHUFFLE_MS;
	for (const struct fake_node *n = p->queue.first; n; n = n->next) {
		const struct outgoing *before = (const struct outgoing *)n;
		if (before->frame.from == o->frame.from && before->due > due)
			due = before->due;
	}
	return due;
}

/* By the time when it is due; but not before a frame of which a part is sent. */
static void queue(struct process *p, struct outgoing *o)
{
	struct fake_list later = { NULL, NULL }, sooner = { NULL, NULL };
	if (!fake_faults.delay_ms && !fake_faults.reorder_pairs) {
		fake_append(&p->queue, o);
		return;
	}
	o->due = due_of(p, o);
	if (p->sent)
		fake_append(&sooner, fake_take(&p->queue));
	for (struct outgoing *other; (other = fake_take(&p->queue));)
		fake_append(other->due > o->due ? &later : &sooner, other);
	fake_append(&sooner, o);
	for (void *other; (other = fake_take(&later));)
		fake_append(&sooner, other);
	p->queue = sooner;
}

static int is_due(const struct fake_node *n)
{
	const struct outgoing *o = (const struct outgoing *)n;
	return o && (!o->due || o->due <= fake_now_ms()) && (!o->copying || fake_copier_is_done(o->copying));
}

int fake_wire_send(uint16_t lid, const struct fake_frame *frame, const void *inlined,
		   const struct fake_segments *segments)
{
	struct process *p = find_process(lid);
	struct outgoing *o = p ? calloc(1, sizeof(*o)) : NULL;
	if (o && inlined && frame->bytes && !(o->copy = malloc(frame->bytes))) {
		free(o);
		o = NULL;
	}
	if (!o)
		return ENOMEM;
	o->frame = *frame;
	o->frame.source = fake_wire_lid();
	if (o->copy)
		memcpy(o->copy, inlined, frame->bytes);
	else if (segments)
		o->segments = *segments;
	if (payload_of(frame) && fake_copied_has(&o->segments))
		o->copy = fake_copied_begin(lid, &o->frame, &o->segments, &o->copying);
	queue(p, o);
	return 0;
}

/* Copies the rest of a payload: whoever owns the memory is about to be told that nothing reads it any more. Memory that is gone reads as zeros. */
static void keep_rest(struct outgoing *o, size_t offset)
{
	struct iovec places[FAKE_MAX_SGE];
	const size_t bytes = payload_of(&o->frame);
	unsigned char *copy;
	if (o->copy || offset >= bytes || !(copy = calloc(1, bytes)))
		return;
	const int count = fake_memory_places(&o->segments, offset, bytes - offset, 0, places);
	for (int i = 0; i < count; i++) {
		memcpy(copy + offset, places[i].iov_base, places[i].iov_len);
		offset += places[i].iov_len;
	}
	o->copy = copy;
}

void fake_wire_cancel(uint16_t lid, uint32_t from)
{
	struct process *p = find_process(lid);
	struct fake_list kept = { NULL, NULL };
	if (!p)
		return;
	struct outgoing *begun = p->sent ? (struct outgoing *)p->queue.first : NULL;
	for (struct outgoing *o; (o = fake_take(&p->queue));) {
		const int is_request =
		    o->frame.from == from && o->frame.kind != FAKE_ACK && o->frame.kind != FAKE_READ_DATA;
		if (is_request && o->copying)
			fake_copier_wait(o->copying);
		if (is_request && o != begun) {
			free_outgoing(o);
			continue;
		}
		if (is_request)
			keep_rest(o, p->sent > sizeof(o->frame) ? p->sent - sizeof(o->frame) : 0);
		fake_append(&kept, o);
	}
	p->queue = kept;
}

/* The iovecs of a frame from byte `offset` on; 0: a part of the payload is not registered. */
static int place_frame(struct outgoing *o, size_t offset, struct iovec *places)
{
	const size_t header = sizeof(o->frame), bytes = payload_of(&o->frame);
	int count = 0;
	if (offset < header) {
		places[count].iov_base = (unsigned char *)&o->frame + offset;
		places[count++].iov_len = header - offset;
		offset = header;
	}
	offset -= header;
	if (offset == bytes)
		return count;
	if (o->copy) {
		places[count].iov_base = o->copy + offset;
		places[count].iov_len = bytes - offset;
		return count + 1;
	}
	const int more = fake_memory_places(&o->segments, offset, bytes - offset, 0, places + count);
	return more < 0 ? 0 : count + more;
}

/* Of the queue's first frame. */
static void replace_payload(struct process *p)
{
	struct outgoing *o = (struct outgoing *)p->queue.first;
	fprintf(stderr, "fake_verbs: the memory of a message of queue pair %u is gone; zeros are sent\n",
		o->frame.from);
	o->copy = calloc(1, o->frame.bytes);
}

static void drop_sent(struct process *p, size_t bytes)
{
	p->sent += bytes;
	for (struct outgoing *o; (o = (struct outgoing *)p->queue.first);) {
		const size_t all = sizeof(o->frame) + payload_of(&o->frame);
		if (p->sent < all)
			return;
		p->sent -= all;
		free_outgoing(fake_take(&p->queue));
	}
}

/* Sends the first frames of the queue, most: at most this number. Bytes, or minus an errno. */
static ssize_t send_some(struct process *p, int most)
{
	struct iovec places[MOST_PLACES];
	int count = 0;
	size_t offset = p->sent;
	for (struct fake_node *n = p->queue.first;
	     is_due(n) && most-- && count + FAKE_MAX_SGE + 1 <= MOST_PLACES; n = n->next) {
		const int more = place_frame((struct outgoing *)n, offset, places + count);
		if (!more)
			break;
		count += more;
		offset = 0;
	}
	const struct msghdr message = { .msg_iov = places, .msg_iovlen = (size_t)count };
	if (!count)
		return -EFAULT;
	const ssize_t sent = sendmsg(p->source.fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
	return sent < 0 ? -errno : sent;
}

static int connect_process(struct process *p)
{
	p->source.fd = fake_socket_connect(p->lid);
	if (p->source.fd < 0)
		return 0;
	fake_wire_watch(&p->source, EPOLLIN);
	return 1;
}

static void flush(struct process *p)
{
	if (p->source.fd < 0 && !connect_process(p)) {
		lose(p);
		return;
	}
	while (is_due(p->queue.first) && !p->is_full) {
		ssize_t sent = send_some(p, MOST_PLACES);
		if (sent == -EFAULT && (sent = send_some(p, 1)) == -EFAULT) {
			replace_payload(p);
		} else if (sent == -EAGAIN) {
			p->is_full = 1;
			fake_wire_watch(&p->source, EPOLLIN | EPOLLOUT);
		} else if (sent < 0) {
			lose(p);
		} else {
			drop_sent(p, (size_t)sent);
		}
	}
}

void fake_outbound_flush(void)
{
	if (fake_faults_halted())
		return;
	for (struct process *p = processes; p; p = p->next)
		if (is_due(p->queue.first) && !p->is_full)
			flush(p);
}

void fake_outbound_close(void)
{
	for (struct process *p; (p = processes);) {
		processes = p->next;
		disconnect(p);
		free(p);
	}
}
