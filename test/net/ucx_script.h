/* SPDX-License-Identifier: BSD-3-Clause */
/* A byte string as a program: uses links of lib/net/ucx/ucx_*.c and gives them messages, as they should be or not. */
#ifndef UCX_SCRIPT_H
#define UCX_SCRIPT_H

#include <stddef.h>

/* Runs any bytes; aborts the process if memory is written that may not be, or is given back while UCX holds it. */
void ucx_script_run(const unsigned char *bytes, size_t n);

#endif
