/* SPDX-License-Identifier: BSD-3-Clause */
/* The program's progress function (corale_set_progress), which waits of its threads call. */
#ifndef HOOK_H
#define HOOK_H

/* Whether waits of this thread call it: it is set, and this is neither a thread of the library nor a wait within the function. Any thread. */
int hook_is_set(void);

/* Calls it, if it is still set. Where hook_is_set. */
void hook_call(void);

#endif
