/* SPDX-License-Identifier: BSD-3-Clause */
/* Sends to oneself: the k-th of a group meets the k-th receive from oneself. */
#ifndef SELF_SENDS_H
#define SELF_SENDS_H

#include "state/comm.h"

/* The first of n calls, from i on, that is a send to oneself, or a receive from oneself, as coll says; n: none is. */
int self_next(const struct comm *comm, const struct call *calls, int n, int i, corale_coll coll);

/* Whether all of them have a counterpart of the same count and type: 0, or CORALE_EINVAL with the reason logged. */
int self_check(const struct comm *comm, const struct call *calls, int n);

/* Executes them, on hosts. 0 or CORALE_ESYSTEM: a buffer can't be used. */
int self_copy(const struct comm *comm, const struct call *calls, int n);

#endif
