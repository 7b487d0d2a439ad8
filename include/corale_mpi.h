/*
 * Corale communicators from MPI communicators. In libcorale_mpi, the only Corale
 * library that links MPI.
 */
#ifndef CORALE_MPI_H
#define CORALE_MPI_H

#include <corale.h>
#include <mpi.h>

#ifdef __GNUC__
#pragma GCC visibility push(default) /* the library is built with hidden names */
#endif
#ifdef __cplusplus
extern "C" {
#endif

/*
 * A new communicator over the ranks of mpi_comm, on a duplicate of it. Collective over mpi_comm;
 * blocks. MPI must be initialized; any thread level is enough. Where MPI itself is the transport (CORALE_DEBUG=info says so),
 * calls on streams advance by themselves only with MPI_THREAD_MULTIPLE; with MPI_THREAD_SERIALIZED any one thread at a
 * time makes calls, and calls to MPI at no time beside them; below, the thread that made the communicator makes all of
 * them (else CORALE_ENOTSUP, which ends the communicator). config may be NULL.
 * Each call makes a new communicator; destroy it with corale_comm_destroy before
 * MPI_Finalize. What the caller forgot is freed in MPI_Finalize, with a warning.
 */
int corale_comm_create_mpi(MPI_Comm mpi_comm, const corale_config *config, corale_comm **comm);

#ifdef __cplusplus
}
#endif
#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#endif
