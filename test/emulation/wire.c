#include "wire.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"

enum { MOST_LATE = 11 /* bits of turns */, ON_TIME_ONE_IN = 2, MOST_PRINTED = 3 };

/* One end of a message. */
struct part {
	struct part *next;
	struct transport_request *request;
	unsigned char *memory; /* the user's */
	size_t bytes;
	/* of a send: */
	unsigned char header[TRANSPORT_HEADER_BYTES];
	unsigned char *given, *data; /* as it was when it was sent; as it was read, NULL: not yet */
	uint64_t number; /* of its lane */
	uint64_t leaves, ends,
	    comes; /* it is read, its memory is the sender's again, it arrives: not before these turns */
	size_t arrived; /* bytes */
	int ended, came;
};

struct queue {
	struct part *first, **end;
};

/* From one rank to another. */
struct path {
	struct queue sends[TRANSPORT_MAX_LANES], recvs[TRANSPORT_MAX_LANES];
	uint64_t sent[TRANSPORT_MAX_LANES], expected[TRANSPORT_MAX_LANES];
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
	wire_says *has_room, *is_told;
	void *ctx;
	struct end *ends;
	struct path *paths; /* a row of receivers a sender */
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

static void complain(struct wire *w, const char *what, int from, int to, int lane)
{
	if (w->faults++ < MOST_PRINTED)
		printf("# from rank %d to rank %d, lane %d: %s\n", from, to, lane, what);
}

static uint64_t some_turns(void)
{
	return gpu_random(ON_TIME_ONE_IN) ? 1u << gpu_random(MOST_LATE + 1) : 0;
}

static void finish(struct transport_request *request, size_t bytes)
{
	request->status = 0;
	request->bytes = bytes;
	atomic_store_explicit(&request->done, 1, memory_order_release);
}

/* ---- Messages ---------------------------------------------------------------------------------------------- */

/* What it is time for at the sender: 1 if there was anything. The network may look at a message again until its memory is the sender's, after it
 * has come, and the receiver has told that it took it: so nobody is further ahead than he has slots. */
static int leave(struct wire *w, struct part *p, int from, int to, int lane)
{
	const int reads = !p->data && gpu_turns() >= p->leaves,
		  ends = !p->ended && p->came && gpu_turns() >= p->ends &&
			 w->is_told(w->ctx, from, to, lane, p->number);
	if (reads)
		p->data = copy_of(p->memory, p->bytes);
	if ((reads || ends) && p->bytes && memcmp(p->memory, p->given, p->bytes))
		complain(w, "a message was changed while it was under way", from, to, lane);
	if (ends)
		finish(p->request, p->bytes);
	p->ended |= ends;
	return reads || ends;
}

/* The first message of a lane that has not come. */
static struct part *next_of(const struct path *path, int lane)
{
	struct part *p = path->sends[lane].first;
	while (p && p->came)
		p = p->next;
	return p;
}

/* Some more bytes of it. */
static void arrive(struct wire *w, struct path *path, struct part *send, int from, int to, int lane)
{
	struct part *recv = path->recvs[lane].first;
	if (send->bytes > recv->bytes) {
		complain(w, "a message is longer than its place", from, to, lane);
		send->bytes = recv->bytes;
	}
	size_t left = send->bytes - send->arrived, more = left ? 1 + gpu_random((unsigned)left) : 0;
	if (more)
		memcpy(recv->memory + send->arrived, send->data + send->arrived, more);
	send->arrived += more;
	if (send->arrived < send->bytes)
		return;
	memcpy(recv->request->header, send->header, sizeof send->header);
	finish(recv->request, send->bytes);
	send->came = 1;
	drop(&path->recvs[lane]);
	path->parts--;
}

static int move_lane(struct wire *w, struct path *path, int from, int to, int lane, int sending)
{
	struct part *first = path->sends[lane].first;
	int moved = 0;
	for (struct part *p = first; sending && p; p = p->next)
		moved |= leave(w, p, from, to, lane);
	if (sending && first && first->came && first->ended) {
		drop(&path->sends[lane]);
		path->parts--;
	}
	struct part *next = sending ? NULL : next_of(path, lane);
	if (!next || !next->data || gpu_turns() < next->comes || !path->recvs[lane].first)
		return moved;
	arrive(w, path, next, from, to, lane);
	return 1;
}

static int move_path(struct wire *w, int from, int to, int sending)
{
	struct path *path = path_of(w, from, to);
	int moved = 0;
	for (int lane = 0; path->parts && lane < TRANSPORT_MAX_LANES; lane++)
		moved |= move_lane(w, path, from, to, lane, sending);
	return moved;
}

/* ---- The transport ----------------------------------------------------------------------------------------- */

static struct end *of(struct transport *t)
{
	return (struct end *)t;
}

static struct part *new_part(struct transport_request *request, void *memory, size_t bytes)
{
	struct part *p = calloc(1, sizeof *p);
	if (!p)
		abort();
	p->request = request;
	atomic_store_explicit(&request->done, 0, memory_order_relaxed);
	p->memory = memory;
	p->bytes = bytes;
	return p;
}

static int post_send(struct transport *t, int to, int lane, const void *header, const void *memory,
		     size_t bytes, struct transport_request *request)
{
	struct wire *w = of(t)->wire;
	const int from = of(t)->rank;
	struct path *path = path_of(w, from, to);
	struct part *p = new_part(request, (void *)(uintptr_t)memory, bytes);
	memcpy(p->header, header, sizeof p->header);
	p->given = copy_of(memory, bytes);
	p->leaves = gpu_turns() + some_turns();
	p->ends = p->leaves + 2 * some_turns();
	p->comes = p->leaves + some_turns();
	pthread_mutex_lock(&w->lock);
	p->number = path->sent[lane]++;
	append(&path->sends[lane], p);
	path->parts++;
	pthread_mutex_unlock(&w->lock);
	return 0;
}

static int post_recv(struct transport *t, int from, int lane, void *memory, size_t bytes,
		     struct transport_request *request)
{
	struct wire *w = of(t)->wire;
	const int me = of(t)->rank;
	struct path *path = path_of(w, from, me);
	struct part *p = new_part(request, memory, bytes);
	pthread_mutex_lock(&w->lock);
	if (!w->has_room(w->ctx, from, me, lane, path->expected[lane]++))
		complain(w, "a message may come before its place is free", from, me, lane);
	append(&path->recvs[lane], p);
	path->parts++;
	pthread_mutex_unlock(&w->lock);
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

static const struct transport_ops ops = { .send = post_send, .recv = post_recv, .progress = progress };

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
	for (int lane = 0; lane < TRANSPORT_MAX_LANES; lane++) {
		path->sends[lane].end = &path->sends[lane].first;
		path->recvs[lane].end = &path->recvs[lane].first;
	}
}

static void close_path(struct path *path)
{
	for (int lane = 0; lane < TRANSPORT_MAX_LANES; lane++) {
		while (path->sends[lane].first)
			drop(&path->sends[lane]);
		while (path->recvs[lane].first)
			drop(&path->recvs[lane]);
	}
}

struct wire *wire_new(int ranks, wire_says *has_room, wire_says *is_told, void *ctx)
{
	struct wire *w = calloc(1, sizeof *w);
	if (!w)
		return NULL;
	pthread_mutex_init(&w->lock, NULL);
	w->ranks = ranks;
	w->has_room = has_room;
	w->is_told = is_told;
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
