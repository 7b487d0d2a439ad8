/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mail over local sockets with abstract names, a connection for each: the kernel keeps what was sent until the receiver accepts, and says of both ends whose they
 * are. Nobody waits: what finds no room, or is read before it is there, is lost, and the one that needs it asks again.
 */
#define _GNU_SOURCE
#include "exporter_state.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/descriptor.h"

union control {
	struct cmsghdr head;
	char bytes[CMSG_SPACE(MAIL_PIECES * sizeof(int))];
};

/* The leading zero makes the name abstract. */
static socklen_t address(struct sockaddr_un *out, uint64_t instance)
{
	*out = (struct sockaddr_un){ .sun_family = AF_UNIX };
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

void mail_send(uint64_t to, const struct mail *m, const int *fds)
{
	struct sockaddr_un name;
	const socklen_t length = address(&name, to);
	const size_t bytes = m->pieces * sizeof *fds;
	union control control = {
		.head = { .cmsg_len = CMSG_LEN(bytes), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS }
	};
	struct iovec data = { (void *)m, sizeof *m };
	const struct msghdr message = { .msg_iov = &data,
					.msg_iovlen = 1,
					.msg_control = bytes ? &control : NULL,
					.msg_controllen = bytes ? CMSG_SPACE(bytes) : 0 };
	const int fd = descriptor_socket(AF_UNIX, SOCK_SEQPACKET);
	if (bytes)
		memcpy(CMSG_DATA(&control.head), fds, bytes);
	if (fd >= 0 && !connect(fd, (struct sockaddr *)&name, length) && is_same_user(fd))
		sendmsg(fd, &message, MSG_NOSIGNAL);
	if (fd >= 0)
		close(fd);
}

/* Descriptors that came with other than a mail are closed. */
static int receive(int fd, struct mail *m, int *fds)
{
	struct iovec data = { m, sizeof *m };
	union control control;
	struct msghdr message = {
		.msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control
	};
	const ssize_t bytes = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
	const struct cmsghdr *head = bytes < 0 ? NULL : CMSG_FIRSTHDR(&message);
	const size_t n =
	    head && head->cmsg_type == SCM_RIGHTS ? (head->cmsg_len - CMSG_LEN(0)) / sizeof *fds : 0;
	const int is_mail =
	    bytes == (ssize_t)sizeof *m && n == m->pieces && !(message.msg_flags & MSG_CTRUNC);
	if (n)
		memcpy(fds, CMSG_DATA(head), n * sizeof *fds);
	for (size_t i = 0; i < n; i++)
		if ((fds[i] = descriptor_adopt(fds[i])) >= 0 && !is_mail)
			close(fds[i]);
	return is_mail;
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
