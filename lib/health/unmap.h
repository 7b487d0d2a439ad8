/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of stores into this rank's registered memory by other ranks' GPUs. A rank that gives up registered memory asks every rank of its node to
 * unmap it, and waits until each has answered: a look at flags alone could come just before a store.
 */
#ifndef UNMAP_H
#define UNMAP_H

#include "state/comm.h"

/*
 * Asks all, and waits for at most 2 s. 1 if nobody stores into this rank's memory any more; else 0, after a line for each rank that may.
 * Of the communicator's whole memory, so once is enough. By the thread that uses comm.
 */
int unmap_wait(struct comm *comm);

/* By the watch thread: answers ranks that ask. What that takes of CUDA is done by threads of its own. */
void unmap_answer(struct comm *comm);

/* Before comm goes: waits for those threads; and after its GPU's engine has gone: all are answered. */
void unmap_finish(struct comm *comm);
void unmap_answer_all(struct comm *comm);

#endif
