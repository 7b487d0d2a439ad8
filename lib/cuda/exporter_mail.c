/* SPDX-License-Identifier: BSD-3-Clause */
/* A connection for each mail: the kernel keeps what was sent until the receiver accepts, and says of both ends whose they are. */
#define _GNU_SOURCE
#include "exporter_mail.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/descriptor.h"

union control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(MAIL_PIECES * sizeof(int))];
};

/* The leading zero makes the name abstract. */
static socklen_t address(struct sockaddr_un *out, uint64_t instance)
{
	memset(out, 0, sizeof *out);
	out->sun_family = AF_UNIX;
	const int n = snprintf(out->sun_path + 1, sizeof out->sun_path - 1, "corale-exports-%016llx",
			       (unsigned long long)instance);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static int is_same_user(int fd)
{
	struct ucred other;
	socklen_t size = sizeof other;
	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &other, &size) && other.uid == geteuid();
}

int mail_open(uint64_t instance)
{
	struct sockaddr_un name;
	const socklen_t length = address(&name, instance);
	const int fd = descriptor_socket(AF_UNIX, SOCK_SEQPACKET);
	if (fd < 0 || (!bind(fd, (struct sockaddr *)&name, length) && !listen(fd, SOMAXCONN)))
		return fd;
	const int saved = errno;
	close(fd);
	errno = saved;
	return -1;
}

/* Of descriptors in a message. */
static void attach(struct msghdr *message, union control *control, const int *fds, size_t bytes)
{
	memset(control, 0, sizeof *control);
	message->msg_control = control;
	message->msg_controllen = CMSG_SPACE(bytes);
	struct cmsghdr *c = CMSG_FIRSTHDR(message);
	c->cmsg_len = CMSG_LEN(bytes);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	memcpy(CMSG_DATA(c), fds, bytes);
}

void mail_send(uint64_t to, const struct mail *m, const int *fds)
{
	struct sockaddr_un name;
	const socklen_t length = address(&name, to);
	struct iovec data = { (void *)m, sizeof *m };
	union control control;
	struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1 };
	const int fd = descriptor_socket(AF_UNIX, SOCK_SEQPACKET);
	if (fd < 0)
		return;
	if (m->pieces)
		attach(&message, &control, fds, m->pieces * sizeof *fds);
	if (!connect(fd, (struct sockaddr *)&name, length) && is_same_user(fd))
		sendmsg(fd, &message, MSG_NOSIGNAL);
	close(fd);
}

/* How many descriptors came. */
static uint32_t unpack(struct msghdr *message, int *fds)
{
	const struct cmsghdr *c = CMSG_FIRSTHDR(message);
	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
		return 0;
	const uint32_t n = (uint32_t)((c->cmsg_len - CMSG_LEN(0)) / sizeof *fds);
	memcpy(fds, CMSG_DATA(c), n * sizeof *fds);
	for (uint32_t i = 0; i < n; i++)
		fds[i] = descriptor_adopt(fds[i]);
	return n;
}

static int receive(int fd, struct mail *m, int *fds)
{
	struct iovec data = { m, sizeof *m };
	union control control;
	struct msghdr message = {
		.msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control
	};
	const ssize_t bytes = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
	const uint32_t n = bytes < 0 ? 0 : unpack(&message, fds);
	if (bytes == (ssize_t)sizeof *m && n == m->pieces && !(message.msg_flags & MSG_CTRUNC))
		return 1;
	for (uint32_t i = 0; i < n; i++)
		close(fds[i]);
	return 0;
}

int mail_receive(int listening, struct mail *m, int fds[MAIL_PIECES])
{
	const int fd = descriptor_accept(listening);
	if (fd < 0)
		return errno == EINTR || errno == ECONNABORTED ? 0 : -1;
	const int got = is_same_user(fd) && receive(fd, m, fds);
	close(fd);
	return got;
}
