/* Messages over MPI point-to-point: a list of ops, moved by whoever may call MPI. */
#ifndef MPI_MESSAGE_H
#define MPI_MESSAGE_H

#include <mpi.h>
#include <pthread.h>

#include "net/transport.h"

enum { MPI_MESSAGE_CONTROL_TAG = 2 * TRANSPORT_MAX_LANES, MPI_MESSAGE_TAGS, MPI_MESSAGE_INLINE_BYTES = 4096 };

/* Travels in front of each message, with its payload if that is small. */
struct mpi_packet {
	uint64_t bytes;
	unsigned char header[TRANSPORT_HEADER_BYTES];
	unsigned char payload[MPI_MESSAGE_INLINE_BYTES];
};

struct mpi_op;

/* The recvs whose packets MPI was asked for, in no order. */
struct mpi_awaited {
	MPI_Request *requests;
	struct mpi_op **ops;
	int count, room;
};

/* What a rank tells the others. */
struct mpi_address {
	int rank; /* in the MPI communicator */
	int block; /* of tags: the first that it uses nowhere */
};

struct mpi_transport {
	struct transport base;
	struct transport_params params;
	MPI_Comm comm;
	struct mpi_address address; /* this rank's */
	int *ranks; /* in comm, of our ranks */
	int first_tag; /* ours are MPI_MESSAGE_TAGS from here */
	int level; /* of threads, that MPI gave */
	pthread_t opener;
	pthread_mutex_t lock;
	struct mpi_op *head, **end; /* in the order of the calls */
	struct mpi_awaited awaited;
	unsigned *waiting; /* [peer][lane]: the pass in which an earlier recv still waits for its packet */
	unsigned pass;
	int failure, lost; /* lost: 1 + a peer whose failure is to be reported */
};

/* A new op at the end of the list. request NULL: a control message, which is copied. Under the lock. */
int mpi_message_add(struct mpi_transport *t, int peer, int lane, int sends, const void *header, void *buf,
		    size_t bytes, struct transport_request *request);
/* Moves all ops; 1 if one was completed. Under the lock, by a thread that may call MPI. */
int mpi_message_advance(struct mpi_transport *t);
/* Ends with code what MPI does not hold, and cancels recvs. Under the lock; calls MPI if this thread may. */
void mpi_message_cancel(struct mpi_transport *t, int code, int may_call_mpi);
/* Ends with code whatever is left, without MPI's consent; the number of ops. Under the lock. */
int mpi_message_abandon(struct mpi_transport *t, int code);

#endif
