/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE

#include <dirent.h>
#include <errno.h>
#include <sys/resource.h>
#include <unistd.h>

#include "corale.h"
#include "descriptor.h"
#include "log.h"

enum { MOST = 64 };

void descriptors_raise_limit(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == limit.rlim_max)
		return;
	const rlim_t before = limit.rlim_cur;
	limit.rlim_cur = limit.rlim_max;
	if (!setrlimit(RLIMIT_NOFILE, &limit))
		log_line(LOG_INFO, -1, "the limit of open descriptors is raised from %llu to %llu",
			 (unsigned long long)before, (unsigned long long)limit.rlim_max);
}

/* -1: not known. */
static long count_open(void)
{
	DIR *folder = opendir("/proc/self/fd");
	long n = -1; /* the folder's own */
	if (!folder)
		return errno == EMFILE ? (long)sysconf(_SC_OPEN_MAX) : -1;
	while (readdir(folder))
		n++;
	closedir(folder);
	return n - 2; /* "." and ".." */
}

/* Opens so many and closes them: cheaper than to count, where many are open. */
static int are_free(int n)
{
	int taken[MOST], used = 0;
	while (used < n && (taken[used] = descriptor_event()) >= 0)
		used++;
	for (int i = 0; i < used; i++)
		close(taken[i]);
	return used == n || errno != EMFILE;
}

static int lacks(int n, int rank, enum log_level level, const char *what)
{
	struct rlimit limit;
	if (n <= MOST && are_free(n))
		return 0;
	const long open = count_open();
	if (open < 0 || getrlimit(RLIMIT_NOFILE, &limit) || (rlim_t)open + (rlim_t)n <= limit.rlim_cur)
		return 0;
	static const char text[] = "%s needs %s%d more descriptors, and this process has %ld of at most %llu "
				   "in use: raise the limit (ulimit -n), at most to %llu";
	const unsigned long long now = limit.rlim_cur, most = limit.rlim_max;
	if (level == LOG_ERROR)
		log_error(CORALE_ESYSTEM, rank, text, what, "", n, open, now, most);
	else
		log_line(level, rank, text, what, "up to ", n, open, now, most);
	return 1;
}

int descriptors_expect(int n, int rank, const char *what)
{
	return lacks(n, rank, LOG_WARN, what);
}

int descriptors_need(int n, int rank, const char *what)
{
	return lacks(n, rank, LOG_ERROR, what) ? CORALE_ESYSTEM : 0;
}
