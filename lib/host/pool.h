/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads that run channels, shared by all communicators of the process. They are made when first needed, sleep
 * when idle, and stay until the process ends.
 */
#ifndef POOL_H
#define POOL_H

struct pool_task {
	void (*run)(struct pool_task *task); /* the task belongs to its owner again when run has returned */
	struct pool_task *next;
};

/* Hands a task to an idle thread, or to a new one: it starts at once, whatever others wait for.
 * Returns 0 or CORALE_ESYSTEM (no thread; nothing was started). */
int pool_submit(struct pool_task *task);

#endif
