#define _GNU_SOURCE
#include "boot_fds.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/descriptor.h"

static pthread_mutex_t mutex =
    PTHREAD_MUTEX_INITIALIZER; /* held while one is opened: no fork comes in between */
static unsigned char *is_open; /* by descriptor */
static int room;

static int make_room(int fd)
{
	int wanted = room ? room : 64;
	while (wanted <= fd)
		wanted *= 2;
	if (wanted == room)
		return 1;
	unsigned char *grown = realloc(is_open, (size_t)wanted);
	if (!grown)
		return 0;
	memset(grown + room, 0, (size_t)(wanted - room));
	is_open = grown;
	room = wanted;
	return 1;
}

/* Under the mutex: fd, or -1. */
static int add(int fd)
{
	if (fd < 0)
		return -1;
	if (!make_room(fd)) {
		close(fd);
		errno = ENOMEM;
		return -1;
	}
	is_open[fd] = 1;
	return fd;
}

int boot_fds_socket(int family)
{
	pthread_mutex_lock(&mutex);
	int fd = add(descriptor_socket(family, SOCK_STREAM));
	pthread_mutex_unlock(&mutex);
	return fd;
}

int boot_fds_accept(int listening)
{
	pthread_mutex_lock(&mutex);
	int fd = add(descriptor_accept(listening));
	pthread_mutex_unlock(&mutex);
	return fd;
}

int boot_fds_event(void)
{
	pthread_mutex_lock(&mutex);
	int fd = add(descriptor_event());
	pthread_mutex_unlock(&mutex);
	return fd;
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
	if (fd < room && is_open[fd]) {
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
	for (int fd = 0; fd < room; fd++) {
		if (is_open[fd])
			close(fd);
		is_open[fd] = 0;
	}
}
