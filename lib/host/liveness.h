/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether the processes of this machine that share communicators with this one still live. Each has one page of shared memory with a robust mutex,
 * which its watch thread (watch.h) holds. The kernel releases that when the thread ends, however it ends, before the process's memory is torn down,
 * in whatever PID namespace and whether or not a forked child lives on. Measured: below 3 ms with 4 GiB of memory, where a pidfd took 286 ms.
 */
#ifndef LIVENESS_H
#define LIVENESS_H

enum { LIVENESS_PAGE_BYTES = 4096 };

struct liveness; /* of another process */

/* This process's own page, made by the first call; hold: once, by the thread that lives as long as the process. CORALE_ESYSTEM, logged. */
int liveness_create(int rank);
int liveness_hold(void);
/* The descriptor of the page, for others to open; it stays ours. */
int liveness_fd(void);
/* The process is in exit(), whose handlers may still call: others take it for one that has left when it has made no call for a second. */
void liveness_exiting(void);
/* It has made one: it has left when its handlers have ended. */
void liveness_calls_on(void);
/* They have ended: others need not wait for the last thread. */
void liveness_exited(void);

/* Another process's page, by its descriptor, which stays the caller's and was seen to be sealed; one struct a process, counted. NULL: no memory. Any
 * thread. */
struct liveness *liveness_open(int fd);
void liveness_close(struct liveness *life);

/* Looks after all of them. Any thread. */
void liveness_look(void);

enum liveness_state { LIVENESS_ALIVE, LIVENESS_EXITED, LIVENESS_DIED };

/* As liveness_look has found it. Any thread. */
enum liveness_state liveness_state(const struct liveness *life);

/* 1 if a process that has died has given back all it had, its GPU's memory too: that comes later. Any thread. */
int liveness_gone(long pid);

#endif
