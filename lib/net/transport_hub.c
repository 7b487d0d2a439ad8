#include "transport_hub.h"

#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* request->priv[] while it waits here. */
enum { HUB_NEXT, HUB_BUFFER, HUB_BYTES };

/* Sends or recvs of one ordered pair that wait for their partner; never both at once. */
struct lane {
	struct transport_request *head, *tail;
	int sends;
};

enum peer_state { PEER_FINE, PEER_LOST, PEER_REPORTED };

struct box {
	struct hub_note *head, *tail;
	unsigned char *peers; /* enum peer_state of every rank, as this rank sees it */
	int lost; /* some peer is PEER_LOST, so hub_take tells of it */
	_Atomic int closed;
	_Atomic int failure; /* the code of hub_fail */
	_Atomic unsigned events, seen;
	_Atomic int
	    moving; /* requests of this rank that a peer's thread is moving at the moment, outside the lock */
};

/* Freed by the last rank to leave. */
struct hub {
	pthread_mutex_t lock;
	int size, users;
	struct lane *lanes; /* [to][from][lane] */
	struct hub_ring **rings; /* the same */
	struct box *boxes;
};

static size_t lane_index(const struct hub *hub, int from, int to, int lane)
{
	return ((size_t)to * (size_t)hub->size + (size_t)from) * TRANSPORT_MAX_LANES + (size_t)lane;
}

static struct lane *find_lane(struct hub *hub, int from, int to, int lane)
{
	return &hub->lanes[lane_index(hub, from, to, lane)];
}

static void free_ring(struct hub_ring *ring)
{
	if (!ring)
		return;
	if (ring->given && ring->memory.release)
		ring->memory.release(ring->memory.ctx);
	else if (!ring->given && ring->messages)
		free(ring->messages[0].data);
	free(ring->messages);
	free(ring);
}

void hub_destroy(struct hub *hub)
{
	if (!hub)
		return;
	for (int r = 0; hub->boxes && r < hub->size; r++) {
		for (struct hub_note *note = hub->boxes[r].head, *next; note; note = next) {
			next = note->next;
			free(note);
		}
		free(hub->boxes[r].peers);
	}
	for (size_t i = 0; hub->rings && i < lane_index(hub, 0, hub->size, 0); i++)
		free_ring(hub->rings[i]);
	pthread_mutex_destroy(&hub->lock);
	free(hub->boxes);
	free(hub->lanes);
	free(hub->rings);
	free(hub);
}

struct hub *hub_create(int size)
{
	size_t n = (size_t)size;
	struct hub *hub = calloc(1, sizeof(*hub));
	if (!hub)
		return NULL;
	pthread_mutex_init(&hub->lock, NULL);
	hub->size = hub->users = size;
	hub->lanes = calloc(n * n * TRANSPORT_MAX_LANES, sizeof(*hub->lanes));
	hub->rings = calloc(n * n * TRANSPORT_MAX_LANES, sizeof(struct hub_ring *));
	hub->boxes = calloc(n, sizeof(*hub->boxes));
	if (!hub->lanes || !hub->rings || !hub->boxes)
		goto free;
	for (int r = 0; r < size; r++)
		if (!(hub->boxes[r].peers = calloc(n, 1)))
			goto free;
	return hub;
free:
	hub_destroy(hub);
	return NULL;
}

void hub_complete(struct hub *hub, int owner, struct transport_request *request, int status)
{
	request->status = status;
	atomic_fetch_add_explicit(&hub->boxes[owner].events, 1, memory_order_relaxed);
	atomic_store_explicit(&request->done, 1, memory_order_release);
}

/* Moves the bytes of a pair that has met; both requests are in no list any more. */
static void transfer(struct hub *hub, int from, int to, struct transport_request *send,
		     struct transport_request *recv)
{
	size_t bytes = send->bytes, capacity = (size_t)(uintptr_t)recv->priv[HUB_BYTES];
	int status = bytes > capacity ? CORALE_EMISMATCH : 0;

	memcpy(recv->header, send->header, TRANSPORT_HEADER_BYTES);
	recv->bytes = bytes;
	if (!status && bytes)
		memcpy(recv->priv[HUB_BUFFER], send->priv[HUB_BUFFER], bytes);
	hub_complete(hub, from, send, 0);
	hub_complete(hub, to, recv, status);
}

static void append(struct lane *lane, struct transport_request *request, int sends)
{
	request->priv[HUB_NEXT] = NULL;
	if (lane->head)
		lane->tail->priv[HUB_NEXT] = request;
	else
		lane->head = request;
	lane->tail = request;
	lane->sends = sends;
}

static struct transport_request *pop(struct lane *lane)
{
	struct transport_request *request = lane->head;
	lane->head = request->priv[HUB_NEXT];
	return request;
}

static void lose_peer(struct box *box, int peer)
{
	if (box->peers[peer] == PEER_FINE) {
		box->peers[peer] = PEER_LOST;
		box->lost = 1;
	}
}

int hub_post(struct hub *hub, int me, int peer, int lane, struct transport_request *request, void *buf,
	     size_t bytes, int sends)
{
	int from = sends ? me : peer, to = sends ? peer : me, ret = 0;
	struct transport_request *partner = NULL;

	request->status = 0;
	request->bytes = bytes;
	request->priv[HUB_BUFFER] = buf;
	request->priv[HUB_BYTES] = (void *)(uintptr_t)bytes;
	atomic_store_explicit(&request->done, 0, memory_order_relaxed);
	pthread_mutex_lock(&hub->lock);
	struct box *box = &hub->boxes[me];
	if (box->failure) {
		ret = box->failure;
	} else if (hub->boxes[peer].closed) {
		ret = CORALE_EPEER;
		lose_peer(box, peer);
	} else {
		struct lane *queue = find_lane(hub, from, to, lane);
		if (queue->head && queue->sends != sends) {
			partner = pop(queue);
			atomic_fetch_add_explicit(&hub->boxes[peer].moving, 1, memory_order_relaxed);
		} else {
			append(queue, request, sends);
		}
	}
	pthread_mutex_unlock(&hub->lock);
	if (ret)
		hub_complete(hub, me, request, ret);
	if (partner && sends)
		transfer(hub, from, to, request, partner);
	else if (partner)
		transfer(hub, from, to, partner, request);
	if (partner)
		atomic_fetch_sub_explicit(&hub->boxes[peer].moving, 1, memory_order_release);
	return ret;
}

/* Copies out which peers are newly lost, or NULL. Under the lock. */
static unsigned char *take_lost(struct box *box, int size)
{
	unsigned char *lost = box->lost ? calloc((size_t)size, 1) : NULL;
	if (!lost)
		return NULL; /* no memory now: the next progress tries again */
	for (int r = 0; r < size; r++) {
		if (box->peers[r] == PEER_LOST) {
			lost[r] = 1;
			box->peers[r] = PEER_REPORTED;
		}
	}
	box->lost = 0;
	return lost;
}

void hub_put(struct hub *hub, int to, struct hub_note *note)
{
	struct box *box = &hub->boxes[to];

	pthread_mutex_lock(&hub->lock);
	note->next = NULL;
	if (box->head)
		box->tail->next = note;
	else
		box->head = note;
	box->tail = note;
	pthread_mutex_unlock(&hub->lock);
}

int hub_take(struct hub *hub, int me, struct hub_note **notes, unsigned char **lost)
{
	struct box *box = &hub->boxes[me];

	pthread_mutex_lock(&hub->lock);
	*notes = box->head;
	box->head = box->tail = NULL;
	*lost = take_lost(box, hub->size);
	pthread_mutex_unlock(&hub->lock);
	unsigned events = atomic_load_explicit(&box->events, memory_order_relaxed);
	int completed = atomic_exchange_explicit(&box->seen, events, memory_order_relaxed) != events;
	return *notes || *lost || completed;
}

static struct hub_ring *make_ring(const struct link_params *params, const struct link_memory *memory)
{
	struct hub_ring *ring = calloc(1, sizeof(*ring));
	const size_t bytes = memory ? memory->bytes : params->slots->bytes;
	if (!ring)
		return NULL;
	if (memory) {
		ring->given = 1;
		ring->memory = *memory;
	}
	ring->bytes = bytes;
	ring->depth = memory ? memory->depth : link_reserve(params->slots, params->rank);
	ring->messages = calloc((size_t)ring->depth, sizeof(*ring->messages));
	unsigned char *slots = memory ? memory->in : malloc((size_t)ring->depth * bytes);
	if (!ring->messages || !slots) {
		if (!memory) {
			link_unreserve(params->slots, ring->depth);
			free(slots);
		}
		free(ring->messages);
		free(ring);
		return NULL;
	}
	for (int i = 0; i < ring->depth; i++)
		ring->messages[i].data = slots + (size_t)i * bytes;
	return ring;
}

struct hub_ring *hub_ring(struct hub *hub, int from, int to, const struct link_params *params)
{
	const struct link_memory *memory = params->rank == to ? params->memory : NULL;
	pthread_mutex_lock(&hub->lock);
	struct hub_ring **ring = &hub->rings[lane_index(hub, from, to, params->lane)];
	if (!*ring && (memory || params->lane < params->slots->lanes))
		*ring = make_ring(params, memory);
	struct hub_ring *found = *ring;
	pthread_mutex_unlock(&hub->lock);
	return found;
}

int hub_lost(struct hub *hub, int me, int peer)
{
	int failure = hub_failure(hub, me);
	if (failure || !atomic_load_explicit(&hub->boxes[peer].closed, memory_order_acquire))
		return failure;
	return CORALE_EPEER;
}

void hub_report(struct hub *hub, int me, int peer)
{
	pthread_mutex_lock(&hub->lock);
	lose_peer(&hub->boxes[me], peer);
	pthread_mutex_unlock(&hub->lock);
}

int hub_failure(struct hub *hub, int me)
{
	return atomic_load_explicit(&hub->boxes[me].failure, memory_order_relaxed);
}

/* Completes with code all that owner has waiting between me and peer; 1 if there was anything. Under the lock. */
static int flush_pair(struct hub *hub, int me, int peer, int owner, int code)
{
	int any = 0;
	for (int i = 0; i < 2 * TRANSPORT_MAX_LANES; i++) {
		int from = i % 2 ? me : peer, to = i % 2 ? peer : me;
		struct lane *lane = find_lane(hub, from, to, i / 2);
		while (lane->head && (lane->sends ? from : to) == owner) {
			any = 1;
			hub_complete(hub, owner, pop(lane), code);
		}
	}
	return any;
}

void hub_fail(struct hub *hub, int me, int code)
{
	pthread_mutex_lock(&hub->lock);
	if (!hub->boxes[me].failure)
		hub->boxes[me].failure = code;
	for (int peer = 0; peer < hub->size; peer++)
		flush_pair(hub, me, peer, me, code);
	pthread_mutex_unlock(&hub->lock);
}

int hub_is_drained(struct hub *hub, int me)
{
	int waiting = 0;

	pthread_mutex_lock(&hub->lock);
	for (int peer = 0; peer < hub->size && !waiting; peer++) {
		for (int i = 0; i < TRANSPORT_MAX_LANES && !waiting; i++) {
			struct lane *lane = find_lane(hub, me, peer, i);
			waiting = lane->head && lane->sends;
		}
	}
	pthread_mutex_unlock(&hub->lock);
	return !waiting;
}

void hub_leave(struct hub *hub, int me)
{
	pthread_mutex_lock(&hub->lock);
	hub->boxes[me].closed = 1;
	for (int peer = 0; peer < hub->size; peer++) {
		if (flush_pair(hub, me, peer, peer, CORALE_EPEER))
			lose_peer(&hub->boxes[peer], me);
		flush_pair(hub, me, peer, me, CORALE_EABORTED);
	}
	pthread_mutex_unlock(&hub->lock);
	/* The caller frees its requests and buffers next. A peer that copies holds no lock and waits for nothing. */
	while (atomic_load_explicit(&hub->boxes[me].moving, memory_order_acquire))
		sched_yield();
	pthread_mutex_lock(&hub->lock);
	int last = --hub->users == 0;
	pthread_mutex_unlock(&hub->lock);
	if (last)
		hub_destroy(hub);
}
