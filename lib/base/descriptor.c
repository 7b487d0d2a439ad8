/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "signals.h"

/* The lowest descriptor that is free, which nothing can be read from or written to. */
static int occupy(void)
{
	int fd = open("/dev/null", O_PATH | O_CLOEXEC);
	return fd >= 0 ? fd : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); /* a root without /dev */
}

void descriptors_hold_standard(void)
{
	const int saved = errno;
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF)
			continue;
		const int got = occupy();
		if (got > STDERR_FILENO) /* another thread was first */
			close(got);
	}
	errno = saved;
}

/* Another thread may have closed a standard stream after descriptors_hold_standard. */
static int above_standard(int fd)
{
	if (fd < 0 || fd > STDERR_FILENO)
		return fd;
	const int above = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), saved = errno;
	close(fd);
	errno = saved;
	return above;
}

int descriptor_create(const char *path, int flags, mode_t mode)
{
	descriptors_hold_standard();
	return above_standard(open(path, flags | O_CLOEXEC, mode));
}

int descriptor_open(const char *path, int flags)
{
	return descriptor_create(path, flags, 0);
}

int descriptor_socket(int family, int type)
{
	descriptors_hold_standard();
	return above_standard(socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

int descriptor_accept(int listening)
{
	descriptors_hold_standard();
	int fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0 && (errno == EPERM || errno == ENOSYS) && (fd = accept(listening, NULL, NULL)) >= 0) {
		fcntl(fd, F_SETFD, FD_CLOEXEC);
		fcntl(fd, F_SETFL, O_NONBLOCK);
	}
	return above_standard(fd);
}

int descriptor_event(void)
{
	descriptors_hold_standard();
	return above_standard(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
}

int descriptor_process(pid_t pid)
{
	descriptors_hold_standard();
	return above_standard((int)syscall(SYS_pidfd_open, pid, 0)); /* is closed by exec */
}

int descriptor_pipe(int ends[2])
{
	descriptors_hold_standard();
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
		return -1;
	for (int i = 0; i < 2; i++)
		ends[i] = above_standard(ends[i]);
	if (ends[0] >= 0 && ends[1] >= 0)
		return 0;
	const int saved = errno;
	for (int i = 0; i < 2; i++)
		if (ends[i] >= 0)
			close(ends[i]);
	errno = saved;
	return -1;
}

/* Beyond the limit of file sizes the kernel also sends a signal, which would end the process without a word. */
static int size_memory(int fd, size_t bytes)
{
	struct signals_held held;
	signals_hold(&held);
	const int ret = ftruncate(fd, (off_t)bytes);
	signals_drop(&held);
	return ret;
}

int descriptor_memory(const char *name, size_t bytes, const char **failed_at)
{
	descriptors_hold_standard();
	*failed_at = "memfd_create";
	int fd = above_standard(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
	if (fd < 0)
		return -1;
	*failed_at = "ftruncate";
	int ret = size_memory(fd, bytes);
	if (!ret) {
		*failed_at = "F_ADD_SEALS";
		ret = fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
	}
	if (!ret)
		return fd;
	const int saved = errno;
	close(fd);
	errno = saved;
	return -1;
}

int descriptor_adopt(int fd)
{
	if (fd >= 0)
		fcntl(fd, F_SETFD, FD_CLOEXEC);
	return above_standard(fd);
}

FILE *descriptor_read(const char *path)
{
	const int fd = descriptor_open(path, O_RDONLY);
	FILE *stream = fd < 0 ? NULL : fdopen(fd, "r");
	if (!stream && fd >= 0)
		close(fd);
	return stream;
}
