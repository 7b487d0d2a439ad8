/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Failures that concern several ranks: who ended the communicator, why, and which rank called something else. Functions that fail comm return
 * the code.
 *
 * A failure has a position among the calls of the rank that failed (window_position): its collectives are numbered alike everywhere, and sends and receives lie between two of
 * them. All messages of the calls before have been sent, so ranks in an earlier call go on (diagnose_patience). A mismatch of sends and receives, corale_comm_abort and failures on
 * GPUs end all calls; so does a death where ranks do not leave quietly.
 */
#ifndef DIAGNOSE_H
#define DIAGNOSE_H

#include "state/comm.h"

/* Ends comm with a code, on this rank and, as far as they can be reached, on all others; the first code wins.
 * text: the line for corale_comm_last_error. Any thread. */
void comm_fail(struct comm *comm, int code, const char *text);
/* As comm_fail where no call has failed, but the next one never starts: calls that were made before go on, on all ranks. By the thread that makes calls. */
void comm_fail_next(struct comm *comm, int code, const char *text);
/* A call that this rank refuses: why, and which of its refusals it is; before the call's record. Then, behind the record, other nodes hear of both. */
void diagnose_refuse(struct comm *comm, uint64_t number, const char *why);
void diagnose_send_refusal(struct comm *comm);
/* Without a log line, and without a message to other ranks. 1 if nothing had ended comm before. */
int comm_end(struct comm *comm, int code, const char *text);
/* As comm_fail where the cause is another rank, which all others then name. */
void comm_fail_by(struct comm *comm, int code, int culprit, const char *text);

/* The transport's handlers; ctx is the struct comm. */
void diagnose_control(void *ctx, int peer, const void *message, size_t bytes);
void diagnose_failure(void *ctx, int peer, int code, const char *reason);

/* 0, or the code with which another rank has ended the communicator; cheap. */
int diagnose_peers(struct comm *comm);
/* Where diagnose_peers is not 0: for how many ns without progress the call that runs here goes on all the same, as it comes before the one that failed. */
int64_t diagnose_patience(const struct comm *comm);

/* CORALE_EMISMATCH if a rank of this node, or (0) one of another, is known to have made another call under the number of the last one here, else 0:
 * for long waits, as two calls may listen on different queues and never meet. */
int diagnose_differs(struct comm *comm, int on_this_node);

/* The same of ranks of other nodes, for calls that stand still: sends what was called here to the rank whose message this one waits for (or
 * PLAN_NONE), once a call. */
int diagnose_stalled(struct comm *comm, int peer);

/* Sends a rank of another node what was called here, and asks what it is at (stall.h); or only the first. */
void diagnose_ask(struct comm *comm, int rank);
void diagnose_send_calls(struct comm *comm, int rank);

/* A rank's collective of that number, as far as it is known here: 1, or 0 if there was none, or too many since. */
int diagnose_find_call(struct comm *comm, int rank, uint64_t number, struct record *out);
/* 1 if the rank is known to have made another collective under that number than this one. */
int diagnose_differs_from(struct comm *comm, int rank, uint64_t number);
/* 1 if the rank is known to have made the collective of that number. */
int diagnose_has_called(struct comm *comm, int rank, uint64_t number);

/* "all_reduce(count 8, float32, sum)"; of CORALE_NUM_COLLS, which stands for one that is not known, "an earlier call" */
void diagnose_print_call(const struct record *call, char *buf, size_t bytes);

/* 1 if the process of a rank of this node is stopped, as far as this rank can know. It reads /proc: for what is seldom. */
int diagnose_is_stopped(const struct comm *comm, int rank);
/* Tells the other ranks that this one has left comm; the first time counts. */
void diagnose_leave(struct comm *comm, enum window_left how);

/* The process calls exit(), and has not destroyed comm. */
void diagnose_exit(struct comm *comm);

/* Fails comm if a process of this node has ended that has not left it. For the watch thread. */
void diagnose_deaths(struct comm *comm);
/* The same of ranks of other nodes on this machine, where their transport does not say so. The watch thread's. */
void diagnose_other_nodes(struct comm *comm);
/* Fails comm after a mismatch: gathers what all ranks called (for at most some 100 ms), names both calls and the odd
 * rank. mismatch: what this rank saw, or NULL when another rank saw it. */
int diagnose_mismatch(struct comm *comm, const struct record *call, const struct host_mismatch *mismatch);
/* 1 if the peer of a send or receive is known to have refused one where this rank has refused none: what this rank waits for may not come. */
int diagnose_refuses(struct comm *comm, int peer);
/* Fails comm if that is so, or the other way round: CORALE_EMISMATCH; else 0. */
int diagnose_refused(struct comm *comm, const struct record *call, int peer);
/* Fails comm by the mismatch that another rank has found, with that rank's line where it is known. call: this rank's function. */
void diagnose_found_elsewhere(struct comm *comm, const char *call);
/* Fails comm because a call waited too long for what `awaited` says. number: the call's, or 0. */
int diagnose_timeout(struct comm *comm, const struct record *call, uint64_t number, const char *awaited);
/* Fails comm if a call waits for a rank whose calls nobody can make but the calling thread, which waits in it: CORALE_EINVAL; else 0. */
int diagnose_one_caller(struct comm *comm, const struct record *call, int rank);
/* Fails comm with a code whose cause is logged already, or that another rank has reported. */
int diagnose_end(struct comm *comm, const struct record *call, int code);
/* Fails comm because a call's messages to or from a rank failed, as was logged, and nothing else says why. */
int diagnose_lost(struct comm *comm, const struct record *call, int rank);
/* Fails comm because a call waits for a rank that is gone (presence.h). */
int diagnose_gone(struct comm *comm, const struct record *call, int rank);

/*
 * The end of a communicator: whether its ranks agree on their last collective. A collective with a root may end on a rank that has heard of no
 * other one (two ranks that are both the root of a broadcast only send), and no later call is there to show it.
 */

/*
 * Fails comm, with the line, if the next rank has made another call in its place: CORALE_EMISMATCH; so do the others that have not left. Each rank
 * tells both ranks beside it what it has called, so a ring of comparisons finds any difference. Waits only after a collective with a root, and
 * until the next rank is known to have made the call: 0.1 s at most, which ranks that end together take at most. A later one finds the
 * difference at its own end, as it knows this rank's call. Once all calls are complete.
 */
int last_call_compare(struct comm *comm);

#endif
