/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "liveness.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "corale.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "base/process.h"
#include "base/wait.h"

enum { PAGE_BYTES = LIVENESS_PAGE_BYTES };
enum exit_state { NOT_EXITING, IN_EXIT_HANDLERS /* without a call since they began */, EXITED };

static const int64_t quiet_ns =
    1000000000; /* in which a process in exit handlers makes a call, or has left */

struct page {
	pthread_mutex_t held; /* robust */
	_Atomic uint32_t exiting; /* enum exit_state */
	_Atomic uint32_t died; /* said by who found the mutex without its owner */
};

struct liveness {
	struct liveness *next;
	struct page *page;
	dev_t device;
	ino_t inode; /* of the page: the same process's is opened once */
	int users;
	int64_t exiting_ns; /* when it was first seen in exit handlers; 0: it was not */
	_Atomic int state;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct liveness *others;
static struct page *mine;
static int mine_fd = -1;

static struct page *map(int fd)
{
	void *at = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return NULL;
	madvise(at, PAGE_BYTES, MADV_DONTFORK);
	return at;
}

static int init_mutex(pthread_mutex_t *mutex)
{
	pthread_mutexattr_t attr;
	int error = pthread_mutexattr_init(&attr);
	if (error)
		return error;
	error = pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	error = error ? error : pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	error = error ? error : pthread_mutex_init(mutex, &attr);
	pthread_mutexattr_destroy(&attr);
	return error;
}

int liveness_create(int rank)
{
	int error = 0;
	if (mine)
		return 0;
	const char *failed_at;
	int fd = descriptor_memory("corale-life", PAGE_BYTES, &failed_at);
	if (fd < 0)
		return log_error(CORALE_ESYSTEM, rank, "making a page of %d bytes failed: %s: %s", PAGE_BYTES,
				 failed_at, strerror(errno));
	struct page *page = map(fd);
	if (!page || (error = init_mutex(&page->held))) {
		close(fd);
		return log_error(CORALE_ESYSTEM, rank, "making a page with a robust mutex failed: %s",
				 strerror(error ? error : errno));
	}
	mine = page;
	mine_fd = fd;
	return 0;
}

int liveness_hold(void)
{
	return pthread_mutex_lock(&mine->held);
}

int liveness_fd(void)
{
	return mine_fd;
}

void liveness_exiting(void)
{
	if (!mine)
		return;
	atomic_store(&mine->exiting, IN_EXIT_HANDLERS);
	process_exits(1);
}

void liveness_calls_on(void)
{
	uint32_t state = IN_EXIT_HANDLERS;
	process_exits(0);
	if (mine)
		atomic_compare_exchange_strong(&mine->exiting, &state, NOT_EXITING);
}

void liveness_exited(void)
{
	if (mine)
		atomic_store(&mine->exiting, EXITED);
}

static struct liveness *find(const struct stat *file)
{
	struct liveness *l = others;
	while (l && (l->device != file->st_dev || l->inode != file->st_ino))
		l = l->next;
	return l;
}

static struct liveness *add(int fd, const struct stat *file)
{
	struct liveness *l = calloc(1, sizeof *l);
	struct page *page = l && file->st_size >= PAGE_BYTES ? map(fd) : NULL;
	if (!page) {
		free(l);
		return NULL;
	}
	*l = (struct liveness){ .next = others, .page = page, .device = file->st_dev, .inode = file->st_ino };
	others = l;
	return l;
}

struct liveness *liveness_open(int fd)
{
	struct stat file;
	if (fstat(fd, &file))
		return NULL;
	pthread_mutex_lock(&lock);
	struct liveness *l = find(&file);
	l = l ? l : add(fd, &file);
	if (l)
		l->users++;
	pthread_mutex_unlock(&lock);
	return l;
}

void liveness_close(struct liveness *l)
{
	if (!l)
		return;
	pthread_mutex_lock(&lock);
	if (!--l->users) {
		struct liveness **at = &others;
		while (*at != l)
			at = &(*at)->next;
		*at = l->next;
		munmap(l->page, PAGE_BYTES);
		free(l);
	}
	pthread_mutex_unlock(&lock);
}

static int has_exited(struct liveness *l)
{
	const uint32_t state = atomic_load(&l->page->exiting);
	if (state != IN_EXIT_HANDLERS)
		l->exiting_ns = 0;
	else if (!l->exiting_ns)
		l->exiting_ns = wait_now_ns();
	return state == EXITED || (l->exiting_ns && wait_now_ns() - l->exiting_ns > quiet_ns);
}

/* The process that finds the mutex without its owner sets died, because glibc's pthread_mutex_trylock leaves a mutex that is not recoverable locked:
 * a third process would find it busy for ever. */
static enum liveness_state look(struct liveness *l)
{
	struct page *page = l->page;
	if (has_exited(l))
		return LIVENESS_EXITED;
	if (atomic_load(&page->died))
		return LIVENESS_DIED;
	int error = pthread_mutex_trylock(&page->held);
	if (error == EOWNERDEAD)
		atomic_store(&page->died, 1);
	if (!error || error == EOWNERDEAD)
		pthread_mutex_unlock(&page->held);
	if (!error) /* somebody else is looking, or the owner has not begun: the next look says more */
		return LIVENESS_ALIVE;
	return error == EBUSY ? LIVENESS_ALIVE : LIVENESS_DIED;
}

void liveness_look(void)
{
	pthread_mutex_lock(&lock);
	for (struct liveness *l = others; l; l = l->next)
		if (atomic_load_explicit(&l->state, memory_order_relaxed) == LIVENESS_ALIVE)
			atomic_store(&l->state, look(l));
	pthread_mutex_unlock(&lock);
}

int liveness_gone(long pid)
{
	int fd = descriptor_process((pid_t)pid);
	if (fd < 0)
		return errno == ESRCH;
	struct pollfd end = { .fd = fd, .events = POLLIN };
	int gone = poll(&end, 1, 0) == 1;
	close(fd);
	return gone;
}

enum liveness_state liveness_state(const struct liveness *l)
{
	return (enum liveness_state)atomic_load(&l->state);
}
