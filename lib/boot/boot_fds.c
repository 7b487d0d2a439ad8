/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "boot_fds.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/array.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "corale.h"

enum { BACKLOG = 65535 /* the kernel's limit */ };
static pthread_mutex_t mutex =
    PTHREAD_MUTEX_INITIALIZER; /* held while one is opened: no fork comes in between */
static unsigned char *is_open; /* by descriptor */
static size_t room;

/* Unlocks the mutex. Returns fd, which is listed, or -1. */
static int add(int fd)
{
	const size_t before = room;
	if (fd >= 0 && array_grow(&is_open, &room, (size_t)fd + 1, 1)) {
		memset(is_open + before, 0, room - before);
		is_open[fd] = 1;
	} else if (fd >= 0) {
		close(fd);
		errno = ENOMEM;
		fd = -1;
	}
	pthread_mutex_unlock(&mutex);
	return fd;
}

int boot_fds_socket(int family)
{
	pthread_mutex_lock(&mutex);
	return add(descriptor_socket(family, SOCK_STREAM));
}

int boot_fds_listen(struct boot_address *address, const char *where)
{
	struct sockaddr_storage name;
	char text[BOOT_ADDRESS_TEXT];
	socklen_t length = boot_address_to_socket(address, &name);
	int on = 1, fd = boot_fds_socket(name.ss_family);
	if (fd >= 0)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (fd < 0 || bind(fd, (struct sockaddr *)&name, length) || listen(fd, BACKLOG) ||
	    getsockname(fd, (struct sockaddr *)&name, &length)) {
		log_error(CORALE_ESYSTEM, -1, "bootstrap: cannot listen at %s (%s): %s",
			  boot_address_text(address, text), where,
			  errno == EADDRINUSE ? "the port is in use by another socket"
			  : errno == EADDRNOTAVAIL
			      ? "this host does not have that address; rank 0 must run where it is"
			      : strerror(errno));
		boot_fds_close(fd);
		return -1;
	}
	boot_address_from_socket((struct sockaddr *)&name, address);
	return fd;
}

int boot_fds_accept(int listening)
{
	pthread_mutex_lock(&mutex);
	return add(descriptor_accept(listening));
}

int boot_fds_event(void)
{
	pthread_mutex_lock(&mutex);
	return add(descriptor_event());
}

void boot_fds_tune(int fd)
{
	static const struct {
		int level, name, value;
	} options[] = { { IPPROTO_TCP, TCP_NODELAY, 1 },   { SOL_SOCKET, SO_KEEPALIVE, 1 },
			{ IPPROTO_TCP, TCP_KEEPIDLE, 30 }, { IPPROTO_TCP, TCP_KEEPINTVL, 10 },
			{ IPPROTO_TCP, TCP_KEEPCNT, 3 },   { IPPROTO_TCP, TCP_USER_TIMEOUT, 60000 } };
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(int));
}

void boot_fds_close(int fd)
{
	if (fd < 0)
		return;
	pthread_mutex_lock(&mutex);
	if ((size_t)fd < room && is_open[fd]) {
		is_open[fd] = 0;
		close(fd);
	}
	pthread_mutex_unlock(&mutex);
}

void boot_fds_lock(void)
{
	pthread_mutex_lock(&mutex);
}

void boot_fds_unlock(void)
{
	pthread_mutex_unlock(&mutex);
}

void boot_fds_close_all(void)
{
	for (int fd = 0; (size_t)fd < room; fd++) {
		if (is_open[fd])
			close(fd);
		is_open[fd] = 0;
	}
}
