/* SPDX-License-Identifier: BSD-3-Clause */
/* Links over MPI point-to-point (net/link.h), moved by whoever may call MPI. */
#ifndef MPI_LINK_H
#define MPI_LINK_H

#include <mpi.h>
#include <pthread.h>

#include "net/link.h"

/* Of a rank's tags, from its first one on: two a link, and control messages. */
enum { MPI_LINK_CONTROL_TAG = 2 * TRANSPORT_MAX_LINKS, MPI_LINK_TAGS, MPI_LINK_INLINE_BYTES = 4096 };
enum {
	MPI_LINK_END_BYTES = TRANSPORT_MAX_LINKS * sizeof(uint64_t)
}; /* of a control message: the sender closes its side (mpi_link_ends) */
_Static_assert((int)MPI_LINK_END_BYTES > (int)TRANSPORT_CONTROL_BYTES, "other control messages are shorter");

/* Travels in front of each message, with its payload if that is small. */
struct mpi_packet {
	uint64_t bytes;
	unsigned char header[TRANSPORT_HEADER_BYTES];
	unsigned char payload[MPI_LINK_INLINE_BYTES];
};

struct mpi_link;

/* What MPI holds: a message to a peer, the payload of one that comes, or a control message. */
struct mpi_op {
	struct mpi_op *next;
	MPI_Request requests[2]; /* packet, payload */
	int peer;
	struct mpi_link *link; /* NULL: a control message, or a peer's end, which is freed */
	int sends, complete;
	int borrows; /* its payload is in the caller's memory */
	struct mpi_packet *packet; /* of a message to a peer */
};

struct mpi_op_list {
	struct mpi_op *first, **end;
};

/* The links for whose next packet MPI was asked, in no order. */
struct mpi_awaited {
	MPI_Request *requests;
	struct mpi_link **links;
	int count, room;
};

/* What a rank tells the others. */
struct mpi_address {
	int rank; /* in the MPI communicator */
	int block; /* of tags, with which it receives; no other transport of its process has it */
};

/* A rank of the transport. */
struct mpi_peer {
	int rank; /* in the MPI communicator */
	int first_tag; /* of those with which it receives */
	int is_remote; /* messages are exchanged with it */
	struct mpi_link *links; /* to it */
	_Atomic(uint64_t *)
	    ends; /* [index]: how many messages it has sent; NULL: it has not closed its side */
	_Atomic int reported; /* that it has closed its side, and is needed */
};

struct mpi_transport {
	struct transport base;
	struct mpi_address address; /* this rank's */
	struct transport_params params;
	MPI_Comm comm;
	_Atomic unsigned char *partners; /* struct transport_mpi_row's */
	struct mpi_peer *peers; /* [rank] */
	int level; /* of threads, that MPI gave */
	pthread_t opener;
	pthread_mutex_t lock;
	struct mpi_op_list held; /* by MPI, in the order of the calls */
	struct mpi_op_list notes; /* control messages that no thread could give to MPI yet */
	struct mpi_awaited awaited;
	_Atomic int failure; /* the code of fail */
	int lost, lost_code; /* lost: 1 + a peer whose failure is to be reported */
	_Atomic int left; /* 1 + a peer that has closed its side, and is needed: to be reported */
};

extern const struct link_ops mpi_link_ops;

/* From MPI_THREAD_SERIALIZED on any thread that makes a call of ours may; below, the one that opened. */
int mpi_may_call(const struct mpi_transport *t);
/* Below MPI_THREAD_MULTIPLE also against other communicators. */
void mpi_lock(struct mpi_transport *t);
/* Not 0: another thread is at it. */
int mpi_try_lock(struct mpi_transport *t);
void mpi_unlock(struct mpi_transport *t);
/* For other calls of MPI: the thread level, for mpi_leave. */
int mpi_enter(void);
void mpi_leave(int level);

/* Under the lock, by a thread that may call MPI: */

/* Moves all that MPI holds; 1 if anything was completed. */
int mpi_link_advance(struct mpi_transport *t);
/* Takes back from MPI what no peer has begun. */
void mpi_link_cancel(struct mpi_transport *t);

/* What a rank that closes tells a peer: how many messages it has sent it, by link. ends: TRANSPORT_MAX_LINKS. */
void mpi_link_ends(const struct mpi_transport *t, int peer, uint64_t *ends);

/* What MPI holds, but for ranks whose messages were left to it before; borrowed: only what is in callers' memory. Under the lock. */
int mpi_link_left(const struct mpi_transport *t, int borrowed);
/* Leaves to MPI what it still holds, whose links stay for ever; the number of operations. Under the lock. */
int mpi_link_abandon(struct mpi_transport *t);

#endif
