/*
 * Whether memory that a caller has given can be read and written, found out by the kernel instead of a signal. It takes system calls and a pipe, so it is
 * asked only where something has failed already.
 */
#ifndef MAPPED_H
#define MAPPED_H

#include <stddef.h>

/* How many of the bytes from at on can be read, or read and written, before the first page that can't. All, where the system gives no pipe. */
size_t mapped_readable(const void *at, size_t bytes);
size_t mapped_writable(void *at, size_t bytes);

#endif
