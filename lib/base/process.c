/* SPDX-License-Identifier: BSD-3-Clause */
#include "process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "corale.h"
#include "descriptor.h"
#include "log.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Atomic int forked;
static _Atomic int unusual; /* forked, or in exit() */
static pid_t started_in;
static uint64_t number;

static void in_child(void)
{
	atomic_store_explicit(&forked, 1, memory_order_relaxed);
	atomic_store_explicit(&unusual, 1, memory_order_relaxed);
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

int process_random(void *to, size_t bytes)
{
	ssize_t n;
	do
		n = getrandom(to, bytes, 0);
	while (n < 0 && errno == EINTR);
	if (n == (ssize_t)bytes)
		return 0;
	const int error = errno, fd = descriptor_open("/dev/urandom", O_RDONLY);
	n = fd < 0 ? -1 : read(fd, to, bytes);
	if (fd >= 0)
		close(fd);
	return n == (ssize_t)bytes ? 0 : error;
}

static void draw(void)
{
	struct timespec now;
	if (!process_random(&number, sizeof number) && number)
		return;
	clock_gettime(CLOCK_REALTIME, &now); /* a kernel that gives no random numbers to this process */
	number = (uint64_t)now.tv_sec << 40 ^ (uint64_t)now.tv_nsec << 16 ^ (uint64_t)getpid() ^
		 (uint64_t)(uintptr_t)&now << 20;
	number |= 1;
}

uint64_t process_number(void)
{
	static pthread_once_t drawn = PTHREAD_ONCE_INIT;
	pthread_once(&drawn, draw);
	return number + (uint64_t)getpid(); /* a forked child has its parent's */
}

uint64_t process_thread_number(void)
{
	static _Atomic uint64_t threads;
	static _Thread_local uint64_t mine;
	if (!mine)
		mine = atomic_fetch_add(&threads, 1) + 1;
	return mine;
}

int process_is_forked(void)
{
	return atomic_load_explicit(&forked, memory_order_relaxed);
}

void process_exits(int does)
{
	atomic_store(&unusual, does || process_is_forked());
}

int process_is_usual(void)
{
	return !atomic_load_explicit(&unusual, memory_order_relaxed);
}

int process_refuses(const char *call)
{
	if (!process_is_forked())
		return 0;
	log_error(CORALE_ENOTSUP, -1,
		  "%s: process %ld was forked from process %ld when Corale was in use there, and can't use "
		  "it; fork before the first communicator is made, or let the child call exec",
		  call, (long)getpid(), (long)started_in);
	return 1;
}

/* ---- Threads of the library ---- */

struct thread_start {
	void *(*work)(void *arg);
	void *arg;
};

static _Thread_local int is_library; /* this thread */
/* Threads of process_thread; each counts itself while it is sure to exist. */
static _Atomic long begun, ended;

static void *run_thread(void *arg)
{
	struct thread_start start = *(struct thread_start *)arg;
	free(arg);
	is_library = 1;
	atomic_fetch_add(&begun, 1);
	void *result = start.work(start.arg);
	atomic_fetch_add(&ended, 1);
	return result;
}

int process_thread(pthread_t *thread, void *(*work)(void *arg), void *arg)
{
	struct thread_start *start = malloc(sizeof *start);
	sigset_t all, old;
	pthread_t made;
	if (!start)
		return ENOMEM;
	*start = (struct thread_start){ work, arg };
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	int error = pthread_create(&made, NULL, run_thread, start);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (error)
		free(start);
	else if (thread)
		*thread = made;
	else
		pthread_detach(made);
	return error;
}

int process_is_library_thread(void)
{
	return is_library;
}

static long count_threads(void)
{
	long n = 0;
	DIR *dir = opendir("/proc/self/task");
	for (struct dirent *entry; dir && (entry = readdir(dir));)
		n += entry->d_name[0] != '.';
	if (dir)
		closedir(dir);
	return n;
}

int process_has_one_caller(void)
{
	const long before = atomic_load(&begun), gone = atomic_load(&ended), threads = count_threads();
	return !is_library && before == atomic_load(&begun) && gone == atomic_load(&ended) &&
	       threads == 1 + before - gone;
}

int process_is_stopped(long pid)
{
	char path[48], text[512] = "";
	snprintf(path, sizeof path, "/proc/%ld/stat", pid);
	const int fd = descriptor_open(path, O_RDONLY);
	if (fd < 0)
		return 0;
	const ssize_t n = read(fd, text, sizeof text - 1);
	close(fd);
	const char *name_ends = n > 0 ? strrchr(text, ')') : NULL; /* the name may contain anything */
	return name_ends && name_ends[1] == ' ' && (name_ends[2] == 'T' || name_ends[2] == 't');
}
