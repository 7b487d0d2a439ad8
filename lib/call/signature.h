/* SPDX-License-Identifier: BSD-3-Clause */
/* Signatures: numbers that travel with each message, and differ where calls do that must agree. */
#ifndef SIGNATURE_H
#define SIGNATURE_H

#include "state/comm.h"

/* Of the next collective; its call is published for others to read. */
uint64_t signature_next(struct comm *comm, const struct call *call);

/* Of the counts of a v-form that all ranks know, never 0. */
uint64_t signature_of_counts(const size_t *counts, int n);

/* Of a send or receive: they count per ordered pair, and their elements travel as the edge. */
uint64_t signature_of_pair(struct comm *comm, const struct call *call);

/* The type of the send or receive with this signature; CORALE_NUM_TYPES: it is none. */
corale_type signature_type_of_pair(uint64_t signature);

/* A refused call takes its number in its turn, as RECORD_REFUSED says, and other nodes hear of it. A send or receive takes one of every pair as well, as its
 * counterpart would match the next one, and its peer may be the argument that is wrong. */
void signature_of_refused(struct comm *comm, const struct call *refused);

/*
 * Another rank has found a mismatch before this rank began `call`, which is published all the same: with it the ranks can tell who is odd. No
 * earlier call is under way. CORALE_EMISMATCH, reported.
 */
int signature_mismatch(struct comm *comm, const struct call *call);

#endif
