/* SPDX-License-Identifier: BSD-3-Clause */
#include "boot_listener.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "base/process.h"
#include "base/wait.h"
#include "boot_conn.h"
#include "boot_fds.h"
#include "boot_group.h"
#include "corale.h"

enum { MOST_SOCKETS = 8, MOST_STRANGERS = 128, MOST_ACCEPTS = 64 };
static const int64_t PAUSE_NS = 100000000, /* without accepting, when there are no descriptors */
    LACK_NS = 60000000000; /* between two lines that say so */

/* Socket 0 is the process's own; others are at addresses that ids name. */
struct listening {
	int fd;
	uint64_t name; /* of the group that it was opened for */
	struct boot_address address;
};

/* All but the sockets is used by the thread alone, under the lock. */
static struct {
	pthread_mutex_t lock;
	int is_running;
	int wake;
	struct listening sockets[MOST_SOCKETS];
	int nsockets;
	struct boot_conn *conns;
	int nconns, nstrangers; /* strangers: not members */
	int64_t accept_after, say_after;
	struct boot_groups groups;
} it = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- Connections */

static void drop_oldest_stranger(void)
{
	struct boot_conn *oldest = NULL; /* the list is newest first */
	for (struct boot_conn *c = it.conns; c; c = c->next)
		if (c->state == BOOT_CONN_NEW || c->state == BOOT_CONN_CLOSING)
			oldest = c;
	if (oldest)
		oldest->state = BOOT_CONN_DEAD;
}

static int is_known(const struct boot_conn *c)
{
	return c->state == BOOT_CONN_MEMBER || c->state == BOOT_CONN_FED;
}

/* The first connection of a member that is dead, or NULL. */
static struct boot_conn *find_lost(void)
{
	struct boot_conn *c = it.conns;
	while (c && !(c->state == BOOT_CONN_DEAD && c->group))
		c = c->next;
	return c;
}

/* Frees what is dead, after its group has dropped it; that may find other connections broken. */
static void sweep(void)
{
	for (struct boot_conn *c; (c = find_lost());)
		boot_groups_lost(&it.groups, c);
	it.nconns = it.nstrangers = 0;
	for (struct boot_conn **at = &it.conns; *at;) {
		struct boot_conn *c = *at;
		if (c->state == BOOT_CONN_DEAD) {
			*at = c->next;
			boot_source_lost(c);
			boot_conn_free(c);
			continue;
		}
		it.nconns++;
		it.nstrangers += !is_known(c);
		at = &c->next;
	}
}

/* Ranks wait meanwhile, and can't know why. */
static void say_lack(int error, int64_t now)
{
	const int awaited = boot_groups_await(&it.groups);
	if (now < it.say_after)
		return;
	it.say_after = now + LACK_NS;
	if (error == EMFILE && descriptors_expect(awaited ? awaited : 1, -1,
						  "bootstrap: accepting the connections of ranks that wait"))
		return;
	log_line(
	    LOG_WARN, -1,
	    "bootstrap: cannot accept a rank's connection (accept): %s. It is tried again, and ranks wait",
	    strerror(error));
}

static int is_lack(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

static void accept_all(int fd, int64_t now)
{
	const int most =
	    MOST_STRANGERS + boot_groups_await(&it.groups) + boot_source_await(it.groups.sources);
	for (int i = 0; i < MOST_ACCEPTS; i++) {
		int taken = boot_fds_accept(fd);
		if (taken < 0 && is_lack(errno)) {
			it.accept_after = now + PAUSE_NS;
			say_lack(errno, now);
			drop_oldest_stranger();
		}
		struct boot_conn *c = taken < 0 ? NULL : boot_conn_new(taken);
		if (!c)
			return;
		c->next = it.conns;
		it.conns = c;
		if (++it.nstrangers > most) {
			drop_oldest_stranger();
			it.nstrangers--;
			sweep();
		}
	}
}

static void read_conn(struct boot_conn *c)
{
	while (c->state == BOOT_CONN_NEW || c->state == BOOT_CONN_MEMBER) {
		enum frame_status status = frame_read(&c->reader, c->fd);
		if (status != FRAME_WHOLE) {
			if (status != FRAME_MORE)
				c->state = BOOT_CONN_DEAD;
			return;
		}
		boot_groups_frame(&it.groups, c);
		frame_next(&c->reader);
	}
	if (c->state == BOOT_CONN_CLOSING || c->state == BOOT_CONN_FED)
		boot_conn_drain(c);
}

static void serve_conn(struct boot_conn *c, short events, int64_t now)
{
	if (c->state == BOOT_CONN_DEAD)
		return;
	if (events & POLLOUT)
		boot_conn_flush(c);
	if (events & (POLLIN | POLLHUP | POLLERR))
		read_conn(c);
	if (!is_known(c) && now >= c->deadline)
		c->state = BOOT_CONN_DEAD;
}

/* ---- The thread */

/* The descriptors of one poll(2): wake, sockets, connections in the order of the list. */
struct watched {
	struct pollfd *fds;
	size_t room;
	int n, nsockets;
	int timeout_ms;
};

static void watch(struct watched *w, int fd, int events)
{
	w->fds[w->n++] = (struct pollfd){ .fd = fd, .events = (short)events };
}

/* Under the lock. */
static int prepare(struct watched *w)
{
	const int is_paused = wait_now_ns() < it.accept_after;
	if (!array_grow(&w->fds, &w->room, (size_t)(1 + it.nsockets + it.nconns), sizeof(*w->fds)))
		return 0;
	w->n = 0;
	w->nsockets = it.nsockets;
	const int forgets = boot_groups_forget(&it.groups) | boot_source_forget(&it.groups.sources);
	w->timeout_ms = forgets ? 1000 : -1;
	watch(w, it.wake, POLLIN);
	for (int i = 0; i < it.nsockets; i++)
		watch(w, is_paused ? -1 : it.sockets[i].fd, POLLIN);
	for (struct boot_conn *c = it.conns; c; c = c->next) {
		watch(w, c->fd, POLLIN | (c->writer.first ? POLLOUT : 0));
		if (!is_known(c))
			w->timeout_ms = 200;
	}
	if (is_paused)
		w->timeout_ms = (int)(PAUSE_NS / 1000000);
	return 1;
}

/* Listening at an id's address ends with the id's group. */
static void close_sockets(void)
{
	for (int i = 1; i < it.nsockets;) {
		if (boot_groups_has(&it.groups, it.sockets[i].name)) {
			i++;
			continue;
		}
		boot_fds_close(it.sockets[i].fd);
		it.sockets[i] = it.sockets[--it.nsockets];
	}
}

/* Under the lock. Connections first, then new ones, so that the order of the list is still that of w. */
static void serve(struct watched *w)
{
	int64_t now = wait_now_ns();
	uint64_t count;
	struct pollfd *p = w->fds + 1 + w->nsockets;
	if (w->fds[0].revents && read(it.wake, &count, sizeof(count)) < 0 && errno != EAGAIN)
		log_line(LOG_WARN, -1, "bootstrap: cannot read an event (eventfd): %s", strerror(errno));
	for (struct boot_conn *c = it.conns; c; c = c->next, p++)
		serve_conn(c, p->revents, now);
	sweep();
	for (int i = 0; i < w->nsockets; i++)
		if (w->fds[1 + i].revents)
			accept_all(it.sockets[i].fd, now);
	sweep();
	close_sockets();
}

static void *listener_main(void *arg)
{
	static struct watched w; /* static: a forked child, which has no such thread, reaches its memory */
	(void)arg;
	for (;;) {
		pthread_mutex_lock(&it.lock);
		int is_ready = prepare(&w);
		pthread_mutex_unlock(&it.lock);
		if (!is_ready) { /* no memory: try again */
			poll(NULL, 0, 100);
			continue;
		}
		poll(w.fds, (nfds_t)w.n, w.timeout_ms);
		pthread_mutex_lock(&it.lock);
		serve(&w);
		pthread_mutex_unlock(&it.lock);
	}
	return NULL;
}

/* ---- Starting, and forking */

static void before_fork(void)
{
	pthread_mutex_lock(&it.lock);
	boot_fds_lock();
}

static void after_fork(void)
{
	boot_fds_unlock();
	pthread_mutex_unlock(&it.lock);
}

/* The child has no thread and needs no sockets of its parent. It may start a listener of its own. */
static void in_child(void)
{
	boot_fds_close_all();
	boot_fds_unlock();
	for (struct boot_conn *c = it.conns, *next; c; c = next) {
		next = c->next;
		boot_source_lost(c);
		boot_conn_free(c);
	}
	boot_source_free(&it.groups.sources);
	boot_groups_free(&it.groups);
	it.conns = NULL;
	it.nsockets = it.nconns = it.nstrangers = it.is_running = 0;
	pthread_mutex_unlock(&it.lock);
}

static void register_fork(void)
{
	pthread_atfork(before_fork, after_fork, in_child);
}

/* Under the lock. */
static int start(const struct boot_options *o)
{
	struct boot_address address;
	char name[BOOT_INTERFACE_TEXT], text[BOOT_ADDRESS_TEXT];
	int ret = boot_interface_choose(o->ifname, o->family, &address, name);
	if (ret)
		return ret;
	int fd = boot_fds_listen(&address, name);
	if (fd < 0)
		return CORALE_ESYSTEM;
	it.sockets[0] = (struct listening){ .fd = fd, .address = address };
	it.nsockets = 1;
	it.wake = boot_fds_event();
	boot_peer_fill(&it.groups.maker);
	it.groups.maker.listener = address;
	int error = it.wake < 0 ? errno : process_thread(NULL, listener_main, NULL);
	if (error) {
		boot_fds_close(it.wake);
		boot_fds_close(fd);
		it.nsockets = 0;
		return log_error(CORALE_ESYSTEM, -1, "bootstrap: cannot start its thread: %s",
				 strerror(error));
	}
	it.is_running = 1;
	log_line(LOG_INFO, -1, "bootstrap: listens at %s (%s)", boot_address_text(&address, text), name);
	return 0;
}

/* Takes the lock: 0 or a code of starting. */
static int lock_started(const struct boot_options *o)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, register_fork);
	pthread_mutex_lock(&it.lock);
	return it.is_running ? 0 : start(o);
}

int boot_listener_start(const struct boot_options *o, struct boot_peer *self)
{
	const int ret = lock_started(o);
	*self = it.groups.maker;
	pthread_mutex_unlock(&it.lock);
	return ret;
}

/* Under the lock: a socket at the id's address, if there is none yet. */
static int listen_for(const struct boot_id *id)
{
	struct boot_address address = id->address;
	for (int i = 1; i < it.nsockets; i++)
		if (!memcmp(&it.sockets[i].address, &address, sizeof(address)) &&
		    it.sockets[i].name == id->name)
			return 0;
	if (it.nsockets == MOST_SOCKETS)
		return log_error(
		    CORALE_ENOTSUP, -1,
		    "bootstrap: groups at more than %d addresses (NCCL_COMM_ID) at the same time",
		    MOST_SOCKETS - 1);
	int fd = boot_fds_listen(&address, "NCCL_COMM_ID");
	if (fd < 0)
		return CORALE_ESYSTEM;
	it.sockets[it.nsockets++] = (struct listening){ .fd = fd, .name = id->name, .address = address };
	return 0;
}

static void wake(void)
{
	uint64_t one = 1;
	if (write(it.wake, &one, sizeof(one)) < 0 && errno != EAGAIN)
		log_line(LOG_WARN, -1, "bootstrap: cannot write an event (eventfd): %s", strerror(errno));
}

int boot_listener_expect(const struct boot_options *o, const struct boot_id *id)
{
	int ret = lock_started(o);
	if (!ret && id->flags == BOOT_ID_ADDRESS)
		ret = listen_for(id);
	if (!ret)
		ret = boot_groups_add(&it.groups, id);
	if (!ret)
		wake();
	pthread_mutex_unlock(&it.lock);
	return ret;
}

struct boot_source *boot_listener_add_source(const unsigned char key[BOOT_KEY_BYTES], int rank, int size)
{
	pthread_mutex_lock(&it.lock);
	struct boot_source *s = boot_source_add(&it.groups.sources, key, rank, size);
	pthread_mutex_unlock(&it.lock);
	return s;
}

void boot_listener_send(struct boot_source *s, struct frame *f)
{
	if (!f) /* its ranks ask the listener where the group meets */
		return;
	pthread_mutex_lock(&it.lock);
	boot_source_send(s, f);
	wake(); /* there may be more than sockets took */
	pthread_mutex_unlock(&it.lock);
}

void boot_listener_leave_source(struct boot_source *s)
{
	pthread_mutex_lock(&it.lock);
	boot_source_leave(s);
	wake();
	pthread_mutex_unlock(&it.lock);
}
