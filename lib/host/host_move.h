/* SPDX-License-Identifier: BSD-3-Clause */
/* One action of a host's program while it moves data, between host_move.c and host_fill.c. */
#ifndef HOST_MOVE_H
#define HOST_MOVE_H

#include "host_engine.h"

/* A message can't be read, and its sender is asked for it: the action is to be executed again. */
enum { MOVE_LATER = 1 };

struct move {
	struct host_run *run;
	struct host_channel *ch;
	struct host_program *p;
	const struct plan_action *a;
	size_t folded; /* elements of this action, those of earlier attempts included */
	struct host_source *sources; /* the channel's */
	int nsources;
	int lent; /* some of them may be: by its rank, until its call ends */
	unsigned char *local,
	    *message; /* NULL: absent; where the result goes; message: the first buffer it is sent from */
	size_t message_bytes;
	const unsigned char *shared; /* where the message lies unchanged until it was read, or NULL */
	int result; /* sources[0] is the result already */
	struct host_out *out; /* the queue to local readers, or NULL */
	struct window_header *header;
	int kind; /* enum window_message */
	int is_timed; /* the message's way is measured (host_path.h) */
	int is_last; /* what is filled is the receive buffer of a call that exceeds the caches */
};

/* What the action reads: messages and local spans, in the order of folds. 0 or an error. */
int move_gather_sources(struct move *m);
/* Copies or folds the sources into a target. 0, MOVE_LATER or an error. */
int move_fill(struct move *m, unsigned char *target);
/* True if the result is the only source, bit for bit. */
int move_is_copy(const struct move *m);
/* The span of an action that may be of several runs: the one in a buffer, if there is one; and how long the first run is. */
const struct plan_location *move_find_span(const struct move *m, size_t *first);

static inline struct host_temp *move_temp(const struct move *m)
{
	return &m->run->engine->temps[m->ch->env.channel];
}

#endif
