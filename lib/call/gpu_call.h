/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls on GPUs: whether the engine takes them, by which launch, and their way to it. */
#ifndef GPU_CALL_H
#define GPU_CALL_H

#include "state/comm.h"

/* Whether the engine can take a call on a stream, into call->admission. Nothing of it is enqueued or published, so a refusal
 * (CORALE_ENOTSUP, CORALE_EINVAL) is refuse.c's or the group's; other errors end the communicator. */
int gpu_admit(struct comm *comm, struct call *call, void *stream);

/* Enqueues one collective, or n sends and receives that start together, on a stream of the GPU. admitted: gpu_admit has taken each; 0: it is
 * asked first, of the only one. */
int gpu_call(struct comm *comm, struct call *calls, int n, int admitted, void *stream);

/* gpu_plan.c: plans of calls that no codelet runs. Their lists are made ahead, so that a first call does not wait. */
int gpu_plans_open(struct comm *comm);
void gpu_plans_close(struct comm *comm);
/* The launch of a call by the plan of its choice; NULL: among rows without a codelet. CORALE_ENOTSUP (no row), CORALE_ENOMEM, CORALE_EDEVICE. */
int gpu_plan(struct comm *comm, const struct call *c, const struct row_choice *choice, struct launch *launch);

#endif
