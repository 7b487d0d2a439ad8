/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Corale communicators from MPI communicators. They are in libcorale_mpi, the only
 * library of Corale that links MPI.
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
 * Makes a communicator over the ranks of mpi_comm, on a duplicate of it. Collective over mpi_comm; blocks. config may be
 * NULL. MPI must be initialized, at any thread level. Each call makes a new communicator. Destroy it with
 * corale_comm_destroy before MPI_Finalize; MPI_Finalize frees communicators that were forgotten, with a warning.
 *
 * Thread levels matter only if MPI itself is the transport (CORALE_DEBUG=info says so):
 * - MPI_THREAD_MULTIPLE: calls on streams progress by themselves.
 * - MPI_THREAD_SERIALIZED: one thread at a time makes calls of Corale, and no thread calls MPI at the same time.
 * - Below: only the thread that made the communicator makes calls. A call from another thread returns CORALE_ENOTSUP and
 *   ends the communicator.
 */
int corale_comm_create_mpi(MPI_Comm mpi_comm, const corale_config *config, corale_comm **comm);

#ifdef __cplusplus
}
#endif
#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#endif
