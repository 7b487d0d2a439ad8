/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One sequenced-packet message per direction of each pair, on a connection of its own: connect, send, close.
 * The kernel keeps the message (with its descriptors) until the peer accepts, so nobody ever waits for a peer
 * to be at a particular point, and no order of calls can deadlock.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fdpass.h"
#include "base/descriptor.h"
#include "base/fd_message.h"
#include "base/log.h"
#include "base/process.h"
#include "base/wait.h"

enum { MAX_PENDING = 64, RETRY_MS = 2 };
_Static_assert((int)FDPASS_MAX_FDS <= (int)FD_MESSAGE_MOST, "a message has room for all descriptors");
static const int find_ms = 300;
static const int64_t second_ns = 1000000000, check_ns = 500000000; /* of those that have not sent */

struct fdpass {
	int fd;
	char why[FDPASS_WHY_BYTES];
};

struct hello {
	uint64_t cookie;
	int32_t id, nfds; /* nfds < 0: the sender can't pass any */
};

struct exchange {
	struct fdpass *pass;
	int peers, my_id, nfds;
	const char (*names)[FDPASS_NAME_BYTES];
	const int *peer_ids, *my_fds;
	uint64_t cookie;
	int barred; /* tell the others that no descriptor comes */
	int sent, received; /* peers that I have sent to (in order); peers that I have received from */
	int *fds; /* by peer and descriptor; -1: not yet */
	char *seen; /* by peer */
	int pending[MAX_PENDING]; /* accepted connections whose message has not arrived, oldest first */
	int npending;
};

/* Nothing is wrong with the peer, but no descriptor can pass. */
static int bar(const struct exchange *x, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int bar(const struct exchange *x, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(x->pass->why, sizeof x->pass->why, format, args);
	va_end(args);
	return CORALE_ENOTSUP;
}

static int is_forbidden(int error)
{
	return error == EPERM || error == EACCES;
}

const char *fdpass_why(const struct fdpass *pass)
{
	return pass->why;
}

int fdpass_listen(struct fdpass **out, char name[FDPASS_NAME_BYTES])
{
	struct sockaddr_un addr;
	uint64_t random[2];
	char text[FDPASS_NAME_BYTES];
	struct fdpass *pass = calloc(1, sizeof(*pass));
	if (!pass)
		return log_error(CORALE_ENOMEM, -1, "no memory for a socket");
	const int error = process_random(random, sizeof(random));
	if (error) {
		free(pass);
		return log_error(CORALE_ESYSTEM, -1, "getrandom failed: %s", strerror(error));
	}
	snprintf(text, sizeof(text), "corale-%016llx%016llx", (unsigned long long)random[0],
		 (unsigned long long)random[1]);
	pass->fd = descriptor_socket(AF_UNIX, SOCK_SEQPACKET);
	if (pass->fd < 0 || bind(pass->fd, (struct sockaddr *)&addr, fd_message_address(&addr, text)) ||
	    listen(pass->fd, SOMAXCONN)) {
		int code =
		    log_error(CORALE_ESYSTEM, -1, "cannot listen on a local socket: %s", strerror(errno));
		fdpass_close(pass);
		return code;
	}
	memcpy(name, text, sizeof(text));
	*out = pass;
	return 0;
}

void fdpass_close(struct fdpass *pass)
{
	if (!pass)
		return;
	if (pass->fd >= 0)
		close(pass->fd);
	free(pass);
}

/* 1 when sent, 0 to be tried again later, or an error. */
static int send_hello(const struct exchange *x, int fd)
{
	struct hello hello = { .cookie = x->cookie, .id = x->my_id, .nfds = x->barred ? -1 : x->nfds };
	const struct fd_message message = {
		.data = &hello, .bytes = sizeof(hello), .fds = (int *)x->my_fds, .n = x->barred ? 0 : x->nfds
	};
	if (fd_message_send(fd, &message))
		return 1;
	/* too many descriptors in flight: they become fewer when the peers receive */
	if (errno == EAGAIN || errno == EINTR || errno == ETOOMANYREFS || errno == ENOBUFS)
		return 0;
	/* the peer needed the place (make_room) */
	if (errno == EPIPE || errno == ECONNRESET)
		return 0;
	if (is_forbidden(errno))
		return bar(x, "it cannot send descriptors: %s", strerror(errno));
	return log_error(CORALE_ESYSTEM, x->my_id, "cannot send %d descriptors to rank %d: %s", x->nfds,
			 x->peer_ids[x->sent], strerror(errno));
}

/* Serves the next peer: 1 when done, 0 to be tried again later, or an error. */
static int serve(struct exchange *x)
{
	struct sockaddr_un addr;
	socklen_t length = fd_message_address(&addr, x->names[x->sent]);
	int peer = x->peer_ids[x->sent], result;
	int fd = descriptor_socket(AF_UNIX, SOCK_SEQPACKET);
	if (fd < 0)
		return log_error(CORALE_ESYSTEM, x->my_id, "cannot make a local socket: %s", strerror(errno));
	if (connect(fd, (struct sockaddr *)&addr, length) == 0) {
		if (fd_message_is_of_user(fd))
			result = send_hello(x, fd);
		else
			result = bar(x,
				     "the socket of rank %d belongs to another user: start all ranks of a "
				     "host as one user, in one user namespace",
				     peer);
	} else if (errno == EAGAIN || errno == EINTR) {
		result = 0; /* the peer's queue of connections is full */
	} else if (is_forbidden(errno)) {
		result = bar(x, "it may not connect to rank %d: %s", peer, strerror(errno));
	} else {
		result = log_error(CORALE_EPEER, x->my_id,
				   "rank %d does not listen (%s): it has died or given up, or runs in "
				   "another network namespace",
				   peer, strerror(errno));
	}
	close(fd);
	x->sent += result == 1;
	return result;
}

static void close_all(const int *fds, int n)
{
	for (int i = 0; i < n; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

static int find_peer(const struct exchange *x, int id)
{
	for (int i = 0; i < x->peers; i++)
		if (x->peer_ids[i] == id)
			return i;
	return -1;
}

/* Reads a pending connection: 1 when it is finished with (a peer's message, or a stranger), 0 not yet, or an error. */
static int receive(struct exchange *x, int fd)
{
	struct hello hello;
	int fds[FDPASS_MAX_FDS];
	struct fd_message message = {
		.data = &hello, .bytes = sizeof(hello), .fds = fds, .n = FDPASS_MAX_FDS
	};
	const ssize_t bytes = fd_message_receive(fd, &message);
	const int n = message.n;
	if (bytes < 0)
		return !(errno == EAGAIN || errno == EINTR);
	int peer = bytes == (ssize_t)sizeof(hello) && hello.cookie == x->cookie ? find_peer(x, hello.id) : -1;
	if (peer < 0 || x->seen[peer]) {
		close_all(fds, n);
		return 1;
	}
	if (hello.nfds < 0) {
		close_all(fds, n);
		return CORALE_ENOTSUP;
	}
	if (n != x->nfds || hello.nfds != x->nfds) {
		close_all(fds, n);
		return log_error(CORALE_ESYSTEM, x->my_id,
				 "%d descriptors arrived from rank %d, which sent %d; expected %d%s", n,
				 hello.id, hello.nfds, x->nfds,
				 message.is_cut ? " (raise the limit of open files: ulimit -n)" : "");
	}
	memcpy(x->fds + peer * n, fds, (size_t)n * sizeof(int));
	x->seen[peer] = 1;
	x->received++;
	return 1;
}

static void forget_pending(struct exchange *x, int i)
{
	close(x->pending[i]);
	x->npending--;
	memmove(x->pending + i, x->pending + i + 1, (size_t)(x->npending - i) * sizeof(int));
}

/*
 * Strangers that connect and say nothing must not keep peers out: the one that has been silent for longest goes. Should it be a peer
 * after all, nothing is lost: what was sent before the shutdown is heard here, and later the sender fails and connects again.
 */
static int make_room(struct exchange *x)
{
	shutdown(x->pending[0], SHUT_RD);
	int result = receive(x, x->pending[0]);
	forget_pending(x, 0);
	return result < 0 ? result : 0;
}

/* A bounded number at a time, so that the deadline is kept however often strangers connect. */
static int accept_some(struct exchange *x)
{
	for (int i = 0; i < MAX_PENDING; i++) {
		int result, fd = descriptor_accept(x->pass->fd);
		if (fd < 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED))
			return 0;
		if (fd < 0)
			return log_error(CORALE_ESYSTEM, x->my_id, "accept failed on a local socket: %s",
					 strerror(errno));
		if (!fd_message_is_of_user(fd)) {
			close(fd);
			continue;
		}
		result = x->npending == MAX_PENDING ? make_room(x) : 0;
		x->pending[x->npending++] = fd;
		if (result)
			return result;
	}
	return 0;
}

static int receive_pending(struct exchange *x)
{
	for (int i = 0; i < x->npending;) {
		int result = receive(x, x->pending[i]);
		if (result < 0)
			return result;
		if (result)
			forget_pending(x, i);
		else
			i++;
	}
	return 0;
}

static int time_out(const struct exchange *x, double timeout_s)
{
	char list[200] = "";
	size_t used = 0;
	for (int i = 0; i < x->peers && used + 16 < sizeof(list); i++)
		if (!x->seen[i])
			used += (size_t)snprintf(list + used, sizeof(list) - used, " %d", x->peer_ids[i]);
	return log_error(CORALE_ETIMEDOUT, x->my_id,
			 "after %g s: descriptors came from %d of %d ranks (missing:%s) and were sent to %d",
			 timeout_s, x->received, x->peers, list[0] ? list : " none", x->sent);
}

/* 1 if nobody listens at a peer's name any more: it has died, or given up. */
static int is_gone(const char *name)
{
	struct sockaddr_un addr;
	socklen_t length = fd_message_address(&addr, name);
	int fd = descriptor_socket(AF_UNIX, SOCK_SEQPACKET);
	int gone = fd >= 0 && connect(fd, (struct sockaddr *)&addr, length) && errno == ECONNREFUSED;
	close_all(&fd, 1);
	return gone;
}

/* A peer that this one has served may die before it sends: nothing but its name tells. */
static int check_silent(struct exchange *x)
{
	for (int i = 0; i < x->peers; i++) {
		if (x->seen[i] || !is_gone(x->names[i]))
			continue;
		int result = accept_some(x); /* what it sent before */
		if (!result)
			result = receive_pending(x);
		if (result)
			return result;
		if (!x->seen[i])
			return log_error(CORALE_EPEER, x->my_id,
					 "rank %d has died or given up before it sent %d descriptors",
					 x->peer_ids[i], x->nfds);
	}
	return 0;
}

/* Until something has come, or it is time to try again or to check: 0 or an error. */
static int wait_for_peers(const struct exchange *x, int64_t left_ns)
{
	struct pollfd polls[1 + MAX_PENDING] = { { .fd = x->pass->fd, .events = POLLIN } };
	const int wait_ms = x->sent < x->peers   ? RETRY_MS
			    : left_ns > check_ns ? (int)(check_ns / 1000000)
						 : (int)(left_ns / 1000000) + 1;
	for (int i = 0; i < x->npending; i++)
		polls[1 + i] = (struct pollfd){ .fd = x->pending[i], .events = POLLIN };
	if (wait_poll(polls, 1 + (nfds_t)x->npending, wait_ms) < 0 && errno != EINTR)
		return log_error(CORALE_ESYSTEM, x->my_id, "poll failed: %s", strerror(errno));
	return 0;
}

static int run(struct exchange *x, double timeout_s)
{
	const int64_t start = wait_now_ns(),
		      limit = timeout_s < 1e9 ? (int64_t)(timeout_s * 1e9) : INT64_MAX / 2;
	int64_t next_check = start + check_ns;
	while (x->received < x->peers || x->sent < x->peers) {
		int result = 1;
		while (x->sent < x->peers && (result = serve(x)) > 0)
			;
		if (result < 0 || (result = accept_some(x)) || (result = receive_pending(x)))
			return result;
		if (x->received == x->peers && x->sent == x->peers)
			break;
		const int64_t now = wait_now_ns(), left = timeout_s < 0 ? second_ns : start + limit - now;
		if (left <= 0)
			return time_out(x, timeout_s);
		const int is_check = now >= next_check;
		next_check = is_check ? now + check_ns : next_check;
		if ((result = is_check ? check_silent(x) : wait_for_peers(x, left)))
			return result;
	}
	return 0;
}

/*
 * No descriptor comes. Those that can't be told find that this one does not listen; most have found by then what bars them too: another user's rank,
 * by the same look.
 */
static void tell_others(struct exchange *x)
{
	x->barred = 1;
	while (x->sent < x->peers && serve(x) > 0)
		;
	if (x->sent == x->peers)
		return;
	wait_poll(NULL, 0, find_ms);
	close(x->pass->fd);
	x->pass->fd = -1;
}

int fdpass_exchange(struct fdpass *pass, int peers, const char (*names)[FDPASS_NAME_BYTES],
		    const int *peer_ids, int my_id, uint64_t cookie, const int *my_fds, int nfds,
		    int *fds_out, double timeout_s)
{
	if (peers < 0 || nfds < 0 || nfds > FDPASS_MAX_FDS)
		return log_error(CORALE_EINVAL, my_id, "%d descriptors for %d ranks: at most %d descriptors",
				 nfds, peers, FDPASS_MAX_FDS);
	struct exchange x = { .pass = pass,
			      .peers = peers,
			      .my_id = my_id,
			      .nfds = nfds,
			      .names = names,
			      .peer_ids = peer_ids,
			      .my_fds = my_fds,
			      .cookie = cookie };
	size_t total = (size_t)peers * (size_t)nfds;
	int result = CORALE_ENOMEM;
	x.fds = malloc((total + 1) * sizeof(int));
	x.seen = calloc((size_t)peers + 1, 1);
	if (!x.fds || !x.seen) {
		log_error(result, my_id, "no memory to exchange descriptors with %d ranks", peers);
		goto out;
	}
	for (size_t i = 0; i < total; i++)
		x.fds[i] = -1;
	result = run(&x, timeout_s);
	if (result == CORALE_ENOTSUP)
		tell_others(&x);
	close_all(x.pending, x.npending);
	if (result)
		close_all(x.fds, (int)total);
	else
		memcpy(fds_out, x.fds, total * sizeof(int));
out:
	free(x.fds);
	free(x.seen);
	return result;
}
