/* SPDX-License-Identifier: BSD-3-Clause */
/* A network between emulated ranks that is as late and as disordered as one may be, and that shows whether its users keep their side. */
#include "wire.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"
#include "net/link.h"

enum { MOST_LATE = 11 /* bits of turns */, ON_TIME_ONE_IN = 2, MOST_PRINTED = 3 };

/* A message. */
struct part {
	struct part *next;
	const unsigned char *memory; /* the user's */
	size_t bytes;
	unsigned char header[TRANSPORT_HEADER_BYTES];
	unsigned char *given, *data; /* as it was when it was sent; as it was read, NULL: not yet */
	int is_few; /* given is all that there is of it: it goes and comes beside the slots, which lie in a GPU's memory */
	uint64_t number; /* of its link */
	uint64_t leaves, ends,
	    comes; /* it is read, its memory is the sender's again, it arrives: not before these turns */
	size_t first, arrived; /* bytes: where the first ones that arrive belong, how many have */
	int ended, came;
};

struct queue {
	struct part *first, **end;
};

/* From one rank to another. */
struct path {
	struct queue sends[TRANSPORT_MAX_LINKS];
	struct link *senders[TRANSPORT_MAX_LINKS], *receivers[TRANSPORT_MAX_LINKS]; /* NULL: not open */
	int parts; /* in all queues */
};

struct end {
	struct transport base;
	struct wire *wire;
	int rank;
};

struct wire {
	pthread_mutex_t lock;
	int ranks, faults;
	wire_says *has_room;
	void *ctx;
	struct end *ends;
	struct path *paths; /* a row of receivers a sender */
};

/* In its user's memory. */
struct wire_link {
	struct link base;
	struct end *end;
	const struct link_memory *memory;
	unsigned char
	    *few; /* LINK_INLINE_BYTES beside each slot in a GPU's memory; NULL: slots are in host memory */
};

static struct wire_link *link_of(const struct link *l)
{
	return (struct wire_link *)(uintptr_t)l;
}

/* A GPU's memory, as its owner has told. */
struct link_slab {
	const unsigned char *at;
	size_t bytes;
};

static struct path *path_of(struct wire *w, int from, int to)
{
	return &w->paths[from * w->ranks + to];
}

static void append(struct queue *q, struct part *p)
{
	*q->end = p;
	q->end = &p->next;
}

static void drop(struct queue *q)
{
	struct part *p = q->first;
	q->first = p->next;
	if (!q->first)
		q->end = &q->first;
	free(p->given);
	free(p->data);
	free(p);
}

static unsigned char *copy_of(const unsigned char *from, size_t bytes)
{
	unsigned char *copy = malloc(bytes + 1);
	if (!copy)
		abort();
	if (bytes)
		memcpy(copy, from, bytes);
	return copy;
}

static void complain(struct wire *w, const char *what, int from, int to, int index)
{
	if (w->faults++ < MOST_PRINTED)
		printf("# from rank %d to rank %d, link %d: %s\n", from, to, index, what);
}

static uint64_t some_turns(void)
{
	return gpu_random(ON_TIME_ONE_IN) ? 1u << gpu_random(MOST_LATE + 1) : 0;
}

/* ---- Messages ---------------------------------------------------------------------------------------------- */

/* What a receiver has told that it took: as late as links may (link.h). */
static uint64_t told_of(const struct link *receiver)
{
	const uint64_t half = receiver->in_depth > 1 ? (uint64_t)receiver->in_depth / 2 : 1;
	return link_taken(receiver) / half * half;
}

/* What it is time for at the sender: 1 if there was anything. The network may look at a message again until its memory is the sender's, after it
 * has come, and the receiver has told that it took it: so nobody is further ahead than he has slots. */
static int leave(struct wire *w, struct part *p, int from, int to, int index)
{
	const struct link *receiver = path_of(w, from, to)->receivers[index];
	const int reads = !p->data && gpu_turns() >= p->leaves,
		  ends = !p->ended && p->came && gpu_turns() >= p->ends && p->number < told_of(receiver);
	if (reads)
		p->data = copy_of(p->memory, p->bytes);
	if ((reads || ends) && p->bytes && memcmp(p->memory, p->given, p->bytes))
		complain(w, "a message was changed while it was under way", from, to, index);
	p->ended |= ends;
	return reads || ends;
}

/* The first message of a link that has not come. */
static struct part *next_of(const struct path *path, int index)
{
	struct part *p = path->sends[index].first;
	while (p && p->came)
		p = p->next;
	return p;
}

/* Of its first bytes. */
static void check_place(struct wire *w, struct part *send, const struct link *l, int from)
{
	const int to = link_of(l)->end->rank;
	if (!w->has_room(w->ctx, from, to, l->index, send->number))
		complain(w, "a message comes before its place is free", from, to, l->index);
	if (send->bytes <= l->slot_bytes)
		return;
	complain(w, "a message is longer than its place", from, to, l->index);
	send->bytes = l->slot_bytes;
}

/* Some more bytes of it; whether that is all. They begin anywhere. */
static int arrive_bytes(struct part *send, unsigned char *slot)
{
	const size_t bytes = send->bytes, left = bytes - send->arrived;
	if (!left)
		return 1;
	if (!send->arrived)
		send->first = gpu_random((unsigned)bytes);
	const size_t at = (send->first + send->arrived) % bytes;
	size_t more = 1 + gpu_random((unsigned)left);
	more = more < bytes - at ? more : bytes - at;
	memcpy(slot + at, send->data + at, more);
	send->arrived += more;
	return more == left;
}

/* Slots in a GPU's memory: few bytes are given to the receiver beside them. Those that came so are not in their slot, which may hold anything. */
static unsigned char *few_of(const struct part *send, const struct link *l, unsigned char *slot)
{
	unsigned char *few = link_of(l)->few + send->number % (uint64_t)l->in_depth * LINK_INLINE_BYTES;
	if (send->bytes > LINK_INLINE_BYTES)
		return NULL;
	if (send->is_few)
		memset(slot, WIRE_NOTHING, l->slot_bytes);
	memcpy(few, send->is_few ? send->data : slot, send->bytes);
	return few;
}

static void arrive(struct wire *w, struct part *send, struct link *l, int from)
{
	struct link_message *m = &l->in[send->number % (uint64_t)l->in_depth];
	unsigned char *slot = link_of(l)->memory->in + send->number % (uint64_t)l->in_depth * l->slot_bytes;
	if (!send->arrived)
		check_place(w, send, l, from);
	if (!send->is_few && !arrive_bytes(send, slot))
		return;
	m->data = link_of(l)->few ? few_of(send, l, slot) : slot;
	memcpy(m->header, send->header, sizeof send->header);
	m->bytes = send->bytes;
	send->came = 1;
	atomic_store_explicit(&l->arrived, send->number + 1, memory_order_release);
}

/* The sender's slot is his again. */
static void give_back(struct path *path, int index)
{
	struct link *l = path->senders[index];
	drop(&path->sends[index]);
	path->parts--;
	atomic_fetch_add_explicit(&l->limit, 1, memory_order_release);
}

static int move_link(struct wire *w, struct path *path, int from, int to, int index, int sending)
{
	struct part *first = path->sends[index].first;
	int moved = 0;
	for (struct part *p = first; sending && p; p = p->next)
		moved |= leave(w, p, from, to, index);
	if (sending && first && first->came && first->ended)
		give_back(path, index);
	struct part *next = sending ? NULL : next_of(path, index);
	if (!next || !next->data || gpu_turns() < next->comes || !path->receivers[index])
		return moved;
	arrive(w, next, path->receivers[index], from);
	return 1;
}

static int move_path(struct wire *w, int from, int to, int sending)
{
	struct path *path = path_of(w, from, to);
	int moved = 0;
	for (int index = 0; path->parts && index < TRANSPORT_MAX_LINKS; index++)
		moved |= move_link(w, path, from, to, index, sending);
	return moved;
}

/* ---- The transport ----------------------------------------------------------------------------------------- */

static struct end *of(struct transport *t)
{
	return (struct end *)t;
}

static int map(struct transport *t, void *at, size_t bytes, int reads_back, struct link_slab **out,
	       char *why_not, size_t why_bytes)
{
	struct link_slab *s = malloc(sizeof *s);
	if (!s)
		abort();
	*s = (struct link_slab){ at, bytes };
	*out = s;
	return 0;
}

static void unmap(struct link_slab *slab)
{
	free(slab);
}

/* What a direction's slots lie in. */
static void check_slab(const struct link *l, const unsigned char *slots)
{
	const struct link_memory *memory = link_of(l)->memory;
	const struct link_slab *slab = memory->slab;
	const size_t bytes = (size_t)memory->depth * memory->bytes;
	if (slab && (slots < slab->at || slots + bytes > slab->at + slab->bytes))
		complain(link_of(l)->end->wire, "slots do not lie in their slab", link_of(l)->end->rank,
			 l->peer, l->index);
}

static int open_in(struct link *l)
{
	const struct link_memory *memory = link_of(l)->memory;
	struct wire *w = link_of(l)->end->wire;
	const size_t depth = (size_t)memory->depth;
	l->in = calloc(depth, sizeof *l->in);
	link_of(l)->few = memory->slab ? malloc(depth * LINK_INLINE_BYTES) : NULL;
	if (!l->in || (memory->slab && !link_of(l)->few))
		abort();
	check_slab(l, memory->in);
	l->in_depth = memory->depth;
	l->in_open = 1;
	pthread_mutex_lock(&w->lock);
	path_of(w, l->peer, link_of(l)->end->rank)->receivers[l->index] = l;
	pthread_mutex_unlock(&w->lock);
	return 0;
}

static int open_out(struct link *l)
{
	const struct link_memory *memory = link_of(l)->memory;
	struct wire *w = link_of(l)->end->wire;
	check_slab(l, memory->out);
	l->out = memory->out;
	l->out_depth = memory->depth;
	l->out_open = 1;
	atomic_store_explicit(&l->limit, (uint64_t)memory->depth, memory_order_relaxed);
	pthread_mutex_lock(&w->lock);
	path_of(w, link_of(l)->end->rank, l->peer)->senders[l->index] = l;
	pthread_mutex_unlock(&w->lock);
	return 0;
}

static int post(struct link *l, const void *header, const void *data, size_t bytes)
{
	struct wire *w = link_of(l)->end->wire;
	struct path *path = path_of(w, link_of(l)->end->rank, l->peer);
	struct part *p = calloc(1, sizeof *p);
	if (!p)
		abort();
	p->memory = data ? data : link_slot(l);
	p->bytes = bytes;
	p->is_few = data != NULL;
	memcpy(p->header, header, sizeof p->header);
	p->given = copy_of(p->memory, bytes);
	if (p->is_few)
		p->memory = p->given;
	if (p->is_few && (!link_of(l)->memory->slab || bytes > LINK_INLINE_BYTES))
		complain(w, "a message from beside its slot", link_of(l)->end->rank, l->peer, l->index);
	p->leaves = gpu_turns() + some_turns();
	p->ends = p->leaves + 2 * some_turns();
	p->comes = p->leaves + some_turns();
	pthread_mutex_lock(&w->lock);
	p->number = l->posted++;
	append(&path->sends[l->index], p);
	path->parts++;
	pthread_mutex_unlock(&w->lock);
	return 0;
}

static int release(struct link *l)
{
	atomic_fetch_add_explicit(&l->taken, 1, memory_order_release);
	return 0;
}

static int poll_link(struct link *l, int sends)
{
	return 0;
}

static int is_sent(struct link *l)
{
	return atomic_load_explicit(&l->limit, memory_order_acquire) == l->posted + (uint64_t)l->out_depth;
}

/* The wire is gone before. */
static void free_link(struct link *l)
{
	const struct link_memory *memory = link_of(l)->memory;
	for (int i = 0; i < l->in_open + l->out_open; i++)
		memory->release(memory->ctx);
	free(l->in);
	free(link_of(l)->few);
	free(l);
}

static int open_link(struct transport *t, const struct link_params *params, struct link **out);

static const struct link_ops links = { .map = map,
				       .unmap = unmap,
				       .open = open_link,
				       .open_in = open_in,
				       .open_out = open_out,
				       .post = post,
				       .release = release,
				       .poll = poll_link,
				       .sent = is_sent,
				       .free = free_link };

static int open_link(struct transport *t, const struct link_params *params, struct link **out)
{
	struct wire_link *l = calloc(1, sizeof *l);
	if (!l || !params->memory)
		abort();
	link_init(&l->base, &links, params);
	l->end = of(t);
	l->memory = params->memory;
	*out = &l->base;
	return 0;
}

static int progress(struct transport *t)
{
	struct wire *w = of(t)->wire;
	const int me = of(t)->rank;
	int moved = 0;
	pthread_mutex_lock(&w->lock);
	for (int peer = 0; peer < w->ranks; peer++)
		moved |= move_path(w, me, peer, 1) | move_path(w, peer, me, 0);
	pthread_mutex_unlock(&w->lock);
	return moved;
}

static const struct transport_ops ops = { .links = &links, .progress = progress };

struct transport *wire_end(struct wire *w, int rank)
{
	return &w->ends[rank].base;
}

int wire_faults(const struct wire *w)
{
	return w->faults;
}

/* ---- All of it ---------------------------------------------------------------------------------------------- */

static void open_path(struct path *path)
{
	for (int index = 0; index < TRANSPORT_MAX_LINKS; index++)
		path->sends[index].end = &path->sends[index].first;
}

static void close_path(struct path *path)
{
	for (int index = 0; index < TRANSPORT_MAX_LINKS; index++)
		while (path->sends[index].first)
			drop(&path->sends[index]);
}

struct wire *wire_new(int ranks, wire_says *has_room, void *ctx)
{
	struct wire *w = calloc(1, sizeof *w);
	if (!w)
		return NULL;
	pthread_mutex_init(&w->lock, NULL);
	w->ranks = ranks;
	w->has_room = has_room;
	w->ctx = ctx;
	w->ends = calloc((size_t)ranks, sizeof *w->ends);
	w->paths = calloc((size_t)(ranks * ranks), sizeof *w->paths);
	if (!w->ends || !w->paths) {
		wire_free(w);
		return NULL;
	}
	for (int r = 0; r < ranks; r++)
		w->ends[r] = (struct end){ { .ops = &ops }, w, r };
	for (int i = 0; i < ranks * ranks; i++)
		open_path(&w->paths[i]);
	return w;
}

void wire_free(struct wire *w)
{
	if (!w)
		return;
	for (int i = 0; w->paths && i < w->ranks * w->ranks; i++)
		close_path(&w->paths[i]);
	pthread_mutex_destroy(&w->lock);
	free(w->paths);
	free(w->ends);
	free(w);
}
