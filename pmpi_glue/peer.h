/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of device memory by peer copies; docs/mpi.md says which ones, and when a send is complete. In place of the message MPI carries a header of 3 bytes, so that matching, order
 * and wildcards are MPI's: the number of a slot in the sender's table (peer_table.h), which says where the bytes are. Messages of 3 bytes are headers always. Headers go on
 * communicators whose id all ranks have agreed on when they made it together, between ranks that have mapped each other's tables in MPI_Init.
 *
 * With MPI_THREAD_MULTIPLE (the lock: request.h) the order of slots is that of their headers, and a probe finds the slot of a header as the oldest one that no receive
 * has. So no thread is inside MPI with a receive that a header may come to: blocking receives are requests, too, and what waits for one looks
 * at it with the lock (advance), which a probe has while it looks.
 *
 * peer_start.c agrees; peer_comm.c has the communicators; peer_send.c, peer_recv.c, peer_exchange.c and peer_probe.c are what functions of MPI do; peer_pull.c copies.
 */
#ifndef PMPI_PEER_H
#define PMPI_PEER_H

#include <mpi.h>
#include <stdint.h>

#include "comm.h"
#include "peer_table.h"
#include "request.h"
#include "staging.h"

struct pmpi_peer_state {
	int on; /* some ranks take headers; alike on all ranks of MPI_COMM_WORLD */
	int *
	    takes; /* of each rank of MPI_COMM_WORLD: whether this one sends headers to it, and it to this one */
	size_t least, eager;
	int64_t wait_ns; /* while its receiver reads no message, until one is copied */
	_Atomic long by_header, buffered, pooled, pulled; /* so far */
};
extern struct pmpi_peer_state pmpi_peer;

/* An MPI error code. In MPI_Init of all ranks, if any wants it; wanted: this one takes headers if it can. */
int pmpi_peer_start(int wanted);
void pmpi_peer_end(void); /* in MPI_Finalize */

/* ---- Communicators */

/* Of a communicator that its ranks have made together: headers go on it. id: 0: it is agreed on. An MPI error code. */
int pmpi_peer_agree(MPI_Comm comm, uint64_t id);

/* NULL: no headers go on it. */
static inline struct pmpi_comm *pmpi_peer_comm(MPI_Comm handle)
{
	struct pmpi_comm *comm = pmpi_peer.on ? pmpi_comm_find(handle) : NULL;
	return comm && comm->headers_id ? comm : NULL;
}

/* Its number in MPI_COMM_WORLD; -1: no headers go to it or come from it. */
static inline int pmpi_peer_rank(const struct pmpi_comm *headers, int rank)
{
	const int world = headers && rank >= 0 && rank < headers->size ? headers->world[rank] : -1;
	return world >= 0 && pmpi_peer.takes[world] ? world : -1;
}

/* Counts a call that is the door's: routed, or staged. */
void pmpi_p2p_count(enum pmpi_function function, int is_routed, size_t bytes, double begin);
/* What functions of MPI return for a call that is MPI's own, as the program made it. */
enum { PMPI_NOT_OURS = -1 };

/* ---- Sends: by a header, staged, or MPI's as the program made them. */

enum pmpi_send_mode { PMPI_STANDARD, PMPI_SYNCHRONOUS, PMPI_READY, PMPI_BUFFERED };
struct pmpi_sending;

/* A message of the program. */
struct pmpi_message {
	const void *buffer;
	MPI_Count count;
	MPI_Datatype type;
	int to, tag;
	MPI_Comm comm;
	enum pmpi_send_mode mode;
	int is_copied; /* before the call returns */
};

/* NULL and *ret MPI_SUCCESS: it is MPI's. */
struct pmpi_sending *pmpi_send_begin(const struct pmpi_message *m, MPI_Request *request, int *ret);
/* Whether MPI may complete its request; looks after the message, too. */
int pmpi_send_is_ready(struct pmpi_sending *sending, MPI_Request request);
/* Behind MPI's completion. */
void pmpi_send_end(struct pmpi_sending *sending, const MPI_Status *status);
/* MPI's own. */
int pmpi_send_plain(const struct pmpi_message *m, MPI_Request *request);

/* Functions of MPI: the mode says which. PMPI_NOT_OURS, or an MPI error code. */
int pmpi_send(const struct pmpi_message *m);
int pmpi_isend(const struct pmpi_message *m, MPI_Request *request);
int pmpi_send_init(const struct pmpi_message *m, MPI_Request *request);

/* ---- Receives: those that a header may come to, and those into device memory. */

/* The communicator, if a header may come; NULL: none does. */
static inline struct pmpi_comm *pmpi_peer_watched(int from, MPI_Comm comm)
{
	struct pmpi_comm *headers = from != MPI_PROC_NULL ? pmpi_peer_comm(comm) : NULL;
	return from == MPI_ANY_SOURCE || pmpi_peer_rank(headers, from) >= 0 ? headers : NULL;
}

enum pmpi_receiving_state {
	PMPI_POSTED, /* MPI has it */
	PMPI_MATCHED, /* MPI has completed it, by a header */
	PMPI_PULLING, /* the message is being copied */
	PMPI_RECEIVED /* it is in the program's buffer; or no header came */
};

/* A receive of the program. */
struct pmpi_incoming {
	void *buffer;
	MPI_Count count;
	MPI_Datatype type;
	int from, tag;
	MPI_Comm comm;
	MPI_Message *message; /* that was probed for: it is received, whatever from and tag are; NULL: none */
};

/* What MPI is given in the program's buffer's place. */
struct pmpi_receiving {
	struct pmpi_incoming in;
	struct pmpi_buffer s; /* the program's */
	struct pmpi_comm *headers; /* it is one of its users; NULL: no headers */
	void *buffer; /* the program's, header, or host's */
	struct pmpi_bytes as;
	unsigned char header[PEER_HEADER];
	struct pmpi_host host; /* for a message without a header */
	MPI_Request request;
	struct pmpi_receiving *next, *before; /* of those that are not PMPI_RECEIVED */
	enum pmpi_receiving_state state;
	int owner, slot; /* of the message, from PMPI_MATCHED on or probed for; slot -1: none */
	struct pmpi_mapping *mapping; /* that is read; NULL: none */
	struct pmpi_stream *stream; /* of the copy; NULL: it has ended */
	size_t bytes; /* received */
	int is_taken,
	    error; /* is_taken: a message without a header is in the program's buffer; error: of the copy, or MPI_ERR_TRUNCATE */
	/* Of requests. */
	struct pmpi_pending pending;
	struct pmpi_sending *sending; /* the other half of an exchange; NULL: MPI's, or none */
	MPI_Request send_request;
};

/* PMPI_NOT_OURS, as it is of host memory and without headers (unless is_wanted), or an MPI error code. */
int pmpi_receiving_make(const struct pmpi_incoming *in, int is_wanted, struct pmpi_receiving **out);
/* peer_probe.c: what is known of a message that was probed for, which is forgotten; the caller becomes a user of its communicator. NULL: it is no header, or not known. */
struct pmpi_comm *pmpi_matched_take(MPI_Message message, MPI_Comm *comm, int *slot);
/* Gives it to MPI. An MPI error code. */
int pmpi_receiving_post(struct pmpi_receiving *r, int is_persistent);
/*
 * Becomes the work of r->request, whose it is from here on. error: MPI's, of the call that was to make the request; with one r ends. An MPI error
 * code, that one first.
 */
int pmpi_receiving_keep(struct pmpi_receiving *r, int is_persistent, int error);
/* The owner of the slot of a header that a receive or probe has met, by its status; -1: none. */
int pmpi_peer_owner(const struct pmpi_comm *headers, const MPI_Status *status);
/* Starts and ends copies for receives that MPI has completed, whoever waits for them. */
void pmpi_peer_progress(void);
/* Until all copies that have started are complete: their senders wait for that, and this rank may be elsewhere. 0: there were none. */
int pmpi_peer_finish(void);
/* Claims the slots of receives that MPI has completed. 0: one that takes messages as status' may have one, and it is not known yet which. */
int pmpi_peer_claim_matched(const struct pmpi_comm *headers, const MPI_Status *status);

/* peer_pull.c. Of a receive that MPI has, for which a header may come: with the lock, from add to PMPI_RECEIVED. note: what MPI's completion
 * has brought. advance takes the lock: whether it is PMPI_RECEIVED, after what can be done for it now. await: until it is. follow: MPI has ended its request and returned ret: until it is PMPI_RECEIVED,
 * without MPI_THREAD_MULTIPLE. */
void pmpi_pull_add(struct pmpi_receiving *r);
void pmpi_pull_note(struct pmpi_receiving *r, const MPI_Status *status);
int pmpi_pull_advance(struct pmpi_receiving *r);
void pmpi_pull_await(struct pmpi_receiving *r);
void pmpi_pull_follow(struct pmpi_receiving *r, const MPI_Status *status, int ret);

/* Functions of MPI. */
int pmpi_recv(const struct pmpi_incoming *in, MPI_Status *status);
int pmpi_irecv(const struct pmpi_incoming *in, int is_persistent, MPI_Request *request);
/* request NULL: it waits. */
int pmpi_exchange(const struct pmpi_message *out, const struct pmpi_incoming *in, MPI_Request *request,
		  MPI_Status *status);

#endif
