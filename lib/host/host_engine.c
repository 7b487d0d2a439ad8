#include "host_engine.h"

#include <stdlib.h>

#include "base/log.h"

static void open_out(struct host_engine *e, int d, int channel, int ring, _Atomic uint64_t **readers)
{
	struct host_out *out = host_out(e, d, channel, ring);
	struct window_control *control = e->windows[e->local];
	int all = d == e->locals;
	out->headers = window_headers(&e->layout, control, d, channel, ring);
	out->payload = window_payload(&e->layout, control, d, channel, ring);
	out->readers = readers;
	out->can_reference = 1;
	for (int q = 0; q < e->locals; q++) {
		if (q == e->local || (!all && q != d))
			continue;
		out->readers[out->nreaders++] =
		    window_consumed(&e->layout, e->windows[q], e->local, all, channel, ring);
		struct window_control *reader = e->windows[q];
		out->crosses |= e->pids[q] != 0;
		out->can_reference &= atomic_load(&reader->can_read[e->local]);
	}
}

static void open_in(struct host_engine *e, int q, int all, int channel, int ring)
{
	struct host_in *in = host_in(e, q, all, channel, ring);
	int lane_to = all ? e->locals : e->local;
	in->headers = window_headers(&e->layout, e->windows[q], lane_to, channel, ring);
	in->payload = window_payload(&e->layout, e->windows[q], lane_to, channel, ring);
	in->consumed = window_consumed(&e->layout, e->windows[e->local], q, all, channel, ring);
	in->pid = e->pids[q];
}

int host_engine_open(struct host_engine *e)
{
	size_t lanes = window_lane(&e->layout, e->locals + 1, 0, 0);
	size_t paths = (size_t)e->channels * PLAN_MAX_RINGS;
	e->outs = calloc(lanes, sizeof *e->outs);
	e->ins = calloc(2 * lanes, sizeof *e->ins);
	e->tokens = calloc(paths, sizeof *e->tokens);
	e->nets = calloc((size_t)e->map.ranks, sizeof *e->nets);
	/* all readers' pointers in one block, of which outs[0] keeps the start */
	_Atomic uint64_t **readers = calloc(2 * paths * (size_t)e->locals, sizeof *readers);
	if (!e->outs || !e->ins || !e->tokens || !e->nets || !readers) {
		free(readers);
		host_engine_close(e);
		return log_error(CORALE_ENOMEM, e->rank, "no memory for the %zu lanes of a communicator",
				 lanes);
	}
	for (int d = 0; d <= e->locals; d++) {
		for (size_t p = 0; p < paths; p++) {
			int channel = (int)p / PLAN_MAX_RINGS, ring = (int)p % PLAN_MAX_RINGS;
			open_out(e, d, channel, ring, readers);
			readers += d == e->locals ? e->locals : 1;
			if (d < e->locals) {
				open_in(e, d, 0, channel, ring);
				open_in(e, d, 1, channel, ring);
			}
		}
	}
	return 0;
}

static void free_net(struct host_net *net)
{
	if (!net)
		return;
	for (int i = 0; i < HOST_NET_DEPTH; i++) {
		free(net->in[i].staging);
		free(net->out[i].staging);
	}
	free(net);
}

void host_engine_close(struct host_engine *e)
{
	size_t paths = (size_t)e->channels * PLAN_MAX_RINGS;
	for (int r = 0; e->nets && r < e->map.ranks; r++) {
		struct host_net **row = e->nets[r];
		for (size_t p = 0; row && p < paths; p++)
			free_net(row[p]);
		free(row);
	}
	free(e->nets);
	free(e->tokens);
	free(e->ins);
	if (e->outs)
		free(e->outs[0].readers);
	free(e->outs);
	e->nets = NULL;
	e->tokens = NULL;
	e->ins = NULL;
	e->outs = NULL;
}

struct host_net *host_net(struct host_engine *e, int rank, int channel, int ring)
{
	size_t paths = (size_t)e->channels * PLAN_MAX_RINGS, path = (size_t)(channel * PLAN_MAX_RINGS + ring);
	struct host_net **row = atomic_load_explicit(&e->nets[rank], memory_order_acquire);
	if (!row) { /* channels may come at once, each for its own lane of the row */
		struct host_net **fresh = calloc(paths, sizeof *fresh);
		if (!fresh)
			return NULL;
		if (atomic_compare_exchange_strong(&e->nets[rank], &row, fresh))
			row = fresh;
		else
			free(fresh);
	}
	if (!row[path])
		row[path] = calloc(1, sizeof **row);
	return row[path];
}

static int within_cap(const struct host_engine *e)
{
	return e->layout.bytes + e->memory + e->layout.slot_bytes <= e->settings->memory_cap;
}

/* A slot that has a buffer and no message in flight, or next's own. */
static struct host_net_slot *find_spare(const struct host_net_slot *slots, uint64_t first, uint64_t next)
{
	for (uint64_t i = next; i < first + HOST_NET_DEPTH; i++)
		if (slots[i % HOST_NET_DEPTH].staging)
			return (struct host_net_slot *)(uintptr_t)&slots[i % HOST_NET_DEPTH];
	return NULL;
}

int host_net_room(const struct host_engine *e, const struct host_net_slot *slots, uint64_t first,
		  uint64_t next)
{
	return first == next || within_cap(e) || find_spare(slots, first, next);
}

unsigned char *host_staging(struct host_engine *e, struct host_net_slot *slots, uint64_t first, uint64_t next)
{
	struct host_net_slot *slot = &slots[next % HOST_NET_DEPTH], *spare;
	if (slot->staging)
		return slot->staging;
	if (!within_cap(e) && (spare = find_spare(slots, first, next))) {
		slot->staging = spare->staging;
		spare->staging = NULL;
		return slot->staging;
	}
	if (!within_cap(e) && !atomic_exchange(&e->over, 1))
		log_line(LOG_WARN, e->rank,
			 "CORALE_MEMORY_CAP allows %zu bytes; one message in flight to each peer of another "
			 "node takes "
			 "more, from here on: raise it, or lower CORALE_SLOT_BYTES (%zu)",
			 e->settings->memory_cap, e->layout.slot_bytes);
	slot->staging = malloc(e->layout.slot_bytes);
	e->memory += slot->staging ? e->layout.slot_bytes : 0;
	return slot->staging;
}

int host_room(const struct window_layout *layout, size_t stride)
{
	enum { CACHED_BYTES = 128 << 10 };
	size_t most = stride ? (size_t)layout->slots * layout->slot_bytes / stride : WINDOW_HEADERS;
	size_t room = stride ? CACHED_BYTES / stride : WINDOW_HEADERS;
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

int host_net_free(struct host_net *net, int depth)
{
	while (net->reaped < net->sent) {
		struct host_net_slot *slot = &net->out[net->reaped % HOST_NET_DEPTH];
		if (!atomic_load_explicit(&slot->request.done, memory_order_acquire))
			break;
		net->direct -= slot->target != slot->staging;
		net->reaped++;
	}
	return net->sent - net->reaped < (uint64_t)depth;
}

struct window_header *host_in_ready(const struct host_in *in)
{
	struct window_header *header = &in->headers[in->received % WINDOW_HEADERS];
	uint64_t sequence = atomic_load_explicit(&header->sequence, memory_order_acquire);
	return sequence == in->received + 1 ? header : NULL;
}
