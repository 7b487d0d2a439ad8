/* SPDX-License-Identifier: BSD-3-Clause */
/* The pins by which programs of NCCL ask for sums that do not depend on size: batch-invariant modes of inference, deterministic training. */
#ifndef DOOR_FIXED_ORDER_H
#define DOOR_FIXED_ORDER_H

#include "config.h"

/*
 * 1 where the variables and a communicator's configuration pin all of it: one channel, as the least and as the most (NCCL_MIN_ and _MAX_NCHANNELS
 * or _CTAS, minCTAs and maxCTAs), one algorithm of all_reduce, Tree or Ring (NCCL_ALGO), and its protocol Simple (NCCL_PROTO).
 */
int door_fixes_order(const struct door_config *config);

#endif
