#ifndef UCX_SIGNALS_H
#define UCX_SIGNALS_H

/* UCX handles SIGSEGV and others from the moment that it is loaded, to print stacks: from now on it does not, and the program's handlers are those that it
 * had set, before or after. Nothing where the user has set UCX_HANDLE_ERRORS,
 * or UCX has no such function. Once a process. Any thread. */
void ucx_signals_leave(void);

#endif
