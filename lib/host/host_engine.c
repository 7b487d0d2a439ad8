/* SPDX-License-Identifier: BSD-3-Clause */
#include "host_engine.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"

static void open_out(struct host_engine *e, int d, int channel, int queue, _Atomic uint64_t **readers)
{
	struct host_out *out = host_out(e, d, channel, queue);
	struct window_control *control = e->windows[e->local];
	int all = d == e->locals, queue_to = all ? e->local : d;
	out->headers = window_headers(&e->layout, control, queue_to, channel, queue);
	out->payload = window_payload(&e->layout, control, queue_to, channel, queue);
	out->readers = readers;
	out->can_reference = 1;
	for (int q = 0; q < e->locals; q++) {
		if (q == e->local || (!all && q != d))
			continue;
		out->readers[out->nreaders++] =
		    window_consumed(&e->layout, e->windows[q], e->local, all, channel, queue);
		struct window_control *reader = e->windows[q];
		out->crosses |= e->pids[q] != 0;
		out->can_reference &= atomic_load(&reader->can_read[e->local]);
	}
}

static void open_in(struct host_engine *e, int q, int all, int channel, int queue)
{
	struct host_in *in = host_in(e, q, all, channel, queue);
	int queue_to = all ? q : e->local;
	in->headers = window_headers(&e->layout, e->windows[q], queue_to, channel, queue);
	in->payload = window_payload(&e->layout, e->windows[q], queue_to, channel, queue);
	in->consumed = window_consumed(&e->layout, e->windows[e->local], q, all, channel, queue);
	in->pid = e->pids[q];
}

static size_t room_beside_window(const struct host_engine *e)
{
	const size_t cap = e->settings->memory_cap, window = e->layout.bytes;
	return cap > window ? cap - window : 0;
}

/* A group is all ranks at most, and an action that takes one message has a span of this rank besides. */
static int open_temps(struct host_engine *e)
{
	const size_t most = e->map.ranks < 2 ? 2 : (size_t)e->map.ranks;
	e->temps = calloc((size_t)e->channels, sizeof *e->temps);
	for (int c = 0; e->temps && c < e->channels; c++) {
		e->temps[c].sources = calloc(most, sizeof *e->temps[c].sources);
		e->temps[c].inputs = calloc(most, sizeof *e->temps[c].inputs);
		if (!e->temps[c].sources || !e->temps[c].inputs)
			return 0;
	}
	return e->temps != NULL;
}

static void close_temps(struct host_engine *e)
{
	for (int c = 0; e->temps && c < e->channels; c++) {
		free(e->temps[c].data);
		free(e->temps[c].sources);
		free(e->temps[c].inputs);
	}
	free(e->temps);
	e->temps = NULL;
}

int host_engine_open(struct host_engine *e)
{
	size_t queues = window_queue(&e->layout, e->locals + 1, 0, 0);
	size_t paths = (size_t)e->channels * PLAN_MAX_QUEUES;
	e->outs = calloc(queues, sizeof *e->outs);
	e->ins = calloc(2 * queues, sizeof *e->ins);
	e->tokens = calloc(paths, sizeof *e->tokens);
	const int temps = open_temps(e);
	e->spare.most = room_beside_window(e) / 8;
	int links =
	    e->transport ? link_table_open(&e->links, e->transport, &e->slots, e->rank, e->map.ranks) : 0;
	/* all readers' pointers in one block, of which outs[0] keeps the start */
	_Atomic uint64_t **readers = calloc(2 * paths * (size_t)e->locals, sizeof *readers);
	if (!e->outs || !e->ins || !e->tokens || !temps || links || !readers) {
		free(readers);
		host_engine_close(e);
		return log_error(CORALE_ENOMEM, e->rank, "no memory for the %zu queues of a communicator",
				 queues);
	}
	for (int d = 0; d <= e->locals; d++) {
		for (size_t p = 0; p < paths; p++) {
			int channel = (int)p / PLAN_MAX_QUEUES, queue = (int)p % PLAN_MAX_QUEUES;
			open_out(e, d, channel, queue, readers);
			readers += d == e->locals ? e->locals : 1;
			if (d < e->locals) {
				open_in(e, d, 0, channel, queue);
				open_in(e, d, 1, channel, queue);
			}
		}
	}
	return 0;
}

void host_engine_slots(struct host_engine *e)
{
	e->slots = (struct transport_slots){ .links = e->channels * PLAN_MAX_QUEUES,
					     .depth = HOST_LINK_DEPTH,
					     .bytes = e->layout.slot_bytes,
					     .cap = room_beside_window(e),
					     .used = &e->memory };
}

/* The queue on which most messages of a size class were sent, or NULL. */
static const struct host_path *busiest(const struct host_engine *e, int class)
{
	const struct host_path *most = NULL;
	uint32_t sent = 0;
	for (size_t i = 0; e->outs && i < window_queue(&e->layout, e->locals + 1, 0, 0); i++) {
		const struct host_path *path = &e->outs[i].paths[class];
		const uint32_t all = path->sent[HOST_BY_SLOT] + path->sent[HOST_BY_REFERENCE];
		most = all > sent ? path : most;
		sent = all > sent ? all : sent;
	}
	return most;
}

static void log_paths(const struct host_engine *e)
{
	for (int class = 0; class < HOST_PATH_CLASSES; class ++) {
		const struct host_path *path = busiest(e, class);
		if (path)
			log_line(LOG_INFO, e->rank,
				 "messages of %zu KB and more to a process of the node, on the busiest "
				 "queue: %u through slots, %.2f us each; %u by reference, %.2f us each",
				 host_path_bytes(class) >> 10, path->sent[HOST_BY_SLOT],
				 host_path_us(path, HOST_BY_SLOT), path->sent[HOST_BY_REFERENCE],
				 host_path_us(path, HOST_BY_REFERENCE));
	}
}

void host_engine_close(struct host_engine *e)
{
	log_paths(e);
	link_table_close(&e->links);
	free_list_close(&e->spare);
	close_temps(e);
	free(e->tokens);
	free(e->ins);
	if (e->outs)
		free(e->outs[0].readers);
	free(e->outs);
	e->tokens = NULL;
	e->ins = NULL;
	e->outs = NULL;
}

size_t host_engine_memory(const struct host_engine *e)
{
	return atomic_load(&e->memory) + atomic_load(&e->spare.bytes) + atomic_load(&e->temp_bytes);
}

int host_no_link(const struct host_engine *e, int rank)
{
	const int code = atomic_load(&e->links.code);
	char cause[320];
	snprintf(cause, sizeof cause, "%s", log_last_error());
	return log_error(code, e->rank, "%s rank %d: %s",
			 code == CORALE_ENOMEM ? "there is no memory for messages to"
					       : "there is no connection to",
			 rank, cause);
}

int host_room(const struct window_layout *layout, size_t stride)
{
	size_t most = stride ? layout->queue_bytes / stride : WINDOW_HEADERS;
	size_t room = stride ? WINDOW_CACHED / stride : WINDOW_HEADERS;
	room = room < (size_t)layout->slots ? (size_t)layout->slots : room;
	room = room < most ? room : most;
	return room < WINDOW_HEADERS ? (int)room : WINDOW_HEADERS;
}

int host_out_free(struct host_out *out, int depth)
{
	if (out->sent - out->consumed < (uint64_t)depth)
		return 1;
	uint64_t least = UINT64_MAX;
	for (int i = 0; i < out->nreaders; i++) {
		uint64_t read = atomic_load_explicit(out->readers[i], memory_order_acquire);
		least = read < least ? read : least;
	}
	out->consumed = least;
	return out->sent - least < (uint64_t)depth;
}

struct window_header *host_in_ready(const struct host_in *in)
{
	struct window_header *header = &in->headers[in->received % WINDOW_HEADERS];
	uint64_t sequence = atomic_load_explicit(&header->sequence, memory_order_acquire);
	return sequence == in->received + 1 ? header : NULL;
}
