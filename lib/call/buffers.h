/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffers of host memory are looked at before a call that moves much: what can't be read or written is an error, not a signal in the library or UCX. */
#ifndef BUFFERS_H
#define BUFFERS_H

#include "state/comm.h"

/* 0, or CORALE_ESYSTEM with the buffer and its bytes logged. Of small calls, which would take notably longer: 0. */
int buffers_check(const struct comm *comm, const struct call *call);

#endif
