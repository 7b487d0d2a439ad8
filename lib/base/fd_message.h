/* SPDX-License-Identifier: BSD-3-Clause */
/* A message with descriptors, over a local socket with an abstract name: nothing appears in the file system. */
#ifndef FD_MESSAGE_H
#define FD_MESSAGE_H

#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { FD_MESSAGE_MOST = 64 };

struct fd_message {
	void *data;
	size_t bytes;
	int *fds;
	int n; /* descriptors; before receiving: the room for them, FD_MESSAGE_MOST at most */
	int is_cut; /* received: more were sent than came */
};

/* The length of the address. */
socklen_t fd_message_address(struct sockaddr_un *out, const char *name);

/* 1 if the other end of a connection is a process of the same user. */
int fd_message_is_of_user(int fd);

/* 1, or 0 and errno. */
int fd_message_send(int fd, const struct fd_message *m);

/* The bytes that came, or -1 and errno. The descriptors are the caller's, whatever came with them. */
ssize_t fd_message_receive(int fd, struct fd_message *m);

#endif
