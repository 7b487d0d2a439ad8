/* Where the ranks of the in-process transport meet: rings of messages and boxes of control messages. */
#ifndef TRANSPORT_HUB_H
#define TRANSPORT_HUB_H

#include <stddef.h>

#include "link.h"

struct hub;

/* One direction of a link: the slots, which both ends use. */
struct hub_ring {
	int depth;
	size_t bytes; /* of a slot */
	struct link_message *messages;
	int given; /* in memory of the receiver's own */
	struct link_memory memory;
	_Atomic uint64_t arrived, taken;
};

struct hub_note {
	struct hub_note *next;
	int from;
	size_t bytes;
	unsigned char message[TRANSPORT_CONTROL_BYTES];
};

/* For size ranks that share it; NULL without memory. */
struct hub *hub_create(int size);
void hub_destroy(struct hub *hub);

/* Puts a note, the hub's from here on, into a rank's box. */
void hub_put(struct hub *hub, int to, struct hub_note *note);
/*
 * What happened for me since the last call: all notes, oldest first (to be freed), and which peers are newly lost
 * (a byte a rank, to be freed, or NULL). Returns 1 if there is any.
 */
int hub_take(struct hub *hub, int me, struct hub_note **notes, unsigned char **lost);

/* The ring of a lane from one rank to another; made by whoever comes first, with slots as params say, if that one may (lanes below
 * transport_slots.lanes, or memory of the receiver's own). NULL: not made yet, or no memory. It goes with the hub. */
struct hub_ring *hub_ring(struct hub *hub, int from, int to, const struct link_params *params);
/* 0, or why nothing comes from a peer any more that its rings do not hold: read their words behind it. */
int hub_lost(struct hub *hub, int me, int peer);
/* Something was awaited from a peer that is gone: hub_take will tell, once. */
void hub_report(struct hub *hub, int me, int peer);
/* The code of hub_fail, or 0. */
int hub_failure(struct hub *hub, int me);

/* me's links fail with code from here on. */
void hub_fail(struct hub *hub, int me, int code);
/* me goes; what it has posted stays for its peers. The last one frees the hub. */
void hub_leave(struct hub *hub, int me);

#endif
