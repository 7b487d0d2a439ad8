/* SPDX-License-Identifier: BSD-3-Clause */
/* Listens under an adapter's lid and connects to those of others. */
#define _GNU_SOURCE
#include "sockets.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 4096, MOST_LIDS = 0xbfff }; /* lids above are multicast */

/* Abstract names: they go with their process, and each network namespace has its own. */
static socklen_t name_of(uint16_t lid, struct sockaddr_un *name)
{
	memset(name, 0, sizeof(*name));
	name->sun_family = AF_UNIX;
	const int length =
	    snprintf(name->sun_path + 1, sizeof(name->sun_path) - 1, "corale-fake-verbs-%u", lid);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

int fake_socket_listen(uint16_t *lid)
{
	struct sockaddr_un name;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	for (unsigned i = 1; fd >= 0 && i <= MOST_LIDS; i++) {
		const socklen_t length = name_of((uint16_t)i, &name);
		if (bind(fd, (struct sockaddr *)&name, length))
			continue;
		*lid = (uint16_t)i;
		if (!listen(fd, BACKLOG))
			return fd;
		break;
	}
	if (fd >= 0)
		close(fd);
	return -1;
}

int fake_socket_connect(uint16_t lid)
{
	struct sockaddr_un name;
	const socklen_t length = name_of(lid, &name);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&name, length)) {
		close(fd);
		fd = -1;
	}
	return fd;
}
