#define _GNU_SOURCE
#include "ucx_signals.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* Exported by UCX, in no header of it. */
void ucs_debug_disable_signals(void) __attribute__((weak));

enum { SIGNALS = 32 };

static int is_of_ucx(const struct sigaction *action)
{
	Dl_info handler, ucx;
	return dladdr((void *)action->sa_sigaction, &handler) &&
	       dladdr((void *)ucs_debug_disable_signals, &ucx) && handler.dli_fbase == ucx.dli_fbase;
}

/* UCX sets what it found when it was loaded, also in place of a handler that the program has set since. */
static void leave(void)
{
	struct sigaction actions[SIGNALS];
	memset(actions, 0, sizeof actions);
	if (!ucs_debug_disable_signals || secure_getenv("UCX_HANDLE_ERRORS"))
		return;
	for (int s = 1; s < SIGNALS; s++)
		sigaction(s, NULL, &actions[s]);
	ucs_debug_disable_signals();
	for (int s = 1; s < SIGNALS; s++)
		if (actions[s].sa_handler != SIG_DFL && actions[s].sa_handler != SIG_IGN &&
		    !is_of_ucx(&actions[s]))
			sigaction(s, &actions[s], NULL);
}

void ucx_signals_leave(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, leave);
}
