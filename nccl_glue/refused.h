/* SPDX-License-Identifier: BSD-3-Clause */
/* What the answers to refused functions need of the rest. */
#ifndef DOOR_REFUSED_H
#define DOOR_REFUSED_H

#include "nccl.h"

/* A communicator's rank and size; false if comm is NULL, not one of ours, or not ready. Any thread. Defined beside the communicators. */
bool door_comm_shape(ncclComm_t comm, int *rank, int *nranks);

#endif
