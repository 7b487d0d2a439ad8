/* SPDX-License-Identifier: BSD-3-Clause */
#include "coll.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/collectives.h"
#include "base/log.h"

/* ---- Counts -------------------------------------------------------------------- */

/* One side of a call. */
struct side {
	const char *buffer;
	const size_t *counts, *displs; /* by rank; NULL: one block of own elements */
	size_t own;
	int blocks; /* 0: the rank has no such buffer */
};

static const char *name_of(const struct call *call)
{
	return coll_table[call->record.coll].name;
}

/* Whether the rank has a send (receive) buffer. */
static int has_side(const struct comm *comm, const struct call *call, int sending)
{
	const struct collective *c = &coll_table[call->record.coll];
	return comm->rank == call->record.root || !(sending ? c->root_sends : c->root_receives);
}

static int check_arrays(struct comm *comm, const struct call *call, const size_t *counts,
			const size_t *displs)
{
	const size_t most = PTRDIFF_MAX / corale_type_bytes(call->record.type);
	if (!counts || !displs)
		return log_error(CORALE_EINVAL, comm->rank,
				 "%s: the arrays of counts and displacements must not be NULL",
				 name_of(call));
	for (int r = 0; r < comm->size; r++) {
		size_t end;
		if (__builtin_add_overflow(counts[r], displs[r], &end) || end > most)
			return log_error(CORALE_EINVAL, comm->rank,
					 "%s: counts and displacements for rank %d overflow", name_of(call),
					 r);
	}
	return 0;
}

/* A side's arrays; *has: it has some. */
static int check_side(struct comm *comm, struct call *call, int sending, int *has)
{
	const struct collective *c = &coll_table[call->record.coll];
	const size_t **counts = sending ? &call->send_counts : &call->recv_counts,
		     **displs = sending ? &call->send_displs : &call->recv_displs;
	*has = (sending ? c->send : c->recv) == COLL_UNEVEN && has_side(comm, call, sending);
	if (*has)
		return check_arrays(comm, call, *counts, *displs);
	*counts = *displs = NULL;
	return 0;
}

static size_t largest_of(const size_t *counts, int n)
{
	size_t largest = 0;
	for (int r = 0; r < n; r++)
		largest = counts[r] > largest ? counts[r] : largest;
	return largest;
}

/* Of gather_v, scatter_v and all_to_all_v: what a rank sends to itself is counted twice. */
static int check_own(struct comm *comm, const struct call *call)
{
	const size_t out = call->send_counts ? call->send_counts[comm->rank] : call->own,
		     in = call->recv_counts ? call->recv_counts[comm->rank] : call->own;
	return out == in ? 0
			 : log_error(CORALE_EINVAL, comm->rank,
				     "%s: rank %d sends itself %zu elements and expects %zu", name_of(call),
				     comm->rank, out, in);
}

int uneven_check_counts(struct comm *comm, struct call *call)
{
	int sends, receives, ret = check_side(comm, call, 1, &sends);
	ret = ret ? ret : check_side(comm, call, 0, &receives);
	if (ret)
		return ret;
	if (coll_table[call->record.coll].counts_agree)
		call->record.count = largest_of(sends ? call->send_counts : call->recv_counts, comm->size);
	else if (sends || receives)
		ret = check_own(comm, call);
	else if (call->own > PTRDIFF_MAX / corale_type_bytes(call->record.type))
		ret = log_error(CORALE_EINVAL, comm->rank, "%s: count %zu of %s overflows", name_of(call),
				call->own, corale_type_name(call->record.type));
	if (sends || receives)
		call->own = (sends ? call->send_counts : call->recv_counts)[comm->rank];
	return ret;
}

/* ---- Buffers ------------------------------------------------------------------- */

static struct side side_of(const struct comm *comm, const struct call *call, int sending)
{
	const size_t *counts = sending ? call->send_counts : call->recv_counts;
	return (struct side){ .buffer = sending ? call->send : call->recv,
			      .counts = counts,
			      .displs = sending ? call->send_displs : call->recv_displs,
			      .own = call->own,
			      .blocks = !has_side(comm, call, sending) ? 0
					: counts                       ? comm->size
								       : 1 };
}

struct extent {
	uintptr_t begin, end;
};

/* The bytes of a block. */
static struct extent block_of(const struct side *side, int i, size_t element)
{
	const uintptr_t begin = (uintptr_t)side->buffer + (side->counts ? side->displs[i] : 0) * element;
	return (struct extent){ begin, begin + (side->counts ? side->counts[i] : side->own) * element };
}

int uneven_block(const struct comm *comm, const struct call *call, int sending, int i, const char **at,
		 size_t *bytes)
{
	const struct side side = side_of(comm, call, sending);
	if (i >= side.blocks)
		return 0;
	const struct extent e = block_of(&side, i, corale_type_bytes(call->record.type));
	*at = (const char *)e.begin;
	*bytes = e.end - e.begin;
	return 1;
}

static int is_empty(struct extent e)
{
	return e.begin >= e.end;
}

static int overlap(struct extent a, struct extent b)
{
	return !is_empty(a) && !is_empty(b) && a.begin < b.end && b.begin < a.end;
}

/* The bytes from the first to the last element of all blocks. */
static struct extent extent_of(const struct side *side, size_t element)
{
	struct extent all = { UINTPTR_MAX, 0 };
	for (int i = 0; i < side->blocks; i++) {
		const struct extent e = block_of(side, i, element);
		if (is_empty(e))
			continue;
		all.begin = e.begin < all.begin ? e.begin : all.begin;
		all.end = e.end > all.end ? e.end : all.end;
	}
	return all;
}

/* In place a side's one block is this rank's own of the other side. */
static int is_in_place(const struct comm *comm, const struct side *send, int s, const struct side *recv,
		       int r, size_t element)
{
	const int is_own = send->counts ? s == comm->rank : r == comm->rank;
	return is_own && (!send->counts || !recv->counts) &&
	       block_of(send, s, element).begin == block_of(recv, r, element).begin;
}

/* In place with a block for each rank in both buffers: the same blocks. */
static int is_all_in_place(const struct side *send, const struct side *recv)
{
	if (!send->counts || !recv->counts || send->buffer != recv->buffer)
		return 0;
	const size_t bytes = (size_t)send->blocks * sizeof *send->counts;
	return !memcmp(send->counts, recv->counts, bytes) && !memcmp(send->displs, recv->displs, bytes);
}

int uneven_check_buffers(struct comm *comm, const struct call *call)
{
	const size_t element = corale_type_bytes(call->record.type);
	const struct side send = side_of(comm, call, 1), recv = side_of(comm, call, 0);
	const struct extent out = extent_of(&send, element), in = extent_of(&recv, element);
	if ((!is_empty(out) && !send.buffer) || (!is_empty(in) && !recv.buffer))
		return log_error(CORALE_EINVAL, comm->rank, "%s: the %s buffer is NULL", name_of(call),
				 !is_empty(out) && !send.buffer ? "send" : "recv");
	if (!overlap(out, in) || is_all_in_place(&send, &recv) ||
	    (send.buffer == recv.buffer && coll_folds_to_front(call->record.coll)))
		return 0;
	for (int s = 0; s < send.blocks; s++) /* the extents meet: look at every pair of blocks */
		for (int r = 0; r < recv.blocks; r++)
			if (overlap(block_of(&send, s, element), block_of(&recv, r, element)) &&
			    !is_in_place(comm, &send, s, &recv, r, element))
				return log_error(CORALE_EINVAL, comm->rank,
						 send.counts && recv.counts
						     ? "%s: send and recv overlap, but are not the same "
						       "buffer with the same counts and displacements"
						     : "%s: send and recv overlap but are not in place",
						 name_of(call));
	return 0;
}

/* ---- On GPUs ------------------------------------------------------------------- */

/* This rank's edges of one side: from or to each other rank, or the root alone; the result of a fold is its own. displs are all 0. */
static void add_edges(const struct comm *comm, const struct call *call, int is_idle, const size_t **counts,
		      const size_t **displs, size_t *room)
{
	const int n = comm->size, root = call->record.root, rooted = coll_is_rooted(call->record.coll),
		  folds = coll_folds(call->record.coll);
	if (*counts)
		return;
	for (int r = 0; r < n; r++) {
		const int has_edge = folds ? r == comm->rank : !rooted || r == root;
		room[r] = is_idle || !has_edge ? 0 : call->own;
		room[n + r] = 0;
	}
	*counts = room;
	*displs = room + n;
}

int uneven_as_edges(struct comm *comm, struct call *call)
{
	const size_t n = (size_t)comm->size;
	if (!comm->edges && !(comm->edges = calloc(4 * n, sizeof *comm->edges)))
		return log_error(CORALE_ENOMEM, comm->rank, "%s: no memory for %zu counts", name_of(call),
				 4 * n);
	add_edges(comm, call, !has_side(comm, call, 1), &call->send_counts, &call->send_displs, comm->edges);
	add_edges(comm, call, !has_side(comm, call, 0), &call->recv_counts, &call->recv_displs,
		  comm->edges + 2 * n);
	return 0;
}
