/* SPDX-License-Identifier: BSD-3-Clause */
/* Builds, sends and reads the frames between adapters of different processes. */
#define _GNU_SOURCE
#include "wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "copier.h"
#include "faults.h"
#include "inbound.h"
#include "late.h"
#include "outbound.h"
#include "queue_pair.h"
#include "sockets.h"

/* The adapter of this process. */
static struct {
	pthread_mutex_t lock;
	pthread_t thread;
	int users, epoll, stop_writer, is_stopping, handles_fork;
	uint16_t lid;
	uint64_t copied; /* copies that had ended when the thread last sent */
	struct fake_source listener, stop; /* stop: a pipe whose end ends the thread */
} wire = { .lock = PTHREAD_MUTEX_INITIALIZER };

void fake_lock(void)
{
	pthread_mutex_lock(&wire.lock);
}

void fake_unlock(void)
{
	fake_outbound_flush();
	pthread_mutex_unlock(&wire.lock);
}

uint16_t fake_wire_lid(void)
{
	return wire.lid;
}

void fake_wire_watch(struct fake_source *source, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = source };
	if (epoll_ctl(wire.epoll, EPOLL_CTL_MOD, source->fd, &event) && errno == ENOENT)
		epoll_ctl(wire.epoll, EPOLL_CTL_ADD, source->fd, &event);
}

void fake_wire_die(void)
{
	if (write(wire.stop_writer, "d", 1) != 1)
		abort();
}

/* The thread alone may close connections: what it waits for is theirs. */
static void stop(struct fake_source *source)
{
	char why = 0;
	if (read(source->fd, &why, 1) != 1 || why != 'd') {
		wire.is_stopping = 1;
		return;
	}
	fake_inbound_close();
	fake_outbound_close();
	close(wire.listener.fd);
	wire.listener.fd = -1;
}

/* A copier does not wake this thread: while it copies, and as long as a program may post copies, the thread looks. */
static int wait_for_event(struct epoll_event *event, int timeout_ms)
{
	if (!fake_copier_is_joined())
		return epoll_wait(wire.epoll, event, 1, timeout_ms);
	const uint64_t until = fake_now_ms() + 2;
	int found;
	while (!(found = epoll_wait(wire.epoll, event, 1, 0)) && fake_copier_done() == wire.copied &&
	       fake_now_ms() < until)
		sched_yield();
	return found;
}

/* A source that is ready, or NULL: a millisecond has passed. An adapter that has stopped listens to nothing. */
static struct fake_source *wait_for_source(void)
{
	struct epoll_event event;
	fake_lock();
	const int halted = fake_faults_halted(), timed = fake_faults_are_timed();
	fake_unlock();
	struct pollfd end = { .fd = wire.stop.fd, .events = POLLIN };
	if (halted)
		return poll(&end, 1, 1) == 1 ? &wire.stop : NULL;
	return wait_for_event(&event, timed ? 1 : -1) == 1 ? event.data.ptr : NULL;
}

/* One event at a time: a source may go while another one's event is handled. */
static void *run(void *arg)
{
	for (int go_on = 1; go_on;) {
		struct fake_source *source = wait_for_source();
		fake_lock();
		wire.copied = fake_copier_done(); /* what waits for it leaves with the lock */
		if (source && (source == &wire.stop || !fake_faults_halted()))
			source->ready(source);
		fake_late_tick();
		fake_qp_tick();
		go_on = !wire.is_stopping;
		fake_unlock();
	}
	return arg;
}

/* No signal of the program comes to the adapter's thread. */
static int start_thread(void)
{
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	const int ret = pthread_create(&wire.thread, NULL, run, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return ret;
}

static void close_all(void)
{
	fake_inbound_close();
	fake_outbound_close();
	if (wire.listener.fd >= 0)
		close(wire.listener.fd);
	close(wire.stop.fd);
	close(wire.stop_writer);
	close(wire.epoll);
	wire.is_stopping = 0;
}

/* A child has no thread, and may not keep open the sockets whose end tells others that its parent has died. */
static void leave_parent(void)
{
	if (wire.users)
		close_all();
	wire.users = 0;
	pthread_mutex_init(&wire.lock, NULL);
}

static void unlock_parent(void)
{
	pthread_mutex_unlock(&wire.lock);
}

static int open_all(void)
{
	int ends[2];
	if (!wire.handles_fork && pthread_atfork(fake_lock, unlock_parent, leave_parent))
		return ENOMEM;
	wire.handles_fork = 1;
	if ((wire.epoll = epoll_create1(EPOLL_CLOEXEC)) < 0)
		return errno;
	if (pipe2(ends, O_CLOEXEC)) {
		close(wire.epoll);
		return errno;
	}
	wire.stop = (struct fake_source){ .fd = ends[0], .ready = stop };
	wire.stop_writer = ends[1];
	wire.listener =
	    (struct fake_source){ .fd = fake_socket_listen(&wire.lid), .ready = fake_inbound_accept };
	fake_wire_watch(&wire.stop, EPOLLIN);
	fake_wire_watch(&wire.listener, EPOLLIN);
	if (wire.listener.fd >= 0 && !start_thread())
		return 0;
	close_all();
	return EAGAIN;
}

int fake_wire_open(void)
{
	fake_lock();
	const int ret = fake_faults_is_dead() ? ENODEV : wire.users ? 0 : open_all();
	wire.users += !ret;
	fake_unlock();
	return ret;
}

void fake_wire_close(void)
{
	fake_lock();
	const int is_last = !--wire.users;
	fake_unlock();
	if (!is_last)
		return;
	if (write(wire.stop_writer, "s", 1) == 1)
		pthread_join(wire.thread, NULL);
	close_all();
}
