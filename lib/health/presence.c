/* SPDX-License-Identifier: BSD-3-Clause */
#include "presence.h"

#include <stdio.h>
#include <unistd.h>

#include "host/liveness.h"

static int is_local(const struct comm *comm, int rank)
{
	return host_is_local(&comm->engine, rank);
}

/* Where a rank of another node is described; NULL: the rank is of this node. */
static struct comm_peer *remote_of(const struct comm *comm, int rank)
{
	return comm->peers && !is_local(comm, rank) ? &comm->peers[rank] : NULL;
}

static enum window_left left_of(const struct comm *comm, int rank)
{
	const struct window_control *control = comm_control(comm, rank);
	const struct comm_peer *peer = remote_of(comm, rank);
	if (peer)
		return (enum window_left)atomic_load_explicit(&peer->left, memory_order_acquire);
	return control ? (enum window_left)atomic_load_explicit(&control->left, memory_order_acquire)
		       : WINDOW_PRESENT;
}

static enum liveness_state process_state(const struct comm *comm, int rank)
{
	const struct host_engine *e = &comm->engine;
	const struct comm_peer *peer = remote_of(comm, rank);
	if (peer)
		return atomic_load_explicit(&peer->is_lost, memory_order_acquire) ? LIVENESS_DIED
										  : LIVENESS_ALIVE;
	const struct liveness *life =
	    e->liveness && is_local(comm, rank) ? e->liveness[e->map.local_of[rank]] : NULL;
	return life ? liveness_state(life) : LIVENESS_ALIVE;
}

/* The process is looked at first: behind its end all that it has shown is there. */
enum presence presence_of(const struct comm *comm, int rank)
{
	const int lives = process_state(comm, rank) == LIVENESS_ALIVE;
	const enum window_left left = left_of(comm, rank);
	if (left == WINDOW_PRESENT)
		return lives ? IS_PRESENT : HAS_DIED;
	return left != WINDOW_REVOKED ? HAS_LEFT : lives ? HAS_REVOKED : HAS_DIED;
}

int presence_is_over(const struct comm *comm, int rank)
{
	const enum window_left left = left_of(comm, rank);
	if (remote_of(comm, rank))
		return left == WINDOW_ABORTED || left == WINDOW_REVOKED;
	return presence_of(comm, rank) != IS_PRESENT;
}

/* A rank that has revoked comm may leave it, too. */
static int may_follow(enum window_left before, enum window_left how)
{
	return before == WINDOW_PRESENT || (before == WINDOW_REVOKED && how != WINDOW_REVOKED);
}

int presence_leave(struct comm *comm, enum window_left how)
{
	struct window_control *control = comm_control(comm, comm->rank);
	uint64_t before = control ? atomic_load(&control->left) : WINDOW_PRESENT;
	while (may_follow((enum window_left)before, how))
		if (!control || atomic_compare_exchange_weak(&control->left, &before, (uint64_t)how))
			return 1;
	return 0;
}

void presence_told(struct comm *comm, int rank, enum window_left how)
{
	struct comm_peer *peer = remote_of(comm, rank);
	int before = peer ? atomic_load(&peer->left) : WINDOW_DESTROYED;
	while (may_follow((enum window_left)before, how))
		if (atomic_compare_exchange_weak(&peer->left, &before, (int)how))
			break;
	atomic_store(&comm->has_gone, 1);
}

void presence_lost(struct comm *comm, int rank, const char *reason)
{
	struct comm_peer *peer = remote_of(comm, rank);
	if (!peer || atomic_load(&peer->is_lost))
		return;
	pthread_mutex_lock(&comm->error_lock);
	snprintf(peer->loss, sizeof peer->loss, "%s", reason);
	atomic_store_explicit(&peer->is_lost, 1, memory_order_release); /* behind the reason */
	pthread_mutex_unlock(&comm->error_lock);
	atomic_store(&comm->has_gone, 1);
}

int presence_how(const struct comm *comm, int rank)
{
	switch (presence_of(comm, rank)) {
	case IS_PRESENT:
		return 0;
	case HAS_DIED:
		return 1 + WINDOW_PRESENT;
	default:
		return 1 + (int)left_of(comm, rank);
	}
}

/* ---- Texts ------------------------------------------------------------------------------- */

long presence_pid(const struct comm *comm, int rank)
{
	const struct host_engine *e = &comm->engine;
	return e->pids && is_local(comm, rank) ? (long)e->pids[e->map.local_of[rank]] : 0;
}

void presence_print_rank(const struct comm *comm, int rank, char *buf, size_t bytes)
{
	const long pid = presence_pid(comm, rank);
	if (comm->peers)
		snprintf(buf, bytes, "rank %d (process %d of host %s)", rank, comm->peers[rank].pid,
			 comm->peers[rank].host);
	else if (pid)
		snprintf(buf, bytes, "rank %d (process %ld of this host)", rank, pid);
	else
		snprintf(buf, bytes, "rank %d", rank);
}

static const char *text_of_leaving(enum window_left how)
{
	switch (how) {
	case WINDOW_DESTROYED:
		return "has destroyed the communicator";
	case WINDOW_ABORTED:
		return "has aborted the communicator";
	case WINDOW_REVOKED:
		return "has revoked the communicator";
	default:
		return "has died: it was killed, or left by _exit()";
	}
}

/* Of one that is not present, by this rank's own knowledge or another one's. */
static const char *text_of(const struct comm *comm, int rank, int how)
{
	const enum presence presence = presence_of(comm, rank);
	enum window_left left = presence == IS_PRESENT ? (enum window_left)(how - 1) : left_of(comm, rank);
	if (left == WINDOW_REVOKED && presence == HAS_DIED)
		left = WINDOW_PRESENT;
	if (left == WINDOW_EXITED || (left == WINDOW_PRESENT && process_state(comm, rank) == LIVENESS_EXITED))
		return comm->traits.leaves_quietly ? "has called exit()"
						   : "has called exit() without corale_comm_destroy";
	if (left == WINDOW_PRESENT && remote_of(comm, rank))
		return "has died, or its node or link is lost";
	return text_of_leaving(left);
}

/* ": the connection over tcp/eth0 failed: ..." of a rank whose end is known by that alone. */
static void print_loss(const struct comm *comm, int rank, char *buf, size_t bytes)
{
	const struct comm_peer *peer = remote_of(comm, rank);
	buf[0] = '\0';
	if (peer && atomic_load_explicit(&peer->is_lost, memory_order_acquire) &&
	    left_of(comm, rank) == WINDOW_PRESENT)
		snprintf(buf, bytes, ": %s", peer->loss);
}

void presence_print_gone(const struct comm *comm, int rank, char *buf, size_t bytes)
{
	char loss[sizeof comm->peers->loss + 2];
	const long pid = presence_pid(comm, rank);
	print_loss(comm, rank, loss, sizeof loss);
	if (remote_of(comm, rank))
		snprintf(buf, bytes, "rank %d, which %s (process %d of host %s)%s", rank,
			 text_of(comm, rank, 0), comm->peers[rank].pid, comm->peers[rank].host, loss);
	else
		snprintf(buf, bytes, "rank %d, which %s (process %ld of this host)", rank,
			 text_of(comm, rank, 0), pid ? pid : (long)getpid());
}

int presence_print_end(const struct comm *comm, int rank, int how, char *buf, size_t bytes)
{
	char name[160], loss[sizeof comm->peers->loss + 2];
	if (presence_of(comm, rank) == IS_PRESENT && !how)
		return 0;
	presence_print_rank(comm, rank, name, sizeof name);
	print_loss(comm, rank, loss, sizeof loss);
	snprintf(buf, bytes, "%s %s%s", name, text_of(comm, rank, how), loss);
	return 1;
}
