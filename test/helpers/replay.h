/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One thread runs a plan for all ranks, over buffers in host memory: what every engine's result must equal, bit
 * for bit.
 */
#ifndef REPLAY_H
#define REPLAY_H

#include "plan/plan_eval.h"
#include "plan/choose/planner.h"

/*
 * root: of a rooted collective. send[r], recv[r]: rank r's buffers. Returns 0, or -1 when no program can go on though some have not ended,
 * or memory is out.
 */
int replay(const struct plan *plan, const struct plan_map *map, int root, size_t count, void *const *send,
	   void *const *recv);

#endif
