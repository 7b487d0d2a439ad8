/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls that this rank refuses, and other ranks may make: without a word to them its next call would meet theirs of another place. */
#ifndef REFUSE_H
#define REFUSE_H

#include "host/stream.h"
#include "state/comm.h"

/*
 * A call outside of groups has not started, for a reason that the line `why` has. It takes its number all the same, behind the calls on streams that come before it: ranks
 * that refuse it alike go on, and those that make it end with CORALE_EMISMATCH. A send to or receive from another rank on a GPU, where kernels count
 * messages, ends comm.
 */
void refuse_call(struct comm *comm, const struct call *call, struct corale_stream *stream, const char *why);

/* The same of what another door has refused, before it was a call of Corale's. in_group: the door's, so comm ends. */
void refuse_door_call(corale_comm *handle, corale_coll coll, int root, int in_group, const char *why);

/* MPI runs a collective over comm's ranks, of MPI's name, which takes a number of comm's: a rank that waits in Corale meanwhile finds that the calls differ. */
void refuse_left_to_mpi(corale_comm *handle, const char *name, uint64_t bytes);

/* Ends comm with CORALE_EMISMATCH, if other ranks may start what this one has refused. what: "a group". */
void refuse_end(struct comm *comm, const char *what, const char *why);

#endif
