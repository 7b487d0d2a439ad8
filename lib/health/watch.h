/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One thread a process that looks after all its communicators of several ranks, some thirty times a second: whether a process of the
 * node has died, and whether a kernel has recorded a failure. So both are reported to all ranks, while the program waits for
 * its GPU or computes. It makes no CUDA call, which the program's own could keep waiting, and no MPI call where MPI does not allow
 * several threads: then a rank's next call reports to the other nodes.
 *
 * It starts with the first communicator and lives as long as the process, for its end tells the other processes of this one's.
 */
#ifndef WATCH_H
#define WATCH_H

#include "state/comm.h"

/* The thread runs and liveness.h's page is held. CORALE_ESYSTEM, CORALE_ENOMEM, logged. */
int watch_start(int rank);

/* From watch_add until watch_remove has returned the thread looks at comm. */
void watch_add(struct comm *comm);
void watch_remove(struct comm *comm);

#endif
