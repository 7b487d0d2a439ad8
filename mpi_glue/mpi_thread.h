/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether a thread of Corale's may call this MPI beside the program, to move messages of GPUs. */
#ifndef MPI_THREAD_H
#define MPI_THREAD_H

#include <stddef.h>

/* 1 if MPI finds out by calls of CUDA where a message's buffer lies, as MPIs for buffers on GPUs do unless they are told not to. */
int mpi_thread_calls_cuda(void);

/* 1; or 0, and why_not (bytes long) says what MPI gave (level: as of MPI_Query_thread), what is needed and what to do. Pure. */
int mpi_thread_check(int level, int calls_cuda, char *why_not, size_t bytes);

#endif
