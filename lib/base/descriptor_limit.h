/* SPDX-License-Identifier: BSD-3-Clause */
/* How many descriptors the process may have. */
#ifndef DESCRIPTOR_LIMIT_H
#define DESCRIPTOR_LIMIT_H

/* The soft limit becomes the hard one. */
void descriptors_raise_limit(void);

/* A WARN line where fewer are left; returns whether there was one. */
int descriptors_expect(int n, int rank, const char *what);

/* 0, or CORALE_ESYSTEM after a line that says how many of how many are in use, and that `what` needs n more. */
int descriptors_need(int n, int rank, const char *what);

#endif
