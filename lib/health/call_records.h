/* SPDX-License-Identifier: BSD-3-Clause */
/* What this rank knows of all ranks' last calls, and where they differ. */
#ifndef CALL_RECORDS_H
#define CALL_RECORDS_H

#include "state/comm.h"

/* The call with that number; number 0 when it is not known, or no longer. */
struct record records_get(const struct comm *comm, int rank, uint64_t number);
/* 1 if two ranks are known to have made different calls under the number. */
int records_differ(const struct comm *comm, uint64_t number);
/* The first call, going back from the last one, up to which all known records agree; 0 when none differs. */
uint64_t records_first_difference(struct comm *comm);
/* A send or receive that the rank has refused, and the other one has not; the other way round it is another call. */
int records_find_refused(struct comm *comm, int rank, int other, struct record *refused);

#endif
