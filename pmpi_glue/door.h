/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of the MPI door (libcorale_pmpi.so) share. The library exports MPI_ names and calls PMPI_ names only, so it stands between a program and
 * the MPI that the program has. A call is
 * - routed: Corale runs it, on a communicator of its own over the same ranks (comm.h);
 * - staged: MPI runs it on host memory, to and from which device buffers are copied (coll_stage.c, staging.h);
 * - passed on: MPI runs it as the program made it.
 * Staged and routed calls are right for any memory, so what decides between them (route.c) needs to be alike on all ranks and nothing else. A call that is
 * passed on has no device buffer on this rank.
 *
 * The files: init.c starts and ends the door; memory.* knows devices; route.c decides; comm.* has Corale's communicators; coll.h, coll_*.c are collectives;
 * p2p_api.*, peer*, request* and types* are messages, requests that deliver, and derived types; staging.* copies; statistics.* counts calls;
 * tools.* stands between tools and MPI. Fortran of either MPI calls the functions of C, by MPI_ or PMPI_ names.
 */
#ifndef PMPI_DOOR_H
#define PMPI_DOOR_H

#include <mpi.h>
#include <stddef.h>

#include "tools.h"
#include "memory.h"

/* The MPI functions that the library replaces are visible; all else is hidden. */
#define PMPI_EXPORT __attribute__((visibility("default")))

/* Persistent collectives, MPI_Isendrecv and partitioned messages: functions of MPI 4 that Open MPI offers from 5 on, though it says that it is MPI 3.1. */
#if MPI_VERSION >= 4 || (defined(OPEN_MPI) && OMPI_MAJOR_VERSION >= 5)
#define PMPI_HAS_MPI4 1
#else
#define PMPI_HAS_MPI4 0
#endif

#define PMPI_HAS_MPI41 (MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION > 0))

enum pmpi_mode {
	PMPI_MODE_DEVICE,
	PMPI_MODE_ALL,
	PMPI_MODE_HOST,
	PMPI_MODE_OFF
}; /* CORALE_MPI, as settings_mpi */

/* The state of the process, written by MPI_Init before it returns and by MPI_Finalize. */
struct pmpi_state {
	int on; /* calls are looked at; alike on all ranks of MPI_COMM_WORLD. 0: before MPI_Init and behind MPI_Finalize */
	enum pmpi_mode mode; /* alike on all ranks */
	const struct pmpi_device
	    *device; /* NULL: no buffer is looked at, because there is no device or CORALE_MPI=host */
	int rank, size; /* in MPI_COMM_WORLD */
	int thread_level;
	int most_comms; /* CORALE_MPI_COMMS, alike on all ranks */
	int calls_before; /* CORALE_MPI_AFTER, alike on all ranks */
	int counts; /* calls are counted for the table */
	_Atomic int routed; /* calls that Corale runs now */
	MPI_Group world;
	MPI_Comm quiet; /* this rank's alone; errors return */
};
extern struct pmpi_state pmpi;

/* Ends a call that has failed: calls the error handler of comm with MPI_ERR_OTHER, and returns that if the handler does. The cause is logged. */
int pmpi_fail(MPI_Comm comm);

/* Lets MPI go on: what waits for a device or for Corale calls it. */
void pmpi_progress(void *unused);

#endif
