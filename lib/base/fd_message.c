/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "fd_message.h"

#include <string.h>
#include <unistd.h>

#include "descriptor.h"

/* Room for the descriptors of a message. */
union control {
	struct cmsghdr head;
	char bytes[CMSG_SPACE(FD_MESSAGE_MOST * sizeof(int))];
};

socklen_t fd_message_address(struct sockaddr_un *out, const char *name)
{
	const size_t length = strnlen(name, sizeof(out->sun_path) - 1);
	*out = (struct sockaddr_un){ .sun_family = AF_UNIX };
	memcpy(out->sun_path + 1, name, length); /* the leading zero makes the name abstract */
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

int fd_message_is_of_user(int fd)
{
	struct ucred other;
	socklen_t size = sizeof(other);
	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &other, &size) == 0 && other.uid == geteuid();
}

int fd_message_send(int fd, const struct fd_message *m)
{
	const size_t bytes = (size_t)m->n * sizeof(int);
	union control control = {
		.head = { .cmsg_len = CMSG_LEN(bytes), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS }
	};
	struct iovec data = { m->data, m->bytes };
	const struct msghdr message = { .msg_iov = &data,
					.msg_iovlen = 1,
					.msg_control = bytes ? &control : NULL,
					.msg_controllen = bytes ? CMSG_SPACE(bytes) : 0 };
	if (bytes)
		memcpy(CMSG_DATA(&control.head), m->fds, bytes);
	return sendmsg(fd, &message, MSG_NOSIGNAL) == (ssize_t)m->bytes;
}

ssize_t fd_message_receive(int fd, struct fd_message *m)
{
	struct iovec data = { m->data, m->bytes };
	union control control;
	struct msghdr message = { .msg_iov = &data,
				  .msg_iovlen = 1,
				  .msg_control = &control,
				  .msg_controllen = CMSG_SPACE((size_t)m->n * sizeof(int)) };
	const ssize_t bytes = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
	m->n = 0;
	m->is_cut = bytes >= 0 && message.msg_flags & MSG_CTRUNC;
	for (struct cmsghdr *c = bytes < 0 ? NULL : CMSG_FIRSTHDR(&message); c;
	     c = CMSG_NXTHDR(&message, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		const int n = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(m->fds + m->n, CMSG_DATA(c), (size_t)n * sizeof(int));
		for (int i = 0; i < n; i++, m->n++)
			m->fds[m->n] = descriptor_adopt(m->fds[m->n]);
	}
	return bytes;
}
