/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptors among threads and processes; strangers, late and missing peers; nothing left open. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/helpers/clock.h"
#include "test/helpers/unit.h"
#include "host/fdpass.h"

enum { MEMBERS = 6, FDS = 2, BYTES = 64, FLOODS = 2 };
static const uint64_t COOKIE = 0x1234567887654321u;

/* A member k shares memory files that hold (k, file number). */
struct member {
	int id, result, absent;
	double delay, timeout;
	struct fdpass *pass;
	char (*names)[FDPASS_NAME_BYTES];
	int members, fds_out[MEMBERS * FDS];
	int stops; /* in getsockopt */
	pthread_t thread;
};

static _Thread_local int stops;

static int open_files(void)
{
	int n = 0;
	DIR *dir = opendir("/proc/self/fd");
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static int make_file(int id, int k)
{
	int content[2] = { id, k }, fd = memfd_create("fdpass_test", MFD_CLOEXEC);
	if (write(fd, content, sizeof(content)) != (ssize_t)sizeof(content))
		return -1;
	return fd;
}

static int check_file(int fd, int id, int k)
{
	int content[2] = { -1, -1 };
	int good = (fcntl(fd, F_GETFD) & FD_CLOEXEC) &&
		   pread(fd, content, sizeof(content), 0) == (ssize_t)sizeof(content) && content[0] == id &&
		   content[1] == k;
	return good && close(fd) == 0 ? 0 : 1;
}

/* Ids are 10 + index, to be told apart from indices. Returns what went wrong, 0 if nothing. */
static int take_part(struct member *m)
{
	char names[MEMBERS][FDPASS_NAME_BYTES];
	int ids[MEMBERS], mine[FDS], peers = 0, wrong = 0;
	for (int i = 0; i < m->members; i++) {
		if (i == m->id)
			continue;
		memcpy(names[peers], m->names[i], FDPASS_NAME_BYTES);
		ids[peers++] = 10 + i;
	}
	for (int k = 0; k < FDS; k++)
		mine[k] = make_file(10 + m->id, k);
	clock_sleep_s(m->delay);
	m->result = fdpass_exchange(m->pass, peers, (const char(*)[FDPASS_NAME_BYTES])names, ids, 10 + m->id,
				    COOKIE, mine, FDS, m->fds_out, m->timeout);
	for (int i = 0; m->result == 0 && i < peers; i++)
		for (int k = 0; k < FDS; k++)
			wrong += check_file(m->fds_out[i * FDS + k], ids[i], k);
	for (int k = 0; k < FDS; k++)
		close(mine[k]);
	return wrong;
}

static void *thread_main(void *arg)
{
	struct member *m = arg;
	stops = m->stops;
	if (!m->absent && take_part(m))
		m->result = CORALE_EINTERNAL;
	return NULL;
}

static void listen_all(struct member *m, int members)
{
	static char names[MEMBERS][FDPASS_NAME_BYTES];
	for (int i = 0; i < members; i++) {
		m[i].id = i;
		m[i].members = members;
		m[i].names = names;
		assert_int_equal(fdpass_listen(&m[i].pass, names[i]), 0);
	}
}

static void start_all(struct member *m, int members)
{
	for (int i = 0; i < members; i++)
		assert_int_equal(pthread_create(&m[i].thread, NULL, thread_main, &m[i]), 0);
}

static void end_all(struct member *m, int members, int result)
{
	for (int i = 0; i < members; i++) {
		pthread_join(m[i].thread, NULL);
		assert_int_equal(m[i].result, m[i].absent ? 0 : result);
		fdpass_close(m[i].pass);
	}
}

UNIT_TEST(test_threads)
{
	int before = open_files();
	for (int members = 1; members <= MEMBERS; members++) {
		struct member m[MEMBERS] = { 0 };
		for (int i = 0; i < members; i++) {
			m[i].timeout = 20;
			m[i].delay = i == 0 ? 0.05 : 0;
		}
		listen_all(m, members);
		start_all(m, members);
		end_all(m, members, 0);
	}
	assert_int_equal(open_files(), before);
}

UNIT_TEST(test_processes)
{
	static char names[MEMBERS][FDPASS_NAME_BYTES];
	struct fdpass *pass[MEMBERS];
	pid_t pids[MEMBERS];
	for (int i = 0; i < MEMBERS; i++)
		assert_int_equal(fdpass_listen(&pass[i], names[i]), 0);
	for (int i = 0; i < MEMBERS; i++) {
		pids[i] = fork();
		assert_true(pids[i] >= 0);
		if (pids[i] == 0) {
			struct member m = {
				.id = i, .timeout = 20, .pass = pass[i], .names = names, .members = MEMBERS
			};
			int wrong = take_part(&m);
			_exit(m.result || wrong);
		}
	}
	for (int i = 0; i < MEMBERS; i++) {
		int status = -1;
		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_int_equal(status, 0);
		fdpass_close(pass[i]);
	}
}

/* The others time out, and close what they had received. */
UNIT_TEST(test_missing)
{
	int before = open_files();
	struct member m[3] = { { .timeout = 0.2 }, { .timeout = 0.2 }, { .absent = 1 } };
	listen_all(m, 3);
	start_all(m, 3);
	end_all(m, 3, CORALE_ETIMEDOUT);
	assert_int_equal(open_files(), before);
}

UNIT_TEST(test_gone)
{
	struct fdpass *pass, *other;
	char names[1][FDPASS_NAME_BYTES], mine[FDPASS_NAME_BYTES];
	int id = 1;
	assert_int_equal(fdpass_listen(&pass, mine), 0);
	assert_int_equal(fdpass_listen(&other, names[0]), 0);
	fdpass_close(other);
	assert_int_equal(fdpass_exchange(pass, 1, (const char(*)[FDPASS_NAME_BYTES])names, &id, 0, COOKIE,
					 NULL, 0, NULL, 1),
			 CORALE_EPEER);
	fdpass_close(pass);
}

static int connect_to(const char *name)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	size_t length = strlen(name);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	memcpy(addr.sun_path + 1, name, length);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&addr,
			       (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length))) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* A connection with a wrong cookie, one that closes at once and one that stays silent do no harm. */
UNIT_TEST(test_strangers)
{
	struct member m[2] = { { .timeout = 20 }, { .timeout = 20, .delay = 0.05 } };
	int silent[3];
	listen_all(m, 2);
	for (int i = 0; i < 3; i++) {
		struct {
			uint64_t cookie;
			int32_t id, nfds;
		} hello = { COOKIE + 1, 11, 0 };
		silent[i] = connect_to(m->names[0]);
		assert_true(silent[i] >= 0);
		if (i == 0)
			close(silent[i]);
		if (i == 1)
			assert_int_equal(send(silent[i], &hello, sizeof(hello), 0), sizeof(hello));
	}
	start_all(m, 2);
	end_all(m, 2, 0);
	close(silent[1]);
	close(silent[2]);
}

/* More silent connections than there is room for keep no peer out. */
UNIT_TEST(test_crowd)
{
	enum { CROWD = 150 };
	struct member m[2] = { { .timeout = 5 }, { .timeout = 5 } };
	int silent[CROWD];
	listen_all(m, 2);
	for (int i = 0; i < CROWD; i++) {
		silent[i] = connect_to(m->names[0]);
		assert_true(silent[i] >= 0);
	}
	start_all(m, 2);
	end_all(m, 2, 0);
	for (int i = 0; i < CROWD; i++)
		close(silent[i]);
}

/* A sender stops between its connection and its message, in getsockopt, until the receiver has closed it. */
static _Atomic int stopped;

int getsockopt(int fd, int level, int name, void *value, socklen_t *bytes)
{
	if (stops) {
		stops = 0;
		atomic_store(&stopped, 1);
		poll(&(struct pollfd){ .fd = fd }, 1, 5000);
	}
	return (int)syscall(SYS_getsockopt, fd, level, name, value, bytes);
}

/* A peer that was silent for too long in a crowd connects again. */
UNIT_TEST(test_peer_taken_for_a_stranger)
{
	enum { CROWD = 150 };
	struct member m[2] = { { .timeout = 20, .stops = 1 }, { .timeout = 20 } };
	int silent[CROWD];
	listen_all(m, 2);
	atomic_store(&stopped, 0);
	start_all(m, 2);
	while (!atomic_load(&stopped))
		clock_sleep_ms(1);
	for (int i = 0; i < CROWD; i++)
		silent[i] = connect_to(m->names[1]);
	end_all(m, 2, 0);
	for (int i = 0; i < CROWD; i++)
		close(silent[i]);
}

/* ---- Strangers that connect again and again ---- */

/* Connects to all names in turn, and keeps so many connections open. */
static void flood(char (*names)[FDPASS_NAME_BYTES], int members)
{
	enum { KEPT = 100 };
	int kept[KEPT];
	for (int i = 0; i < KEPT; i++)
		kept[i] = -1;
	for (unsigned n = 0;; n++) {
		int *fd = &kept[n % KEPT];
		if (*fd >= 0)
			close(*fd);
		*fd = connect_to(names[n % (unsigned)members]);
	}
}

/* Of this user; with root's rights also one of another user. */
static void start_floods(pid_t *floods, char (*names)[FDPASS_NAME_BYTES], int members)
{
	for (int i = 0; i < FLOODS; i++) {
		floods[i] = fork();
		if (floods[i] == 0) {
			alarm(60);
			if (i && setuid(65534))
				_exit(0);
			flood(names, members);
		}
		assert_true(floods[i] > 0);
	}
}

static void stop_floods(const pid_t *floods)
{
	for (int i = 0; i < FLOODS; i++) {
		kill(floods[i], SIGKILL);
		waitpid(floods[i], NULL, 0);
	}
}

/* Peers find each other among them, and nothing that they sent is lost. */
UNIT_TEST(test_flood)
{
	enum { ROUNDS = 20 };
	for (int round = 0; round < ROUNDS; round++) {
		struct member m[MEMBERS] = { 0 };
		pid_t floods[FLOODS];
		for (int i = 0; i < MEMBERS; i++)
			m[i].timeout = 20;
		listen_all(m, MEMBERS);
		start_floods(floods, m->names, MEMBERS);
		start_all(m, MEMBERS);
		end_all(m, MEMBERS, 0);
		stop_floods(floods);
	}
}

/* None of them stands for the peer that does not come, and the deadline is kept. */
UNIT_TEST(test_flood_and_nobody_else)
{
	char names[2][FDPASS_NAME_BYTES];
	struct fdpass *pass, *other;
	int id = 1, fd = -1;
	pid_t floods[FLOODS];
	assert_int_equal(fdpass_listen(&pass, names[0]), 0);
	assert_int_equal(fdpass_listen(&other, names[1]), 0);
	start_floods(floods, names, 1);
	alarm(30);
	int mine = make_file(0, 0);
	assert_int_equal(fdpass_exchange(pass, 1, (const char(*)[FDPASS_NAME_BYTES]) & names[1], &id, 0,
					 COOKIE, &mine, 1, &fd, 0.3),
			 CORALE_ETIMEDOUT);
	alarm(0);
	stop_floods(floods);
	assert_int_equal(fd, -1);
	close(mine);
	fdpass_close(pass);
	fdpass_close(other);
}
