/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The descriptors that the library opens: all are closed by exec and above those of the standard streams. A program that was started with one of these
 * closed would else have a window or a socket there, and write its messages into it. test/tree/layers.sh holds that the library opens none elsewhere.
 */
#ifndef DESCRIPTOR_H
#define DESCRIPTOR_H

#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

/*
 * Occupies those of descriptors 0, 1 and 2 that are closed, for the life of the process, so that UCX, CUDA and others open nothing there. They
 * still can't be read or written (EBADF), and exec closes them: program and children see what they saw before. Called before anything is
 * opened. Any thread.
 */
void descriptors_hold_standard(void);

/* Each returns the descriptor, or -1: see errno. */
int descriptor_open(const char *path, int flags);
int descriptor_create(const char *path, int flags, mode_t mode); /* with O_CREAT */
int descriptor_socket(int family, int type); /* not blocking, as the next two */
int descriptor_accept(int listening);
int descriptor_event(void);
int descriptor_process(pid_t pid);
int descriptor_pipe(int ends[2]); /* not blocking; 0, or -1 */
/* Shared memory of that many bytes, sealed against shrinking and growing. *failed_at: the function that failed. */
int descriptor_memory(const char *name, size_t bytes, const char **failed_at);
/* One that a library or a peer has opened: it, or its copy. */
int descriptor_adopt(int fd);

/* For reading text; NULL: see errno. */
FILE *descriptor_read(const char *path);

/* How many descriptors the process may have. */

/* The soft limit becomes the hard one. */
void descriptors_raise_limit(void);

/* A WARN line where fewer are left; returns whether there was one. */
int descriptors_expect(int n, int rank, const char *what);

/* 0, or CORALE_ESYSTEM after a line that says how many of how many are in use, and that `what` needs n more. */
int descriptors_need(int n, int rank, const char *what);

#endif
