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

#include "functions.h"
#include "peer_table.h"
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

struct pmpi_group {
	_Atomic int users; /* the communicator and receives */
	uint64_t id;
	int size;
	int ranks[]; /* in MPI_COMM_WORLD; -1: gets and sends no headers */
};
/* NULL: no headers. */
struct pmpi_group *pmpi_group_of(MPI_Comm comm);
void pmpi_group_put(struct pmpi_group *group); /* NULL is nothing */
/* Of a communicator that its ranks have made together. An MPI error code. */
int pmpi_group_make(MPI_Comm comm, uint64_t id); /* id: 0: it is agreed on */

/* Its number in MPI_COMM_WORLD; -1: no headers go to it or come from it. */
static inline int pmpi_group_rank(const struct pmpi_group *group, int rank)
{
	return group && rank >= 0 && rank < group->size ? group->ranks[rank] : -1;
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

/* The communicator's headers, if one may come; NULL: none does. */
static inline struct pmpi_group *pmpi_peer_watched(int from, MPI_Comm comm)
{
	struct pmpi_group *group = pmpi_peer.on && from != MPI_PROC_NULL ? pmpi_group_of(comm) : NULL;
	return from == MPI_ANY_SOURCE || pmpi_group_rank(group, from) >= 0 ? group : NULL;
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
	struct pmpi_group *group; /* NULL: no headers */
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
	struct pmpi_sending *sending; /* the other half of an exchange; NULL: MPI's, or none */
	MPI_Request send_request;
};

/* PMPI_NOT_OURS, as it is of host memory and without headers (unless is_ours), or an MPI error code. */
int pmpi_receiving_make(const struct pmpi_incoming *in, int is_ours, struct pmpi_receiving **out);
/* peer_probe.c: gives r what is known of a message that was probed for, which is forgotten: its communicator, group and slot. Nothing is known of one without a header. */
void pmpi_matched_take(MPI_Message message, struct pmpi_receiving *r);
/* Gives it to MPI. An MPI error code. */
int pmpi_receiving_post(struct pmpi_receiving *r, int is_persistent);
/*
 * Becomes the work of r->request, whose it is from here on. error: MPI's, of the call that was to make the request; with one r ends. An MPI error
 * code, that one first.
 */
int pmpi_receiving_keep(struct pmpi_receiving *r, int is_persistent, int error);
/* The owner of the slot of a header that a receive or probe has met, by its status; -1: none. */
int pmpi_peer_owner(const struct pmpi_group *group, const MPI_Status *status);
/* Starts and ends copies for receives that MPI has completed, whoever waits for them. */
void pmpi_peer_progress(void);
/* Until all copies that have started are complete: their senders wait for that, and this rank may be elsewhere. 0: there were none. */
int pmpi_peer_finish(void);
/* Claims the slots of receives that MPI has completed. 0: one that takes messages as status' may have one, and it is not known yet which. */
int pmpi_peer_claim_matched(const struct pmpi_group *group, const MPI_Status *status);

/* peer_pull.c. Of a receive that MPI has, for which a header may come: with the lock, from add to PMPI_RECEIVED or remove. note: what MPI's completion
 * has brought. advance takes the lock: whether it is PMPI_RECEIVED, after what can be done for it now. */
void pmpi_pull_add(struct pmpi_receiving *r);
void pmpi_pull_remove(struct pmpi_receiving *r);
void pmpi_pull_note(struct pmpi_receiving *r, const MPI_Status *status);
int pmpi_pull_advance(struct pmpi_receiving *r);

/* Functions of MPI. */
int pmpi_recv(const struct pmpi_incoming *in, MPI_Status *status);
int pmpi_irecv(const struct pmpi_incoming *in, int is_persistent, MPI_Request *request);
/* request NULL: it waits. */
int pmpi_exchange(const struct pmpi_message *out, const struct pmpi_incoming *in, MPI_Request *request,
		  MPI_Status *status);

#endif
