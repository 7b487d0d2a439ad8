/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of an MPI communicator over which ranks have exchanged messages. MPI may give the context of a communicator that was freed
 * to the next one: a message of the old one that nobody has received would then be matched in the new one, or stop its sequence of
 * messages. So each rank says goodbye behind its last message, and frees the communicator only when it has received all that its peers
 * have sent before theirs. One with messages that MPI could not end (transport_ops.fail) is not freed: to receive such a message would be to
 * read memory of its sender that was given back.
 */
#ifndef MPI_RETIRE_H
#define MPI_RETIRE_H

#include <mpi.h>

enum {
	MPI_RETIRE_TAG,
	MPI_RETIRE_END_TAG,
	MPI_RETIRE_TAGS
}; /* of goodbyes; other messages have higher tags */

enum mpi_partner {
	MPI_PARTNER_NONE,
	MPI_PARTNER, /* messages were exchanged with it, */
	MPI_PARTNER_ABANDONED /* and MPI still holds some */
};

/*
 * Frees comm, which is the caller's own, now or in a later call of these functions. partners[r]: enum mpi_partner of rank r of comm; each
 * partner calls this, too. No message of comm is begun any more. Takes comm and partners over.
 */
void mpi_retire(MPI_Comm comm, int rank, _Atomic unsigned char *partners);

/* Receives what is there of communicators that were retired, and frees those that are done; the number of those that wait for a goodbye. */
int mpi_retired_advance(void);

#endif
