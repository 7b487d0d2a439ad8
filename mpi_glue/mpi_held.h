/* SPDX-License-Identifier: BSD-3-Clause */
/* A link over MPI, and its messages that MPI holds, for mpi_link.c. Under the lock. */
#ifndef MPI_HELD_H
#define MPI_HELD_H

#include "mpi_link.h"

struct mpi_link {
	struct link base;
	struct mpi_transport *transport;
	struct mpi_link *next; /* to the same peer */
	struct link_params params;
	_Atomic int lost; /* 0, or why nothing comes or goes any more */
	_Atomic int abandoned; /* MPI was left with something of it */
	/* sending */
	struct mpi_op *outs;
	struct mpi_packet *packets;
	uint64_t reaped; /* messages that MPI has let go of */
	/* receiving */
	struct mpi_op *ins;
	unsigned char *slots;
	_Atomic int asked; /* for a packet */
	uint64_t opened; /* messages whose packets came */
	void *landing; /* of the message that was asked for, if it has so many bytes; NULL: its slot */
	size_t landing_bytes;
	struct mpi_packet packet;
};

/* CORALE_EPEER, logged: error is MPI's. */
int mpi_link_failed(struct mpi_link *l, int error);
void mpi_link_hold(struct mpi_op_list *list, struct mpi_op *op);
/* Of a packet to a rank, its own too; that of its payload is the next one. */
int mpi_link_tag_to(const struct mpi_link *l, int rank);
/* Asks for the next message, if its slot is free. landing: where it may land, if it has so many bytes; or NULL. */
int mpi_link_ask(struct mpi_link *l, void *landing, size_t landing_bytes);

#endif
