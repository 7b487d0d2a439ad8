/* SPDX-License-Identifier: BSD-3-Clause */
/* What the functions of point to point share. */
#ifndef PMPI_P2P_H
#define PMPI_P2P_H

#include "functions.h"
#include "peer.h"
#include "staging.h"

/* pmpi_stage_find for a message to or from a peer; nothing is staged for MPI_PROC_NULL. */
int pmpi_p2p_find(struct pmpi_staged *s, int peer, const void *buffer, MPI_Count count, MPI_Datatype type);

/* Behind a call that MPI has run (ret) as the program made it; s: what pmpi_p2p_find has left. Returns ret. */
int pmpi_p2p_passed(enum pmpi_function function, const struct pmpi_staged *s, double begin, int ret);

/* Behind one that it has run on staged buffers, of `bytes` bytes. Returns ret. */
int pmpi_p2p_staged(enum pmpi_function function, size_t bytes, double begin, int ret);

/* Behind one that went by peer copies, or may have; s: what pmpi_p2p_find has left, which ends. Returns ret. */
int pmpi_p2p_routed(enum pmpi_function function, struct pmpi_staged *s, double begin, int ret);
int pmpi_p2p_received_by_peer(double begin, int ret);

/* Behind a receive: the message goes to the device, even a part of it that came with an error. ret, or what the copy to the device was. */
int pmpi_p2p_received(struct pmpi_staged *s, const MPI_Status *status, int ret, MPI_Comm comm);

/* The peer of an exchange that needs the buffer, if any does. */
static inline int pmpi_p2p_peer(int to, int from)
{
	return to == MPI_PROC_NULL ? from : to;
}

/* The buffers of an operation that a request stands for. */
struct pmpi_p2p {
	struct pmpi_staged in, out; /* what is sent, and what is received; one buffer for both: out */
};

/* A copy of buffers that are staged, for pmpi_p2p_keep. NULL: no memory, logged. */
struct pmpi_p2p *pmpi_p2p_make(const struct pmpi_staged *in, const struct pmpi_staged *out);
void pmpi_p2p_end(struct pmpi_p2p *p);

/*
 * Behind a function of MPI that has made the request, or has failed (ret): the buffers are the request's then, or they are gone. An MPI error code.
 */
int pmpi_p2p_keep(struct pmpi_p2p *p, int ret, const MPI_Request *request, MPI_Comm comm, int is_persistent);

/* Behind a call that fails before MPI has it: ends the buffers, and calls comm's error handler. */
int pmpi_p2p_failed(struct pmpi_staged *in, struct pmpi_staged *out, MPI_Comm comm);

#endif
