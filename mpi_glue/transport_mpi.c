/*
 * Messages over MPI point-to-point, where there is no other network.
 *
 * Small messages travel in one packet behind their header; large ones follow their packet in pieces that MPI can
 * count. Below MPI_THREAD_MULTIPLE one thread at a time calls MPI, below MPI_THREAD_SERIALIZED only the one that opened: an abort
 * of another thread waits in the list until that one comes by.
 */
#include "transport_mpi.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "mpi_message.h"
#include "mpi_thread.h"

static const double drain_seconds = 2;

/* Tags of communicators that share an MPI communicator and a process must differ. */
static _Atomic int next_block;

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
	free(t->ranks);
	free(t->awaited.requests);
	free(t->awaited.ops);
	free(t->waiting);
	free(t);
}

static struct mpi_transport *make_transport(MPI_Comm comm, const struct transport_params *params)
{
	size_t n = (size_t)params->size;
	struct mpi_transport *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	pthread_mutex_init(&t->lock, NULL);
	t->base =
	    (struct transport){ .ops = &ops, .address = &t->address, .address_bytes = sizeof(t->address) };
	t->params = *params;
	t->comm = comm;
	t->address.block = next_block;
	MPI_Comm_rank(comm, &t->address.rank);
	MPI_Query_thread(&t->level);
	t->opener = pthread_self();
	t->end = &t->head;
	t->ranks = calloc(n, sizeof(int));
	t->waiting = calloc(n * TRANSPORT_MAX_LANES, sizeof(unsigned));
	if (t->ranks && t->waiting)
		return t;
	free_transport(t);
	return NULL;
}

static int open_mpi(const struct transport_row *row, const struct transport_params *params,
		    struct transport **out)
{
	struct mpi_transport *t = make_transport(((const struct transport_mpi_row *)row)->comm, params);
	if (!t)
		return log_error(CORALE_ENOMEM, params->rank, "transport mpi: no memory for %d ranks",
				 params->size);
	*out = &t->base;
	return 0;
}

/* Chooses tags that no member uses elsewhere; every rank comes to the same answer. */
static int connect_mpi(struct transport *base)
{
	struct mpi_transport *t = of(base);
	int block = 0, found = 0, *limit;

	for (int r = 0; r < t->params.size; r++) {
		const struct mpi_address *a = transport_address(base, r);
		t->ranks[r] = a->rank;
		block = a->block > block ? a->block : block;
	}
	MPI_Comm_get_attr(t->comm, MPI_TAG_UB, &limit, &found);
	if (block >= (found ? *limit : 32767) / MPI_MESSAGE_TAGS)
		return log_error(
		    CORALE_ENOTSUP, t->params.rank,
		    "transport mpi: this MPI has tags for %d communicators, and they are used up",
		    (found ? *limit : 32767) / MPI_MESSAGE_TAGS);
	next_block = block + 1;
	t->first_tag = block * MPI_MESSAGE_TAGS;
	return 0;
}

/* From MPI_THREAD_SERIALIZED on any thread that makes a call of ours may; below, the one that MPI knows. */
static int may_call(const struct mpi_transport *t)
{
	return t->level >= MPI_THREAD_SERIALIZED || pthread_equal(t->opener, pthread_self());
}

/* Communicators may be used by several threads at once; MPI may not, below MPI_THREAD_MULTIPLE. */
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

static void lock_mpi(struct mpi_transport *t)
{
	pthread_mutex_lock(&t->lock);
	if (t->level < MPI_THREAD_MULTIPLE)
		pthread_mutex_lock(&one_at_a_time);
}

/* Not 0: another thread is at it. */
static int try_lock_mpi(struct mpi_transport *t)
{
	int busy = pthread_mutex_trylock(&t->lock);
	if (busy || t->level == MPI_THREAD_MULTIPLE)
		return busy;
	busy = pthread_mutex_trylock(&one_at_a_time);
	if (busy)
		pthread_mutex_unlock(&t->lock);
	return busy;
}

static void unlock_mpi(struct mpi_transport *t)
{
	if (t->level < MPI_THREAD_MULTIPLE)
		pthread_mutex_unlock(&one_at_a_time);
	pthread_mutex_unlock(&t->lock);
}

static int check(const struct mpi_transport *t, int peer, int lane)
{
	if (peer >= 0 && peer < t->params.size && lane >= 0 && lane < TRANSPORT_MAX_LANES)
		return 0;
	return log_error(CORALE_EINVAL, t->params.rank,
			 "transport mpi: peer %d, lane %d; expected peers below %d, lanes below %d", peer,
			 lane, t->params.size, TRANSPORT_MAX_LANES);
}

static int finish_at_once(struct transport_request *request, int status)
{
	request->status = status;
	atomic_store_explicit(&request->done, 1, memory_order_release);
	return status;
}

/* Adds to the list, and lets MPI begin if this thread may. */
static int submit(struct mpi_transport *t, int peer, int lane, int sends, const void *header, void *buf,
		  size_t bytes, struct transport_request *request)
{
	int ret = check(t, peer, lane);

	request->status = 0;
	request->bytes = sends ? bytes : 0;
	atomic_store_explicit(&request->done, 0, memory_order_relaxed);
	if (!ret && !may_call(t))
		ret = log_error(
		    CORALE_ENOTSUP, t->params.rank,
		    "transport mpi: this thread has not made the communicator, and MPI has a thread "
		    "level below MPI_THREAD_SERIALIZED: ask MPI_Init_thread for that, or make all "
		    "calls from one thread");
	if (ret)
		return finish_at_once(request, ret);
	lock_mpi(t);
	ret = t->failure ? t->failure : mpi_message_add(t, peer, lane, sends, header, buf, bytes, request);
	if (!ret)
		mpi_message_advance(t);
	unlock_mpi(t);
	return ret ? finish_at_once(request, ret) : 0;
}

static int post_send(struct transport *t, int peer, int lane, const void *header, const void *buf,
		     size_t bytes, struct transport_request *request)
{
	return submit(of(t), peer, lane, 1, header, (void *)buf, bytes, request);
}

static int post_recv(struct transport *t, int peer, int lane, void *buf, size_t capacity,
		     struct transport_request *request)
{
	return submit(of(t), peer, lane, 0, NULL, buf, capacity, request);
}

static int control(struct transport *base, int peer, const void *message, size_t bytes)
{
	struct mpi_transport *t = of(base);
	int ret = check(t, peer, 0);

	if (ret)
		return ret;
	if (bytes > TRANSPORT_CONTROL_BYTES)
		return log_error(CORALE_EINVAL, t->params.rank,
				 "transport mpi: a control message of %zu bytes; at most %d", bytes,
				 TRANSPORT_CONTROL_BYTES);
	lock_mpi(t);
	ret = mpi_message_add(t, peer, 0, 1, NULL, (void *)message, bytes, NULL);
	if (!ret && may_call(t))
		mpi_message_advance(t);
	unlock_mpi(t);
	return ret;
}

static int find_rank(const struct mpi_transport *t, int rank)
{
	for (int r = 0; r < t->params.size; r++)
		if (t->ranks[r] == rank)
			return r;
	return -1;
}

/* Takes one control message, as a packet; its sender, or -1. Under the lock. */
static int take_control(struct mpi_transport *t, struct mpi_packet *packet)
{
	MPI_Status status;
	int there = 0, tag = t->first_tag + MPI_MESSAGE_CONTROL_TAG;

	if (MPI_Iprobe(MPI_ANY_SOURCE, tag, t->comm, &there, &status) || !there)
		return -1;
	if (MPI_Recv(packet, sizeof(*packet), MPI_BYTE, status.MPI_SOURCE, tag, t->comm, MPI_STATUS_IGNORE))
		return -1;
	return find_rank(t, status.MPI_SOURCE);
}

static int progress(struct transport *base)
{
	struct mpi_transport *t = of(base);
	struct mpi_packet packet;

	if (!may_call(t) || try_lock_mpi(t))
		return 0;
	int moved = mpi_message_advance(t), lost = t->lost - 1;
	int peer = take_control(t, &packet);
	t->lost = 0;
	unlock_mpi(t);
	if (peer >= 0)
		t->params.on_control(t->params.handler_ctx, peer, packet.payload, packet.bytes);
	if (lost >= 0)
		t->params.on_failure(t->params.handler_ctx, lost, CORALE_EPEER, "MPI reported an error");
	return moved || peer >= 0 || lost >= 0;
}

/* Lets MPI go on for a while; 1 if nothing is left. */
static int drain(struct mpi_transport *t, double seconds)
{
	double deadline = MPI_Wtime() + seconds;
	int left;
	do {
		lock_mpi(t);
		if (may_call(t))
			mpi_message_advance(t);
		left = t->head != NULL;
		unlock_mpi(t);
		if (left)
			sched_yield();
	} while (left && MPI_Wtime() < deadline);
	return !left;
}

/*
 * What MPI has begun ends by itself while the peer lives; what has not ended after a moment is given up, and MPI
 * may still write to its buffers.
 */
static void fail(struct transport *base, int code)
{
	struct mpi_transport *t = of(base);

	lock_mpi(t);
	if (!t->failure)
		t->failure = code;
	mpi_message_cancel(t, code, may_call(t));
	unlock_mpi(t);
	if (drain(t, drain_seconds))
		return;
	pthread_mutex_lock(&t->lock);
	int left = mpi_message_abandon(t, code);
	pthread_mutex_unlock(&t->lock);
	log_line(LOG_WARN, t->params.rank,
		 "transport mpi: gave up %d messages that MPI still holds; their buffers may yet be used",
		 left);
}

static void describe(const struct transport *base, int peer, char *buf, size_t bytes)
{
	const struct mpi_transport *t = (const struct mpi_transport *)base;
	snprintf(buf, bytes, "MPI point-to-point%s",
		 t->level == MPI_THREAD_MULTIPLE ? "" : ", moved by the user's threads only");
	(void)peer;
}

static void close_mpi(struct transport *base)
{
	struct mpi_transport *t = of(base);

	if (!t->failure) {
		lock_mpi(t);
		mpi_message_cancel(t, CORALE_EABORTED, may_call(t));
		unlock_mpi(t);
	}
	if (!drain(t, drain_seconds))
		fail(base, CORALE_EABORTED);
	free_transport(t);
}

static const struct transport_ops ops = {
	.mover = TRANSPORT_BY_CALLERS,
	.one_rail = 1, /* messages wake no thread of another rail's */
	.connect = connect_mpi,
	.send = post_send,
	.recv = post_recv,
	.progress = progress,
	.control = control,
	.fail = fail,
	.describe = describe,
	.close = close_mpi,
};

struct transport_mpi_row transport_mpi(MPI_Comm comm)
{
	return (struct transport_mpi_row){ { .name = "mpi", .probe = probe, .open = open_mpi }, comm };
}
