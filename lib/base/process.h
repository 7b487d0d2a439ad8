/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The process that Corale runs in. Threads and shared memory of the library do not come along when it forks, so a child made after
 * Corale has started cannot use it: each of its calls is refused by name.
 */
#ifndef PROCESS_H
#define PROCESS_H

#include <pthread.h>
#include <stdint.h>

/* Before the library has threads: from now on a fork makes a child that process_refuses. Any thread; more than once is once. */
void process_started(void);

/* Random bytes of the kernel, also where a filter forbids getrandom: 0, or an errno. Any thread. */
int process_random(void *to, size_t bytes);

/* A random number of this process, never 0: process ids are equal in containers, and come again. Any thread. */
uint64_t process_number(void);

/* Of the calling thread, never 0, and never again another thread's: pthread_t values come again. Any thread. */
uint64_t process_thread_number(void);

/* 1 in such a child. Any thread; takes no lock. */
int process_is_forked(void);

/* exit() has begun (1), and process_is_usual says 0 until a call was made all the same (0). */
void process_exits(int does);
/* 0 in such a child, and in a process that is in exit() and has made no call since. Any thread; takes no lock. */
int process_is_usual(void);

/* As process_is_forked, after an error line that names the call. libcorale_mpi asks, too. */
int process_refuses(const char *call) __asm__("corale_private_process_refuses")
    __attribute__((visibility("default")));

/* 1 if the calling thread is the program's and all others are the library's, so nobody else can make a call. 0 where that is not known. Reads a
 * folder of /proc. */
int process_has_one_caller(void);

/* 1 if the calling thread is one of process_thread's. */
int process_is_library_thread(void);

/* Starts a thread of the library, in which the program's signals are blocked: they are for the program's threads. thread: for pthread_join; NULL: nobody
 * joins it. 0, or what pthread_create returned; the caller says what is missing then. Any thread. */
int process_thread(pthread_t *thread, void *(*work)(void *arg), void *arg);

/* 1 if a process of this PID namespace is stopped, by a signal or a debugger; 0 also where that can't be found out. */
int process_is_stopped(long pid);

#endif
