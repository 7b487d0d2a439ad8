/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPI point-to-point, where there is no other network. Below MPI_THREAD_MULTIPLE one thread at a time calls MPI, below
 * MPI_THREAD_SERIALIZED only the one that opened: an abort of another thread waits until that one comes by.
 */
#include "transport_mpi.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "mpi_link.h"
#include "mpi_retire.h"
#include "mpi_thread.h"

static const double drain_seconds = 1;

/*
 * Communicators that were split share an MPI communicator: each rank receives with tags that none of its other transports has, and its
 * senders use those. The first tags are those of goodbyes.
 */
static _Atomic int next_block;

static int first_tag_of(int block)
{
	return MPI_RETIRE_TAGS + block * MPI_LINK_TAGS;
}

static const struct transport_ops ops;

static struct mpi_transport *of(const struct transport *t)
{
	return (struct mpi_transport *)t;
}

/* Every rank of the front door's MPI communicator. */
static uint64_t probe(const struct transport_row *row, int gpus, char *why_not, size_t bytes)
{
	int level;
	(void)row;
	MPI_Query_thread(&level);
	return !gpus || mpi_thread_check(level, mpi_thread_calls_cuda(), why_not, bytes);
}

static void free_transport(struct mpi_transport *t)
{
	if (!t)
		return;
	pthread_mutex_destroy(&t->lock);
	for (int r = 0; t->peers && r < t->params.size; r++)
		free(t->peers[r].ends);
	free(t->peers);
	free(t->awaited.requests);
	free(t->awaited.links);
	free(t);
}

static struct mpi_transport *make_transport(const struct transport_mpi_row *row,
					    const struct transport_params *params)
{
	size_t n = (size_t)params->size;
	struct mpi_transport *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	pthread_mutex_init(&t->lock, NULL);
	t->base =
	    (struct transport){ .ops = &ops, .address = &t->address, .address_bytes = sizeof(t->address) };
	t->params = *params;
	t->comm = row->comm;
	t->partners = row->partners;
	t->address.block = atomic_fetch_add(&next_block, 1);
	MPI_Comm_rank(t->comm, &t->address.rank);
	MPI_Query_thread(&t->level);
	t->opener = pthread_self();
	t->held.end = &t->held.first;
	t->notes.end = &t->notes.first;
	t->peers = calloc(n, sizeof *t->peers);
	if (t->peers)
		return t;
	free_transport(t);
	return NULL;
}

static int open_mpi(const struct transport_row *row, const struct transport_params *params,
		    struct transport **out)
{
	struct mpi_transport *t = make_transport((const struct transport_mpi_row *)row, params);
	if (!t)
		return log_error(CORALE_ENOMEM, params->rank, "transport mpi: no memory for %d ranks",
				 params->size);
	*out = &t->base;
	return 0;
}

/* Every rank comes to the same answer. */
static int connect_mpi(struct transport *base)
{
	struct mpi_transport *t = of(base);
	int block = 0, found = 0, *limit;

	MPI_Comm_get_attr(t->comm, MPI_TAG_UB, &limit, &found);
	const int blocks = ((found ? *limit : 32767) - MPI_RETIRE_TAGS) / MPI_LINK_TAGS;
	for (int r = 0; r < t->params.size; r++) {
		const struct mpi_address *a = transport_address(base, r);
		block = a->block > block ? a->block : block;
		if (block >= blocks)
			break;
		t->peers[r] = (struct mpi_peer){ .rank = a->rank,
						 .first_tag = first_tag_of(a->block),
						 .is_remote = t->params.needed[r] };
		unsigned char none = MPI_PARTNER_NONE;
		if (t->partners && t->params.needed[r])
			atomic_compare_exchange_strong(&t->partners[a->rank], &none, MPI_PARTNER);
	}
	return block < blocks
		   ? 0
		   : log_error(CORALE_ENOTSUP, t->params.rank,
			       "transport mpi: this MPI has tags for %d communicators, and they are used up",
			       blocks);
}

/* Keeps a message for a peer, outside of all links, until MPI has sent it; start_notes begins. */
static int control(struct transport *base, int peer, const void *message, size_t bytes)
{
	struct mpi_transport *t = of(base);
	struct note {
		struct mpi_op op;
		struct mpi_packet packet;
	} *note = calloc(1, sizeof(*note));
	if (!note)
		return log_error(CORALE_ENOMEM, t->params.rank,
				 "transport mpi: no memory for a control message");
	note->op = (struct mpi_op){ .requests = { MPI_REQUEST_NULL, MPI_REQUEST_NULL },
				    .peer = peer,
				    .packet = &note->packet };
	note->packet.bytes = bytes;
	memcpy(note->packet.payload, message, bytes);
	mpi_lock(t);
	*t->notes.end = &note->op;
	t->notes.end = &note->op.next;
	if (mpi_may_call(t))
		mpi_link_advance(t);
	mpi_unlock(t);
	return 0;
}

static int find_rank(const struct mpi_transport *t, int rank)
{
	for (int r = 0; r < t->params.size; r++)
		if (t->peers[r].rank == rank)
			return r;
	return -1;
}

/* Takes one control message, as a packet; its sender, or -1. Under the lock. */
static int take_control(struct mpi_transport *t, struct mpi_packet *packet)
{
	MPI_Status status;
	int there = 0, tag = t->peers[t->params.rank].first_tag + MPI_LINK_CONTROL_TAG;

	if (MPI_Iprobe(MPI_ANY_SOURCE, tag, t->comm, &there, &status) || !there)
		return -1;
	if (MPI_Recv(packet, sizeof(*packet), MPI_BYTE, status.MPI_SOURCE, tag, t->comm, MPI_STATUS_IGNORE))
		return -1;
	return find_rank(t, status.MPI_SOURCE);
}

/* A peer has closed its side: what it had sent still counts. */
static void keep_ends(struct mpi_transport *t, int peer, const struct mpi_packet *packet)
{
	uint64_t *none = NULL, *ends = malloc(MPI_LINK_END_BYTES);
	if (!ends) {
		log_error(CORALE_ENOMEM, t->params.rank,
			  "transport mpi: no memory to note that rank %d has left", peer);
		return;
	}
	memcpy(ends, packet->payload, MPI_LINK_END_BYTES);
	if (!atomic_compare_exchange_strong(&t->peers[peer].ends, &none, ends))
		free(ends);
}

static int progress(struct transport *base)
{
	struct mpi_transport *t = of(base);
	struct mpi_packet packet;

	if (!mpi_may_call(t) || mpi_try_lock(t))
		return 0;
	int moved = mpi_link_advance(t);
	const int lost = t->lost - 1, code = t->lost_code, left = atomic_exchange(&t->left, 0) - 1;
	int peer = take_control(t, &packet);
	t->lost = 0;
	mpi_unlock(t);
	if (peer >= 0 && packet.bytes == MPI_LINK_END_BYTES)
		keep_ends(t, peer, &packet);
	else if (peer >= 0)
		t->params.on_control(t->params.handler_ctx, peer, packet.payload, packet.bytes);
	if (left >= 0)
		t->params.on_failure(t->params.handler_ctx, left, CORALE_EPEER, transport_peer_left);
	if (lost >= 0)
		t->params.on_failure(t->params.handler_ctx, lost, code,
				     "a message to or from it failed, as was said before");
	return moved || peer >= 0 || left >= 0 || lost >= 0;
}

/* Lets MPI go on for a while; 1 if nothing is left (of callers' memory). */
static int drain(struct mpi_transport *t, int borrowed)
{
	const double deadline = MPI_Wtime() + drain_seconds;
	int left;
	do {
		mpi_lock(t);
		if (mpi_may_call(t))
			mpi_link_advance(t);
		left = mpi_link_left(t, borrowed);
		mpi_unlock(t);
		if (left)
			sched_yield();
	} while (left && MPI_Wtime() < deadline);
	return !left;
}

/* Gives up what MPI holds. */
static int give_up(struct mpi_transport *t)
{
	pthread_mutex_lock(&t->lock);
	const int left = mpi_link_abandon(t);
	pthread_mutex_unlock(&t->lock);
	return left;
}

/*
 * What MPI has begun ends by itself while the peer lives, and is in MPI; what has not ended after a moment is given up, and MPI may still write to its
 * buffers. Messages in memory of the transport's own are not waited for.
 */
static void fail(struct transport *base, int code)
{
	struct mpi_transport *t = of(base);

	mpi_lock(t);
	if (!t->failure)
		t->failure = code;
	if (mpi_may_call(t))
		mpi_link_cancel(t);
	mpi_unlock(t);
	if (drain(t, 1))
		return;
	log_line(LOG_WARN, t->params.rank,
		 "transport mpi: gave up %d messages that MPI still holds; their buffers may yet be used",
		 give_up(t));
}

/* So that a call of a peer that needs this rank ends. */
static void say_ends(struct mpi_transport *t)
{
	uint64_t ends[TRANSPORT_MAX_LINKS];
	for (int r = 0; r < t->params.size; r++) {
		if (!t->peers[r].is_remote)
			continue;
		mpi_link_ends(t, r, ends);
		control(&t->base, r, ends, sizeof ends);
	}
}

static void close_mpi(struct transport *base)
{
	struct mpi_transport *t = of(base);

	if (!t)
		return;
	say_ends(t);
	fail(base, CORALE_EABORTED);
	if (!drain(t, 0) || t->held.first) /* or a rank that was given up before has not come since */
		log_line(LOG_INFO, t->params.rank,
			 "transport mpi: closed with %d messages that MPI has yet to bring to their ranks, "
			 "which are outside of MPI; their memory is kept",
			 give_up(t));
	free_transport(t);
}

static const struct transport_ops ops = {
	.progress_by = TRANSPORT_CALLERS,
	.one_rail = 1, /* messages wake no thread of another rail's */
	.connect = connect_mpi,
	.links = &mpi_link_ops,
	.progress = progress,
	.control = control,
	.fail = fail,
	.close = close_mpi,
};

struct transport_mpi_row transport_mpi(MPI_Comm comm, _Atomic unsigned char *partners)
{
	return (
	    struct transport_mpi_row){ { .name = "mpi", .probe = probe, .open = open_mpi }, comm, partners };
}
