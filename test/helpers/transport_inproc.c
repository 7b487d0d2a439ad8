/* SPDX-License-Identifier: BSD-3-Clause */
/* The transport between threads of one process. Ranks share a hub. Both ends of a link use the receiver's slots: a sender fills them directly. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/log.h"
#include "base/process.h"
#include "net/link.h"
#include "transport_inproc.h"

/* One direction of a link. */
struct ring {
	int depth;
	size_t bytes; /* of a slot */
	struct link_message *messages;
	struct link_memory memory; /* the receiver's own, if it brought some */
	_Atomic uint64_t arrived, taken;
};

/* A control message, or the loss of a peer. */
struct note {
	struct note *next;
	int from, is_loss;
	size_t bytes;
	unsigned char message[TRANSPORT_CONTROL_BYTES];
};

/* A rank, as its peers see it. */
struct box {
	struct note *first, **end;
	_Atomic int closed, failure; /* failure: the code of fail */
};

/*
 * Slots of one ring or of many: the kernel allows a process some 65,000 mappings (vm.max_map_count), and 1,000 ranks have a million rings. Pages are
 * allocated when a message touches them.
 */
struct mapping {
	struct mapping *next;
	unsigned char *memory;
	size_t bytes, used;
};

/* Made by rank 0, freed by the last rank to leave. */
struct hub {
	pthread_mutex_t lock;
	int size, users;
	struct ring **rings; /* [to][from][index]: NULL until an end opens it */
	struct mapping *mappings; /* the newest first */
	int mapped; /* rings in them */
	struct box *boxes;
	_Atomic unsigned char *reported; /* [rank][peer]: on_failure was or will be called */
};

struct inproc {
	struct transport base;
	struct transport_params params;
	struct hub *hub; /* rank 0's, whose address it is; NULL: not connected */
	struct hub *made;
};

struct inproc_link {
	struct link base;
	struct hub *hub;
	struct link_params params;
	struct ring *out, *in;
};

/* ---- Slots ---- */

/* A mapping of many rings uses no huge pages, as few pages of a ring are touched. Under the lock. NULL: no memory. */
static unsigned char *take_slots(struct hub *hub, size_t bytes)
{
	enum { LINE = 64, ALONE = 256, TOGETHER = 256 /* rings */ };
	const size_t room = (bytes + LINE - 1) / LINE * LINE;
	struct mapping *m = hub->mappings;
	if (!m || m->bytes - m->used < room) {
		const int many = hub->mapped >= ALONE;
		const size_t all = many ? TOGETHER * room : room;
		m = calloc(1, sizeof *m);
		void *memory = m ? mmap(NULL, all, PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
				 : MAP_FAILED;
		if (memory == MAP_FAILED) {
			free(m);
			return NULL;
		}
		if (many)
			madvise(memory, all, MADV_NOHUGEPAGE);
		*m = (struct mapping){ hub->mappings, memory, all, 0 };
		hub->mappings = m;
	}
	hub->mapped++;
	m->used += room;
	return m->memory + m->used - room;
}

static size_t ring_index(const struct hub *hub, int from, int to, int index)
{
	return ((size_t)to * (size_t)hub->size + (size_t)from) * TRANSPORT_MAX_LINKS + (size_t)index;
}

/* Under the lock. memory: the receiver's own, or NULL. NULL: no memory. */
static struct ring *make_ring(struct hub *hub, const struct link_params *params,
			      const struct link_memory *memory)
{
	const size_t bytes = memory ? memory->bytes : params->slots->bytes;
	const int depth = memory ? memory->depth : link_reserve(params->slots, params->rank);
	struct ring *ring = calloc(1, sizeof *ring);
	struct link_message *messages = calloc((size_t)depth, sizeof *messages);
	unsigned char *slots = memory             ? memory->in
			       : ring && messages ? take_slots(hub, (size_t)depth * bytes)
						  : NULL;
	if (!ring || !messages || !slots) {
		if (!memory)
			link_unreserve(params->slots, depth);
		free(messages);
		free(ring);
		return NULL;
	}
	if (memory)
		ring->memory = *memory;
	ring->bytes = bytes;
	ring->depth = depth;
	ring->messages = messages;
	for (int i = 0; i < depth; i++)
		messages[i].data = slots + (size_t)i * bytes;
	return ring;
}

/* The ring of a direction. The first end that may makes it: for links below transport_slots.links either end, else a receiver that brings memory. NULL: not
 * made yet, or no memory. */
static struct ring *find_ring(struct hub *hub, int from, int to, const struct link_params *params)
{
	const struct link_memory *memory = params->rank == to ? params->memory : NULL;
	pthread_mutex_lock(&hub->lock);
	struct ring **ring = &hub->rings[ring_index(hub, from, to, params->index)];
	if (!*ring && (memory || params->index < params->slots->links))
		*ring = make_ring(hub, params, memory);
	struct ring *found = *ring;
	pthread_mutex_unlock(&hub->lock);
	return found;
}

/* ---- The hub ---- */

static void free_hub(struct hub *hub)
{
	if (!hub)
		return;
	for (size_t i = 0; hub->rings && i < ring_index(hub, 0, hub->size, 0); i++) {
		struct ring *ring = hub->rings[i];
		if (ring && ring->memory.release)
			ring->memory.release(ring->memory.ctx);
		if (ring)
			free(ring->messages);
		free(ring);
	}
	for (int r = 0; hub->boxes && r < hub->size; r++)
		for (struct note *note = hub->boxes[r].first, *next; note; note = next) {
			next = note->next;
			free(note);
		}
	for (struct mapping *m = hub->mappings, *next; m; m = next) {
		next = m->next;
		munmap(m->memory, m->bytes);
		free(m);
	}
	pthread_mutex_destroy(&hub->lock);
	free((void *)hub->reported);
	free(hub->boxes);
	free(hub->rings);
	free(hub);
}

static struct hub *make_hub(int size)
{
	const size_t n = (size_t)size;
	struct hub *hub = calloc(1, sizeof *hub);
	if (!hub)
		return NULL;
	pthread_mutex_init(&hub->lock, NULL);
	hub->size = hub->users = size;
	hub->rings = calloc(n * n * TRANSPORT_MAX_LINKS, sizeof *hub->rings);
	hub->boxes = calloc(n, sizeof *hub->boxes);
	hub->reported = calloc(n * n, 1);
	if (!hub->rings || !hub->boxes || !hub->reported) {
		free_hub(hub);
		return NULL;
	}
	for (int r = 0; r < size; r++)
		hub->boxes[r].end = &hub->boxes[r].first;
	return hub;
}

/* message NULL: `from` is lost. 0 or CORALE_ENOMEM, not logged. */
static int put_note(struct hub *hub, int to, int from, const void *message, size_t bytes)
{
	struct box *box = &hub->boxes[to];
	struct note *note = calloc(1, sizeof *note);
	if (!note)
		return CORALE_ENOMEM;
	note->from = from;
	note->is_loss = !message;
	note->bytes = bytes;
	if (bytes)
		memcpy(note->message, message, bytes);
	pthread_mutex_lock(&hub->lock);
	*box->end = note;
	box->end = &note->next;
	pthread_mutex_unlock(&hub->lock);
	return 0;
}

static int failure_of(struct hub *hub, int rank)
{
	return atomic_load_explicit(&hub->boxes[rank].failure, memory_order_relaxed);
}

/* ---- Links ---- */

static struct inproc_link *of_link(struct link *l)
{
	return (struct inproc_link *)l;
}

static int no_memory(const struct inproc_link *l)
{
	return log_error(CORALE_ENOMEM, l->params.rank, "no memory for slots of %zu bytes to rank %d",
			 l->base.slot_bytes, l->base.peer);
}

static int open_in(struct link *base)
{
	struct inproc_link *l = of_link(base);
	l->in = find_ring(l->hub, base->peer, l->params.rank, &l->params);
	if (!l->in)
		return no_memory(l);
	base->in = l->in->messages;
	base->in_depth = l->in->depth;
	base->in_open = 1;
	return 0;
}

/* A receiver's own memory holds the slots only after it has opened its end. */
static int open_out(struct link *base)
{
	struct inproc_link *l = of_link(base);
	l->out = find_ring(l->hub, l->params.rank, base->peer, &l->params);
	if (!l->out)
		return base->index < l->params.slots->links ? no_memory(l) : 0;
	if (l->out->bytes != base->slot_bytes)
		return log_error(CORALE_EMISMATCH, l->params.rank,
				 "transport inproc: slots of %zu bytes where rank %d has %zu",
				 base->slot_bytes, base->peer, l->out->bytes);
	base->out = l->params.memory ? l->params.memory->out : l->out->messages[0].data;
	base->out_depth = l->out->depth;
	base->out_open = 1;
	atomic_store_explicit(&base->limit, (uint64_t)l->out->depth, memory_order_relaxed);
	return 0;
}

static int post(struct link *base, const void *header, const void *data, size_t bytes)
{
	struct inproc_link *l = of_link(base);
	struct link_message *m = &l->out->messages[base->posted % (uint64_t)base->out_depth];
	const unsigned char *from = data ? data : link_slot(base);
	int ret = failure_of(l->hub, l->params.rank);
	if (ret)
		return ret;
	memcpy(m->header, header, sizeof m->header);
	m->bytes = bytes;
	if (from != m->data && bytes)
		memcpy(m->data, from, bytes);
	atomic_store_explicit(&l->out->arrived, ++base->posted, memory_order_release);
	return 0;
}

static int release(struct link *base)
{
	const uint64_t taken = link_taken(base) + 1;
	atomic_store_explicit(&base->taken, taken, memory_order_relaxed);
	atomic_store_explicit(&of_link(base)->in->taken, taken, memory_order_release);
	return 0;
}

/* 0, or why the peer sends nothing more: read the ring's counters after this call. */
static int lost_of(const struct inproc_link *l)
{
	const int failure = failure_of(l->hub, l->params.rank);
	if (failure || !atomic_load_explicit(&l->hub->boxes[l->base.peer].closed, memory_order_acquire))
		return failure;
	return CORALE_EPEER;
}

static int poll_link(struct link *base, int sends)
{
	struct inproc_link *l = of_link(base);
	const int lost = lost_of(l), rank = l->params.rank;
	int moved;
	if (sends) {
		const uint64_t limit =
		    atomic_load_explicit(&l->out->taken, memory_order_acquire) + (uint64_t)base->out_depth;
		atomic_store_explicit(&base->limit, limit, memory_order_relaxed);
		moved = base->posted < limit;
	} else {
		const uint64_t arrived = atomic_load_explicit(&l->in->arrived, memory_order_acquire);
		atomic_store_explicit(&base->arrived, arrived, memory_order_relaxed);
		moved = arrived > link_taken(base);
	}
	if (moved || !lost)
		return 0;
	_Atomic unsigned char *reported =
	    &l->hub->reported[(size_t)rank * (size_t)l->hub->size + (size_t)base->peer];
	if (lost == CORALE_EPEER && !atomic_exchange(reported, 1) &&
	    put_note(l->hub, rank, base->peer, NULL, 0))
		atomic_store(reported, 0); /* the next poll tries again */
	return lost;
}

static void free_link(struct link *base)
{
	const struct link_memory *memory = of_link(base)->params.memory;
	if (memory && memory->release && base->out_open)
		memory->release(memory->ctx);
	free(base);
}

static int open_link(struct transport *t, const struct link_params *params, struct link **out)
{
	struct inproc_link *l = calloc(1, sizeof *l);
	if (!l)
		return log_error(CORALE_ENOMEM, params->rank, "no memory for a link to rank %d",
				 params->peer);
	link_init(&l->base, t->ops->links, params);
	l->hub = ((struct inproc *)t)->hub;
	l->params = *params;
	*out = &l->base;
	return 0;
}

/* ---- The transport ---- */

static struct inproc *of(const struct transport *t)
{
	return (struct inproc *)t;
}

/* The ranks of this process reach each other. */
static uint64_t probe(const struct transport_row *row, int gpus, char *why_not, size_t bytes)
{
	return process_number();
}

static int connect_inproc(struct transport *t)
{
	memcpy(&of(t)->hub, transport_address(t, 0), sizeof of(t)->hub);
	return 0;
}

static int progress(struct transport *base)
{
	struct inproc *t = of(base);
	struct box *box = &t->hub->boxes[t->params.rank];
	pthread_mutex_lock(&t->hub->lock);
	struct note *notes = box->first;
	box->first = NULL;
	box->end = &box->first;
	pthread_mutex_unlock(&t->hub->lock);
	const int moved = notes != NULL;
	for (struct note *note = notes, *next; note; note = next) {
		next = note->next;
		if (note->is_loss)
			t->params.on_failure(t->params.handler_ctx, note->from, CORALE_EPEER,
					     transport_peer_left);
		else
			t->params.on_control(t->params.handler_ctx, note->from, note->message, note->bytes);
		free(note);
	}
	return moved;
}

static int control(struct transport *base, int peer, const void *message, size_t bytes)
{
	const struct inproc *t = of(base);
	return put_note(t->hub, peer, t->params.rank, message, bytes)
		   ? log_error(CORALE_ENOMEM, t->params.rank,
			       "transport inproc: no memory for a control message")
		   : 0;
}

static int has_met(struct transport *t, int peer)
{
	return !atomic_load_explicit(&of(t)->hub->boxes[peer].closed, memory_order_relaxed);
}

static void fail(struct transport *t, int code)
{
	atomic_compare_exchange_strong(&of(t)->hub->boxes[of(t)->params.rank].failure, &(int){ 0 }, code);
}

/* Messages that it has sent stay in its peers' rings. */
static void close_inproc(struct transport *base)
{
	struct inproc *t = of(base);
	struct hub *hub = t->hub;
	int is_last = !hub;
	if (hub) {
		pthread_mutex_lock(&hub->lock);
		atomic_store_explicit(&hub->boxes[t->params.rank].closed, 1, memory_order_release);
		is_last = --hub->users == 0;
		pthread_mutex_unlock(&hub->lock);
	}
	if (is_last)
		free_hub(hub ? hub : t->made);
	free(t);
}

static const struct link_ops links = {
	.open = open_link,
	.open_in = open_in,
	.open_out = open_out,
	.post = post,
	.release = release,
	.poll = poll_link,
	.free = free_link,
};

const struct transport_ops transport_inproc_ops = {
	.progress_by = TRANSPORT_ANY_THREAD,
	.connect = connect_inproc,
	.links = &links,
	.progress = progress,
	.control = control,
	.has_met = has_met,
	.fail = fail,
	.close = close_inproc,
};

static int open_inproc(const struct transport_row *row, const struct transport_params *params,
		       struct transport **out)
{
	struct inproc *t = calloc(1, sizeof *t);
	if (t && params->rank == 0)
		t->made = make_hub(params->size);
	if (!t || (params->rank == 0 && !t->made)) {
		free(t);
		return log_error(CORALE_ENOMEM, params->rank, "transport inproc: no memory for %d ranks",
				 params->size);
	}
	t->base = (struct transport){ .ops = &transport_inproc_ops,
				      .address = &t->made,
				      .address_bytes = sizeof t->made };
	t->params = *params;
	*out = &t->base;
	return 0;
}

const struct transport_row transport_inproc = { .name = "inproc", .probe = probe, .open = open_inproc };
