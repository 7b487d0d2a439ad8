/* SPDX-License-Identifier: BSD-3-Clause */
/* Work in a forked child takes no memory and no lock: another thread may have had them. */
#define _GNU_SOURCE

#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "ucx_worker.h"

enum { MOST = 1 << 16, PIPES = 64, NAME_BYTES = 64, LINE_BYTES = 160, DEEPEST = 4, ROOTS = 512 };

/* Where the search begins. UCX keeps them as long as the process lives. */
static int roots[ROOTS], nroots;

/* Of what exec has been told to close, by descriptor: connections that wait for nothing, or that UCX is about to close, are in no epoll any more. */
static _Atomic ino_t sealed[MOST];

struct ucx_descriptors {
	unsigned char bits[MOST / 8];
};

static int has(const struct ucx_descriptors *set, int fd)
{
	return set->bits[fd / 8] >> fd % 8 & 1;
}

static void put(int fd, void *set)
{
	((struct ucx_descriptors *)set)->bits[fd / 8] |= (unsigned char)(1 << fd % 8);
}

/* ---- Files of /proc ---- */

static int is_epoll(int fd)
{
	static const char epoll[] = "anon_inode:[eventpoll]";
	char name[NAME_BYTES], target[NAME_BYTES];
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	return readlink(name, target, sizeof(target)) == (ssize_t)strlen(epoll) &&
	       !memcmp(target, epoll, strlen(epoll));
}

typedef void visit(int fd, void *arg);

static void read_member(const char *line, visit *f, void *arg)
{
	struct stat file;
	const char *inode = strstr(line, "ino:");
	if (strncmp(line, "tfd:", strlen("tfd:")))
		return;
	const int fd = (int)strtol(line + strlen("tfd:"), NULL, 10);
	if (fd <= STDERR_FILENO || fd >= MOST || fstat(fd, &file))
		return;
	/* its number may have been used again since it became a member */
	if (!inode || strtoull(inode + strlen("ino:"), NULL, 16) == file.st_ino)
		f(fd, arg);
}

/* The members of an epoll. */
static void each_member(int epoll_fd, visit *f, void *arg)
{
	char name[NAME_BYTES], text[1024], line[LINE_BYTES];
	size_t used = 0;
	snprintf(name, sizeof(name), "/proc/self/fdinfo/%d", epoll_fd);
	const int info = descriptor_open(name, O_RDONLY);
	for (ssize_t n; info >= 0 && (n = read(info, text, sizeof(text))) > 0;)
		for (ssize_t i = 0; i < n; i++) {
			line[used] = text[i] == '\n' ? '\0' : text[i];
			if (!line[used])
				read_member(line, f, arg);
			used = !line[used] ? 0 : used + 1 < LINE_BYTES - 1 ? used + 1 : used;
		}
	if (info >= 0)
		close(info);
}

/* All descriptors of the process. */
static void each_descriptor(visit *f, void *arg)
{
	_Alignas(struct dirent64) char entries[2048];
	const int folder = descriptor_open("/proc/self/fd", O_RDONLY | O_DIRECTORY);
	for (long n; folder >= 0 && (n = syscall(SYS_getdents64, folder, entries, sizeof(entries))) > 0;)
		for (long at = 0; at < n;) {
			const struct dirent64 *entry = (const struct dirent64 *)(entries + at);
			const int fd = (int)strtol(entry->d_name, NULL, 10);
			at += entry->d_reclen;
			if (fd > STDERR_FILENO && fd < MOST && fd != folder)
				f(fd, arg);
		}
	if (folder >= 0)
		close(folder);
}

/* ---- Which are UCX's ---- */

struct found {
	struct ucx_descriptors ours;
	ino_t pipes[PIPES];
	int npipes, depth;
};

/* It and what is below it. */
static void add(int fd, void *arg)
{
	struct found *found = arg;
	struct stat file;
	if (has(&found->ours, fd) || found->depth > DEEPEST)
		return;
	put(fd, &found->ours);
	if (!fstat(fd, &file) && S_ISFIFO(file.st_mode) && found->npipes < PIPES)
		found->pipes[found->npipes++] = file.st_ino;
	found->depth++;
	if (is_epoll(fd))
		each_member(fd, add, found);
	found->depth--;
}

struct above {
	const struct found *found;
	int is_above;
};

static void look_below(int fd, void *arg)
{
	struct above *above = arg;
	above->is_above |= has(&above->found->ours, fd);
}

/* The epoll of UCX's own thread has the sockets that listen, the epolls of interfaces and pipes. */
static void add_above(int fd, void *arg)
{
	struct above above = { arg, 0 };
	if (has(&above.found->ours, fd) || !is_epoll(fd))
		return;
	each_member(fd, look_below, &above);
	if (above.is_above)
		add(fd, arg);
}

/* What is in no epoll: the other end of a pipe, a connection that was in one. */
static void add_rest(int fd, void *arg)
{
	struct found *found = arg;
	struct stat file;
	if (has(&found->ours, fd) || fstat(fd, &file))
		return;
	if (S_ISSOCK(file.st_mode) && file.st_ino == sealed[fd])
		add(fd, found);
	for (int i = 0; i < found->npipes; i++)
		if (S_ISFIFO(file.st_mode) && found->pipes[i] == file.st_ino) {
			add(fd, found);
			return;
		}
}

static void find(struct found *found)
{
	memset(found, 0, sizeof(*found));
	for (int i = 0; i < nroots; i++)
		add(roots[i], found);
	each_descriptor(add_above, found);
	each_descriptor(add_rest, found);
}

/* ---- What is done with them ---- */

static void close_by_exec(int fd)
{
	struct stat file;
	const int flags = fcntl(fd, F_GETFD);
	if (flags >= 0 && !(flags & FD_CLOEXEC) && !fstat(fd, &file) &&
	    !fcntl(fd, F_SETFD, flags | FD_CLOEXEC))
		sealed[fd] = file.st_ino;
}

/* The numbers stay in use: UCX closes them when the child ends, and must not close files of the child. */
static void give_up_in_child(void)
{
	static struct found found; /* no thread is left that uses it */
	const int nothing = descriptor_open("/dev/null", O_RDONLY);
	find(&found);
	for (int fd = STDERR_FILENO + 1; fd < MOST; fd++)
		if (has(&found.ours, fd) && fd != nothing &&
		    (nothing < 0 || dup3(nothing, fd, O_CLOEXEC) < 0))
			close(fd);
	if (nothing >= 0)
		close(nothing);
	nroots = 0;
}

/* ---- Workers ---- */

struct ucx_descriptors *ucx_descriptors_before(void)
{
	struct ucx_descriptors *before = calloc(1, sizeof(*before));
	if (before)
		each_descriptor(put, before);
	return before;
}

/* The port at which a socket listens, as its two bytes are in addresses; 0: it does not. */
static uint16_t listening_port(int fd)
{
	struct sockaddr_storage name = { 0 };
	socklen_t length = sizeof(name);
	int listens = 0;
	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &(socklen_t){ sizeof(listens) }) ||
	    !listens || getsockname(fd, (struct sockaddr *)&name, &length))
		return 0;
	return name.ss_family == AF_INET    ? ((struct sockaddr_in *)&name)->sin_port
	       : name.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&name)->sin6_port
					    : 0;
}

struct listeners {
	const struct ucx_descriptors *before;
	const struct ucx_worker *worker;
};

static void add_listener(int fd, void *arg)
{
	const struct listeners *l = arg;
	const uint16_t port = has(l->before, fd) ? 0 : listening_port(fd);
	if (port && nroots < ROOTS &&
	    memmem(l->worker->address, l->worker->address_bytes, &port, sizeof(port)))
		roots[nroots++] = fd;
}

static void close_found_by_exec(void)
{
	struct found *found = malloc(sizeof(*found));
	if (!found)
		return;
	find(found);
	for (int fd = STDERR_FILENO + 1; fd < MOST; fd++)
		if (has(&found->ours, fd))
			close_by_exec(fd);
	free(found);
}

void ucx_descriptors_add(struct ucx_descriptors *before, const struct ucx_worker *worker)
{
	struct listeners listeners = { before, worker };
	if (!nroots)
		pthread_atfork(NULL, NULL, give_up_in_child);
	if (worker->event_fd < MOST && nroots < ROOTS)
		roots[nroots++] = worker->event_fd;
	if (before)
		each_descriptor(add_listener, &listeners);
	close_found_by_exec();
	free(before);
}

/* At arg and below: a worker's epoll has those of interfaces, which have connections. */
static void seal_member(int fd, void *arg)
{
	const int *depth = arg, below = *depth - 1;
	close_by_exec(fd);
	if (*depth && is_epoll(fd))
		each_member(fd, seal_member, (void *)&below);
}

void ucx_descriptors_seal(const struct ucx_worker *worker)
{
	int depth = 1;
	each_member(worker->event_fd, seal_member, &depth);
}
