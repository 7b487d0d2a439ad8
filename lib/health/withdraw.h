/*
 * The end of stores into this rank's registered memory by other ranks' GPUs. Who gives that memup asks all ranks of the node, and
 * waits until each has said that its GPU stores nothing more there: a look at flags alone could come just before a store.
 */
#ifndef WITHDRAW_H
#define WITHDRAW_H

#include "state/comm.h"

/*
 * Asks all, and waits for at most 2 s. 1 if nobody stores into this rank's memory any more; else 0, after a line for each rank that may.
 * Of the communicator's whole memory, so once is enough. By the thread that uses comm.
 */
int withdraw_wait(struct comm *comm);

/* By the watch thread: answers ranks that ask. What that takes of CUDA is done by threads of its own. */
void withdraw_answer(struct comm *comm);

/* Before comm goes: waits for those threads; and after its GPU's engine has gone: all are answered. */
void withdraw_finish(struct comm *comm);
void withdraw_answer_all(struct comm *comm);

#endif
