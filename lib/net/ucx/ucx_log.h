/* SPDX-License-Identifier: BSD-3-Clause */
/* UCX's lines. */
#ifndef UCX_LOG_H
#define UCX_LOG_H

/*
 * From the first call on the lines of this process's UCX are lines of the library's log, "UCX: ..." without a rank. UCX prints them to the program's
 * stdout, where they stand in the middle of its results. What UCX calls an error is a warning here: a call that it makes fail has its own error line.
 * Nothing changes where the user has set UCX_LOG_FILE. Any thread.
 */
void ucx_log_take(void);

#endif
