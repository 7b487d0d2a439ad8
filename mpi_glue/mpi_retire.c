/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi_retire.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/log.h"
#include "mpi_link.h"

struct retired {
	struct retired *next;
	MPI_Comm comm;
	int rank, size;
	_Atomic unsigned char *partners;
	MPI_Request *goodbyes; /* two to each partner */
	unsigned char (*said)[2]; /* [rank]: what this rank tells it */
	int sends;
	int silent, ending; /* partners whose goodbye, and whose end, has not come */
	int kept; /* never freed: MPI holds messages of it, or has failed */
	MPI_Request incoming; /* a message that is dropped, */
	int tag;
	void *message;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct retired *first;

/* A partner's goodbye is there: what it says is known before anything else of it is received. */
static int receive_goodbye(struct retired *r)
{
	MPI_Status status;
	int there = 0;
	unsigned char said = MPI_PARTNER;
	if (MPI_Iprobe(MPI_ANY_SOURCE, MPI_RETIRE_TAG, r->comm, &there, &status) || !there)
		return 0;
	if (MPI_Recv(&said, 1, MPI_BYTE, status.MPI_SOURCE, MPI_RETIRE_TAG, r->comm, MPI_STATUS_IGNORE))
		r->kept = 1;
	r->kept |= said == MPI_PARTNER_ABANDONED;
	r->silent--;
	return 1;
}

/* Drops the message under way; 0 if it is not here yet. */
static int drop(struct retired *r)
{
	int there = 1;
	if (r->incoming == MPI_REQUEST_NULL)
		return 1;
	if (MPI_Test(&r->incoming, &there, MPI_STATUS_IGNORE))
		r->kept = 1;
	if (!there || r->kept)
		return 0;
	free(r->message);
	r->message = NULL;
	r->ending -= r->tag == MPI_RETIRE_END_TAG;
	return 1;
}

/* Begins to receive the next message; 0 if there is none yet. MPI has those of a partner in order, so its end is the last. */
static int begin(struct retired *r)
{
	MPI_Status status;
	int there = 0, bytes = 0;
	if (MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, r->comm, &there, &status) || !there)
		return 0;
	MPI_Get_count(&status, MPI_BYTE, &bytes);
	r->tag = status.MPI_TAG;
	r->message = malloc((size_t)bytes + 1);
	if (!r->message) /* the next look tries again */
		return 0;
	if (MPI_Irecv(r->message, bytes, MPI_BYTE, status.MPI_SOURCE, r->tag, r->comm, &r->incoming))
		r->kept = 1;
	return !r->kept;
}

/* 1 if nothing of the communicator is under way any more. */
static int is_over(struct retired *r)
{
	int sent = 0;
	while (r->silent && receive_goodbye(r))
		;
	if (r->silent)
		return 0;
	while (!r->kept && r->ending && drop(r) && r->ending && begin(r))
		;
	if (r->kept || r->ending)
		return 0;
	return !MPI_Testall(r->sends, r->goodbyes, &sent, MPI_STATUSES_IGNORE) && sent;
}

static void free_retired(struct retired *r)
{
	if (r->comm != MPI_COMM_NULL && MPI_Comm_free(&r->comm))
		log_error(CORALE_ETRANSPORT, r->rank, "MPI_Comm_free failed");
	free(r->goodbyes);
	free(r->said);
	free((void *)r->partners);
	free(r);
}

/* Under the lock. */
static int advance(void)
{
	int waiting = 0;
	for (struct retired **at = &first, *r; (r = *at);) {
		if (!is_over(r)) {
			at = &r->next;
			waiting += r->silent || !r->kept;
			continue;
		}
		*at = r->next;
		free_retired(r);
	}
	return waiting;
}

static int send(struct retired *r, int partner, int tag)
{
	const int i = tag == MPI_RETIRE_END_TAG;
	r->said[partner][i] = r->partners[partner];
	return MPI_Isend(&r->said[partner][i], 1, MPI_BYTE, partner, tag, r->comm, &r->goodbyes[r->sends++]);
}

static void say_goodbyes(struct retired *r)
{
	for (int q = 0; q < r->size; q++) {
		if (!r->partners[q])
			continue;
		r->silent++;
		r->ending++;
		r->kept |= r->partners[q] == MPI_PARTNER_ABANDONED;
		if (send(r, q, MPI_RETIRE_TAG) || send(r, q, MPI_RETIRE_END_TAG))
			r->kept = 1;
	}
}

static struct retired *make(MPI_Comm comm, int rank, _Atomic unsigned char *partners)
{
	struct retired *r = calloc(1, sizeof(*r));
	if (!r)
		return NULL;
	*r = (struct retired){ .comm = MPI_COMM_NULL, .rank = rank, .incoming = MPI_REQUEST_NULL };
	MPI_Comm_size(comm, &r->size);
	r->goodbyes = calloc((size_t)r->size, 2 * sizeof(*r->goodbyes));
	r->said = calloc((size_t)r->size, sizeof(*r->said));
	if (!r->goodbyes || !r->said) {
		free_retired(r);
		return NULL;
	}
	r->comm = comm;
	r->partners = partners;
	return r;
}

void mpi_retire(MPI_Comm comm, int rank, _Atomic unsigned char *partners)
{
	const int level = mpi_enter();
	struct retired *r = make(comm, rank, partners);
	if (r) {
		pthread_mutex_lock(&lock);
		say_goodbyes(r);
		r->next = first;
		first = r;
		advance();
		pthread_mutex_unlock(&lock);
	} else {
		free((void *)partners);
		log_error(CORALE_ENOMEM, rank, "no memory to free an MPI communicator: it stays");
	}
	mpi_leave(level);
}

int mpi_retired_advance(void)
{
	const int level = mpi_enter();
	pthread_mutex_lock(&lock);
	const int waiting = advance();
	pthread_mutex_unlock(&lock);
	mpi_leave(level);
	return waiting;
}
