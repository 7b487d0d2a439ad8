/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mail over local sockets with abstract names, a connection for each: the kernel keeps what was sent until the receiver accepts, and says of both ends whose they
 * are. Nobody waits: what finds no room, or is read before it is there, is lost, and the one that needs it asks again.
 */
#define _GNU_SOURCE
#include "exporter_state.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/fd_message.h"

static socklen_t address(struct sockaddr_un *out, uint64_t instance)
{
	char name[40];
	snprintf(name, sizeof name, "corale-exports-%016llx", (unsigned long long)instance);
	return fd_message_address(out, name);
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
	const struct fd_message message = { (void *)m, sizeof *m, (int *)fds, (int)m->pieces, 0 };
	const int fd = descriptor_socket(AF_UNIX, SOCK_SEQPACKET);
	if (fd >= 0 && !connect(fd, (struct sockaddr *)&name, length) && fd_message_is_of_user(fd))
		fd_message_send(fd, &message);
	if (fd >= 0)
		close(fd);
}

/* Descriptors that came with other than a mail are closed. */
static int receive(int fd, struct mail *m, int *fds)
{
	struct fd_message message = { m, sizeof *m, fds, MAIL_PIECES, 0 };
	const ssize_t bytes = fd_message_receive(fd, &message);
	const int is_mail = bytes == (ssize_t)sizeof *m && message.n == (int)m->pieces && !message.is_cut;
	for (int i = 0; i < message.n && !is_mail; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	return is_mail;
}

int mail_receive(int listening, struct mail *m, int fds[MAIL_PIECES])
{
	const int fd = descriptor_accept(listening);
	if (fd < 0)
		return errno == EINTR || errno == ECONNABORTED ? 0 : -1;
	const int got = fd_message_is_of_user(fd) && receive(fd, m, fds);
	close(fd);
	return got;
}
