#include "process.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "corale.h"
#include "log.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Atomic int forked;
static pid_t started_in;

static void in_child(void)
{
	atomic_store_explicit(&forked, 1, memory_order_relaxed);
}

static void start(void)
{
	started_in = getpid();
	pthread_atfork(NULL, NULL, in_child);
}

void process_started(void)
{
	pthread_once(&once, start);
}

int process_is_forked(void)
{
	return atomic_load_explicit(&forked, memory_order_relaxed);
}

int process_refuses(const char *call)
{
	if (!process_is_forked())
		return 0;
	log_error(
	    CORALE_ENOTSUP, -1,
	    "%s: process %ld was forked from process %ld when Corale was in use there, and can't use it; "
	    "fork before the first communicator is made, or let the child call exec",
	    call, (long)getpid(), (long)started_in);
	return 1;
}
