#include "transport_hub.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

enum peer_state { PEER_FINE, PEER_LOST, PEER_REPORTED };

struct box {
	struct hub_note *head, *tail;
	unsigned char *peers; /* enum peer_state of every rank, as this rank sees it */
	int lost; /* some peer is PEER_LOST, so hub_take tells of it */
	_Atomic int closed;
	_Atomic int failure; /* the code of hub_fail */
};

/*
 * Slots of a ring, or of many: the kernel allows a process some 65,000 mappings (vm.max_map_count), and 1,000 ranks have a million rings. Pages that no message
 * has touched are not there.
 */
struct mapping {
	struct mapping *next;
	unsigned char *memory;
	size_t bytes, used;
};

/* Freed by the last rank to leave. */
struct hub {
	pthread_mutex_t lock;
	int size, users;
	struct hub_ring **rings; /* [to][from][lane] */
	struct mapping *mappings; /* the newest first */
	int mapped; /* rings in them */
	struct box *boxes;
};

static size_t lane_index(const struct hub *hub, int from, int to, int lane)
{
	return ((size_t)to * (size_t)hub->size + (size_t)from) * TRANSPORT_MAX_LANES + (size_t)lane;
}

static void free_ring(struct hub_ring *ring)
{
	if (!ring)
		return;
	if (ring->given && ring->memory.release)
		ring->memory.release(ring->memory.ctx);
	free(ring->messages);
	free(ring);
}

/* ---- Memory of slots --------------------------------------------------------------------------------------- */

/* NULL: no memory. */
static struct mapping *add_mapping(struct hub *hub, size_t bytes)
{
	struct mapping *m = calloc(1, sizeof *m);
	void *memory =
	    m ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
	      : MAP_FAILED;
	if (memory == MAP_FAILED) {
		free(m);
		return NULL;
	}
	*m = (struct mapping){ hub->mappings, memory, bytes, 0 };
	return hub->mappings = m;
}

static void free_mappings(struct hub *hub)
{
	for (struct mapping *m = hub->mappings, *next; m; m = next) {
		next = m->next;
		munmap(m->memory, m->bytes);
		free(m);
	}
}

/* Of many rings no page is a huge one, as few of a ring's are touched. */
static unsigned char *take_slots(struct hub *hub, size_t bytes)
{
	enum { LINE = 64, ALONE = 256, TOGETHER = 256 /* rings */ };
	const size_t room = (bytes + LINE - 1) / LINE * LINE;
	struct mapping *m = hub->mappings;
	if (!m || m->bytes - m->used < room) {
		const int many = hub->mapped >= ALONE;
		m = add_mapping(hub, many ? TOGETHER * room : room);
		if (m && many)
			madvise(m->memory, m->bytes, MADV_NOHUGEPAGE);
	}
	if (!m)
		return NULL;
	hub->mapped++;
	m->used += room;
	return m->memory + m->used - room;
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
	free_mappings(hub);
	pthread_mutex_destroy(&hub->lock);
	free(hub->boxes);
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
	hub->rings = calloc(n * n * TRANSPORT_MAX_LANES, sizeof(struct hub_ring *));
	hub->boxes = calloc(n, sizeof(*hub->boxes));
	if (!hub->rings || !hub->boxes)
		goto free;
	for (int r = 0; r < size; r++)
		if (!(hub->boxes[r].peers = calloc(n, 1)))
			goto free;
	return hub;
free:
	hub_destroy(hub);
	return NULL;
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
	return *notes || *lost;
}

static struct hub_ring *make_ring(struct hub *hub, const struct link_params *params,
				  const struct link_memory *memory)
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
	unsigned char *slots = memory           ? memory->in
			       : ring->messages ? take_slots(hub, (size_t)ring->depth * bytes)
						: NULL;
	if (!ring->messages || !slots) {
		if (!memory)
			link_unreserve(params->slots, ring->depth);
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
		*ring = make_ring(hub, params, memory);
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
	struct box *box = &hub->boxes[me];
	pthread_mutex_lock(&hub->lock);
	if (box->peers[peer] == PEER_FINE) {
		box->peers[peer] = PEER_LOST;
		box->lost = 1;
	}
	pthread_mutex_unlock(&hub->lock);
}

int hub_failure(struct hub *hub, int me)
{
	return atomic_load_explicit(&hub->boxes[me].failure, memory_order_relaxed);
}

void hub_fail(struct hub *hub, int me, int code)
{
	int none = 0;
	atomic_compare_exchange_strong(&hub->boxes[me].failure, &none, code);
}

void hub_leave(struct hub *hub, int me)
{
	pthread_mutex_lock(&hub->lock);
	atomic_store_explicit(&hub->boxes[me].closed, 1, memory_order_release);
	int last = --hub->users == 0;
	pthread_mutex_unlock(&hub->lock);
	if (last)
		hub_destroy(hub);
}
